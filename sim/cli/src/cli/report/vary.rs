//! `--vary KEY=VALUES`: an axis of a report and the positions of its points.

use std::fmt;
use std::str::FromStr;

use ipam_reports::conflicts::{BY_KUBELETS, DECIDES_AGAIN, DECIDES_ONCE, IN_LOOPS, RESTARTED, System, TOGETHER};
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use sim_byom::workload::burst::{ADDRESSES_MAX, RetryName, Throttle};
use sim_config::time::Span;
use sim_harness::plan::CLIENTS_MAX;

/// An axis and its values, as they were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    text: String,
    /// The values of the axis, parsed as the key requires.
    pub values: Values,
}

/// The way in which pods make their first calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// As soon as their kubelets have created their sandboxes.
    Kubelets,
    /// All at the same instant, whatever their kubelets do.
    Together,
    /// Like `Together`, at agents that have just started: upstream's agents fill their caches within that call.
    Restarted,
    /// One after the other on each node; they are also released like this.
    Loops,
}

impl Start {
    const ALL: [Start; 4] = [Start::Kubelets, Start::Together, Start::Restarted, Start::Loops];

    /// The name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Start::Kubelets => BY_KUBELETS,
            Start::Together => TOGETHER,
            Start::Restarted => RESTARTED,
            Start::Loops => IN_LOOPS,
        }
    }

    fn read(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|start| start.name() == text);
        found.ok_or_else(|| format!("`{text}` is none of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

/// The faults that bursts meet, by the profile of a swarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultProfile {
    /// No faults, which swarms call calm.
    None,
    /// A few kinds of faults, each once or twice.
    Mixed,
    /// Many kinds of faults, each up to four times where the time is long enough.
    Hostile,
}

impl FaultProfile {
    const ALL: [FaultProfile; 3] = [FaultProfile::None, FaultProfile::Mixed, FaultProfile::Hostile];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FaultProfile::None => "none",
            FaultProfile::Mixed => "mixed",
            FaultProfile::Hostile => "hostile",
        }
    }

    fn read(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name).join(", ");
        match Self::ALL.into_iter().find(|profile| profile.name() == text) {
            Some(profile) => Ok(profile),
            None if text == "calm" => Err(format!("`calm` is no profile of faults; there are {known}: a calm run has no faults")),
            None => Err(format!("`{text}` is no profile of faults; there are {known}, and those of a scenario come with --faults FILE")),
        }
    }
}

/// The values of an axis, without duplicates.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// The number of adaptors of BYOM that share the pool, from 1 to [`CLIENTS_MAX`].
    Instances(Vec<u32>),
    /// The number of nodes, each with an agent of Spiderpool.
    Nodes(Vec<u32>),
    /// The number of pods that start on each node.
    Pods(Vec<u32>),
    /// The way in which pods start: as kubelets do it, all at once, at agents that have just started, or in loops.
    Start(Vec<Start>),
    /// The behaviour of agents: whether they behave like upstream's.
    Policy(Vec<bool>),
    /// The total number of addresses in the pool.
    Pool(Vec<u32>),
    /// The fraction of the pool that is taken at the beginning.
    Fill(Vec<f64>),
    /// The end of the interval, from the beginning, in which starts are uniformly distributed.
    Spread(Vec<Span>),
    /// The mean round trip of a read; that of a write is two and a half times as long (B §8.1).
    Latency(Vec<Span>),
    /// The time that an adaptor needs between an answer and its next request.
    Think(Vec<Span>),
    /// The retry policy of a write.
    Retry(Vec<RetryName>),
    /// The way in which a write is repeated after a conflict: whether it is decided only once.
    Update(Vec<bool>),
    /// The choice among free addresses: whether the first one is always taken.
    Selection(Vec<bool>),
    /// The client-side rate limit of an adaptor's requests.
    Throttle(Vec<Throttle>),
    /// The number of requests that an API server processes at a time; 0 = unlimited.
    Width(Vec<u32>),
    /// The time for which a read keeps a server busy; a write does so one and a half times as long.
    Service(Vec<Span>),
    /// The faults that bursts meet.
    Faults(Vec<FaultProfile>),
    /// A dotted key of a scenario file, and its values as in `--set`.
    Setting(Vec<String>),
}

const KEYS: &str = "instances, pool, fill, spread, latency, think, retry, update, selection, throttle, width, service, faults; for \
                    Spiderpool nodes, pods, pool, spread, latency, start, policy, width, service, faults; of a scenario its keys, e.g. \
                    workload.grace";

/// The maximum number of nodes, and of pods per node: a burst with more would take minutes.
const NODES_MAX: u32 = 256;

/// The maximum number of processors of a server: with more, no request ever waits.
const WIDTH_MAX: u32 = 1_000;

