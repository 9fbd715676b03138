//! Keys during deserialization.

use serde::de::{self, Visitor};

use super::{Context, Error};

/// Keys of tables are texts; where a type expects a number, the key is parsed as one, as JSON has no other keys.
macro_rules! number_key {
    ($($deserialize:ident $visit:ident $number:ty),* $(,)?) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.text.parse::<$number>() {
                Ok(number) => visitor.$visit(number).map_err(|error| self.context.note(error)),
                Err(_) => self.deserialize_any(visitor),
            }
        }
    )*};
}

/// The key of a table, or a name that chooses a variant, during deserialization.
pub(super) struct Key<'c, 'de> {
    pub(super) text: &'de str,
    pub(super) context: &'c Context,
}

impl<'de> de::Deserializer<'de> for Key<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match visitor.visit_borrowed_str(self.text) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.context.note(error)),
        }
    }

    number_key! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64,
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
    }

    serde::forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::toml;

    #[test]
    fn a_key_may_be_a_number_and_is_refused_where_it_is_none() {
        let read = |text| toml::from_str::<BTreeMap<String, BTreeMap<u32, String>>>("x.toml", text);
        assert_eq!(read("a = { 7 = 'b' }").unwrap()["a"][&7], "b");
        for text in ["a = { x = 'b' }", "a = { -7 = 'b' }"] {
            assert!(read(text).unwrap_err().to_string().contains("x.toml:1:7"), "{text}");
        }
    }
}
