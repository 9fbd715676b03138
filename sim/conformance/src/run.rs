//! Runs the cases of a kit.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};

use crate::answer::{contains, recorded};
use crate::case::Need;
use crate::json::{Json, Map};
use crate::kit::Kit;
use crate::normal::{Normaliser, StepResult, vary};
use crate::pick::picked;
use crate::record::{Outcome, Record};
use crate::request::Sent;
use crate::server::{Answer, RequestError, Server};
use crate::shared::crd_name;
use crate::step::{Compact, Poll, Request, Step, Watch};
use crate::values::{ValueError, Values};
use crate::watch::Open;

/// The time limits of an answer and of a case.
const REQUEST_MAX: Duration = Duration::from_secs(45);
const CASE_MAX: Duration = Duration::from_secs(75);
/// The interval between two requests of a poll.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// The time limit until a new type is served, and the interval between looks.
const SERVED_MAX: Duration = Duration::from_secs(30);
const SERVED_EVERY: Duration = Duration::from_millis(200);

/// The options of a run against a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The features of the server; cases that need others are left out.
    pub has: BTreeSet<Need>,
    /// Whether `metadata.managedFields` is recorded in every case.
    pub managed_fields: bool,
    /// Four lower-case letters or digits in all names: with other ones, a server can be recorded again.
    pub run_id: String,
}

/// Runs the cases of a kit, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'a> {
    kit: &'a Kit,
    options: &'a Options,
}

impl<'a> Runner<'a> {
    /// A runner of these cases.
    pub fn new(kit: &'a Kit, options: &'a Options) -> Self {
        Self { kit, options }
    }

    /// Creates the kit's custom resource definitions on a server, once before its first case, and waits until lists of them are answered.
    /// Returns the failures, a sentence each.
    pub async fn set_up(&self, server: &impl Server) -> Vec<String> {
        let mut wrong = Vec::new();
        let values = Values::new(&self.kit.shared, [("ns", "default".into())]);
        for crd in &self.kit.shared.crds {
            let (plural, group) = crd_name(crd).expect("checked when the kit was read");
            let body = match values.expand(crd) {
                Ok(body) => body,
                Err(error) => {
                    wrong.push(format!("the definition of {plural} cannot be made: {error}"));
                    continue;
                }
            };
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
            match send(server, Sent::plain("POST", path, Some(&body))).await {
                // It may exist from an earlier run.
                Ok(Answer { status: 201 | 409, .. }) => {}
                Ok(answer) => {
                    let body: String = String::from_utf8_lossy(&answer.body).chars().take(300).collect();
                    wrong.push(format!("the definition of {plural} was refused: {} {body}", answer.status));
                }
                Err(error) => wrong.push(format!("the definition of {plural} was not answered: {}", name_of(error))),
            }
            let until = server.elapsed() + SERVED_MAX;
            let served = loop {
                let target = format!("/apis/{group}/v1/{plural}?resourceVersion=0&limit=1");
                match send(server, Sent::plain("GET", target, None)).await {
                    Ok(Answer { status: 200, .. }) => break true,
                    _ if server.elapsed() >= until => break false,
                    _ => server.sleep(SERVED_EVERY).await,
                }
            };
            if !served {
                wrong.push(format!("{plural} is not served after {} s", SERVED_MAX.as_secs()));
            }
        }
        wrong
    }

    /// Runs all cases on one server that [`Runner::set_up`] has prepared. Cases that compact the history come last, since the others need
    /// it. The records are in the order of the cases.
    pub async fn run(&self, server: &impl Server) -> Vec<Record> {
        let (last, first): (Vec<usize>, Vec<usize>) =
            (0..self.kit.cases.len()).partition(|index| self.kit.cases[*index].needs.contains(&Need::Etcd));
        let mut records = BTreeMap::new();
        for index in first.into_iter().chain(last) {
            records.insert(index, self.run_case(server, index).await);
        }
        records.into_values().collect()
    }

