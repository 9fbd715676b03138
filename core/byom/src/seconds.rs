//! Points in time as stored in the document: apimachinery's `metav1.Time`.

use std::fmt::{self, Write};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use kube_machinery::json_text::InvalidText;

/// A point in time in whole seconds, or Go's zero time, which is written as `null` (B §1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(Option<i64>);

/// 0001-01-01T00:00:00Z, the zero time of Go.
const GO_ZERO: i64 = -62_135_596_800;
/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z: the range of RFC 3339.
const RANGE: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;
/// The end of jiff's range, a little before that of [`RANGE`].
const LAST: i64 = 253_402_207_200;

impl Seconds {
    /// Go's zero time, which is written as `null` and precedes every other time.
    pub const ZERO: Self = Self(None);

    /// `time`, without its fraction of a second.
    pub fn new(time: Timestamp) -> Self {
        let whole = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
        Self((whole != GO_ZERO).then_some(whole.clamp(*RANGE.start(), LAST)))
    }

    /// The time; `None` = Go's zero time.
    pub fn timestamp(self) -> Option<Timestamp> {
        self.0.map(|second| Timestamp::from_second(second).expect("only made from times in range"))
    }

    /// Reads RFC 3339 as Go's `time.Parse` does: a comma may start the fraction, `T` and `Z` are upper case.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidText> {
        let wrong = || InvalidText::new(format_args!("`{text}` is no RFC 3339 time"));
        let shape = |text: &str, shape: &str| {
            text.len() == shape.len()
                && text.bytes().zip(shape.bytes()).all(|(byte, s)| if s == b'0' { byte.is_ascii_digit() } else { byte == s })
        };
        let civil = text.get(..19).filter(|civil| shape(civil, "0000-00-00T00:00:00")).ok_or_else(wrong)?;
        let mut rest = &text[19..];
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if rest.len() == fraction.len() {
                return Err(wrong());
            }
        }
        let number = |range: std::ops::Range<usize>| rest[range].parse::<i64>().expect("two digits");
        let east = match rest.as_bytes().first() {
            Some(b'Z') if rest.len() == 1 => 0,
            Some(sign @ (b'+' | b'-')) if shape(&rest[1..], "00:00") && number(1..3) < 24 && number(4..6) < 60 => {
                let seconds = number(1..3) * 3600 + number(4..6) * 60;
                if *sign == b'+' { seconds } else { -seconds }
            }
            _ => return Err(wrong()),
        };
        // jiff accepts a leap second, which Go does not.
        let local: DateTime = civil.parse().ok().filter(|_| &civil[17..] != "60").ok_or_else(wrong)?;
        let local = Offset::UTC.to_timestamp(local).map_err(|_| wrong())?.as_second();
        let second = local - east;
        if !RANGE.contains(&second) || second > LAST {
            return Err(wrong());
        }
        Ok(Self((second != GO_ZERO).then_some(second)))
    }

    /// Writes the time as JSON.
    pub(super) fn write_json(self, out: &mut impl Write) -> fmt::Result {
        let Some(time) = self.timestamp() else { return out.write_str("null") };
        let at = Offset::UTC.to_datetime(time);
        // Written by hand: every record that is made or removed is measured, and formatting would be most of the cost.
        let mut text = *b"\"0000-00-00T00:00:00Z\"";
        let year = at.year().unsigned_abs();
        let mut put = |place: usize, number: u8| {
            text[place] += number / 10;
            text[place + 1] += number % 10;
        };
        put(1, (year / 100) as u8);
        put(3, (year % 100) as u8);
        for (place, number) in [(6, at.month()), (9, at.day()), (12, at.hour()), (15, at.minute()), (18, at.second())] {
            put(place, number.unsigned_abs());
        }
        out.write_str(std::str::from_utf8(&text).expect("digits are ASCII"))
    }
}

impl From<Timestamp> for Seconds {
    fn from(time: Timestamp) -> Self {
        Self::new(time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(time: Seconds) -> String {
        let mut out = String::new();
        time.write_json(&mut out).unwrap();
        out
    }

    fn read(text: &str) -> Option<String> {
        Seconds::parse(text).ok().map(json)
    }

    #[test]
    fn times_are_written_in_utc_and_whole_seconds() {
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", "\"2026-01-02T03:04:05Z\""),
            ("2026-01-02T03:04:05.999999999Z", "\"2026-01-02T03:04:05Z\""),
            ("2026-01-02T03:04:05,5Z", "\"2026-01-02T03:04:05Z\""),
            ("2026-01-02T03:04:05+02:30", "\"2026-01-02T00:34:05Z\""),
            ("1969-12-31T23:59:59.5Z", "\"1969-12-31T23:59:59Z\""),
            ("0001-01-01T00:00:00Z", "null"),
            ("0000-01-01T00:00:00Z", "\"0000-01-01T00:00:00Z\""),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(json(Seconds::ZERO), "null");
    }

    #[test]
    fn what_is_no_rfc_3339_is_refused() {
        for text in [
            "",
            "null",
            "2026-01-02",
            "2026-01-02T03:04Z",
            "2026-01-02 03:04:05Z",
            "2026-01-02t03:04:05z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:60Z",
            "2026-02-30T03:04:05Z",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05+0100",
            "0000-01-01T00:00:00+01:00",
            "2026-01-02T03:04:0äZ",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(second in *RANGE.start()..LAST, nanosecond in 0i32..1_000_000_000) {
            let time = Seconds::new(Timestamp::new(second, 0).unwrap() + jiff::SignedDuration::from_nanos(nanosecond.into()));
            prop_assert_eq!(time.0, (second != GO_ZERO).then_some(second));
            if time != Seconds::ZERO {
                prop_assert_eq!(Seconds::parse(json(time).trim_matches('"')), Ok(time));
            }
        }
    }
}
