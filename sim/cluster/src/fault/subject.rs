//! What a text about a fault names besides its kind and its time.

use std::fmt::{self, Display};

/// What a text about a fault names after its kind: `(client-0, apiserver-1)`, `(client-0) late`, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject(String);

impl Subject {
    /// A fault that is about the whole cluster.
    pub const NOTHING: Self = Self(String::new());

    /// The processes, hosts or objects that the fault is about, in this order.
    pub fn of(names: &[&dyn Display]) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Self(format!("({})", names.join(", ")))
    }

    /// The same with the one thing that happens to them, where a kind can do several.
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