    /// Runs the case with this index on a server that [`Runner::set_up`] has prepared.
    pub async fn run_case(&self, server: &impl Server, index: usize) -> Record {
        let case = &self.kit.cases[index];
        let lacking: Vec<String> = case.needs.iter().filter(|need| !self.options.has.contains(need)).map(Need::to_string).collect();
        let record = |outcome| Record { id: case.id.clone(), theme: case.theme.clone(), outcome, suspect: Vec::new() };
        if !lacking.is_empty() {
            return record(Outcome::Skipped(format!("needs {}", lacking.join(", "))));
        }
        // A letter first, and always the same length.
        let prefix = format!("c{index:03}{}", self.options.run_id);
        let ns = format!("{prefix}-ns");
        let mut run = CaseRun {
            server,
            values: Values::new(&self.kit.shared, [("ns", ns.as_str().into()), ("prefix", prefix.as_str().into())]),
            watches: BTreeMap::new(),
            asked: BTreeSet::new(),
            results: Vec::new(),
            suspect: Vec::new(),
        };
        let until = server.elapsed() + CASE_MAX;
        if case.namespace {
            run.make_namespace(&ns).await;
        }
        let started = server.elapsed();
        for step in &case.steps {
            let record = if server.elapsed() > until { error("the case ran out of time") } else { run.step(step).await };
            let exact = if let Step::Request(request) = step { request.exact } else { None };
            run.results.push(StepResult { record, exact, at: server.elapsed() - started });
        }
        let managed_fields = case.managed_fields || self.options.managed_fields;
        let mut steps = Normaliser::new(&case.source, &prefix, &ns, managed_fields).steps(&run.results);
        for (step, path) in &case.vary {
            vary(&mut steps[step - 1], path);
        }
        Record { suspect: run.suspect, ..record(Outcome::Steps(steps)) }
    }
}

/// A case in progress.
struct CaseRun<'a, S: Server> {
    server: &'a S,
    values: Values<'a>,
    watches: BTreeMap<String, Open<S::Stream>>,
    /// Watches that asked for bookmarks.
    asked: BTreeSet<String>,
    results: Vec<StepResult>,
    suspect: Vec<String>,
}

/// The reason why a step has no answer.
enum Failure {
    Request(RequestError),
    Value(ValueError),
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<ValueError> for Failure {
    fn from(error: ValueError) -> Self {
        Self::Value(error)
    }
}

impl<S: Server> CaseRun<'_, S> {
    async fn make_namespace(&mut self, ns: &str) {
        let object = |kind: &str, metadata: &[(&str, &str)]| {
            let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            let members = [("apiVersion", "v1".into()), ("kind", kind.into()), ("metadata", metadata)];
            members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect::<Json>()
        };
        let namespace = object("Namespace", &[("name", ns)]);
        match send(self.server, Sent::plain("POST", "/api/v1/namespaces".to_owned(), Some(&namespace))).await {
            Ok(Answer { status: 201, .. }) => {}
            Ok(answer) => self.suspect.push(format!("namespace: {}", answer.status)),
            Err(error) => self.suspect.push(format!("namespace: {}", name_of(error))),
        }
        // Pods need it if the ServiceAccount plugin is on; a server without the type refuses it, and its pods do not need it.
        let account = object("ServiceAccount", &[("name", "default"), ("namespace", ns)]);
        let _ = send(self.server, Sent::plain("POST", format!("/api/v1/namespaces/{ns}/serviceaccounts"), Some(&account))).await;
    }

    async fn step(&mut self, step: &Step) -> Map {
        let result = match step {
            Step::Request(request) => self.request(request).await,
            Step::Watch(watch) => self.watch(watch).await,
            Step::Collect(collect) => match self.watches.get_mut(&collect.name) {
                Some(open) => {
                    let result = open.collect(self.server, collect).await;
                    if let Some(name) = &collect.capture {
                        self.values.set(name, result["events"].clone());
                    }
                    Ok(result)
                }
                None => Ok(error("the watch is not open")),
            },
            Step::Close(name) => Ok(match self.watches.remove(name) {
                Some(_) => done("closed"),
                None => error("the watch is not open"),
            }),
            Step::Parallel(requests) => self.parallel(requests).await,
            Step::Poll(poll) => self.poll(poll).await,
            Step::Sleep(duration) => {
                self.server.sleep(*duration).await;
                Ok(done("slept"))
            }
            Step::Compact(compact) => self.compact(compact).await,
        };
        result.unwrap_or_else(|failure| match failure {
            Failure::Request(why) => error(name_of(why)),
            Failure::Value(why) => error(&why.to_string()),
        })
    }

    async fn request(&mut self, request: &Request) -> Result<Map, Failure> {
        let sent = Sent::new(&self.values, request)?;
        let is_version = sent.target.split('?').next() == Some("/version");
        let answer = send(self.server, sent).await?;
        let mut result = recorded(&answer, request.pick.is_some());
        if let Some(name) = &request.capture {
            self.values.set(name, result.get("body").cloned().unwrap_or(Json::Null));
            if !(200..300).contains(&answer.status) && !request.any_status {
                self.suspect.push(format!("step {}: {}", self.results.len() + 1, answer.status));
            }
        }
        pick(&mut result, request.pick.as_deref());
        if is_version
            && answer.status == 200
            && let Some(Json::Object(members)) = result.get_mut("body")
        {
            members.values_mut().for_each(|value| *value = "<version>".into());
        }
        Ok(result)
    }

