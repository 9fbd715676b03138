//! Deviations that promises of the agent alone cannot show.

/// The deviations of admission, subnets, caches and the limiter, which are tested beside their code.
pub(crate) const SHOWN_ELSEWHERE: [&str; 24] = [
    "limiter-overtakes",
    "subnet-shrinks-lowest",
    "update-judged-whole",
    "terminating-update-refused",
    "delete-trusts-count",
    "refused-pool-keeps-addresses",
    "interrupted-shrink-takes-back",
    "lost-preallocation-not-restored",
    "unreadable-preallocation-dropped",
    "preallocation-by-name-only",
    "namesake-keeps-preallocation",
    "manual-pool-ignores-preallocation",
    "auto-pool-reclaim-trusts-cache",
    "auto-pool-annotations-replaced",
    "namesake-pool-first",
    "nics-race",
    "removed-annotation-keeps-pool",
    "application-given-up",
    "full-queue-drops-event",
    "subnet-finalizer-trusts-status",
    "long-names-unshortened",
    "strays-go-afterwards",
    "webhooks-fail-open",
    "first-add-fills-caches",
];
