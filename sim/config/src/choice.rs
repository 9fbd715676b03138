//! Values that a scenario leaves open and a plan draws.
//!
//! | written | drawn |
//! |---|---|
//! | `3`, `"2s"`, `true` | that value |
//! | `"2..4"`, `"2s..8s"`, `"0.1..0.5"` | a value of the range, both ends included |
//! | `[2, 4, 8]` | one of the list, all equally likely |
//!
//! Whole numbers and fractions are drawn uniformly. Durations above zero are drawn log-uniformly, because faults of 10 ms and of 10 s are
//! equally interesting; a range that begins at zero is uniform.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroU64};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{self, Deserialize, Deserializer, IntoDeserializer, SeqAccess, Unexpected, Visitor};
use serde::{Serialize, Serializer};

use super::decode;
use super::decode::What;
use crate::draw::{Draw, below};
use crate::time::{Span, micros};

/// A value that is given, or drawn from a range or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice<T> {
    /// The value itself: every draw gives it.
    Is(T),
    /// Between two values, both included; the first is not the larger one.
    Between(T, T),
    /// One of these; never empty.
    OneOf(Vec<T>),
}

/// A type whose values a scenario can leave open.
///
/// Enums of names need only an empty implementation: they have no ranges.
pub trait Open: Clone + PartialOrd + 'static {
    /// A range as an example for messages, and the form of an end of a range as a regular expression; `None` = there are no ranges.
    const RANGE: Option<RangeForm> = None;

    /// Parses one end of a range; the error is a sentence.
    fn end(text: &str) -> Result<Self, String> {
        Err(format!("`{text}` cannot be an end of a range"))
    }

    /// The text of one end of a range.
    fn end_text(&self) -> String {
        String::new()
    }

    /// The value at `word` (uniform over all words) of the range from `low` to `high`.
    fn between(low: &Self, high: &Self, word: u64) -> Self {
        if word >> 63 == 0 { low.clone() } else { high.clone() }
    }
}

/// The notation of a type's ranges.
#[derive(Clone, Copy, Debug)]
pub struct RangeForm {
    /// A range, for messages: `2s..8s`.
    pub example: &'static str,
    /// One end as a regular expression without anchors, for schemas.
    pub end: &'static str,
}

impl<T: Open> Choice<T> {
    /// Draws a value. Always takes one number of the stream, so that giving a value instead of a range does not shift later draws.
    pub fn draw(&self, draw: &mut Draw) -> T {
        let word = draw.u64();
        match self {
            Choice::Is(value) => value.clone(),
            Choice::Between(low, high) => T::between(low, high, word),
            Choice::OneOf(values) => values[below(word, values.len() as u64) as usize].clone(),
        }
    }

    /// The smallest and the largest value that can be drawn.
    pub fn bounds(&self) -> (&T, &T) {
        match self {
            Choice::Is(value) => (value, value),
            Choice::Between(low, high) => (low, high),
            Choice::OneOf(values) => {
                let first = &values[0];
                values.iter().fold((first, first), |(low, high), value| {
                    (if value < low { value } else { low }, if value > high { value } else { high })
                })
            }
        }
    }

    /// The values as written: one, both ends of a range, or a list.
    pub fn written(&self) -> Vec<&T> {
        match self {
            Choice::Is(value) => vec![value],
            Choice::Between(low, high) => vec![low, high],
            Choice::OneOf(values) => values.iter().collect(),
        }
    }

    /// True when every draw gives the same value.
    pub fn is_fixed(&self) -> bool {
        let (low, high) = self.bounds();
        low == high
    }
}

impl<T: Default> Default for Choice<T> {
    fn default() -> Self {
        Choice::Is(T::default())
    }
}

impl<T> From<T> for Choice<T> {
    fn from(value: T) -> Self {
        Choice::Is(value)
    }
}

/// Parses a range from the texts of its ends; the error is a sentence.
fn range<T: Open>(low: &str, high: &str) -> Result<Choice<T>, String> {
    if let Some(high) = high.strip_prefix(['=', '.']) {
        return Err(format!("a range is written `{low}..{high}`; both ends are included"));
    }
    if low.is_empty() || high.is_empty() {
        return Err("a range needs both ends".to_owned());
    }
    let (low, high) = (T::end(low)?, T::end(high)?);
    match low.partial_cmp(&high) {
        Some(Ordering::Greater) => return Err(format!("the range is reversed; write `{}..{}`", high.end_text(), low.end_text())),
        None => return Err("its two ends cannot be compared; give two of a kind".to_owned()),
        Some(_) => {}
    }
    Ok(Choice::Between(low, high))
}