/// The maximum spread, think time and round trip: an operation gives up after 30 s.
const LONGEST: Span = Span::secs(10);

impl fmt::Display for Vary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or_else(|| "expected KEY=VALUES, e.g. instances=2..64".to_owned())?;
        let values = match key {
            "instances" => Values::Instances(whole(values, 1, CLIENTS_MAX)?),
            "nodes" => Values::Nodes(whole(values, 1, NODES_MAX)?),
            "pods" => Values::Pods(whole(values, 1, NODES_MAX)?),
            "policy" => Values::Policy(each(values, |text| either(text, "hardened", "upstream"))?),
            "start" => Values::Start(each(values, Start::read)?),
            "pool" => Values::Pool(whole(values, 1, ADDRESSES_MAX)?),
            "fill" => Values::Fill(each(values, share)?),
            "spread" => Values::Spread(each(values, |text| span(text, Span::micros(0)))?),
            "latency" => Values::Latency(each(values, |text| span(text, Span::micros(100)))?),
            "think" => Values::Think(each(values, |text| span(text, Span::micros(0)))?),
            "retry" => Values::Retry(each(values, |text| match named(text)? {
                RetryName::Own => Err(format!("`{text}` depends on the policy; name default-backoff, default-retry, twelve or patient")),
                name => Ok(name),
            })?),
            "update" => Values::Update(each(values, |text| either(text, DECIDES_AGAIN, DECIDES_ONCE))?),
            "selection" => Values::Selection(each(values, |text| either(text, "hash", "first"))?),
            "throttle" => Values::Throttle(each(values, named)?),
            "width" if values.contains("..") => Values::Width(whole(values, 1, WIDTH_MAX)?),
            "width" => Values::Width(each(values, |text| if text == "none" { Ok(0) } else { number(text, 1, WIDTH_MAX) })?),
            "service" => Values::Service(each(values, |text| span(text, Span::micros(10)))?),
            "faults" => Values::Faults(each(values, FaultProfile::read)?),
            key if key.contains('.') => Values::Setting(settings(values)?),
            other => return Err(format!("there is nothing called `{other}` to vary; there are {KEYS}")),
        };
        Ok(Self { text: text.to_owned(), values })
    }
}

impl Vary {
    /// Whether this axis can be varied for a system.
    pub fn is_for(&self, system: System) -> bool {
        if self.is_setting() {
            return false;
        }
        let shared = matches!(
            self.values,
            Values::Pool(_) | Values::Spread(_) | Values::Latency(_) | Values::Width(_) | Values::Service(_) | Values::Faults(_)
        );
        let of_agents = matches!(self.values, Values::Nodes(_) | Values::Pods(_) | Values::Start(_) | Values::Policy(_));
        shared || of_agents == (system == System::Spiderpool)
    }

    /// Whether the axis is a key of a scenario, which bursts do not have.
    pub fn is_setting(&self) -> bool {
        matches!(self.values, Values::Setting(_))
    }

    /// The name of the axis: the text before the first `=`, such as `instances` or `workload.grace`.
    pub fn key(&self) -> &str {
        self.text.split_once('=').map_or(&*self.text, |(key, _)| key)
    }
}

/// Parses values of a scenario key. Commas separate them, except in a list, table or string.
fn settings(list: &str) -> Result<Vec<String>, String> {
    let (mut values, mut begin, mut depth, mut quote) = (Vec::new(), 0, 0_u32, None);
    for (at, character) in list.char_indices() {
        match (quote, character) {
            (Some(mark), _) if mark == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                values.push(&list[begin..at]);
                begin = at + 1;
            }
            (None, _) => {}
        }
    }
    values.push(&list[begin..]);
    let values: Vec<String> = values.into_iter().map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return Err(format!("a value of `{list}` is empty; expected e.g. workload.grace=5,30"));
    }
    match values.iter().enumerate().find(|(number, value)| values[..*number].contains(value)) {
        Some((_, twice)) => Err(format!("`{twice}` stands there twice")),
        None => Ok(values),
    }
}

/// Parses a list of values with `read`, and refuses duplicates.
fn each<T: PartialEq>(list: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut values = Vec::new();
    for text in list.split(',') {
        let value = read(text.trim())?;
        if values.contains(&value) {
            return Err(format!("`{}` stands there twice", text.trim()));
        }
        values.push(value);
    }
    Ok(values)
}

fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("`{text}` is no whole number from {least} to {most}"))
}

