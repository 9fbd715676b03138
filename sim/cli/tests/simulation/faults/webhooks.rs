//! Webhook servers that are slow, wrong, silent, or called more than once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::Verb;
use kube_machinery::{ApiError, ClientExt};
use kube_sim::cluster::SimClient;
use kube_sim::cluster::admission::{FailurePolicy, Part, Review, Rule, Service, Verdict, Webhook};
use kube_sim::fault::{
    CertificateProblem, Crash, FaultKind, HostDown, WebhookCertificate, WebhookDenies, WebhookDown, WebhookSlow, WebhookTwice,
};
use kube_sim::object::make_mut;
use kube_sim::rt::ProcessId;
use kube_sim::testbed::{Testbed, config_map, key};
use sim_config::time::{SimTime, Span};

use super::{ALWAYS, SECOND, create, stored, strike, target, took};

/// A webhook for new ConfigMaps, served by `hook-0` and `hook-1`, that counts in an annotation how often it was called for an object.
fn hooked(bed: &Testbed) -> [ProcessId; 2] {
    hooked_with(bed, FailurePolicy::Fail)
}

fn hooked_with(bed: &Testbed, failure_policy: FailurePolicy) -> [ProcessId; 2] {
    let count = |review: Review| -> Pin<Box<dyn Future<Output = Verdict> + Send>> {
        let mut object = review.object.expect("only creates are asked about");
        let annotations = make_mut(&mut object).meta_mut().annotations.get_or_insert_default();
        let asked = annotations.get("asked").map_or(0, |asked| asked.parse::<u32>().unwrap());
        annotations.insert("asked".to_owned(), (asked + 1).to_string());
        Box::pin(std::future::ready(Ok(Some(object))))
    };
    let service = Service::new("hooks");
    let processes = ["hook-0", "hook-1"].map(|name| bed.process(name));
    processes.iter().for_each(|process| service.serve(*process, Arc::new(count), SimTime::ZERO));
    bed.cluster.add_webhook(Webhook {
        rules: vec![Rule { operations: vec![Verb::Create], kinds: vec![bed.kind::<ConfigMap>()], part: Part::Main }],
        failure_policy,
        ..Webhook::new("count.example.com", true, service)
    });
    processes
}

async fn asked(client: &SimClient, name: &str) -> String {
    client.get::<ConfigMap>(&key(name)).await.unwrap().metadata.annotations.clone().unwrap_or_default()["asked"].clone()
}

/// The message of the error with code 500 with which a create fails.
fn failure(result: Result<(), ApiError>) -> String {
    match result {
        Err(ApiError::Status(status)) if status.code == 500 => status.message(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn slow_webhooks_delay_a_write_and_beyond_their_time_out_fail_it() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        hooked(&bed);
        let slow = |by| FaultKind::WebhookSlow(WebhookSlow { process: target("hook-*"), chance: ALWAYS, by: Span::secs(by) });
        strike(&bed, 20 * SECOND, slow(5)).await;
        let (lasted, created) = took(&bed, create(&client, "late")).await;
        assert!(created.is_ok() && lasted > 5 * SECOND && lasted < 8 * SECOND, "{lasted:?}");
        bed.wait(20 * SECOND).await;
        strike(&bed, 20 * SECOND, slow(15)).await;
        let (lasted, created) = took(&bed, create(&client, "never")).await;
        assert!(failure(created.map(drop)).contains("context deadline exceeded") && !stored(&bed, "never"));
        assert!(lasted > 10 * SECOND && lasted < 12 * SECOND, "{lasted:?}");
        bed.wait(20 * SECOND).await;
        let (lasted, created) = took(&bed, create(&client, "soon")).await;
        assert!(created.is_ok() && lasted < 2 * SECOND, "the fault is over");
    });
}

