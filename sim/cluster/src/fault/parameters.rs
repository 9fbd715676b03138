//! Parameters of faults: each may be open in a scenario, and has a value in a plan.

use std::fmt::Display;
use std::net::IpAddr;

use serde::Serialize;
use sim_config::choice::Open;
use sim_config::draw::Draw;
use sim_config::time::Span;
use sim_config::{Choice, Probability, Problem, Source};

use super::Target;
use crate::cluster::server::Failure;
use crate::kinds::Registry;

/// A set of drawn parameters. The macro `parameters!` declares it together with its draft, and implements this.
pub trait Parameters: Sized {
    /// The same parameters with open values. Its default is used by a scenario that sets none.
    type Draft: Default;

    /// The effect of the fault, from the documentation of its type.
    const DOCUMENTATION: &'static str;

    /// Draws every open value. `names`: the processes and hosts of the drawn cluster.
    fn draw(draft: &Self::Draft, draw: &mut Draw, names: &[String]) -> Self;

    /// The processes and hosts that are named.
    fn targets(&self) -> Vec<Target>;

    /// The processes and hosts that may be named.
    fn targets_of(draft: &Self::Draft) -> Vec<Target>;

    /// Variants with one value simpler: the shorter, rarer, smaller or more exact first.
    fn simpler(&self, names: &[String]) -> Vec<Self>;

    /// Replaces the name of every process and host by the result of `rename`.
    fn rename(&mut self, rename: &dyn Fn(&str) -> String);

