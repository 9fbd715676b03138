//! `--vary KEY=VALUES`: an axis of a report and where its points are.

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
    /// What the axis goes through, read as the key asks for.
    pub values: Values,
}

/// How pods come to their first calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// When their kubelets have made their sandboxes.
    Kubelets,
    /// All at the same instant, whatever their kubelets do.
    Together,
    /// The same, at agents that have just started: upstream's fill their caches within that call.
    Restarted,
    /// One after the other on each node; they are released like this, too.
    Loops,
}

impl Start {
    const ALL: [Start; 4] = [Start::Kubelets, Start::Together, Start::Restarted, Start::Loops];

    /// As a table has it.
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

/// Which faults bursts meet, by the profile of a swarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultProfile {
    /// None, which swarms call calm.
    None,
    /// A few kinds of faults, each once or twice.
    Mixed,
    /// Many kinds of faults, each up to four times where the time is long enough.
    Hostile,
}

impl FaultProfile {
    const ALL: [FaultProfile; 3] = [FaultProfile::None, FaultProfile::Mixed, FaultProfile::Hostile];

    /// As a command line has it.
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

/// The values of an axis, none of them twice.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// How many adaptors of BYOM share the pool, from 1 to [`CLIENTS_MAX`].
    Instances(Vec<u32>),
    /// How many nodes, each with an agent of Spiderpool.
    Nodes(Vec<u32>),
    /// How many pods start on each node.
    Pods(Vec<u32>),
    /// How pods start: as kubelets have it, all at once, at agents that have just started, or in loops.
    Start(Vec<Start>),
    /// How agents behave: whether as upstream's do.
    Policy(Vec<bool>),
    /// How many addresses the pool has in total.
    Pool(Vec<u32>),
    /// The share of the pool that is taken at the beginning.
    Fill(Vec<f64>),
    /// Starts are uniform between the beginning and this.
    Spread(Vec<Span>),
    /// The mean round trip of a read; that of a write is two and a half times as long (B §8.1).
    Latency(Vec<Span>),
    /// What an adaptor needs between an answer and its next request.
    Think(Vec<Span>),
    /// How a write is tried again.
    Retry(Vec<RetryName>),
    /// What is written after a conflict, and how: whether it is decided once.
    Update(Vec<bool>),
    /// Which free address is taken: whether it is always the first.
    Selection(Vec<bool>),
    /// How many requests an adaptor may make.
    Throttle(Vec<Throttle>),
    /// How many requests an API server works on at a time; 0 = everything at once.
    Width(Vec<u32>),
    /// For how long a read keeps a server busy; a write does so one and a half times as long.
    Service(Vec<Span>),
    /// Which faults bursts meet.
    Faults(Vec<FaultProfile>),
    /// A key of a scenario file, dotted, and its values as `--set` has them.
    Setting(Vec<String>),
}

const KEYS: &str = "instances, pool, fill, spread, latency, think, retry, update, selection, throttle, width, service, faults; for \
                    Spiderpool nodes, pods, pool, spread, latency, start, policy, width, service, faults; of a scenario its keys, e.g. \
                    workload.grace";

/// The most nodes and the most pods of a node: more would take minutes a burst.
const NODES_MAX: u32 = 256;

/// The most processors of a server: more never let anybody wait.
const WIDTH_MAX: u32 = 1_000;

/// The longest spread, think time or round trip: an operation gives up after 30 s.
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
    /// Whether this can be varied for a system.
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

    /// Whether it is a key of a scenario, and so nothing that bursts have.
    pub fn is_setting(&self) -> bool {
        matches!(self.values, Values::Setting(_))
    }

    /// What is varied: all before the first `=`, such as `instances` or `workload.grace`.
    pub fn key(&self) -> &str {
        self.text.split_once('=').map_or(&*self.text, |(key, _)| key)
    }
}

/// Values of a key of a scenario, between commas that stand in no list, table or string of one.
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

/// The values of a list, each of which `read` understands and none of which stands there twice.
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

/// A list of whole numbers, or a range that doubles.
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
