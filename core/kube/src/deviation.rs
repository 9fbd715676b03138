//! Switches with public names: where a hardened system and the code upstream part.

/// One switch of a policy `P`, whose `Default` has every switch off.
#[derive(Clone, Copy, Debug)]
pub struct Deviation<P: 'static> {
    /// The public name, in kebab-case.
    pub name: &'static str,
    /// Whether upstream behaves like this.
    pub upstream: bool,
    /// The field of the policy that turns it on.
    pub switch: fn(&mut P) -> &mut bool,
}

/// The policy in which `all` stand as upstream has them.
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

/// A table of [`Deviation`]s: name, what upstream does, field of the policy.
#[macro_export]
macro_rules! deviations {
    ($($name:literal $upstream:literal $field:ident;)*) => {
        &[$($crate::deviation::Deviation { name: $name, upstream: $upstream, switch: |policy| &mut policy.$field }),*]
    };
}

pub use deviations;
