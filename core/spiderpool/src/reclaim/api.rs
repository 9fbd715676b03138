//! Reclaim's requests to the API server.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use super::process::Reclaim;
use super::question::{Answer, Question};
use crate::Keeper;
use crate::validity::{is_wanted, parent_and_ordinal, vm_keeps};
use kube_machinery::api::{ApiError, Call, DeleteOptions, Object, ObjectKey, Patch, Reply, Request};
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::kubevirt::{PodsOf, VirtualMachine, VirtualMachineInstance};

impl<C: Client, V: Env, K, O> Reclaim<C, V, K, O> {
    async fn send<T: Object>(&self, call: Call<T>) -> Result<Reply<T>, ApiError> {
        self.client.send(Request { call, timeout: self.config.settings.request_timeout }).await
    }

    /// The most recent state; `None` = there is no such object. Only NotFound means that.
    pub(super) async fn get<T: Object>(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, ApiError> {
        match self.send(Call::get(key)).await {
            Ok(reply) => Ok(Some(reply.into_object())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The pods of a VM.
    pub(super) async fn list(&self, pods: PodsOf<'_>) -> Result<Vec<Arc<Pod>>, ApiError> {
        let call = Call::List { namespace: pods.namespace().map(Arc::from), options: pods.select() };
        let mut listed: Vec<Arc<Pod>> = self.send(call).await?.into_list().items;
        listed.retain(|pod| pods.has(pod));
        Ok(listed)
    }

    pub(super) async fn update_status<T: Object>(&self, body: T) -> Result<Arc<T>, ApiError> {
        self.send(Call::update_status(body)).await.map(Reply::into_object)
    }

    pub(super) async fn patch<T: Object>(&self, key: &ObjectKey, patch: Patch) -> Result<Arc<T>, ApiError> {
        self.send(Call::patch(key, patch)).await.map(Reply::into_object)
    }

    /// Deletes an object. `Some` = it still exists, and is terminating; `None` = it is gone.
    pub(super) async fn delete<T: Object>(&self, key: &ObjectKey, options: DeleteOptions) -> Result<Option<Arc<T>>, ApiError> {
        self.send(Call::Delete { key: key.clone(), options }).await.map(Reply::into_remains)
    }

    /// Asks the API server whether addresses are kept (G §5).
    pub(super) async fn ask(&self, question: &Question) -> Answer {
        match self.keeps(question).await {
            Ok(true) => Answer::Valid,
            Ok(false) => Answer::Invalid,
            Err(_) => Answer::Failed,
        }
    }

    /// Whether a pod of a VM other than the one in question may run. The pods that its migration names are read one by one: a list comes
    /// from an API server's watch cache, which can have lost an event (K182).
    async fn runs_beside(&self, instance: Option<&VirtualMachineInstance>, question: &Question) -> Result<bool, ApiError> {
        if self.list(PodsOf::new(&question.key, instance)).await?.iter().any(|pod| question.is_used_by(pod)) {
            return Ok(true);
        }
        let migration = instance.and_then(|instance| instance.status.as_ref()?.migration_state.as_ref());
        for name in migration.iter().flat_map(|migration| migration.pods()) {
            let pod = self.get::<Pod>(&ObjectKey::namespaced(question.key.namespace().unwrap_or_default(), name)).await?;
            if pod.is_some_and(|pod| question.is_used_by(&pod)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn keeps(&self, question: &Question) -> Result<bool, ApiError> {
        let Question { keeper, key, .. } = question;
        let policy = &self.config.policy.reclaim;
        let in_namespace = |name: &str| ObjectKey::namespaced(key.namespace().unwrap_or_default(), name);
        match keeper {
            Keeper::Nobody => Ok(false),
            Keeper::StatefulSet => {
                let Some((parent, ordinal)) = parent_and_ordinal(key.name()) else { return Ok(false) };
                let Some(set) = self.get::<StatefulSet>(&in_namespace(parent)).await? else { return Ok(false) };
                if policy.nil_fields_crash && set.spec.replicas.is_none() {
                    self.env.crash(&format!("nil dereference of spec.replicas of StatefulSet {parent}"));
                }
                Ok(is_wanted(&set, ordinal, &self.config.policy))
            }
            Keeper::Vm => {
                let instance = self.get::<VirtualMachineInstance>(key).await?;
                if question.may_be_in_use(instance.as_deref(), &self.config.policy) {
                    return Ok(true);
                }
                let kept = match vm_keeps(instance.as_deref()) {
                    Some(kept) => kept,
                    None => self.get::<VirtualMachine>(key).await?.is_some_and(|vm| vm.metadata.deletion_timestamp.is_none()),
                };
                Ok(kept || (!policy.ending_vm_frees && self.runs_beside(instance.as_deref(), question).await?))
            }
        }
    }
}
