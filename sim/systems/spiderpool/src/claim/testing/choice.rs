//! The pools that an agent chooses from, and its choice.

use std::sync::Arc;

use ipam_spiderpool::ipam::AddRequest;
use ipam_spiderpool::select::{Objects, SelectError, Selection, TopController, select_for};
use ipam_spiderpool::{IPAllocationDetail, SpiderIPPool};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::ObjectKey;
use kube_sim::object::typed_ref;
use kube_sim::trace::Unhashed;
use serde_json::json;

use super::Stage;
use crate::oracle::Opinion;
use crate::workload::{InOrder, IpamNote, Known, Question};

impl Stage {
    /// Compares the addresses of a predecessor with the rules, which refuse these.
    pub(in super::super) fn compare(&mut self, uid: &str, nic: &str, refused: &[(&str, &str)]) {
        let entry = |(pool, address): &(&str, &str)| IPAllocationDetail {
            interface: nic.to_owned(),
            ipv4: Some(format!("{address}/24")),
            ipv4_pool: Some((*pool).to_owned()),
            ..IPAllocationDetail::default()
        };
        let entries: Arc<[IPAllocationDetail]> = refused.iter().map(entry).collect();
        // The pools exist and have other addresses.
        let spec = json!({"ipVersion": 4, "subnet": "10.0.0.0/24", "ips": ["10.0.0.250"]});
        let pool = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("it is a pool");
        let pools: Vec<&str> = refused.iter().map(|(pool, _)| *pool).collect();
        let (question, _) = self.question(uid, nic, &pools, pools.iter().map(|name| pool(name)));
        let given_up = (0..entries.len()).collect();
        self.say(
            self.agent,
            IpamNote::Compared { uid: uid.into(), nic: nic.into(), question: Unhashed(question), entries: Unhashed(entries), given_up },
        );
    }

    /// The question of an agent for a pod that names these pools, if any, and the selection by the rules.
    fn question(&mut self, uid: &str, nic: &str, pools: &[&str], known: impl Iterator<Item = SpiderIPPool>) -> (Question, Selection) {
        let mut objects = Objects::default();
        known.for_each(|pool| drop(objects.pools.insert(pool)));
        let mut pod = Pod::default();
        (pod.metadata.name, pod.metadata.namespace) = (Some("a".to_owned()), Some("ns".to_owned()));
        if !pools.is_empty() {
            let wish = json!({"ipv4": pools}).to_string();
            pod.metadata.annotations = Some([("ipam.spidernet.io/ippool".to_owned(), wish)].into());
        }
        let controller = TopController::of(&objects, &pod).expect("nobody owns it");
        let caches: Arc<Known> = Arc::new(objects);
        self.caches = Some(caches.clone());
        let request = AddRequest {
            container_id: uid.into(),
            nic: nic.into(),
            pod: ObjectKey::of(&pod),
            pod_uid: uid.into(),
            cni: Arc::default(),
            master: Arc::default(),
            deadline: None,
        };
        let (pod, node, settings, caches) = (Arc::new(pod), "node-0".into(), Arc::default(), Arc::downgrade(&caches));
        let question = Question { request, pod, node, made: false, controller, settings, caches };
        let selection = question.ask(|cluster, request, controller| select_for(cluster, request, controller));
        (question, selection)
    }

    /// Selects pools, to be tried in this order; `full` further pools have no address. `opinion` is that of the rules on the selection.
    pub(in super::super) fn select(&mut self, uid: &str, opinion: Opinion, pools: &[&str], full: usize) {
        let pool = |name: &&str| {
            let object = &self.objects[&(std::any::type_name::<SpiderIPPool>(), ObjectKey::cluster(name))];
            Arc::new(typed_ref::<SpiderIPPool>(&**object).clone())
        };
        let family = ipam_spiderpool::ranges::IpVersion::V4;
        let objects: Vec<Arc<SpiderIPPool>> = pools.iter().map(pool).collect();
        let (question, mut selection) = self.question(uid, "eth0", pools, objects.iter().map(|pool| SpiderIPPool::clone(pool)));
        match opinion {
            Opinion::Agrees => {}
            Opinion::OtherOrder(_) => {
                let families = selection.nics.iter_mut().flat_map(|nic| &mut nic.families);
                families.flat_map(|family| &mut family.order).for_each(|rank| rank.reverse());
            }
            Opinion::Differs(_) => selection.error = if selection.error.is_some() { None } else { Some(SelectError::DeadPod) },
        }
        let order = Unhashed([InOrder { nic: "eth0".into(), family, pools: objects, full }].into());
        let (uid, nic, selection) = (uid.into(), "eth0".into(), Arc::new(selection));
        self.say(self.agent, IpamNote::Selected { uid, nic, question: Unhashed(question), selection: Unhashed(selection), order });
    }
}