    async fn watch(&mut self, watch: &Watch) -> Result<Map, Failure> {
        let sent = Sent::watch(&self.values, watch)?;
        let answer = self.server.watch(&sent.target, &sent.headers, sent.identity);
        let (answer, stream) = in_time(self.server, answer).await?;
        let mut result = recorded(&answer, false);
        if let Some(stream) = stream {
            let asked = watch.query.get("allowWatchBookmarks").and_then(Json::as_str);
            if matches!(asked, Some("true" | "1")) {
                self.asked.insert(watch.name.clone());
            }
            self.watches.insert(watch.name.clone(), Open::new(stream, self.asked.contains(&watch.name)));
            result.shift_remove("body");
        }
        Ok(result)
    }

    async fn parallel(&mut self, requests: &[Request]) -> Result<Map, Failure> {
        let sent = requests.iter().map(|request| Sent::new(&self.values, request)).collect::<Result<Vec<_>, _>>()?;
        let answers = join_all(sent.into_iter().map(|sent| send(self.server, sent))).await;
        let mut told: Vec<String> = answers
            .into_iter()
            .map(|answer| {
                let Ok(answer) = answer else { return "connection".to_owned() };
                let result = recorded(&answer, false);
                match result.get("body").and_then(|body| body.get("reason")).and_then(Json::as_str) {
                    Some(reason) if answer.status >= 300 && !reason.is_empty() => format!("{} {reason}", answer.status),
                    _ => answer.status.to_string(),
                }
            })
            .collect();
        told.sort();
        Ok(Map::from([("parallel".to_owned(), Json::Array(told.into_iter().map(Json::String).collect()))]))
    }

    async fn poll(&mut self, poll: &Poll) -> Result<Map, Failure> {
        let until = self.server.elapsed() + poll.max;
        let (mut result, met) = loop {
            let answer = send(self.server, Sent::new(&self.values, &poll.request)?).await?;
            let result = recorded(&answer, false);
            let is_met = poll.until.status.is_none_or(|status| status == answer.status)
                && poll.until.body.as_ref().is_none_or(|wanted| result.get("body").is_some_and(|body| contains(body, wanted)));
            if is_met || self.server.elapsed() > until {
                break (result, is_met);
            }
            self.server.sleep(POLL_EVERY).await;
        };
        if !met {
            result.insert("poll".to_owned(), "never met".into());
        }
        if let Some(name) = &poll.capture {
            self.values.set(name, result.get("body").cloned().unwrap_or(Json::Null));
        }
        pick(&mut result, poll.request.pick.as_deref());
        Ok(result)
    }

    async fn compact(&mut self, compact: &Compact) -> Result<Map, Failure> {
        let revision = self.values.expand(&compact.revision)?;
        let number = crate::forms::integer(&revision).and_then(|number| u64::try_from(number).ok());
        let number = number.ok_or_else(|| ValueError::Unfit(format!("{} is no revision", revision.compact())))?;
        self.server.compact(number, compact.announce).await;
        Ok(Map::from([("control".to_owned(), 200.into())]))
    }
}

/// Keeps only the requested parts of a body.
fn pick(result: &mut Map, parts: Option<&[String]>) {
    if let (Some(parts), Some(body)) = (parts, result.get_mut("body")) {
        *body = picked(body, parts);
    }
}

async fn send(server: &impl Server, sent: Sent) -> Result<Answer, RequestError> {
    in_time(server, server.request(&sent.method, &sent.target, &sent.headers, sent.body, sent.identity)).await
}

/// The answer of the server, if it comes in time.
async fn in_time<T>(server: &impl Server, answer: impl Future<Output = Result<T, RequestError>>) -> Result<T, RequestError> {
    match select(pin!(answer), pin!(server.sleep(REQUEST_MAX))).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(RequestError::Timeout),
    }
}

fn name_of(error: RequestError) -> &'static str {
    match error {
        RequestError::Timeout => "timeout",
        RequestError::Connection => "connection",
    }
}

fn done(what: &str) -> Map {
    Map::from([(what.to_owned(), Json::Bool(true))])
}

fn error(why: &str) -> Map {
    Map::from([("error".to_owned(), why.into())])
}
