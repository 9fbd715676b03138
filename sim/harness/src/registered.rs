//! Registries that the systems of the program extend, filled once by [`install`](crate::system::install).
//!
//! There is one for each kind of thing that systems extend: operations, workloads, claims, mutations, served types. So a plan can be read
//! without naming what runs it, and a new system is named in one place.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use sim_config::kinds::OpenKinds;

/// A value that is not known before the systems are registered.
pub(crate) struct Registered<T>(OnceLock<T>);

impl<T> Registered<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Sets the value. Panics if it is set already.
    pub(crate) fn set(&self, value: T) {
        assert!(self.0.set(value).is_ok(), "the systems are registered twice");
    }

    pub(crate) fn get(&self) -> &T {
        self.0.get().unwrap_or_else(|| panic!("no system under test is registered: call `install` before anything is read or run"))
    }
}

/// An open set of kinds: those of all systems.
pub(crate) struct Open<T: 'static> {
    pub(crate) names: &'static [&'static str],
    pub(crate) parties: Vec<OpenKinds<T>>,
}

impl<T> Open<T> {
    /// Joins the kinds of all systems. Panics if two kinds have one name.
    pub(crate) fn new(parties: Vec<OpenKinds<T>>) -> Self {
        let names: Vec<&'static str> = parties.iter().flat_map(|party| party.names.iter().copied()).collect();
        assert_unique("a kind", &names);
        // Leaks once per process.
        Self { names: names.leak(), parties }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&OpenKinds<T>> {
        self.parties.iter().find(|party| party.names.contains(&name))
    }
}

pub(crate) fn assert_unique(what: &str, names: &[&str]) {
    let mut seen = BTreeSet::new();
    for name in names {
        assert!(seen.insert(name), "{what} called `{name}` is registered twice");
    }
}

/// Makes a type readable as any of the kinds that the systems add.
macro_rules! open_set {
    ($Type:ident, $KINDS:ident) => {
        pub(crate) static $KINDS: $crate::registered::Registered<$crate::registered::Open<$Type>> = $crate::registered::Registered::new();

        impl<'de> ::serde::Deserialize<'de> for $Type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                ::sim_config::kinds::deserialize_open(deserializer, $KINDS.get().names, |name| $KINDS.get().find(name))
            }
        }

        impl ::schemars::JsonSchema for $Type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($Type).into()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::sim_config::kinds::schema_of_open(generator, &$KINDS.get().parties)
            }
        }
    };
}

pub(crate) use open_set;
