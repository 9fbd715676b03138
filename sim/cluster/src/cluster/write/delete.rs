//! Deletes, with grace or without (K §2.10).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_machinery::api::{DeleteOptions, Preconditions, Reason};
use kube_machinery::{ObjectKey, Status};

use super::{Answer, Step, is_held, propagation, whole_seconds};
use crate::cluster::later;
use crate::kinds::TypeDef;
use crate::object::{Obj, make_mut, resource_version};

/// Makes the checks of a delete that precede admission (K094).
pub(crate) fn check_preconditions(def: &TypeDef, key: &ObjectKey, preconditions: &Preconditions, current: &Obj) -> Answer<()> {
    let meta = current.meta();
    if let Some(uid) = &preconditions.uid {
        let stored = meta.uid.as_deref().unwrap_or("");
        if uid != stored {
            let text = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({stored}). The object might \
                 have been deleted and then recreated"
            );
            return Err(refused(def, key, text));
        }
    }
    if let Some(version) = &preconditions.resource_version {
        let stored = resource_version(&**current);
        if version != stored {
            let text = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({stored}). \
                 The object might have been modified"
            );
            return Err(refused(def, key, text));
        }
    }
    Ok(())
}

/// 409 for a precondition. Its details name the Kind where those of other conflicts name the resource (K094).
fn refused(def: &TypeDef, key: &ObjectKey, text: String) -> Box<Status> {
    Box::new(Status::about(Reason::Conflict, def.group, def.kind, key, text))
}

/// The step for a delete (K §2.10).
pub(crate) fn prepare_delete(def: &TypeDef, options: &DeleteOptions, current: &Obj, now: Timestamp) -> Step {
    let marked = propagation::marked(options.propagation, current);
    if def.graceful { graceful_delete(def, options, current, marked, now) } else { plain_delete(def, current, marked, now) }
}

/// A delete of a type without grace. `marked`: the object with other finalizers.
fn plain_delete(def: &TypeDef, current: &Obj, marked: Option<Obj>, now: Timestamp) -> Step {
    let object = marked.as_ref().unwrap_or(current);
    let is_terminating = current.meta().deletion_timestamp.is_some();
    if !is_held(def, object) && (is_terminating || !def.terminates_first) {
        return Step::Remove { answer: None };
    }
    if is_terminating {
        return marked.map_or_else(|| Step::Keep(current.clone()), Step::Put);
    }
    Step::Put(terminating(def, object, now, 0))
}

/// A delete of a pod. `marked`: the pod with other finalizers.
fn graceful_delete(def: &TypeDef, options: &DeleteOptions, current: &Obj, marked: Option<Obj>, now: Timestamp) -> Step {
    let meta = current.meta();
    let target = marked.as_ref().unwrap_or(current);
    // A negative grace counts as one second.
    let positive = |grace: i64| if grace < 0 { 1 } else { grace };
    let asked = options.grace_period_seconds.map(positive);
    let held = is_held(def, target);
    let without_grace = |object: Obj| if held { Step::Put(object) } else { Step::PutThenRemove(object) };
    let Some(Time(deadline)) = meta.deletion_timestamp else {
        let at_once = (def.deletes_at_once)(&**current);
        let own = || positive((def.default_grace_seconds)(&**current));
        let grace = if at_once { 0 } else { asked.unwrap_or_else(own) };
        let object = terminating(def, target, now, grace);
        return if grace == 0 { without_grace(object) } else { Step::Put(object) };
    };
    let recorded = meta.deletion_grace_period_seconds.unwrap_or(0);
    if recorded == 0 {
        // An earlier delete got no further than its first phase (K102), or finalizers hold the pod.
        return match marked {
            _ if !held => Step::Remove { answer: None },
            Some(object) => Step::Put(object),
            None => Step::Keep(current.clone()),
        };
    }
    // From now on only a shorter grace counts, and only if the request names one: the phase no longer matters.
    let Some(mut grace) = asked.filter(|&grace| grace < recorded) else {
        return Step::Keep(current.clone());
    };
    // The new deadline counts from the original request, but is not in the past.
    let mut until = later(deadline, jiff::SignedDuration::from_secs(grace - recorded));
    let now = whole_seconds(now);
    if until < now {
        until = now;
        grace = grace.min(1);
    }
    let mut object = target.deep_copy();
    let meta = make_mut(&mut object).meta_mut();
    meta.deletion_timestamp = Some(Time(until));
    meta.deletion_grace_period_seconds = Some(grace);
    if grace == 0 { without_grace(object) } else { Step::Put(object) }
}

/// The object with its deletion begun (K011, K096, K097).
fn terminating(def: &TypeDef, current: &Obj, now: Timestamp, grace: i64) -> Obj {
    let mut object = current.deep_copy();
    let target = make_mut(&mut object);
    let meta = target.meta_mut();
    meta.deletion_timestamp = Some(Time(whole_seconds(later(now, jiff::SignedDuration::from_secs(grace)))));
    meta.deletion_grace_period_seconds = Some(grace);
    if let Some(generation) = meta.generation.filter(|&generation| generation > 0) {
        meta.generation = Some(generation.saturating_add(1));
    }
    (def.on_deletion)(target);
    object
}
