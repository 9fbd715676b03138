//! The webhooks of Spiderpool's controller, as the replicas of a cluster serve them (A §9).

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ipam_spiderpool::names::{FINALIZER, LABEL_IPPOOL_CIDR};
use ipam_spiderpool::{SpiderIPPool, SpiderReservedIP};
use k8s_openapi::api::core::v1::Pod;
use kube_machinery::{ApiError, ClientExt, ObjectKey};
use kube_sim::cluster::SimClient;
use kube_sim::object::typed_ref;
use kube_sim::testbed::{Testbed, from_json};
use serde_json::{Value, json};
use sim_config::time::SimTime;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::{Outcome, Stage, run};

use super::scenario;

const SECOND: Duration = Duration::from_secs(1);

/// A cluster without applications whose two replicas serve webhooks. It is read once: concurrent tests share the file.
static EMPTY: LazyLock<Scenario> = LazyLock::new(|| scenario("admission", EMPTY_TEXT));
const EMPTY_TEXT: &str = r#"
name = "webhooks"
why = "Do pools of people pass the webhooks?"
phases = { safety = "5m", liveness = "1m" }
workload = { kind = "spiderpool", nodes = 1, apps = 0, pools = 0, controllers = 2, admission = true, kinds = ["pod"] }
[check]
always = ["no-address-has-two-live-sandboxes"]
"#;

/// Runs `test` with the replicas of that cluster.
fn beside<T>(seed: u64, test: impl AsyncFnOnce(Testbed, SimClient) -> T) -> T {
    let plan = EMPTY.draw(seed);
    Testbed::run(seed, async |bed| {
        let work = plan.workload.work();
        work.install(&bed.cluster, &plan.run_context());
        bed.wait(20 * SECOND).await;
        let user = bed.client("user");
        test(bed.clone(), user).await
    })
}

fn pool(name: &str, subnet: &str, ips: &[&str]) -> SpiderIPPool {
    from_json(json!({"metadata": {"name": name}, "spec": {"subnet": subnet, "ips": ips}}))
}

