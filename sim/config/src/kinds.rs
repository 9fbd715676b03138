//! Tables whose key `kind` decides their other keys: faults, operations.
//!
//! Serde's internally tagged enums read the table into a buffer first and lose the places of its values. The enums declared here read
//! `kind` first and the rest of the table directly into the chosen struct. They are written with `kind` first, so they read back from any
//! format.

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::decode::{KIND, KIND_TABLE, SHARED_TABLE};

/// An enum of kinds; implemented by [`kinds!`](macro@crate::kinds).
pub trait Kinds: Sized {
    /// Every kind by its name in a file.
    const KINDS: &'static [&'static str];

    /// The name of this value's kind.
    fn kind(&self) -> &'static str;

    /// Reads the other keys of a table with this `kind`.
    fn decode<'de, A: MapAccess<'de>>(kind: &'static str, rest: A) -> Result<Self, A::Error>;
}

/// Reads an enum of kinds from a table.
pub fn deserialize<'de, K: Kinds, D: Deserializer<'de>>(deserializer: D) -> Result<K, D::Error> {
    struct Closed<K>(PhantomData<K>);
    impl<'de, K: Kinds> Choose<'de> for Closed<K> {
        type Value = K;
        fn names(&self) -> &'static [&'static str] {
            K::KINDS
        }
        fn decode<A: MapAccess<'de>>(self, kind: &'static str, rest: A) -> Result<K, A::Error> {
            K::decode(kind, rest)
        }
    }
    deserializer.deserialize_struct(KIND_TABLE, &[KIND], Table(Closed(PhantomData)))
}

/// The kinds that one party adds to an open set, of which only a table of functions is known.
pub struct OpenKinds<T> {
    /// Their names in a file.
    pub names: &'static [&'static str],
    /// Reads the other keys of a table whose `kind` has this name.
    pub decode: fn(&'static str, &mut dyn erased_serde::Deserializer<'_>) -> Result<T, erased_serde::Error>,
    /// The JSON Schema of all of them, with `oneOf`.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl<T> OpenKinds<T> {
    /// The kinds of `K`.
    pub fn of<K: Kinds + JsonSchema + Into<T>>() -> Self {
        struct Rest<K>(&'static str, PhantomData<K>);
        impl<'de, K: Kinds> Visitor<'de> for Rest<K> {
            type Value = K;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, rest: A) -> Result<K, A::Error> {
                K::decode(self.0, rest)
            }
        }
        Self {
            names: K::KINDS,
            decode: |kind, rest| rest.deserialize_map(Rest::<K>(kind, PhantomData)).map(Into::into),
            schema: K::json_schema,
        }
    }
}

/// Reads a value of an open set from a table. `names`: all kinds; `of`: finds the party that has a name.
pub fn deserialize_open<'de, T: 'static, D: Deserializer<'de>>(
    deserializer: D,
    names: &'static [&'static str],
    of: fn(&str) -> Option<&'static OpenKinds<T>>,
) -> Result<T, D::Error> {
    struct Open<T: 'static> {
        names: &'static [&'static str],
        of: fn(&str) -> Option<&'static OpenKinds<T>>,
    }
    impl<'de, T> Choose<'de> for Open<T> {
        type Value = T;
        fn names(&self) -> &'static [&'static str] {
            self.names
        }
        fn decode<A: MapAccess<'de>>(self, kind: &'static str, rest: A) -> Result<T, A::Error> {
            let kinds = (self.of)(kind).ok_or_else(|| A::Error::unknown_variant(kind, self.names))?;
            let mut rest = <dyn erased_serde::Deserializer<'_>>::erase(MapAccessDeserializer::new(rest));
            (kinds.decode)(kind, &mut rest).map_err(A::Error::custom)
        }
    }
    deserializer.deserialize_struct(KIND_TABLE, &[KIND], Table(Open { names, of }))
}

/// The schema of an open set: one of the kinds that the parties add.
pub fn schema_of_open<'a, T: 'static>(generator: &mut SchemaGenerator, parties: impl IntoIterator<Item = &'a OpenKinds<T>>) -> Schema {
    let one_of = |mut schema: Schema| match schema.remove("oneOf") {
        Some(serde_json::Value::Array(kinds)) => kinds,
        _ => vec![schema.to_value()],
    };
    let kinds: Vec<serde_json::Value> = parties.into_iter().flat_map(|party| one_of((party.schema)(generator))).collect();
    schemars::json_schema!({ "oneOf": kinds })
}

/// The meaning of the key `kind` of a table.
trait Choose<'de>: Sized {
    type Value;
    fn names(&self) -> &'static [&'static str];
    fn decode<A: MapAccess<'de>>(self, kind: &'static str, rest: A) -> Result<Self::Value, A::Error>;
}

struct Table<C>(C);

