//! The subject of a fault: the part of its description besides kind and time.

use std::fmt::{self, Display};

/// The text after the kind in a fault's description: `(client-0, apiserver-1)`, `(client-0) late`, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject(String);

impl Subject {
    /// The subject of a fault that affects the whole cluster.
    pub const NOTHING: Self = Self(String::new());

    /// The processes, hosts or objects that the fault affects, in this order.
    pub fn of(names: &[&dyn Display]) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Self(format!("({})", names.join(", ")))
    }

    /// The same with the effect on them, for a kind that has several.
    #[must_use]
    pub fn with(self, effect: &str) -> Self {
        Self(format!("{} {effect}", self.0))
    }
}

impl Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