impl<T: Open + Serialize> Serialize for Choice<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Choice::Is(value) => value.serialize(serializer),
            Choice::Between(low, high) => serializer.collect_str(&format_args!("{}..{}", low.end_text(), high.end_text())),
            Choice::OneOf(values) => values.serialize(serializer),
        }
    }
}

impl<'de, T: Open + Deserialize<'de>> Deserialize<'de> for Choice<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Form(PhantomData))
    }
}

struct Form<T>(PhantomData<T>);

impl<'de, T: Open + Deserialize<'de>> Form<T> {
    /// Parses a literal, and keeps the type's own error message.
    fn literal<E: de::Error>(self, found: Unexpected<'_>, value: impl Deserializer<'de, Error = decode::Error>) -> Result<Choice<T>, E> {
        T::deserialize(value).map(Choice::Is).map_err(|error| match error.into_what() {
            What::Unfit { expected, .. } => E::invalid_type(found, &Or::<T>(expected, PhantomData)),
            What::UnknownName { found, known } => E::unknown_variant(&found, known),
            What::Other(text) => E::custom(text),
            What::Missing(_) | What::UnknownKey { .. } => E::invalid_type(found, &self),
        })
    }
}

/// The expectation of a type, or a range, or a list.
struct Or<T>(String, PhantomData<T>);

impl<T: Open> de::Expected for Or<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::expected::Language::Toml.expected(&self.0))?;
        if let Some(form) = T::RANGE {
            write!(f, ", a range such as \"{}\"", form.example)?;
        }
        f.write_str(", or a list of choices")
    }
}

