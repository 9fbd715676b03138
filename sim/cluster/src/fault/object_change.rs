//! Changes of objects that faults wait for, in the form of scenarios and plans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::choice::Open;
use sim_config::draw::Draw;
use sim_config::{Choice, Problems, Source};

use super::{Inventory, Trigger};
use crate::cluster::{Became, ChangeStep};
use crate::kinds::{KindId, Registry};

/// A change of an object, with its number drawn.
pub type ObjectChange = Change<u32>;

/// A change of an object whose number may be open.
pub type ObjectChangeDraft = Change<Choice<u32>>;

/// A change of an object that a fault waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound(deserialize = "N: Deserialize<'de> + From<u32>"))]
#[schemars(bound = "N: JsonSchema + Serialize + From<u32>")]
pub struct Change<N> {
    /// The object, as `PLURAL/NAMESPACE/NAME` or `PLURAL/NAME`; `*` stands for any text: `configmaps/*`.
    pub object: String,
    /// The kind of change; by default any counts.
    #[serde(default, skip_serializing_if = "ChangeKind::is_any")]
    pub change: ChangeKind,
    /// Counts only changes that give this field a new value, as a JSON Pointer: `/spec/nodeName` is set when a pod is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sets: Option<String>,
    /// The number of the change, counting from 1 since the fault began to wait for it.
    #[serde(default = "first::<N>")]
    pub nth: N,
}

fn first<N: From<u32>>() -> N {
    N::from(1)
}

/// The kind of an object's change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// The object is created, updated or deleted.
    #[default]
    Any,
    /// The object is created: there was none of its name before.
    Created,
    /// The object is updated: it existed before, and still does.
    Updated,
    /// The object is removed, which is the end of its deletion, not the beginning.
    Deleted,
}

impl Open for ChangeKind {}

impl ChangeKind {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }

    fn became(self) -> Option<Became> {
        match self {
            Self::Any => None,
            Self::Created => Some(Became::Created),
            Self::Updated => Some(Became::Updated),
            Self::Deleted => Some(Became::Deleted),
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Any => "change",
            Self::Created => "creation",
            Self::Updated => "update",
            Self::Deleted => "deletion",
        }
    }
}

impl ObjectChangeDraft {
    /// The same change with its number drawn; nothing else in it is open.
    pub fn draw(&self, draw: &mut Draw) -> ObjectChange {
        let Change { object, change, sets, nth } = self.clone();
        Change { object, change, sets, nth: nth.draw(draw) }
    }
}

impl ObjectChange {
    /// The step that waits for it; `None` = the cluster does not have this type.
    pub(super) fn step(&self, types: &Registry) -> Option<ChangeStep> {
        let (kind, key) = parse_objects(&self.object, types).ok()?;
        Some(ChangeStep { kind, key: key.to_owned(), became: self.change.became(), sets: self.sets.clone(), nth: self.nth })
    }

    /// The same change with a smaller number, the smallest first.
    fn earlier(&self) -> Vec<Self> {
        let mut smaller: Vec<u32> =
            [1, self.nth / 2, self.nth.saturating_sub(1)].into_iter().filter(|&nth| 0 < nth && nth < self.nth).collect();
        smaller.dedup();
        smaller.into_iter().map(|nth| Self { nth, ..self.clone() }).collect()
    }

    /// A description: `the 2nd update of pods/default/web-0`.
    fn text(&self) -> String {
        let Self { object, change, sets, nth } = self;
        let ordinal = match (nth % 10, nth % 100) {
            (1, tens) if tens != 11 => "st",
            (2, tens) if tens != 12 => "nd",
            (3, tens) if tens != 13 => "rd",
            _ => "th",
        };
        let of = sets.as_ref().map(|field| format!(" that sets {field}")).unwrap_or_default();
        format!("the {nth}{ordinal} {} of {object}{of}", change.noun())
    }
}

impl ObjectChange {
    /// A description of the changes, in the order in which they are waited for.
    pub fn text_of(changes: &[Self]) -> String {
        changes.iter().map(Self::text).collect::<Vec<_>>().join(", then ")
    }

    /// Simpler lists of changes: without one of them unless it is the only one, or with an earlier one.
    pub fn simpler(changes: &[Self]) -> Vec<Vec<Self>> {
        let without = |index: usize| {
            let mut rest = changes.to_vec();
            rest.remove(index);
            rest
        };
        let with = |index: usize, change: Self| {
            let mut changed = changes.to_vec();
            changed[index] = change;
            changed
        };
        let shorter = (0..changes.len()).filter(|_| changes.len() > 1).map(without);
        let earlier = (0..changes.len()).flat_map(|index| changes[index].earlier().into_iter().map(move |change| with(index, change)));
        shorter.chain(earlier).collect()
    }
}

/// The type and the pattern of keys that a text such as `pods/default/web-*` names.
///
/// # Errors
/// The error, and a valid text instead.
pub(super) fn parse_objects<'a>(text: &'a str, types: &Registry) -> Result<(KindId, &'a str), (String, String)> {
    let (plural, key) = text.split_once('/').unwrap_or((text, "*"));
    let Some((kind, def)) = types.iter().find(|(_, def)| def.plural == plural) else {
        let mut known: Vec<&str> = types.iter().map(|(_, def)| def.plural).collect();
        known.sort_unstable();
        return Err((format!("unsupported resource `{plural}`"), format!("one of {}", known.join(", "))));
    };
    let parts = key.split('/').count();
    let names_some = !key.split('/').any(str::is_empty) && (parts == 1 + usize::from(def.namespaced) || key == "*");
    let right = if def.namespaced { "NAMESPACE/NAME" } else { "NAME" };
    if names_some {
        Ok((kind, key))
    } else {
        Err((format!("`{text}` names no object"), format!("{plural}/{right}, where * stands for any text")))
    }
}

