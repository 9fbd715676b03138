//! Deviations against promises, for the tests of the agent and of reclaim: without a deviation its promise holds, with it alone the promise
//! is broken.

/// Defines promises as tests: each story asserts that the promise holds in the hardened form, and not with the one deviation. Expects
/// `Policy` and `Scene` where it is used.
///
/// The last test asserts that `every` deviation `of` the list has its promise, here or among those that are shown `elsewhere`.
macro_rules! promises {
    (
        every: $every:ident, of: $all:expr, elsewhere: $elsewhere:expr;
        $($(#[$doc:meta])* $claim:ident, $deviation:literal, $story:expr;)*
    ) => {
        $($(#[$doc])* #[test]
        fn $claim() {
            let story: fn(&mut Scene) -> bool = $story;
            assert!(story(&mut Scene::new(Policy::hardened())), "the hardened form breaks the promise");
            let mut policy = Policy::hardened();
            *policy.switch($deviation).expect("there is such a deviation") = true;
            assert!(!story(&mut Scene::new(policy)), "{} keeps the promise", $deviation);
        })*

        #[test]
        fn $every() {
            let (here, elsewhere): (&[&str], &[&str]) = (&[$($deviation),*], &$elsewhere);
            let is_shown = |name: &&str| here.contains(name) || elsewhere.contains(name);
            let missing: Vec<_> = $all.iter().map(|deviation| deviation.name).filter(|name| !is_shown(name)).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    };
}

pub(crate) use promises;