#[test]
fn a_mistaken_webhook_denies_what_the_other_replica_admits() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        hooked(&bed);
        let denies = WebhookDenies { process: target("hook-1"), chance: ALWAYS };
        strike(&bed, 1_900 * SECOND, FaultKind::WebhookDenies(denies)).await;
        let (mut admitted, mut denied) = (0, 0);
        for number in 0..20 {
            // Longer than an idle connection is kept: the Service chooses the target of each call (K199).
            bed.wait(91 * SECOND).await;
            match create(&client, &format!("c-{number}")).await {
                Ok(_) => admitted += 1,
                Err(ApiError::Status(status)) if status.code == 403 => {
                    assert!(status.message().starts_with("admission webhook \"count.example.com\" denied the request: "), "{status:?}");
                    denied += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(admitted > 2 && denied > 2, "{admitted} and {denied}");
        bed.wait(100 * SECOND).await;
        for number in 20..30 {
            create(&client, &format!("c-{number}")).await.unwrap();
        }
    });
}

#[test]
fn a_silent_webhook_lets_calls_time_out_although_its_process_lives() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        let processes = hooked(&bed);
        strike(&bed, 60 * SECOND, FaultKind::WebhookDown(WebhookDown { process: target("hook-*") })).await;
        bed.wait(30 * SECOND).await;
        let (lasted, created) = took(&bed, create(&client, "never")).await;
        assert!(failure(created.map(drop)).contains("context deadline exceeded") && lasted > 10 * SECOND, "{lasted:?}");
        assert!(processes.iter().all(|process| bed.rt.state(*process) == kube_sim::rt::ProcessState::Running));
        bed.wait(30 * SECOND).await;
        create(&client, "soon").await.unwrap();
    });
}

#[test]
fn a_webhook_that_is_called_twice_sees_what_it_made() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        hooked(&bed);
        let twice = WebhookTwice { process: target("hook-*"), chance: ALWAYS };
        strike(&bed, 20 * SECOND, FaultKind::WebhookTwice(twice)).await;
        create(&client, "twice").await.unwrap();
        assert_eq!(asked(&client, "twice").await, "2");
        bed.wait(20 * SECOND).await;
        create(&client, "once").await.unwrap();
        assert_eq!(asked(&client, "once").await, "1", "the fault is over");
    });
}

#[test]
fn a_dead_replica_refuses_calls_until_its_probe_has_noticed_and_without_one_every_call_fails() {
    let (mut refused, mut admitted) = (0, 0);
    for seed in 0..20 {
        Testbed::run(seed, async |bed| {
            let client = bed.client("client");
            let [first, second] = hooked(&bed);
            bed.cluster.crash(first);
            // No connection exists yet: the Service sends the first call to either process.
            match create(&client, "first").await {
                Ok(_) => admitted += 1,
                Err(ApiError::Status(status)) => {
                    assert!(status.code == 500 && status.message().contains("connection refused"), "{status:?}");
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
            bed.wait(11 * SECOND).await;
            for number in 0..5 {
                create(&client, &format!("c-{number}")).await.unwrap();
            }
            bed.cluster.crash(second);
            bed.wait(11 * SECOND).await;
            let failed = failure(client.create(config_map("none", "k", "v")).await.map(drop));
            assert!(failed.starts_with("Internal error occurred: failed calling webhook \"count.example.com\""), "{failed}");
            assert!(failed.ends_with("connect: connection refused"), "{failed}");
        });
    }
    assert!(refused > 2 && admitted > 2, "{refused} and {admitted}");
}

/// The results of creates before, during and after the fault. `patient`: whether the connection of the first has been idle for too long by
/// then.
fn with_certificate(problem: CertificateProblem, failure_policy: FailurePolicy, patient: bool) -> [Result<String, String>; 3] {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        hooked_with(&bed, failure_policy);
        let outcome = async |name: &str| match create(&client, name).await {
            Ok(map) => Ok(map.metadata.annotations.clone().unwrap_or_default().get("asked").cloned().unwrap_or_default()),
            Err(error) => Err(failure(Err(error))),
        };
        let before = outcome("before").await;
        bed.wait(60 * SECOND).await;
        let fault = WebhookCertificate { process: target("hook-*"), problem };
        strike(&bed, 100 * SECOND, FaultKind::WebhookCertificate(fault)).await;
        bed.wait(if patient { 95 * SECOND } else { SECOND }).await;
        let meanwhile = outcome("meanwhile").await;
        bed.wait(100 * SECOND).await;
        [before, meanwhile, outcome("after").await]
    })
}