impl ObjectChange {
    /// The problems with the changes that the fault called `fault` waits for, with which it never begins.
    pub fn problems(fault: &str, begins: Trigger<()>, changes: &[Self], source: Source<'_>, inventory: &Inventory<'_>) -> Problems {
        problems(fault, begins, changes, |&nth| nth, source, inventory)
    }
}

impl ObjectChangeDraft {
    /// The problems with those that can be drawn.
    pub fn problems(fault: &str, begins: Trigger<()>, changes: &[Self], source: Source<'_>, inventory: &Inventory<'_>) -> Problems {
        problems(fault, begins, changes, |nth| *nth.bounds().0, source, inventory)
    }
}

fn problems<N>(
    fault: &str,
    begins: Trigger<()>,
    changes: &[Change<N>],
    least: impl Fn(&N) -> u32,
    source: Source<'_>,
    inventory: &Inventory<'_>,
) -> Problems {
    let mut problems = Problems::new();
    if begins.is_request()
        && let Some(change) = changes.first()
    {
        let wrong = format!("the fault `{fault}` waits for a change of `{}`, and for a request of its own", change.object);
        problems.push(source.problem_of_text(&change.object, wrong, format!("no `when`: `{fault}` begins with its request")));
    }
    for Change { object, sets, nth, .. } in changes {
        if let Err((wrong, right)) = parse_objects(object, inventory.types) {
            problems.push(source.problem_of_text(object, format!("the fault `{fault}` waits for a change: {wrong}"), right));
        }
        if let Some(field) = sets.as_ref().filter(|field| !field.starts_with('/') || field.len() == 1) {
            let wrong = format!("the fault `{fault}` waits for the field `{field}`, which is no JSON Pointer");
            problems.push(source.problem_of_text(field, wrong, "a path such as /spec/nodeName"));
        }
        if least(nth) == 0 {
            let wrong = format!("the fault `{fault}` waits for change 0 of `{object}`");
            problems.push(source.problem_of_text(object, wrong, "changes are counted from 1"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn change(object: &str, nth: u32) -> ObjectChange {
        Change { object: object.to_owned(), change: ChangeKind::Updated, sets: None, nth }
    }

    #[test]
    fn objects_are_named_as_their_type_is_addressed() {
        let types = Registry::new(kinds::builtin());
        let kind = |plural: &str| types.iter().find(|(_, def)| def.plural == plural).unwrap().0;
        let parsed = |text| parse_objects(text, &types);
        assert_eq!(parsed("pods/default/web-*"), Ok((kind("pods"), "default/web-*")));
        assert_eq!(parsed("nodes/*"), Ok((kind("nodes"), "*")));
        assert_eq!(parsed("pods"), Ok((kind("pods"), "*")));
        for wrong in ["pods/web", "pods/default/", "nodes/default/blue", "pods/a/b/c"] {
            assert!(parsed(wrong).unwrap_err().0.contains("names no object"), "{wrong}");
        }
        assert!(parsed("pod/default/web").unwrap_err().0.contains("unsupported resource `pod`"));
    }

    #[test]
    fn a_change_that_never_comes_is_refused_and_so_is_one_for_who_waits_for_a_request() {
        let types = Registry::new(kinds::builtin());
        let inventory = Inventory { names: &[], types: &types };
        let problems =
            |begins, change: ObjectChange| ObjectChange::problems("crash", begins, &[change], Source::new("", ""), &inventory).to_string();
        assert_eq!(problems(Trigger::Window, change("pods/*", 1)), "");
        for (change, wrong) in [
            (change("pods/*", 0), "waits for change 0 of `pods/*`"),
            (change("pod/*", 1), "unsupported resource `pod`"),
            (change("pods/web", 1), "`pods/web` names no object"),
            (Change { sets: Some("spec.nodeName".to_owned()), ..change("pods/*", 1) }, "`spec.nodeName`, which is no JSON Pointer"),
        ] {
            let found = problems(Trigger::Window, change);
            assert!(found.contains(wrong), "{found}");
        }
        assert!(problems(Trigger::Request(()), change("pods/*", 1)).contains("and for a request of its own"));
    }

    #[test]
    fn changes_are_told_in_their_order() {
        let bound = Change { sets: Some("/spec/nodeName".to_owned()), change: ChangeKind::Any, ..change("pods/*", 1) };
        let text = ObjectChange::text_of(&[bound, change("configmaps/a", 22)]);
        assert_eq!(text, "the 1st change of pods/* that sets /spec/nodeName, then the 22nd update of configmaps/a");
        assert_eq!(
            [11, 12, 13, 3].map(|nth| ObjectChange::text_of(&[change("x", nth)])),
            ["11th", "12th", "13th", "3rd"].map(|nth| format!("the {nth} update of x"))
        );
    }

    #[test]
    fn what_is_waited_for_becomes_simpler_only_so_often() {
        let mut changes = vec![change("a", 9), change("b", 4)];
        let mut steps = 0;
        while let Some(next) = ObjectChange::simpler(&changes).pop() {
            assert_ne!(next, changes);
            changes = next;
            steps += 1;
            assert!(steps < 20);
        }
        assert_eq!(changes.iter().map(|change| change.nth).collect::<Vec<_>>(), [1]);
    }
}
