//! Times of a trace: all in seconds from its start, or all as dates of RFC 3339.

use jiff::Timestamp;

/// A description of valid times.
pub(super) const RIGHT: &str = "seconds from the start of the trace, a date such as 2026-01-15T12:00:00Z, or nothing";

/// The form of the times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Seconds,
    Dates,
}

impl Form {
    fn told(self) -> &'static str {
        match self {
            Form::Seconds => "seconds",
            Form::Dates => "dates",
        }
    }
}

/// A reader for the times of a file, which must all have the form of the first.
#[derive(Default)]
pub(super) struct Times {
    /// The form of the first time, and its line.
    known: Option<(Form, u64)>,
}

/// The problem with a time, and a description of valid ones.
pub(super) type InvalidTime = (String, String);

impl Times {
    /// Reads a time in seconds: from the start of the trace, or since 1970.
    pub(super) fn read(&mut self, text: &str, line: u64) -> Result<f64, InvalidTime> {
        let (form, seconds) = if is_date(text) { (Form::Dates, date(text)?) } else { (Form::Seconds, number(text)?) };
        match *self.known.get_or_insert((form, line)) {
            (known, _) if known == form => Ok(seconds),
            (known, first) => Err((
                format!("`{text}` is in {}, and the time in line {first} in {}", form.told(), known.told()),
                format!("{} throughout, as nothing says where the one lies in the other", known.told()),
            )),
        }
    }

    /// Whether the times are dates.
    pub(super) fn are_dates(&self) -> bool {
        matches!(self.known, Some((Form::Dates, _)))
    }
}

/// Whether a text is meant as a date: four digits and a dash.
fn is_date(text: &str) -> bool {
    text.len() > 4 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit) && text.as_bytes()[4] == b'-'
}

fn number(text: &str) -> Result<f64, InvalidTime> {
    let number = text.parse::<f64>().ok().filter(|time| time.is_finite() && *time >= 0.0);
    number.ok_or_else(|| (format!("`{text}` is no time"), RIGHT.to_owned()))
}

fn date(text: &str) -> Result<f64, InvalidTime> {
    let wrong = |why: &str| {
        (format!("`{text}` is no date: {why}"), "RFC 3339, such as 2026-01-15T12:00:00Z or 2026-01-15T13:00:00.5+01:00".to_owned())
    };
    let time = text.get(10..).filter(|time| time.starts_with(['T', 't', ' '])).ok_or_else(|| wrong("it has no time of day"))?;
    if !time.ends_with(['Z', 'z']) && !time.contains(['+', '-']) {
        return Err(wrong("it has no offset from UTC"));
    }
    let read: Timestamp = text.parse().map_err(|_| wrong("there is no such day or time"))?;
    Ok(read.as_microsecond() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_to_the_microsecond() {
        let read = |text| Times::default().read(text, 1).unwrap();
        assert_eq!((read("0"), read("6.5"), read("1767225600")), (0.0, 6.5, 1_767_225_600.0));
        assert_eq!(read("2026-01-01T00:00:00Z"), 1_767_225_600.0);
        assert_eq!(read("2026-01-01T01:00:00.000001+01:00"), 1_767_225_600.000_001);
        assert_eq!(read("2026-01-01 00:00:00z"), 1_767_225_600.0);
    }

    #[test]
    fn what_is_no_time_gets_one_sentence() {
        for (text, expected) in [
            ("soon", "`soon` is no time"),
            ("-5", "`-5` is no time"),
            ("inf", "`inf` is no time"),
            ("2026-01-15", "it has no time of day"),
            ("2026-01-15T12:00:00", "it has no offset from UTC"),
            ("2026-02-30T12:00:00Z", "there is no such day or time"),
            ("2026-01-15T25:00:00Z", "there is no such day or time"),
            ("2026-é", "it has no time of day"),
        ] {
            let (wrong, _) = Times::default().read(text, 1).unwrap_err();
            assert!(wrong.contains(expected), "{wrong}");
        }
    }

    #[test]
    fn a_file_has_one_form() {
        let mut times = Times::default();
        assert!(times.read("2026-01-15T12:00:00Z", 2).is_ok() && times.are_dates());
        let (wrong, right) = times.read("60", 3).unwrap_err();
        assert_eq!(wrong, "`60` is in seconds, and the time in line 2 in dates");
        assert!(right.starts_with("dates throughout"), "{right}");
    }
}
