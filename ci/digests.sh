#!/usr/bin/env bash
# Prints the digest of each shipped scenario, by name: a change that is not meant to change behaviour leaves all of them unchanged.
#
#   ci/digests.sh >before             # build, then run it; change something and build again
#   ci/digests.sh | diff before -
#   SEEDS=20 ci/digests.sh scenarios/negative   # more than two seeds, scenarios other than smoke and chaos
#
# Digests do not depend on the build profile: IPAM_SIM names a program other than that of the release profile.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${IPAM_SIM:-target/release/ipam-sim}
if ! [ -x "$program" ]; then
    echo "there is no program $program: build it with cargo build --release, or name one in IPAM_SIM" >&2
    exit 2
fi
if [ $# -eq 0 ]; then
    set -- scenarios/smoke scenarios/chaos
fi

# Verdicts do not matter here, whether two seeds violate claims or are vacuous.
code=0
result=$("$program" run "$@" --seeds "${SEEDS:-2}" --format json) || code=$?
case $code in
    0 | 1 | 3 | 4 | 6) ;;
    *) exit "$code" ;;
esac
awk -F '"' '/^      "name": / { name = $4 } /^      "digest": / { print name, $4 }' <<<"$result" | sort