impl<'de, C: Choose<'de>> Visitor<'de> for Table<C> {
    type Value = C::Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table with the key `kind`")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<C::Value, A::Error> {
        let first: Option<String> = map.next_key()?;
        if first.as_deref() != Some(KIND) {
            return Err(A::Error::missing_field(KIND));
        }
        let kind = map.next_value_seed(Name(self.0.names()))?;
        self.0.decode(kind, map)
    }
}

/// Reads one of some names.
struct Name(&'static [&'static str]);

impl<'de> serde::de::DeserializeSeed<'de> for Name {
    type Value = &'static str;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = &'static str;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", super::expected::names(self.0))
    }
    fn visit_str<E: Error>(self, found: &str) -> Result<&'static str, E> {
        self.0.iter().find(|name| **name == found).copied().ok_or_else(|| E::unknown_variant(found, self.0))
    }
}

/// The content of a kind without other keys.
#[doc(hidden)]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoKeys {}

/// Declares an enum of kinds.
///
/// ```
/// use sim_config::kinds;
///
/// /// Cuts hosts off.
/// #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// pub struct Partition {
///     hosts: Vec<String>,
/// }
///
/// kinds! {
///     /// What goes wrong.
///     pub enum Fault {
///         /// Cuts hosts off.
///         "partition" => Partition(Partition),
///         /// Ends every partition.
///         "heal" => Heal,
///     }
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Plan {
///     fault: Vec<Fault>,
/// }
/// let text = "[[fault]]\nkind = 'partition'\nhosts = ['n1']\n[[fault]]\nkind = 'heal'";
/// let plan: Plan = sim_config::toml::from_str("plan.toml", text).unwrap();
/// assert_eq!(plan.fault[1], Fault::Heal);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __input_kinds {
    (
        $(#[$attribute:meta])*
        $vis:vis enum $Enum:ident {
            $( $(#[$doc:meta])* $name:literal => $Variant:ident $( ( $Content:ty ) )? ),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::schemars::JsonSchema)]
        #[serde(tag = "kind")]
        $vis enum $Enum {
            $( $(#[$doc])* #[serde(rename = $name)] $Variant $( ( $Content ) )? ),*
        }

        impl $crate::kinds::Kinds for $Enum {
            const KINDS: &'static [&'static str] = &[$( $name ),*];

            fn kind(&self) -> &'static str {
                match self {
                    $( Self::$Variant { .. } => $name, )*
                }
            }

            fn decode<'de, A: ::serde::de::MapAccess<'de>>(kind: &'static str, rest: A) -> Result<Self, A::Error> {
                let rest = ::serde::de::value::MapAccessDeserializer::new(rest);
                match kind {
                    $( $name => $crate::__input_kinds!(@decode rest $Variant $( $Content )?), )*
                    _ => Err(<A::Error as ::serde::de::Error>::unknown_variant(kind, Self::KINDS)),
                }
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Enum {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::kinds::deserialize(deserializer)
            }
        }
    };
    (@decode $rest:ident $Variant:ident $Content:ty) => {
        <$Content as ::serde::Deserialize>::deserialize($rest).map(Self::$Variant)
    };
    (@decode $rest:ident $Variant:ident) => {
        <$crate::kinds::NoKeys as ::serde::Deserialize>::deserialize($rest).map(|_| Self::$Variant)
    };
}

#[doc(inline)]
pub use crate::__input_kinds as kinds;

/// A kind together with keys that every kind has, in one table: `kind = "partition"`, `at = "3s"`, `hosts = ["n1"]`.
///
/// Use it in place of `#[serde(flatten)]`, which loses the places of values. It reads only through [`crate`]: other formats cannot show one
/// table to two types.

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(description = "a kind, and the keys that all kinds share")]
pub struct With<C, K> {
    /// The keys of this kind.
    #[serde(flatten)]
    pub kind: K,
    /// The keys that every kind has.
    #[serde(flatten)]
    pub common: C,
}

impl<'de, C: Deserialize<'de>, K: Deserialize<'de>> Deserialize<'de> for With<C, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts<C, K>(PhantomData<(C, K)>);
        impl<'de, C: Deserialize<'de>, K: Deserialize<'de>> Visitor<'de> for Parts<C, K> {
            type Value = With<C, K>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<With<C, K>, A::Error> {
                // Read from an empty table, to learn its keys; the error is ignored.
                let _ = parts.next_element::<C>();
                let kind = parts.next_element();
                // Read even if the kind failed: `Shared` decides which of the two errors is reported first.
                let common = parts.next_element()?.ok_or_else(|| A::Error::invalid_length(2, &self))?;
                let kind = kind?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                Ok(With { kind, common })
            }
        }
        deserializer.deserialize_tuple_struct(SHARED_TABLE, 3, Parts(PhantomData))
    }
}
