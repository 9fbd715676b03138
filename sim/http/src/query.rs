//! The parameters of a request (K §2.1 to §2.10).

use std::time::Duration;

use kube_machinery::Status;
use kube_machinery::api::{Cause, Dry, ListOptions, Reason, VersionMatch, WatchOptions};

/// The parameters of a URL, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// The treatment of fields that a type does not know, and of duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

type Answer<T> = Result<T, Box<Status>>;

fn bad(text: impl Into<String>) -> Box<Status> {
    Box::new(Status::new(Reason::BadRequest, text.into()))
}

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        Self(form_urlencoded::parse(text.unwrap_or("").as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// A flag: true for any value but an absent one, `0` and `false`.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "0") && !value.eq_ignore_ascii_case("false"))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Answer<Option<T>> {
        match self.get(name).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| bad(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
        }
    }

    /// Whether a watch is to begin without the present state.
    pub(crate) fn refuses_initial_events(&self) -> bool {
        self.get("sendInitialEvents").is_some()
            && !self.is("sendInitialEvents")
            && matches!(self.get("resourceVersion"), None | Some("" | "0"))
    }

    /// Whether the caller asks for a watch.
    pub(crate) fn watches(&self) -> bool {
        self.is("watch")
    }

    /// The parameter, if it has a value.
    fn given(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// The meaning of the version. Contradictions are refused, all of them at once (K032, K056).
    fn version_match(&self, watch: bool) -> Answer<Option<VersionMatch>> {
        let (given, version) = (self.given("resourceVersionMatch"), self.given("resourceVersion"));
        let mut causes = Vec::new();
        let mut refuse = |reason, field, message: String| causes.push(Cause { reason, message: message.into(), field });
        let forbidden = |text: &str| format!("Forbidden: {text}");
        let (forbidden_value, unsupported_value) = ("FieldValueForbidden", "FieldValueNotSupported");
        let matching = "resourceVersionMatch";
        if watch {
            let initial = self.get("sendInitialEvents").is_some();
            match given {
                Some(_) if !initial => {
                    let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                    refuse(forbidden_value.into(), matching.into(), forbidden(text));
                }
                Some("NotOlderThan") => {}
                _ if initial => {
                    let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                    refuse(forbidden_value.into(), matching.into(), forbidden(text));
                }
                _ => {}
            }
            if let Some(other) = given.filter(|given| initial && *given != "NotOlderThan") {
                refuse(
                    unsupported_value.into(),
                    matching.into(),
                    format!("Unsupported value: {other:?}: supported values: \"NotOlderThan\""),
                );
            }
            if self.given("continue").is_some() {
                refuse(forbidden_value.into(), matching.into(), forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
        } else {
            if let Some(given) = given {
                if version.is_none() {
                    let text = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                    refuse(forbidden_value.into(), matching.into(), forbidden(text));
                }
                if self.given("continue").is_some() {
                    refuse(
                        forbidden_value.into(),
                        matching.into(),
                        forbidden("resourceVersionMatch is forbidden when continue is provided"),
                    );
                }
                if !matches!(given, "Exact" | "NotOlderThan") {
                    let text = format!("Unsupported value: {given:?}: supported values: \"Exact\", \"NotOlderThan\", \"\"");
                    refuse(unsupported_value.into(), matching.into(), text);
                }
                if given == "Exact" && version == Some("0") {
                    let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                    refuse(forbidden_value.into(), matching.into(), forbidden(text));
                }
            }
            if self.get("sendInitialEvents").is_some() {
                refuse(forbidden_value.into(), "sendInitialEvents".into(), forbidden("sendInitialEvents is forbidden for list"));
            }
        }
        if !causes.is_empty() {
            return Err(invalid_options("ListOptions", causes));
        }
        Ok(match given {
            Some("Exact") => Some(VersionMatch::Exact),
            Some(_) => Some(VersionMatch::NotOlderThan),
            None => None,
        })
    }

    pub(crate) fn list(&self) -> Answer<ListOptions> {
        let limit: Option<i64> = self.number("limit")?;
        Ok(ListOptions {
            resource_version: self.owned("resourceVersion"),
            resource_version_match: self.version_match(false)?,
            limit: limit.unwrap_or(0).clamp(0, i64::from(u32::MAX)) as u32,
            continue_token: self.owned("continue"),
            label_selector: self.owned("labelSelector"),
            field_selector: self.owned("fieldSelector"),
        })
    }

    pub(crate) fn watch(&self) -> Answer<WatchOptions> {
        let timeout: Option<i64> = self.number("timeoutSeconds")?;
        Ok(WatchOptions {
            resource_version: self.owned("resourceVersion"),
            // Without effect if sendInitialEvents=false.
            resource_version_match: self.version_match(true)?.filter(|_| self.is("sendInitialEvents")),
            label_selector: self.owned("labelSelector"),
            field_selector: self.owned("fieldSelector"),
            allow_bookmarks: self.is("allowWatchBookmarks"),
            timeout_seconds: timeout.filter(|seconds| *seconds > 0).map(|seconds| seconds.min(i64::from(u32::MAX)) as u32),
            send_initial_events: self.is("sendInitialEvents"),
        })
    }

    /// `dryRun`, for the options called `options`.
    pub(crate) fn dry(&self, options: &'static str) -> Answer<Dry> {
        let given: Vec<&str> = self.0.iter().filter(|(name, _)| name == "dryRun").map(|(_, value)| value.as_str()).collect();
        match given.as_slice() {
            [] => Ok(Dry::No),
            all if all.iter().all(|one| *one == "All") => Ok(Dry::Run),
            other => Err(not_supported(options, "dryRun", &serde_json::json!(other).to_string(), "\"All\"")),
        }
    }

    /// `fieldValidation`, for the options called `options`.
    pub(crate) fn field_validation(&self, options: &'static str) -> Answer<FieldValidation> {
        match self.get("fieldValidation") {
            None | Some("" | "Warn") => Ok(FieldValidation::Warn),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some(other) => Err(not_supported(options, "fieldValidation", &format!("{other:?}"), "\"\", \"Ignore\", \"Strict\", \"Warn\"")),
        }
    }

    /// `timeout`, as Go writes durations.
    pub(crate) fn timeout(&self) -> Answer<Option<Duration>> {
        match self.get("timeout").filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => duration(text)
                .map(Some)
                .ok_or_else(|| bad(format!("invalid timeout specified in the request URL - time: invalid duration {text:?}"))),
        }
    }

    pub(crate) fn grace(&self) -> Answer<Option<i64>> {
        self.number("gracePeriodSeconds")
    }
}

/// 422 for options of a request that contradict each other or have unknown values.
pub(crate) fn invalid_options(options: &'static str, causes: Vec<Cause>) -> Box<Status> {
    let mut status = Status::new(Reason::Invalid, "");
    status.details.kind = options.into();
    status.details.group = "meta.k8s.io".into();
    status.details.causes = causes;
    Box::new(status)
}

/// 422 for an unsupported value of a parameter, in the form in which it is shown.
pub(crate) fn not_supported(options: &'static str, field: &'static str, value: &str, supported: &str) -> Box<Status> {
    let message = format!("Unsupported value: {value}: supported values: {supported}");
    invalid_options(options, vec![Cause { reason: "FieldValueNotSupported".into(), message: message.into(), field: field.into() }])
}

/// Go's form of a duration: `1h30m`, `1.5s`, `10ms`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number * seconds;
        rest = &rest[unit..];
    }
    (!text.is_empty()).then(|| Duration::from_secs_f64(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in
            [("1s", Some(1000)), ("1h30m", Some(5_400_000)), ("1.5s", Some(1500)), ("10ms", Some(10)), ("x", None), ("1", None), ("", None)]
        {
            assert_eq!(duration(text).map(|duration| duration.as_millis()), expected, "{text}");
        }
    }

    #[test]
    fn a_limit_that_is_no_number_is_told_as_go_does() {
        let query = Query::parse(Some("limit=x&labelSelector=a%3Db"));
        assert_eq!(query.list().unwrap_err().message(), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(Query::parse(Some("labelSelector=a%3Db")).list().unwrap().label_selector.as_deref(), Some("a=b"));
    }
}