/// Parses a list of whole numbers, or a range that doubles.
fn whole(list: &str, least: u32, most: u32) -> Result<Vec<u32>, String> {
    let one = |text: &str| number(text, least, most);
    let Some((low, high)) = list.split_once("..") else { return each(list, one) };
    let (low, high) = (one(low.trim())?, one(high.trim().trim_start_matches('='))?);
    if low > high {
        return Err(format!("the range `{list}` is reversed; write `{high}..{low}`"));
    }
    let mut values: Vec<u32> =
        std::iter::successors(Some(low), |number| number.checked_mul(2)).take_while(|number| *number < high).collect();
    values.push(high);
    Ok(values)
}

fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    number.ok().filter(|share| (0.0..1.0).contains(share)).ok_or_else(|| format!("`{text}` is no share from 0 to below 1"))
}

fn span(text: &str, least: Span) -> Result<Span, String> {
    let span: Span = if text == "0" { Span::micros(0) } else { text.parse()? };
    if (least.0..=LONGEST.0).contains(&span.0) { Ok(span) } else { Err(format!("`{text}` is no duration from {least} to {LONGEST}")) }
}

fn named<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(text).map_err(|error| error.to_string())
}

fn either(text: &str, no: &str, yes: &str) -> Result<bool, String> {
    match text {
        _ if text == no => Ok(false),
        _ if text == yes => Ok(true),
        _ => Err(format!("`{text}` is neither {no} nor {yes}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Values, String> {
        text.parse::<Vary>().map(|vary| vary.values)
    }

    #[test]
    fn a_range_doubles_and_ends_where_it_says() {
        assert_eq!(read("instances=2..64"), Ok(Values::Instances(vec![2, 4, 8, 16, 32, 64])));
        assert_eq!(read("instances=3..20"), Ok(Values::Instances(vec![3, 6, 12, 20])));
        assert_eq!(read("pool=5..5"), Ok(Values::Pool(vec![5])));
        assert_eq!(read("spread=0, 50ms,1s"), Ok(Values::Spread(vec![Span::micros(0), Span::millis(50), Span::secs(1)])));
        assert_eq!(read("fill=0,50%"), Ok(Values::Fill(vec![0.0, 0.5])));
        assert_eq!(read("width=none,1,2"), Ok(Values::Width(vec![0, 1, 2])));
        assert_eq!(read("width=1..4"), Ok(Values::Width(vec![1, 2, 4])));
        assert_eq!(read("service=500us"), Ok(Values::Service(vec![Span::micros(500)])));
        assert_eq!(read("update=decides-once"), Ok(Values::Update(vec![true])));
        assert_eq!(read("faults=none,hostile"), Ok(Values::Faults(vec![FaultProfile::None, FaultProfile::Hostile])));
        let settings = |all: &[&str]| Ok(Values::Setting(all.iter().map(|one| (*one).to_owned()).collect()));
        assert_eq!(read("workload.grace=5, 5..30"), settings(&["5", "5..30"]));
        assert_eq!(
            read("workload.kinds=[\"pod\", \"job\"],\"pod,x\",{ a = 1, b = 2 }"),
            settings(&["[\"pod\", \"job\"]", "\"pod,x\"", "{ a = 1, b = 2 }"])
        );
        assert_eq!(read("retry=twelve,patient"), Ok(Values::Retry(vec![RetryName::Twelve, RetryName::Patient])));
    }

    #[test]
    fn what_cannot_be_varied_gets_one_sentence() {
        for (text, expected) in [
            ("instances", "expected KEY=VALUES, e.g. instances=2..64"),
            ("speed=1", "there is nothing called `speed` to vary; there are instances, pool,"),
            ("workload.grace=5,", "a value of `5,` is empty"),
            ("workload.grace=5,5", "`5` stands there twice"),
            ("instances=64..2", "the range `64..2` is reversed; write `2..64`"),
            ("instances=0..8", "`0` is no whole number from 1 to 10000"),
            ("instances=2,2", "`2` stands there twice"),
            ("instances=", "`` is no whole number"),
            ("pool=200000", "`200000` is no whole number from 1 to 131072"),
            ("fill=1", "`1` is no share from 0 to below 1"),
            ("spread=fast", "`fast` is not a duration"),
            ("spread=1h", "`1h` is no duration from 0s to 10s"),
            ("latency=0", "`0` is no duration from 100us to 10s"),
            ("width=0", "`0` is no whole number from 1 to 1000"),
            ("service=0", "`0` is no duration from 10us to 10s"),
            ("retry=never", "unknown variant `never`"),
            ("retry=own", "depends on the policy"),
            ("start=later", "`later` is none of kubelets, together, restarted, loops"),
            ("faults=stormy", "no profile of faults; there are none, mixed, hostile, and those of a scenario come with --faults FILE"),
            ("faults=calm", "`calm` is no profile of faults; there are none, mixed, hostile: a calm run has no faults"),
            ("faults=mixed,mixed", "`mixed` stands there twice"),
            ("update=twice", "`twice` is neither decides-again nor decides-once"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