    /// The values with which the fault called `fault` would do nothing, and why.
    fn invalid(&self, fault: &str, inventory: &Inventory<'_>) -> Vec<Invalid>;

    /// The same for the values that can be drawn.
    fn invalid_of(draft: &Self::Draft, fault: &str, inventory: &Inventory<'_>) -> Vec<Invalid>;

    /// Each parameter with its default, as written in a scenario.
    fn defaults() -> Vec<(&'static str, String)>;
}

/// Declares the parameters of a fault, each with its default and, after `=>`, the check that it has to pass
/// (`Fn(&str, &Type, &Inventory) -> Option<Invalid>`, called with the name of the fault).
macro_rules! parameters {
    (
        $(#[doc = $doc:literal])+
        pub struct $Fault:ident / $Draft:ident {
            $( $(#[doc = $field_doc:literal])+ $field:ident: $Type:ty = $default:expr $(=> $check:expr)? ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $Fault { $( $(#[doc = $field_doc])+ pub $field: $Type ),* }

        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct $Draft { $( $(#[doc = $field_doc])+ pub $field: ::sim_config::Choice<$Type> ),* }

        impl Default for $Draft {
            fn default() -> Self {
                Self { $( $field: $default ),* }
            }
        }

        #[allow(unused_imports, unused_mut, unused_variables, reason = "a fault without parameters has no use for them")]
        impl $crate::fault::Parameters for $Fault {
            type Draft = $Draft;

            const DOCUMENTATION: &'static str = concat!($($doc, "\n"),+);

            fn draw(draft: &$Draft, draw: &mut ::sim_config::draw::Draw, names: &[String]) -> Self {
                use $crate::fault::parameters::Resolve;
                Self { $( $field: { let drawn = draft.$field.draw(draw); drawn.resolve(draw, names) } ),* }
            }

            fn targets(&self) -> Vec<$crate::fault::Target> {
                let named: Vec<Option<$crate::fault::Target>> = vec![ $( $crate::fault::parameters::Resolve::target(&self.$field) ),* ];
                named.into_iter().flatten().collect()
            }

            fn targets_of(draft: &$Draft) -> Vec<$crate::fault::Target> {
                use $crate::fault::parameters::Resolve;
                let named: Vec<Vec<$crate::fault::Target>> =
                    vec![ $( draft.$field.written().into_iter().filter_map(Resolve::target).collect() ),* ];
                named.concat()
            }

            fn simpler(&self, names: &[String]) -> Vec<Self> {
                let variants: Vec<Vec<Self>> = vec![ $(
                    $crate::fault::parameters::Resolve::simpler(&self.$field, names)
                        .into_iter()
                        .map(|value| {
                            let mut simpler = self.clone();
                            simpler.$field = value;
                            simpler
                        })
                        .collect()
                ),* ];
                variants.concat()
            }

            fn rename(&mut self, rename: &dyn Fn(&str) -> String) {
                $( $crate::fault::parameters::Resolve::rename(&mut self.$field, rename); )*
            }

            fn invalid(&self, fault: &str, inventory: &$crate::fault::Inventory<'_>) -> Vec<$crate::fault::Invalid> {
                let mut invalid = Vec::new();
                $( $( invalid.extend(($check)(fault, &self.$field, inventory)); )? )*
                invalid
            }

            fn invalid_of(draft: &$Draft, fault: &str, inventory: &$crate::fault::Inventory<'_>) -> Vec<$crate::fault::Invalid> {
                let mut invalid = Vec::new();
                $( $( draft.$field.written().into_iter().for_each(|value| invalid.extend(($check)(fault, value, inventory))); )? )*
                invalid
            }

            fn defaults() -> Vec<(&'static str, String)> {
                let draft = $Draft::default();
                vec![ $( (stringify!($field), $crate::fault::parameters::text_of(&draft.$field)) ),* ]
            }
        }
    };
}
pub(super) use parameters;

pub(super) fn text_of<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).map_or_else(|_| String::new(), |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

// ------------------------------------------------------------------------------------------------------------- defaults

/// The default of a parameter that means every process (`*`).
pub(super) fn any() -> Choice<Target> {
    Choice::Is(Target::any())
}

/// The processes or hosts that `text` names.
pub(super) fn target(text: &str) -> Choice<Target> {
    Choice::Is(Target::from_text(text))
}

pub(super) fn between(low: Span, high: Span) -> Choice<Span> {
    Choice::Between(low, high)
}

pub(super) fn chance(low: f64, high: f64) -> Choice<Probability> {
    let probability = |value| Probability::new(value).unwrap_or(Probability::NEVER);
    Choice::Between(probability(low), probability(high))
}

pub(super) fn every_resource() -> Choice<String> {
    Choice::Is("*".to_owned())
}

// --------------------------------------------------------------------------------------------------------------- checks

/// The inventory of a scenario's or plan's cluster, for checks of the names in its faults.
#[derive(Clone, Copy)]
pub struct Inventory<'a> {
    /// The processes and hosts.
    pub names: &'a [String],
    /// The types that the cluster serves.
    pub types: &'a Registry,
}

/// A value of a parameter with which its fault would do nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    at: At,
    wrong: String,
    right: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Key(&'static str),
    Text(String),
}

impl Invalid {
    /// The invalid text `value`, which is `wrong`; `right` describes a valid one.
    pub(super) fn text(value: impl Display, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self { at: At::Text(value.to_string()), wrong: wrong.into(), right: right.into() }
    }

    /// The invalid value of the parameter `key`, which is `wrong`; `right` describes a valid one.
    pub(super) fn value(key: &'static str, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self { at: At::Key(key), wrong: wrong.into(), right: right.into() }
    }

    /// The problem with its place in `source`.
    pub(super) fn problem(self, source: Source<'_>) -> Problem {
        match self.at {
            At::Key(key) => source.problem(key, self.wrong, self.right),
            At::Text(text) => source.problem_of_text(text, self.wrong, self.right),
        }
    }
}

/// Checks that the type with the plural `resource` is served; `*` is every type.
pub(super) fn served(fault: &str, resource: &str, inventory: &Inventory<'_>) -> Option<Invalid> {
    let plurals: Vec<&str> = inventory.types.iter().map(|(_, def)| def.plural).collect();
    let is_served = resource == "*" || plurals.contains(&resource);
    let wrong = || format!("the fault `{fault}` names the resource `{resource}`");
    (!is_served).then(|| Invalid::text(resource, wrong(), format!("`*` or one of {}", plurals.join(", "))))
}

/// Checks that `nth`, which counts `things`, is not 0.
pub(super) fn counted_from_1(things: &'static str) -> impl Fn(&str, &u32, &Inventory<'_>) -> Option<Invalid> {
    move |fault, nth, _| {
        (*nth == 0).then(|| Invalid::value("nth", format!("the fault `{fault}` has `nth` 0"), format!("{things} are counted from 1")))
    }
}

/// Checks that the text is an IP address.
pub(super) fn ip_address(fault: &str, address: &str, _: &Inventory<'_>) -> Option<Invalid> {
    let wrong = || format!("the fault `{fault}` is about `{address}`, which is no address");
    let is_one = address.parse::<IpAddr>().is_ok();
    (!is_one).then(|| Invalid::text(address, wrong(), "an IPv4 or IPv6 address such as 10.0.0.1"))
}

/// Checks that the names in `target` exist, or can be drawn from existing ones.
pub(super) fn exists(fault: &str, target: &Target, inventory: &Inventory<'_>) -> Option<Invalid> {
    let wrong = || format!("the fault `{fault}` is about `{target}`, which is no process and no host");
    let few = || inventory.names.iter().take(6).map(String::as_str).collect::<Vec<_>>().join(", ");
    let can_match = target.can_match(inventory.names);
    (!can_match).then(|| Invalid::text(target, wrong(), format!("a name such as {}, or a pattern such as client-*", few())))
}

/// Checks the target of a scenario: every name or pattern of its list has to match. In a plan, a list may name more than is left.
pub(super) fn all_exist(fault: &str, target: &Target, inventory: &Inventory<'_>) -> Option<Invalid> {
    exists(fault, target, inventory).or_else(|| {
        let nobody = target.unmatched(inventory.names)?;
        let wrong = format!("the fault `{fault}` is about `{target}`, of which `{nobody}` is no process and no host");
        Some(Invalid::text(target, wrong, "a name or pattern that matches something, or the list without it".to_owned()))
    })
}

// --------------------------------------------------------------------------------------------------- types of parameters

/// A value that may name processes which only the drawn cluster has.
pub(super) trait Resolve {
    /// Replaces the parts that depend on the cluster by names from it.
    fn resolve(self, draw: &mut Draw, names: &[String]) -> Self;

    /// The target, if the value is one.
    fn target(&self) -> Option<Target> {
        None
    }

    /// Renames processes and hosts.
    fn rename(&mut self, rename: &dyn Fn(&str) -> String) {
        let _ = rename;
    }

    /// Simpler values, the simplest first; no sequence of them leads back.
    fn simpler(&self, names: &[String]) -> Vec<Self>
    where
        Self: Sized;
}

/// Implements [`Resolve`] for types without names: `Type: value => simpler values`.
macro_rules! resolves_to_itself {
    ($($Type:ty: $value:ident => $simpler:expr),* $(,)?) => { $( impl $crate::fault::parameters::Resolve for $Type {
        fn resolve(self, _: &mut ::sim_config::draw::Draw, _: &[String]) -> Self {
            self
        }

        fn simpler(&self, _: &[String]) -> Vec<Self> {
            let $value = self;
            $simpler
        }
    } )* };
}
pub(super) use resolves_to_itself;

resolves_to_itself! {
    // Numbers that count from 1 are not lowered to 0: that would be another fault, or none.
    u32: number => below(*number, &[1, number / 2, number - number.div_ceil(8)]),
    i64: number => [number / 10, number / 2].into_iter().filter(|smaller| *smaller != 0 && smaller != number).collect(),
    bool: on => if *on { vec![false] } else { vec![] },
    String: _text => vec![],
    // A span below a millisecond is no easier to read.
    Span: span => {
        let millis = span.0.as_millis() as u64;
        below(millis, &[1, millis / 10, millis / 2]).into_iter().map(Span::millis).collect()
    },
    // A probability of 1 needs no draw.
    Probability: chance => if *chance == Probability::ALWAYS { vec![] } else { vec![Probability::ALWAYS] },
    Failure: _error => vec![],
}

/// Those of `smaller` that are below `value` and above 0, ascending.
fn below<N: Copy + Ord + Default>(value: N, smaller: &[N]) -> Vec<N> {
    let mut smaller: Vec<N> = smaller.iter().copied().filter(|&number| N::default() < number && number < value).collect();
    smaller.sort_unstable();
    smaller.dedup();
    smaller
}

impl Resolve for Target {
    fn resolve(self, draw: &mut Draw, names: &[String]) -> Self {
        self.drawn(draw, names)
    }

    fn target(&self) -> Option<Target> {
        Some(self.clone())
    }

    fn rename(&mut self, rename: &dyn Fn(&str) -> String) {
        *self = self.renamed(rename);
    }

    fn simpler(&self, names: &[String]) -> Vec<Self> {
        self.narrower(names)
    }
}

impl Open for Failure {}
impl Open for Target {}