/// The code, reason and message of a refusal.
fn refused<T: std::fmt::Debug>(result: Result<T, ApiError>) -> (u16, String, String) {
    match result {
        Err(ApiError::Status(status)) => (status.code, format!("{:?}", status.reason), status.message()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pool_of_people_gets_its_defaults_from_a_replica_whoever_leads() {
    beside(1, async |bed, user| {
        for number in 0..8 {
            let (name, subnet) = (format!("p-{number}"), format!("10.{number}.0.0/24"));
            let [one, two] = [1, 2].map(|last| format!("10.{number}.0.{last}"));
            let created = user.create::<SpiderIPPool>(pool(&name, &subnet, &[&two, &one])).await.unwrap();
            assert_eq!(created.metadata.finalizers.as_deref(), Some(&[FINALIZER.to_owned()][..]));
            assert_eq!(created.spec.ip_version, Some(4));
            assert_eq!(created.spec.ips, Some(vec![format!("{one}-{two}")]));
            assert!(created.metadata.labels.as_ref().unwrap().contains_key(LABEL_IPPOOL_CIDR));
        }
        let reserved: SpiderReservedIP = from_json(json!({"metadata": {"name": "r"}, "spec": {"ips": ["10.0.0.1"]}}));
        assert_eq!(user.create::<SpiderReservedIP>(reserved).await.unwrap().spec.ip_version, Some(4));
        // The replica that does not lead works alone, and so does the other one.
        for number in 0..2 {
            let process = bed.rt.find_process(&format!("spiderpool-controller-{number}")).unwrap();
            bed.cluster.crash(process);
            bed.wait(11 * SECOND).await;
            user.create::<SpiderIPPool>(pool(&format!("without-{number}"), &format!("11.{number}.0.0/24"), &[])).await.unwrap();
            bed.cluster.start(process);
            bed.wait(30 * SECOND).await;
        }
    });
}

#[test]
fn what_breaks_a_rule_is_refused_with_its_code_and_the_name_of_the_webhook() {
    beside(2, async |_, user| {
        user.create::<SpiderIPPool>(pool("first", "10.0.0.0/24", &["10.0.0.1-10.0.0.9"])).await.unwrap();
        let denied = "admission webhook \"spiderippool.spiderpool.spidernet.io\" denied the request: ";
        let (code, reason, message) = refused(user.create::<SpiderIPPool>(pool("second", "10.0.0.0/24", &["10.0.0.9-10.0.0.20"])).await);
        assert_eq!((code, &*reason), (422, "Invalid"));
        assert!(message.starts_with(denied), "{message}");
        let (code, reason, message) = refused(user.create::<SpiderIPPool>(pool("first", "10.0.0.0/24", &[])).await);
        assert_eq!((code, &*reason), (409, "AlreadyExists"));
        assert!(message.starts_with(denied), "{message}");
        let mut moved = (*user.get::<SpiderIPPool>(&ObjectKey::cluster("first")).await.unwrap()).clone();
        moved.spec.subnet = "10.1.0.0/24".to_owned();
        assert_eq!(refused(user.update(moved).await).0, 422);
    });
}

#[test]
fn without_a_replica_a_write_of_a_pool_fails_and_one_of_its_status_does_not() {
    beside(3, async |bed, user| {
        let stored = user.create::<SpiderIPPool>(pool("first", "10.0.0.0/24", &["10.0.0.1"])).await.unwrap();
        for number in 0..2 {
            bed.cluster.crash(bed.rt.find_process(&format!("spiderpool-controller-{number}")).unwrap());
        }
        let (code, _, message) = refused(user.create::<SpiderIPPool>(pool("second", "10.1.0.0/24", &[])).await);
        assert!(code == 500 && message.contains("connection refused"), "{message}");
        bed.wait(11 * SECOND).await;
        let (code, _, message) = refused(user.create::<SpiderIPPool>(pool("second", "10.1.0.0/24", &[])).await);
        assert!(code == 500 && message.contains("connection refused"), "{message}");
        let mut disabled = (*user.get::<SpiderIPPool>(&ObjectKey::cluster("first")).await.unwrap()).clone();
        disabled.status.get_or_insert_default().total_ip_count = Some(7);
        let counted = user.update_status(disabled.clone()).await.unwrap();
        assert_eq!(counted.status.as_ref().unwrap().total_ip_count, Some(7));
        disabled.metadata.resource_version.clone_from(&counted.metadata.resource_version);
        disabled.spec.disable = !stored.spec.disable;
        assert_eq!(refused(user.update(disabled).await).0, 500);
    });
}

/// Whether two overlapping pools that are created at the same time are both accepted.
fn both_pass(seed: u64) -> bool {
    beside(seed, async |bed, user| {
        let other = bed.client("other");
        let (one, two) = tokio::join!(
            user.create::<SpiderIPPool>(pool("one", "10.0.0.0/24", &["10.0.0.1-10.0.0.9"])),
            other.create::<SpiderIPPool>(pool("two", "10.0.0.0/24", &["10.0.0.5-10.0.0.20"])),
        );
        let passed: Vec<Arc<SpiderIPPool>> = [one, two].into_iter().flatten().collect();
        assert!(!passed.is_empty(), "the first of them is in nobody's way");
        passed.len() == 2
    })
}

#[test]
fn k124_two_overlapping_pools_that_are_created_at_once_can_both_pass() {
    assert!((1..60).any(both_pass));
}

/// A pod and a pool are created while no replica is running; then the replicas return.
const WITHOUT_REPLICAS: &str = r#"
name = "allocation-goes-on"
why = "Do pods get addresses while no webhook is served?"
phases = { safety = "2m", liveness = "1m" }
[workload]
kind = "spiderpool"
nodes = 1
apps = 0
pools = 1
families = "ipv4"
controllers = 2
admission = true
kinds = ["pod"]
[[fault]]
kind = "crash"
at = "10s"
process = "spiderpool-controller-*"
down = "80s"
[[op]]
kind = "apply-app"
at = "30s"
actor = "operator"
app = "web"
type = "pod"
[[op]]
kind = "create-pool"
at = "30s"
actor = "operator"
pool = { name = "new", spec = { subnet = "10.77.0.0/24", ips = ["10.77.0.1-10.77.0.9"] } }
[check]
always = ["no-address-has-two-live-sandboxes"]
eventually = [{ claim = "pods-get-addresses", within = "30s" }]
"#;

fn status_of(outcome: &Outcome, name: &str) -> Option<Value> {
    let found = outcome.objects.iter().find(|(_, object)| object.meta().name.as_deref() == Some(name))?;
    Some(found.1.to_value())
}

#[test]
fn pods_get_addresses_while_no_webhook_is_served_and_pools_wait_for_one() {
    let plan = scenario("allocation-goes-on", WITHOUT_REPLICAS).draw(1);
    let until = |seconds| {
        let outcome = run(
            &plan,
            &Stage::new(Vec::new()),
            RunOptions { dump: true, until: Some(SimTime::from_secs(seconds)), ..RunOptions::default() },
        );
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        outcome
    };
    let meanwhile = until(80);
    let pod = meanwhile.objects.iter().find(|(_, object)| object.as_any().is::<Pod>()).unwrap();
    assert!(typed_ref::<Pod>(&*pod.1).status.as_ref().unwrap().pod_ip.is_some());
    assert!(status_of(&meanwhile, "new").is_none());
    let after = status_of(&until(170), "new").unwrap();
    assert_eq!((&after["spec"]["ipVersion"], &after["metadata"]["finalizers"]), (&json!(4), &json!([FINALIZER])));
}
