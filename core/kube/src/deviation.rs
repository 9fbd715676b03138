//! Switches with public names for the differences between a hardened system and upstream's code.

/// One switch of a policy `P`, whose `Default` has every switch off.
#[derive(Clone, Copy, Debug)]
pub struct Deviation<P: 'static> {
    /// The public name, in kebab-case.
    pub name: &'static str,
    /// Whether upstream behaves this way.
    pub upstream: bool,
    /// The field of the policy that turns it on.
    pub switch: fn(&mut P) -> &mut bool,
}

/// The policy with all switches set as in upstream.
pub fn upstream<P: Default>(all: &[Deviation<P>]) -> P {
    let mut policy = P::default();
    for deviation in all {
        *(deviation.switch)(&mut policy) = deviation.upstream;
    }
    policy
}

/// The switch of `policy` with this public name.
pub fn switch<'p, P>(all: &[Deviation<P>], policy: &'p mut P, name: &str) -> Option<&'p mut bool> {
    let deviation = all.iter().find(|deviation| deviation.name == name)?;
    Some((deviation.switch)(policy))
}

/// A table of [`Deviation`]s: name, whether upstream behaves this way, field of the policy.
#[macro_export]
macro_rules! deviations {
    ($($name:literal $upstream:literal $field:ident;)*) => {
        &[$($crate::deviation::Deviation { name: $name, upstream: $upstream, switch: |policy| &mut policy.$field }),*]
    };
}

pub use deviations;
