//! Errors of decoding, each with the value that caused it.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use crate::expected::{advice, names, quoted_string};

/// An error of decoding, with the value that caused it as soon as that is known.
#[derive(Clone, Debug)]
pub(crate) struct Error(pub(super) Box<Cause>);

/// The problem, and its place as soon as that is known.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(super) place: Option<Place>,
    pub(super) what: What,
}

/// The node that an error is about, or whose key it is about, by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    Value(u32),
    Key(u32),
    /// A stand-in for a missing value in this table.
    StandIn(u32),
}

impl Place {
    pub(super) fn id(self) -> u32 {
        let (Place::Value(id) | Place::Key(id) | Place::StandIn(id)) = self;
        id
    }
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Missing(&'static str),
    UnknownKey {
        known: Vec<&'static str>,
    },
    UnknownName {
        found: String,
        known: &'static [&'static str],
    },
    /// The wrong type, or a value out of the type's bounds. `found` is absent if the node itself shows it.
    Unfit {
        found: Option<String>,
        expected: String,
    },
    Other(String),
}

impl Error {
    pub(super) fn new(what: What) -> Self {
        Self(Box::new(Cause { place: None, what }))
    }

    pub(super) fn at(mut self, place: Place) -> Self {
        self.0.place.get_or_insert(place);
        self
    }

    pub(crate) fn into_what(self) -> What {
        self.0.what
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.what {
            What::Missing(key) => write!(f, "missing key `{key}`"),
            What::UnknownKey { known } => write!(f, "unknown key; known keys: {}", names(known)),
            What::UnknownName { found, known } => write!(f, "unknown value `{found}`; {}", advice(found, known, "value")),
            What::Unfit { expected, .. } => write!(f, "expected {expected}"),
            What::Other(text) => f.write_str(text),
        }
    }
}

impl de::Error for Error {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(What::Other(text.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(value) => Some(format!("the boolean {value}")),
            Unexpected::Unsigned(value) => Some(format!("the number {value}")),
            Unexpected::Signed(value) => Some(format!("the number {value}")),
            Unexpected::Float(value) => Some(format!("the number {value}")),
            Unexpected::Str(text) => Some(quoted_string(text)),
            Unexpected::Other(text) => Some(text.to_owned()),
            _ => None,
        };
        Self::new(What::Unfit { found, expected: expected.to_string() })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(found: usize, expected: &dyn Expected) -> Self {
        let found = if found == 1 { "1 element".to_owned() } else { format!("{found} elements") };
        Self::new(What::Unfit { found: Some(found), expected: expected.to_string() })
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(What::Missing(key))
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        Self::new(What::UnknownKey { known: known.to_vec() })
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        Self::new(What::UnknownName { found: found.to_owned(), known })
    }
}

#[cold]
pub(super) fn unfit(expected: &dyn fmt::Display) -> Error {
    Error::new(What::Unfit { found: None, expected: expected.to_string() })
}

#[cold]
pub(super) fn none_of(variants: &[&str]) -> Error {
    unfit(&format_args!("one of {}", names(variants)))
}

#[cold]
pub(super) fn too_long(count: usize, rest: usize) -> Error {
    de::Error::invalid_length(count, &format!("{} elements", count - rest).as_str())
}

#[cold]
pub(super) fn value_before_key() -> Error {
    de::Error::custom("a value was asked for before its key")
}