impl<'de, T: Open + Deserialize<'de>> Visitor<'de> for Form<T> {
    type Value = Choice<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The type itself has the best description of its values.
        let expected = match T::deserialize(de::value::UnitDeserializer::<decode::Error>::new()).map_err(decode::Error::into_what) {
            Err(What::Unfit { expected, .. }) => expected,
            _ => "a value".to_owned(),
        };
        de::Expected::fmt(&Or::<T>(expected, PhantomData), f)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Choice<T>, E> {
        self.literal(Unexpected::Bool(value), value.into_deserializer())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Choice<T>, E> {
        self.literal(Unexpected::Unsigned(value), value.into_deserializer())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Choice<T>, E> {
        self.literal(Unexpected::Signed(value), value.into_deserializer())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Choice<T>, E> {
        self.literal(Unexpected::Float(value), value.into_deserializer())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Choice<T>, E> {
        match text.split_once("..") {
            Some((low, high)) if T::RANGE.is_some() => {
                range(low.trim(), high.trim()).map_err(|wrong| E::custom(format_args!("`{text}`: {wrong}")))
            }
            _ => self.literal(Unexpected::Str(text), StrDeserializer::new(text)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Choice<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        if values.is_empty() {
            return Err(de::Error::custom("an empty list leaves nothing to choose"));
        }
        Ok(Choice::OneOf(values))
    }
}

impl<T: Open + JsonSchema> JsonSchema for Choice<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("ChoiceOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        let list = json_schema!({ "type": "array", "items": value, "minItems": 1, "description": "one of these" });
        match T::RANGE {
            None => json_schema!({ "anyOf": [value, list] }),
            Some(form) => {
                let range = json_schema!({
                    "type": "string",
                    "pattern": format!(r"^\s*({0})\s*\.\.\s*({0})\s*$", form.end),
                    "description": format!("a range, both ends included: {}", form.example),
                });
                json_schema!({ "anyOf": [value, range, list] })
            }
        }
    }
}

/// The value at `word` of `low..=high`.
fn whole_between(low: u64, high: u64, word: u64) -> u64 {
    match (high - low).checked_add(1) {
        Some(count) => low + below(word, count),
        None => word,
    }
}

macro_rules! whole_numbers {
    ($($Type:ty, $smallest:literal, $to:expr, $from:expr;)*) => { $(
        impl Open for $Type {
            const RANGE: Option<RangeForm> = Some(RangeForm { example: "2..4", end: "[0-9]+" });

            fn end(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("`{text}` is not a whole number from {} to {}", $smallest, <$Type>::MAX))
            }

            fn end_text(&self) -> String {
                self.to_string()
            }

            fn between(low: &Self, high: &Self, word: u64) -> Self {
                $from(whole_between($to(*low), $to(*high), word))
            }
        }
    )* };
}

whole_numbers! {
    u32, 0, u64::from, |value| value as u32;
    u64, 0, u64::from, |value: u64| value;
    usize, 0, |value: usize| value as u64, |value| value as usize;
    NonZeroU32, 1, |value: NonZeroU32| u64::from(value.get()), |value| NonZeroU32::new(value as u32).unwrap_or(NonZeroU32::MIN);
    NonZeroU64, 1, |value: NonZeroU64| value.get(), |value| NonZeroU64::new(value).unwrap_or(NonZeroU64::MIN);
}

impl Open for i64 {
    const RANGE: Option<RangeForm> = Some(RangeForm { example: "-5..5", end: "-?[0-9]+" });

    fn end(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is not a whole number from {} to {}", i64::MIN, i64::MAX))
    }

    fn end_text(&self) -> String {
        self.to_string()
    }

    fn between(low: &Self, high: &Self, word: u64) -> Self {
        // Distances between two signed numbers fit an unsigned one.
        low.wrapping_add_unsigned(whole_between(0, low.abs_diff(*high), word))
    }
}

/// A fraction as a regular expression.
pub(super) const FRACTION: &str = r"-?[0-9]+(\.[0-9]+)?([eE]-?[0-9]+)?";

impl Open for f64 {
    const RANGE: Option<RangeForm> = Some(RangeForm { example: "0.1..0.5", end: FRACTION });

    fn end(text: &str) -> Result<Self, String> {
        text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| format!("`{text}` is not a number"))
    }

    fn end_text(&self) -> String {
        self.to_string()
    }

    fn between(low: &Self, high: &Self, word: u64) -> Self {
        // Halved, because the distance of two finite numbers need not be finite.
        let half = high / 2.0 - low / 2.0;
        (low + half * crate::draw::unit(word) * 2.0).clamp(*low, *high)
    }
}

impl Open for bool {}
impl Open for String {}

impl Open for Span {
    const RANGE: Option<RangeForm> = Some(RangeForm { example: "2s..8s", end: r"[0-9]+(\.[0-9]+)?(us|µs|ms|s|m|min|h)" });

    fn end(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn end_text(&self) -> String {
        self.to_string()
    }

    fn between(low: &Self, high: &Self, word: u64) -> Self {
        let (low, high) = (micros(low.0), micros(high.0));
        if low == 0 {
            return Span::micros(whole_between(low, high, word));
        }
        let ratio = libm::log(high as f64 / low as f64);
        let drawn = low as f64 * libm::exp(crate::draw::unit(word) * ratio);
        Span::micros((drawn as u64).clamp(low, high))
    }
}

#[cfg(test)]
mod tests {
    use crate::Probability;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::draw::Concern;

    #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Mode {
        Hardened,
        Upstream,
    }
    impl Open for Mode {}

    #[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, bound(deserialize = "T: DeserializeOwned", serialize = "T: Serialize"))]
    struct File<T: Open> {
        value: Choice<T>,
    }

    fn read<T: Open + DeserializeOwned>(text: &str) -> Result<Choice<T>, String> {
        let file = crate::toml::from_str::<File<T>>("x", &format!("value = {text}"));
        file.map(|file| file.value).map_err(|problems| problems.to_string())
    }

    fn problem<T: Open + DeserializeOwned + fmt::Debug>(text: &str) -> String {
        read::<T>(text).unwrap_err()
    }

    #[test]
    fn every_form_reads() {
        assert_eq!(read("3"), Ok(Choice::Is(3u32)));
        assert_eq!(read("'2..4'"), Ok(Choice::Between(2u64, 4)));
        assert_eq!(read("'2 .. 4'"), Ok(Choice::Between(2u64, 4)));
        assert_eq!(read("[2, 4, 8]"), Ok(Choice::OneOf(vec![2u32, 4, 8])));
        assert_eq!(read("1"), Ok(Choice::Is(1.0)));
        assert_eq!(read("'-1..0.5'"), Ok(Choice::Between(-1.0, 0.5)));
        assert_eq!(read("'2s'"), Ok(Choice::Is(Span::secs(2))));
        assert_eq!(read("'20ms..8s'"), Ok(Choice::Between(Span::millis(20), Span::secs(8))));
        assert_eq!(read("[true, false]"), Ok(Choice::OneOf(vec![true, false])));
        assert_eq!(read("['hardened', 'upstream']"), Ok(Choice::OneOf(vec![Mode::Hardened, Mode::Upstream])));
        assert_eq!(read("'0.1..1'"), Ok(Choice::Between(Probability::new(0.1).unwrap(), Probability::ALWAYS)));
    }

    #[test]
    fn what_does_not_fit_is_explained() {
        let all = [
            problem::<u32>("'4..2'"),
            problem::<u32>("'2..=4'"),
            problem::<u32>("'2..'"),
            problem::<u32>("'2..4s'"),
            problem::<u32>("'2s'"),
            problem::<u32>("-1"),
            problem::<u32>("2.5"),
            problem::<u32>("[]"),
            problem::<u32>("[1, 'two', '3..4']"),
            problem::<u32>("{ low = 1 }"),
            problem::<Span>("3"),
            problem::<Span>("'2s..8'"),
            problem::<Span>("'8s..2s'"),
            problem::<Span>("'1d'"),
            problem::<bool>("'true..false'"),
            problem::<Mode>("'upstraem'"),
            problem::<Mode>("['upstraem', 3]"),
            problem::<Probability>("1.5"),
            problem::<Probability>("'0.5..2'"),
            problem::<Probability>("'half'"),
            problem::<f64>("'0..inf'"),
        ];
        insta::assert_snapshot!(all.join("\n"), @r#"
        x:1:9: `value`: `4..2`: the range is reversed; write `2..4`
        x:1:9: `value`: `2..=4`: a range is written `2..4`; both ends are included
        x:1:9: `value`: `2..`: a range needs both ends
        x:1:9: `value`: `2..4s`: `4s` is not a whole number from 0 to 4294967295
        x:1:9: `value` is the string "2s"; expected a whole number from 0 to 4294967295, a range such as "2..4", or a list of choices
        x:1:9: `value` is the number -1; expected a whole number from 0 to 4294967295, a range such as "2..4", or a list of choices
        x:1:9: `value` is the number 2.5; expected a whole number from 0 to 4294967295, a range such as "2..4", or a list of choices
        x:1:9: `value`: an empty list leaves nothing to choose
        x:1:13: `value[1]` is the string "two"; expected a whole number from 0 to 4294967295
        x:1:20: `value[2]` is the string "3..4"; expected a whole number from 0 to 4294967295
        x:1:9: `value` is a table; expected a whole number from 0 to 4294967295, a range such as "2..4", or a list of choices
        x:1:9: `value` is the number 3; expected a duration such as 250us, 1.5ms, 30s, 5m or 2h, a range such as "2s..8s", or a list of choices
        x:1:9: `value`: `2s..8`: `8` is not a duration such as 250us, 1.5ms, 30s, 5m or 2h
        x:1:9: `value`: `8s..2s`: the range is reversed; write `2s..8s`
        x:1:9: `value`: `1d` is not a duration such as 250us, 1.5ms, 30s, 5m or 2h
        x:1:9: `value` is the string "true..false"; expected true or false, or a list of choices
        x:1:9: `value` cannot be `upstraem`; did you mean `upstream`?
        x:1:10: `value[0]` cannot be `upstraem`; did you mean `upstream`?
        x:1:22: `value[1]` is the number 3; expected one of `hardened`, `upstream`
        x:1:9: `value` is the number 1.5; expected a probability from 0 to 1, a range such as "0.1..0.5", or a list of choices
        x:1:9: `value`: `0.5..2`: `2` is not a probability from 0 to 1
        x:1:9: `value` is the string "half"; expected a probability from 0 to 1, a range such as "0.1..0.5", or a list of choices
        x:1:9: `value`: `0..inf`: `inf` is not a number
        "#);
    }

    #[test]
    fn draws_reach_both_ends_and_nothing_else() {
        let mut draw = Draw::new(1, Concern::Shape, 0);
        let seen = |choice: Choice<u32>, draw: &mut Draw| (0..200).map(|_| choice.draw(draw)).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(seen(Choice::Is(3), &mut draw), [3].into());
        assert_eq!(seen(Choice::Between(2, 4), &mut draw), [2, 3, 4].into());
        assert_eq!(seen(Choice::OneOf(vec![2, 4, 8]), &mut draw), [2, 4, 8].into());
    }

    #[test]
    fn durations_are_drawn_by_order_of_magnitude() {
        let mut draw = Draw::new(1, Concern::Faults, 0);
        let choice = Choice::Between(Span::millis(1), Span::secs(1));
        let short = (0..1_000).filter(|_| choice.draw(&mut draw) < Span::millis(10)).count();
        assert!((250..420).contains(&short), "{short} of 1000 draws are in the first of three decades");
    }

    #[test]
    fn every_draw_takes_one_number() {
        let after = |choice: Choice<u64>| {
            let mut draw = Draw::new(1, Concern::Shape, 0);
            choice.draw(&mut draw);
            draw.u64()
        };
        assert_eq!(after(Choice::Is(1)), after(Choice::Between(0, u64::MAX)));
        assert_eq!(after(Choice::Is(1)), after(Choice::OneOf(vec![1, 2])));
    }

    #[test]
    fn bounds_are_those_of_the_values() {
        assert_eq!(Choice::OneOf(vec![4, 2, 8u32]).bounds(), (&2, &8));
        assert!(Choice::Between(2u32, 2).is_fixed());
    }

    #[test]
    fn schemas_show_every_form() {
        let schema = serde_json::to_value(schemars::schema_for!(Choice<Span>)).unwrap();
        insta::assert_snapshot!(serde_json::to_string(&schema).unwrap(), @r##"{"$defs":{"Span":{"description":"a duration such as 250us, 1.5ms, 30s, 5m or 2h","pattern":"^[0-9]+(\\.[0-9]+)?(us|µs|ms|s|m|min|h)$|^forever$","type":"string"}},"$schema":"https://json-schema.org/draft/2020-12/schema","anyOf":[{"$ref":"#/$defs/Span"},{"description":"a range, both ends included: 2s..8s","pattern":"^\\s*([0-9]+(\\.[0-9]+)?(us|µs|ms|s|m|min|h))\\s*\\.\\.\\s*([0-9]+(\\.[0-9]+)?(us|µs|ms|s|m|min|h))\\s*$","type":"string"},{"description":"one of these","items":{"$ref":"#/$defs/Span"},"minItems":1,"type":"array"}],"title":"ChoiceOfSpan"}"##);
    }

    fn round_trip<T: Open + Serialize + DeserializeOwned + fmt::Debug>(value: Choice<T>) -> Result<(), TestCaseError> {
        let file = File { value };
        let text = ::toml::to_string(&file).unwrap();
        let read = crate::toml::from_str::<File<T>>("x", &text).map_err(|problems| TestCaseError::fail(problems.to_string()))?;
        prop_assert_eq!(read, file);
        Ok(())
    }

    fn choices<T: Open + fmt::Debug>(values: impl Strategy<Value = T> + Clone + 'static) -> impl Strategy<Value = Choice<T>> {
        prop_oneof![
            values.clone().prop_map(Choice::Is),
            (values.clone(), values.clone()).prop_map(|(a, b)| if a <= b { Choice::Between(a, b) } else { Choice::Between(b, a) }),
            proptest::collection::vec(values, 1..4).prop_map(Choice::OneOf),
        ]
    }

    proptest! {
        #[test]
        fn choices_read_back(
            numbers in choices(any::<u32>()),
            fractions in choices(-1e300..1e300f64),
            spans in choices((0..3_000_000_000u64).prop_map(Span::micros)),
            probabilities in choices((0.0..=1.0f64).prop_map(|value| Probability::new(value).unwrap())),
        ) {
            round_trip(numbers)?;
            round_trip(fractions)?;
            round_trip(spans)?;
            round_trip(probabilities)?;
        }

        #[test]
        fn draws_stay_in_bounds(
            seed: u64,
            fractions in choices(any::<f64>().prop_filter("finite", |f| f.is_finite())),
            spans in choices((0..u64::MAX / 4_000).prop_map(Span::micros)),
            numbers in choices(any::<u64>()),
        ) {
            let mut draw = Draw::new(seed, Concern::Shape, 0);
            for _ in 0..5 {
                let (low, high) = fractions.bounds();
                prop_assert!((*low..=*high).contains(&fractions.draw(&mut draw)));
                let (low, high) = spans.bounds();
                prop_assert!((*low..=*high).contains(&spans.draw(&mut draw)));
                let (low, high) = numbers.bounds();
                prop_assert!((*low..=*high).contains(&numbers.draw(&mut draw)));
            }
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9.=+eE smuh-]{0,12}") {
            let _ = read::<u32>(&format!("'{text}'"));
            let _ = read::<f64>(&format!("'{text}'"));
            let _ = read::<Span>(&format!("'{text}'"));
            let _ = read::<Probability>(&format!("'{text}'"));
        }
    }
}
