//! The kubelet's writes to the API: the status of a pod, and finally its deletion (K §2.8, §5.2).

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition,
    PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_machinery::api::{DeleteOptions, Preconditions};
use kube_machinery::{ClientExt, Env, ObjectKey};

use super::Kubelet;
use super::mail::{Mail, is_ready, is_terminal};
use crate::node::Cni;

/// The content of a status.
pub(super) enum Report {
    /// The containers run; the pod has these addresses.
    Running(Vec<IpAddr>),
    /// A pod that ran gets another sandbox: until that has its network, the pod has no address (K §5.5, G §9).
    Detached,
    /// The containers have stopped and do not start again.
    Terminal {
        /// Whether the phase is Failed instead of Succeeded.
        failed: bool,
        /// The reason, if it is not the containers' own end.
        reason: Option<&'static str>,
    },
}

impl<C: Cni> Kubelet<C> {
    /// Writes the status of a pod, and retries until it is written or there is nothing to write to. `stored`: the pod from the last answer
    /// of the API, which may be ahead of the informer.
    pub(super) async fn report(&self, mail: &Mail, stored: &mut Option<Arc<Pod>>, report: &Report) {
        let mut read = None;
        loop {
            let Some(known) = mail.pod().filter(|_| !mail.is_gone()) else { return };
            let base = [read.take(), stored.clone()].into_iter().flatten().fold(known, newer);
            let Some(status) = self.status(&base, report) else { return };
            let body = Pod { metadata: base.metadata.clone(), spec: None, status: Some(status) };
            let error = match self.client.update_status(body).await {
                Ok(pod) => return *stored = Some(pod),
                Err(error) if error.is_not_found() => return,
                Err(error) => error,
            };
            if error.is_conflict() {
                match self.client.get::<Pod>(&ObjectKey::of(&*base)).await {
                    Ok(pod) if pod.metadata.uid == base.metadata.uid => {
                        read = Some(pod);
                        continue;
                    }
                    Ok(_) => return,
                    Err(error) if error.is_not_found() => return,
                    Err(_) => {}
                }
            }
            self.back_off().await;
        }
    }

    /// Sends the final DELETE: grace 0 and the UID (K144). It is repeated until the pod is gone or only finalizers keep it.
    pub(super) async fn delete(&self, mail: &Mail) {
        while let Some(pod) = mail.pod().filter(|_| !mail.is_gone()) {
            let preconditions = Preconditions { uid: pod.metadata.uid.clone(), ..Preconditions::default() };
            let options = DeleteOptions { grace_period_seconds: Some(0), preconditions, ..DeleteOptions::default() };
            match self.client.delete::<Pod>(&ObjectKey::of(&*pod), options).await {
                Err(error) if !error.is_not_found() && !error.is_conflict() => self.back_off().await,
                _ => return,
            }
        }
    }

    /// The status that a pod should have; `None` = it has it, or it has a terminal one, which is final (K §5.7).
    fn status(&self, pod: &Pod, report: &Report) -> Option<PodStatus> {
        let old = pod.status.as_ref();
        if is_terminal(pod) {
            return None;
        }
        let wall = self.env.wall();
        let now = Time(Timestamp::from_second(wall.as_second()).unwrap_or(wall));
        let mut status = old.cloned().unwrap_or_default();
        match report {
            Report::Running(addresses) => {
                let told = |status: &PodStatus| status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect::<Vec<_>>();
                let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                if status.phase.as_deref() == Some("Running") && told(&status) == addresses && is_ready(pod) {
                    return None;
                }
                status.phase = Some("Running".to_owned());
                status.pod_ip = addresses.first().cloned();
                status.pod_ips = Some(addresses.into_iter().map(|ip| PodIP { ip }).collect());
                let host = self.config.host_ip.to_string();
                status.host_ips = Some(vec![HostIP { ip: host.clone() }]);
                status.host_ip = Some(host);
                status.start_time.get_or_insert_with(|| now.clone());
            }
            Report::Detached => {
                if status.phase.as_deref() != Some("Running") || status.pod_ips.as_ref().is_none_or(Vec::is_empty) {
                    return None;
                }
                (status.pod_ip, status.pod_ips) = (None, None);
            }
            Report::Terminal { failed, reason } => {
                status.phase = Some(if *failed { "Failed" } else { "Succeeded" }.to_owned());
                status.reason = reason.map(str::to_owned);
            }
        }
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
            let before = old.and_then(|old| old.container_statuses.iter().flatten().find(|known| known.name == container.name));
            container_status(&container.name, container.image.as_deref().unwrap_or(""), before, report, &now)
        });
        // The kubelet reports no containers for a pod that it never admitted.
        if !matches!(report, Report::Terminal { reason: Some(_), .. }) {
            status.container_statuses = Some(containers.collect());
        }
        set_condition(&mut status, "Ready", matches!(report, Report::Running(_)), now);
        Some(status)
    }
}

fn container_status(name: &str, image: &str, before: Option<&ContainerStatus>, report: &Report, now: &Time) -> ContainerStatus {
    let started_at = before.and_then(|before| before.state.as_ref()?.running.as_ref()?.started_at.clone());
    let state = match report {
        Report::Running(_) => {
            ContainerState { running: Some(ContainerStateRunning { started_at: Some(now.clone()) }), ..ContainerState::default() }
        }
        Report::Detached => {
            let reason = Some("ContainerCreating".to_owned());
            ContainerState { waiting: Some(ContainerStateWaiting { reason, message: None }), ..ContainerState::default() }
        }
        Report::Terminal { failed, .. } => ContainerState {
            terminated: Some(ContainerStateTerminated {
                exit_code: if *failed { 137 } else { 0 },
                reason: Some(if *failed { "Error" } else { "Completed" }.to_owned()),
                started_at,
                finished_at: Some(now.clone()),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        },
    };
    ContainerStatus {
        name: name.to_owned(),
        image: image.to_owned(),
        ready: matches!(report, Report::Running(_)),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

fn set_condition(status: &mut PodStatus, type_: &str, holds: bool, now: Time) {
    let text: Cow<'_, str> = if holds { "True" } else { "False" }.into();
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter_mut().find(|condition| condition.type_ == type_);
    match known {
        Some(known) if known.status == text => {}
        Some(known) => (known.status, known.last_transition_time) = (text.into_owned(), Some(now)),
        None => conditions.push(PodCondition {
            type_: type_.to_owned(),
            status: text.into_owned(),
            last_transition_time: Some(now),
            ..PodCondition::default()
        }),
    }
}

/// The later of two states of a pod; of two pods of one name, the first.
fn newer(one: Arc<Pod>, other: Arc<Pod>) -> Arc<Pod> {
    let version = |pod: &Pod| pod.metadata.resource_version.as_deref().and_then(|version| version.parse::<u64>().ok()).unwrap_or(0);
    if one.metadata.uid == other.metadata.uid && version(&other) > version(&one) { other } else { one }
}
