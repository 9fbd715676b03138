//! A case: steps that build on each other.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use crate::forms::{Form, REFERENCE, form};
use crate::json::Json;
use crate::place::Place;
use crate::shared::Shared;
use crate::step::{Step, decoded};

/// A case. It has no expectations: the answers of a real server are the standard.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name; begins with the statement of the reference that it belongs to, if there is one.
    pub id: String,
    /// Its subject, in one sentence.
    pub why: String,
    /// The group in which it is counted.
    pub theme: String,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// Features that the server must have; otherwise the case is left out.
    pub needs: Vec<Need>,
    /// Places where another value of the same type does not count as a difference.
    pub loose: Vec<Place>,
    /// Places that are not compared.
    pub ignore: Vec<Place>,
    /// Random values: step, counted from 1, and path.
    pub vary: Vec<(usize, Vec<String>)>,
    /// Whether fields that are ignored by kind are compared, too.
    pub strict: bool,
    /// Whether it has its own namespace.
    pub namespace: bool,
    /// Whether `metadata.managedFields` is recorded.
    pub managed_fields: bool,
    /// The source text of the steps: values that they send keep their names.
    pub(crate) source: String,
}

/// A feature of a server that some cases need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// The server authenticates requests.
    Auth,
    /// The server authorises by RBAC.
    Rbac,
    /// The server calls admission webhooks.
    Webhooks,
    /// The history of its store can be compacted.
    Etcd,
}

impl Need {
    /// All features that a case may need.
    pub const ALL: [Need; 4] = [Need::Auth, Need::Rbac, Need::Webhooks, Need::Etcd];
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::Auth => "auth",
            Need::Rbac => "rbac",
            Need::Webhooks => "webhooks",
            Need::Etcd => "etcd",
        })
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseForm {
    id: String,
    why: String,
    steps: Vec<Json>,
    #[serde(default)]
    needs: Vec<Need>,
    #[serde(default)]
    loose: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    vary: Vec<String>,
    #[serde(default)]
    strict: bool,
    #[serde(default = "yes")]
    namespace: bool,
    #[serde(default)]
    managed_fields: bool,
    #[serde(default, rename = "note")]
    _note: Option<String>,
}

fn yes() -> bool {
    true
}

/// A problem of a case: the step, counted from 1, if it is one, and a fragment.
pub(crate) type Fault = (Option<usize>, String);

impl Case {
    pub(crate) fn read(value: &Json, theme: &str, shared: &Shared) -> Result<Self, Fault> {
        let form: CaseForm = decoded(&value.compact()).map_err(|wrong| (None, wrong))?;
        if form.steps.is_empty() {
            return Err((None, "it has no steps".to_owned()));
        }
        let mut names = Names::new(shared, form.namespace);
        let mut steps = Vec::new();
        for (index, source) in form.steps.iter().enumerate() {
            let step = Step::read(source).and_then(|step| names.check(&step, source).map(|()| step));
            steps.push(step.map_err(|wrong| (Some(index + 1), wrong))?);
        }
        let places = |texts: &[String]| texts.iter().map(|text| place(text, steps.len())).collect::<Result<Vec<_>, _>>();
        let places = |texts: &[String]| places(texts).map_err(|wrong| (None, wrong));
        let vary = form.vary.iter().map(|text| {
            let wrong = || (None, format!("`{text}` under `vary` has to be STEP:PATH with one of the {} steps", steps.len()));
            let (step, path) = text.split_once(':').ok_or_else(wrong)?;
            let step = step.parse().ok().filter(|step| (1..=steps.len()).contains(step)).ok_or_else(wrong)?;
            Ok((step, path.split('.').map(str::to_owned).collect()))
        });
        let vary = vary.collect::<Result<Vec<_>, Fault>>()?;
        Ok(Self {
            loose: places(&form.loose)?,
            ignore: places(&form.ignore)?,
            vary,
            source: Json::Array(form.steps).ascii(),
            steps,
            id: form.id,
            why: form.why,
            theme: theme.to_owned(),
            needs: form.needs,
            strict: form.strict,
            namespace: form.namespace,
            managed_fields: form.managed_fields,
        })
    }
}

fn place(text: &str, steps: usize) -> Result<Place, String> {
    let place = Place::read(text)?;
    match place.step {
        Some(step) if !(1..=steps).contains(&step) => Err(format!("`{text}` names a step that is not there; there are {steps}")),
        _ => Ok(place),
    }
}

/// The names that a step may use: the predefined ones, and those of earlier steps.
struct Names<'a> {
    shared: &'a Shared,
    values: BTreeSet<String>,
    watches: BTreeSet<String>,
}

impl<'a> Names<'a> {
    fn new(shared: &'a Shared, namespace: bool) -> Self {
        let given = ["prefix"].into_iter().chain(namespace.then_some("ns"));
        Self { shared, values: given.map(str::to_owned).collect(), watches: BTreeSet::new() }
    }

    fn check(&mut self, step: &Step, source: &Json) -> Result<(), String> {
        self.value(source)?;
        match step {
            Step::Watch(watch) => {
                self.watches.insert(watch.name.clone());
            }
            Step::Collect(collect) if !self.watches.contains(&collect.name) => {
                return Err(format!("no watch `{}` is open", collect.name));
            }
            Step::Close(name) if !self.watches.remove(name) => return Err(format!("no watch `{name}` is open")),
            _ => {}
        }
        self.values.extend(step.capture().map(str::to_owned));
        Ok(())
    }

    fn value(&self, value: &Json) -> Result<(), String> {
        match value {
            Json::String(text) => self.text(text),
            Json::Array(items) => items.iter().try_for_each(|item| self.value(item)),
            Json::Object(members) => {
                match form(members)? {
                    Form::Use(template, _) => {
                        let missing = || format!("there is no template `{template}`");
                        self.value(self.shared.templates.get(template).ok_or_else(missing)?)?;
                    }
                    Form::From(name, _) => self.reference(name)?,
                    _ => {}
                }
                members.iter().try_for_each(|(name, item)| {
                    self.text(name)?;
                    self.value(item)
                })
            }
            _ => Ok(()),
        }
    }

    fn text(&self, text: &str) -> Result<(), String> {
        REFERENCE.captures_iter(text).try_for_each(|found| self.reference(&found[1]))
    }

    /// Checks that `a.b|+1` begins with a known name.
    fn reference(&self, text: &str) -> Result<(), String> {
        static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[^.|]*").expect("a constant"));
        let name = NAME.find(text).map_or("", |found| found.as_str());
        match self.shared.paths.get(name) {
            Some(path) => self.text(path),
            None if self.values.contains(name) => Ok(()),
            None => Err(format!("`{text}` is used, but no step before it captures `{name}`")),
        }
    }
}
