//! Names in scripted operations that nothing can have in any run: typing errors, by which a scenario would test nothing.
//!
//! Drafts look for them when a scenario is read and its cluster is known. Only names that can be known then are judged: names that runs
//! make up, such as that of a pool that is made for an application, are not.

use std::collections::BTreeSet;

use sim_config::{advice, nearest};

use super::InvalidValue;

/// The largest number of names that are listed; of more only the nearest is named.
const NAMES_MAX: usize = 10;

/// A name in a scripted operation that nothing can have.
pub struct Misnamed {
    /// The position of the operation in the script.
    pub op: usize,
    /// The key of the operation that has the name, or would have it.
    pub key: &'static str,
    /// The name, and the existing ones.
    pub invalid: InvalidValue,
}

/// The known names of one kind of object, `what`, such as `pool`.
pub struct Known<'a> {
    what: &'static str,
    names: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    /// The known names of this kind.
    pub fn new(what: &'static str, names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { what, names: names.into_iter().collect() }
    }

    /// The problem with a name; `None` if something can have it. `of`: more about it, such as its namespace; else empty.
    pub fn judge(&self, op: usize, key: &'static str, name: &str, of: &str) -> Option<Misnamed> {
        if self.names.contains(name) {
            return None;
        }
        let Self { what, names } = self;
        let wrong = format!("an operation names the {what} `{name}`{of}, and no run has one of that name");
        let all: Vec<&str> = names.iter().copied().collect();
        let right = match all.len() {
            0 => format!("there is no {what}; one that another operation makes counts as well"),
            1..=NAMES_MAX => advice(name, &all, what),
            _ => format!("the nearest of {} is `{}`", all.len(), nearest(name, all)),
        };
        Some(Misnamed { op, key, invalid: InvalidValue::value(name, wrong, right) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told_or_what_there_is() {
        let told = |names: &[&str], name: &str| {
            Known::new("pool", names.iter().copied()).judge(3, "pool", name, "").map(|found| found.invalid.right)
        };
        assert_eq!(told(&["v4-0"], "v4-0"), None);
        assert_eq!(told(&["blue", "green"], "gren").as_deref(), Some("did you mean `green`?"));
        assert_eq!(told(&["blue", "green"], "nope").as_deref(), Some("known pools: `blue`, `green`"));
        assert_eq!(told(&[], "nope").as_deref(), Some("there is no pool; one that another operation makes counts as well"));
        let many: Vec<String> = (0..40).map(|number| format!("v4-{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(told(&many, "v5-33").as_deref(), Some("the nearest of 40 is `v4-33`"));
    }
}