#[test]
fn k198_a_certificate_that_is_not_accepted_fails_new_connections_at_once_and_none_that_is_there() {
    let call = "Internal error occurred: failed calling webhook \"count.example.com\": failed to call webhook: ";
    let post = "Post \"https://hooks.default.svc:443/mutate-count.example.com?timeout=10s\": ";
    let asked = |times: &str| Ok(times.to_owned());
    for (problem, why) in [
        (
            CertificateProblem::Expired,
            // The run began at 00:00:00; the API server connects 95 s after the fault.
            "certificate has expired or is not yet valid: current time 2026-01-01T00:02:40Z is after 2026-01-01T00:01:05Z",
        ),
        (CertificateProblem::UnknownAuthority, "certificate signed by unknown authority"),
    ] {
        let error = Err(format!("{call}{post}tls: failed to verify certificate: x509: {why}"));
        assert_eq!(with_certificate(problem, FailurePolicy::Fail, true), [asked("1"), error, asked("1")]);
        assert_eq!(with_certificate(problem, FailurePolicy::Ignore, true), [asked("1"), asked(""), asked("1")]);
        assert_eq!(with_certificate(problem, FailurePolicy::Fail, false), [asked("1"), asked("1"), asked("1")], "it is connected");
    }
}

#[test]
fn k198_whose_clock_is_behind_goes_on_to_accept_a_certificate_that_has_expired() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("client", 0);
        hooked(&bed);
        let behind = bed.rt.host_of(bed.cluster.server_process(0));
        bed.rt.adjust_clock(behind, |clock, _| clock.step_wall(-3_600_000_000));
        let fault = WebhookCertificate { process: target("hook-*"), problem: CertificateProblem::Expired };
        strike(&bed, 100 * SECOND, FaultKind::WebhookCertificate(fault)).await;
        bed.wait(SECOND).await;
        create(&client, "a").await.unwrap();
        let other = bed.client_on("other", 1);
        let failed = failure(create(&other, "b").await.map(drop));
        assert!(failed.contains("x509: certificate has expired"), "{failed}");
    });
}

#[test]
fn k200_a_host_without_power_lets_calls_time_out_and_one_whose_processes_crash_does_not() {
    // First on the existing connection, then on those that are dialled until the Service has no endpoint left.
    let down = |host: &str| FaultKind::HostDown(HostDown { host: target(host) });
    let crash = |process: &str| FaultKind::Crash(Crash { process: target(process), down: Span::secs(300) });
    for (powerless, calls) in [(true, 5), (false, 0)] {
        for seed in 0..5 {
            Testbed::run(seed, async |bed| {
                let client = bed.client("client");
                hooked(&bed);
                create(&client, "first").await.unwrap();
                strike(&bed, 300 * SECOND, if powerless { down("hook-*") } else { crash("hook-*") }).await;
                for number in 0..8 {
                    let (lasted, created) = took(&bed, create(&client, &format!("c-{number}"))).await;
                    let failed = failure(created.map(drop));
                    let hangs = number < calls;
                    let why = if hangs { "context deadline exceeded" } else { "connection refused" };
                    assert!(failed.ends_with(why), "call {number}: {failed}");
                    assert_eq!(lasted >= 10 * SECOND, hangs, "{lasted:?}");
                }
            });
        }
    }
}
