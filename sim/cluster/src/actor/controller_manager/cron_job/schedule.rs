//! The times at which a CronJob is due.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// The interval of a schedule such as `@every 1h30m`; `None` = it has another form, or is zero.
pub(super) fn every(schedule: &str) -> Option<Duration> {
    let mut rest = schedule.strip_prefix("@every")?.trim();
    let mut seconds: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = rest.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let worth = match unit.as_bytes().first()? {
            b'h' => 3_600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(worth)?)?;
        rest = &unit[1..];
    }
    (seconds > 0 && seconds <= u64::from(u32::MAX)).then(|| Duration::from_secs(seconds))
}

/// The latest time that is due since the last one was served, if any, and the time left until the next.
pub(super) fn due(every: Duration, last: Timestamp, now: Timestamp) -> (Option<Timestamp>, Duration) {
    let step = every.as_micros() as i64;
    let passed = (now.as_microsecond() - last.as_microsecond()).max(0);
    let latest = last + SignedDuration::from_micros(passed / step * step);
    let next = Duration::from_micros((step - passed % step) as u64);
    ((passed >= step).then_some(latest), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_written_as_go_writes_durations() {
        for (text, seconds) in [("@every 90s", 90), ("@every 1h30m", 5_400), ("@every 2m5s", 125)] {
            assert_eq!(every(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["* * * * *", "@hourly", "@every", "@every 0s", "@every 5", "@every 5x", "@every s", "@every 99999999999999999999h"] {
            assert_eq!(every(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_missed_is_made_up_for_once() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let (every, second) = (Duration::from_secs(30), Duration::from_secs(1));
        assert_eq!(due(every, at(100), at(99)), (None, every));
        assert_eq!(due(every, at(100), at(129)), (None, second));
        assert_eq!(due(every, at(100), at(130)), (Some(at(130)), every));
        assert_eq!(due(every, at(100), at(205)), (Some(at(190)), 15 * second));
    }
}
