//! Faults that begin when objects change: at the second update of a ConfigMap, or after a pod was bound.
//!
//! ```text
//!  a write is committed ── counted by the first step that its point waits for ──► the last step was reached ──► the fault begins
//! ```
//! Commits are counted, from any client, and not requests: a write that is refused changes nothing.

use kube_machinery::ObjectKey;

use crate::glob;
use crate::kinds::KindId;
use crate::object::Obj;

/// The kind of an object's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// The object was created: there was none of its name before.
    Created,
    /// The object was updated: it existed before, and still does.
    Updated,
    /// The object was removed, not only marked for deletion.
    Deleted,
}

/// Changes of some objects, of which the `nth` is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeStep {
    /// The type of the objects.
    pub kind: KindId,
    /// The keys, as `NAMESPACE/NAME` or `NAME`, in which `*` stands for any text.
    pub key: String,
    /// Counts only changes of this kind; unset = of any.
    pub became: Option<Became>,
    /// Counts only changes that give this field a new value: a JSON Pointer such as `/spec/nodeName`.
    pub sets: Option<String>,
    /// The number of the change that is waited for, counting from 1 when the step begins.
    pub nth: u32,
}

impl ChangeStep {
    fn is_met(&self, kind: KindId, key: &ObjectKey, before: Option<&Obj>, after: Option<&Obj>) -> bool {
        let became = match (before, after) {
            (None, _) => Became::Created,
            (Some(_), Some(_)) => Became::Updated,
            (Some(_), None) => Became::Deleted,
        };
        let has = |object: Option<&Obj>, field: &str| {
            let value = object.and_then(|object| object.to_value().pointer(field).cloned());
            value.is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
        };
        self.kind == kind
            && self.became.is_none_or(|wanted| wanted == became)
            && glob::matches(&self.key, key.as_str())
            && self.sets.as_ref().is_none_or(|field| has(after, field) && !has(before, field))
    }
}

/// A fault that waits for changes, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePoint {
    /// The number of the fault in its plan.
    pub fault: u32,
    /// The steps; each begins when the one before it was reached. Never empty.
    pub steps: Vec<ChangeStep>,
}

/// A point that has not been reached yet.
struct Waiting {
    point: ChangePoint,
    /// The step that it waits for.
    step: usize,
    /// The number of changes that this step has counted.
    met: u32,
}

/// The faults that wait for changes.
#[derive(Default)]
pub(crate) struct ChangePoints(Vec<Waiting>);

impl ChangePoints {
    /// Whether any fault waits for changes, which is rare.
    pub(crate) fn listens(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn add(&mut self, point: ChangePoint) {
        self.0.push(Waiting { point, step: 0, met: 0 });
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes in a change of an object. Returns the faults for which it completed the last step.
    pub(crate) fn changed(&mut self, kind: KindId, key: &ObjectKey, before: Option<&Obj>, after: Option<&Obj>) -> Vec<u32> {
        let mut reached = Vec::new();
        self.0.retain_mut(|waiting| {
            let step = &waiting.point.steps[waiting.step];
            if !step.is_met(kind, key, before, after) {
                return true;
            }
            waiting.met += 1;
            if waiting.met >= step.nth {
                (waiting.step, waiting.met) = (waiting.step + 1, 0);
            }
            let is_over = waiting.step == waiting.point.steps.len();
            if is_over {
                reached.push(waiting.point.fault);
            }
            !is_over
        });
        reached
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::testbed::from_json;

    const PODS: KindId = KindId(1);

    fn pod(node: &str) -> Obj {
        Arc::new(from_json::<Pod>(
            json!({"metadata": {"name": "web-0", "namespace": "default"}, "spec": {"nodeName": node, "containers": []}}),
        ))
    }

    fn step(became: Option<Became>, sets: Option<&str>, nth: u32) -> ChangeStep {
        ChangeStep { kind: PODS, key: "default/web-*".to_owned(), became, sets: sets.map(str::to_owned), nth }
    }

    fn points(steps: &[ChangeStep]) -> ChangePoints {
        let mut points = ChangePoints::default();
        points.add(ChangePoint { fault: 7, steps: steps.to_vec() });
        points
    }

    fn tell(points: &mut ChangePoints, name: &str, before: Option<&Obj>, after: Option<&Obj>) -> bool {
        points.changed(PODS, &ObjectKey::namespaced("default", name), before, after) == [7]
    }

    #[test]
    fn the_nth_change_of_the_object_is_the_point() {
        let mut points = points(&[step(None, None, 3)]);
        let (one, other) = (pod(""), pod("node-1"));
        assert!(!tell(&mut points, "web-0", None, Some(&one)));
        assert!(!tell(&mut points, "db-0", None, Some(&one)), "another object");
        assert!(points.changed(KindId(2), &ObjectKey::namespaced("default", "web-0"), None, Some(&one)).is_empty(), "another type");
        assert!(!tell(&mut points, "web-1", Some(&one), Some(&other)));
        assert!(tell(&mut points, "web-0", Some(&other), None));
        assert!(!points.listens());
    }

    #[test]
    fn only_changes_of_the_kind_that_is_waited_for_count() {
        let one = pod("");
        for (became, told) in
            [(Became::Created, [true, false, false]), (Became::Updated, [false, true, false]), (Became::Deleted, [false, false, true])]
        {
            let changes = [(None, Some(&one)), (Some(&one), Some(&one)), (Some(&one), None)];
            let found = changes.map(|(before, after)| tell(&mut points(&[step(Some(became), None, 1)]), "web-0", before, after));
            assert_eq!(found, told, "{became:?}");
        }
    }

    #[test]
    fn a_field_is_set_by_the_change_that_gives_it_its_first_value() {
        let (unbound, bound) = (pod(""), pod("node-1"));
        let bind = || points(&[step(None, Some("/spec/nodeName"), 1)]);
        assert!(tell(&mut bind(), "web-0", Some(&unbound), Some(&bound)));
        assert!(tell(&mut bind(), "web-0", None, Some(&bound)));
        assert!(!tell(&mut bind(), "web-0", Some(&bound), Some(&bound)));
        assert!(!tell(&mut bind(), "web-0", Some(&bound), None));
    }

    #[test]
    fn a_step_counts_from_when_the_one_before_it_was_reached() {
        let mut points = points(&[step(None, Some("/spec/nodeName"), 1), step(Some(Became::Updated), None, 2)]);
        let (unbound, bound) = (pod(""), pod("node-1"));
        assert!(!tell(&mut points, "web-0", Some(&unbound), Some(&unbound)), "not bound yet");
        assert!(!tell(&mut points, "web-0", Some(&unbound), Some(&bound)), "the binding itself is no later update");
        assert!(!tell(&mut points, "web-0", Some(&bound), Some(&bound)));
        assert!(tell(&mut points, "web-0", Some(&bound), Some(&bound)));
    }
}
