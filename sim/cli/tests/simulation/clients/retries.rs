//! Retries and rate limits (K152, K153, K §4.4, §4.7).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{DeleteOptions, ListOptions, Verb, WatchOptions};
use kube_machinery::rate_limit::{CLIENT_GO, RateLimited};
use kube_machinery::retry::{Backoff, DEFAULT_BACKOFF, DEFAULT_RETRY, retry_on_conflict};
use kube_machinery::transparent::{Policy, Transparent};
use kube_machinery::{ApiError, Client, ClientExt};
use kube_sim::cluster::server::Failure;
use kube_sim::fault::{FaultKind, LostReply, ServerError, TooManyRequests, Unavailable};
use kube_sim::testbed::{Testbed, config_map, key};
use parking_lot::Mutex;
use sim_config::Probability;
use sim_config::time::{SimTime, Span};

use super::{MS, SECOND, fault, schedule, target};

async fn get(client: &impl Client, name: &str) -> Result<Arc<ConfigMap>, ApiError> {
    client.get::<ConfigMap>(&key(name)).await
}

/// The sleeps between the attempts of a write that always conflicts.
fn sleeps(seed: u64, backoff: Backoff) -> (Vec<Duration>, ApiError) {
    Testbed::run(seed, async |bed| {
        let client = bed.client("client");
        let stale = client.create(config_map("a", "k", "v")).await.unwrap();
        client.update(config_map("a", "k", "w")).await.unwrap();
        let times = Mutex::new(Vec::new());
        let (client, times, bed) = (&client, &times, &bed);
        let result: Result<(), ApiError> = retry_on_conflict(&bed.env(client), backoff, || {
            let stale = stale.clone();
            async move {
                let began = bed.rt.now();
                let result = client.update::<ConfigMap>(stale).await.map(drop);
                times.lock().push((began, bed.rt.now()));
                result
            }
        })
        .await;
        let times: Vec<(SimTime, SimTime)> = times.lock().clone();
        (times.windows(2).map(|pair| pair[1].0 - pair[0].1).collect(), result.unwrap_err())
    })
}

#[test]
fn k152_a_conflict_is_retried_with_client_gos_sleeps() {
    for seed in 0..10 {
        let (slept, error) = sleeps(seed, DEFAULT_RETRY);
        assert_eq!(slept.len(), 4, "5 attempts");
        assert!(slept.iter().all(|sleep| (10 * MS..11 * MS).contains(sleep)), "{slept:?}");
        assert!(error.is_conflict(), "the last conflict is the caller's");

        let (slept, _) = sleeps(seed, DEFAULT_BACKOFF);
        assert_eq!(slept.len(), 3, "4 attempts");
        for (sleep, base) in slept.iter().zip([10, 50, 250]) {
            assert!((base * MS..base * MS * 11 / 10).contains(sleep), "{slept:?}");
        }
    }
    assert_ne!(sleeps(0, DEFAULT_RETRY).0, sleeps(1, DEFAULT_RETRY).0, "with jitter");
}

#[test]
fn k152_only_a_conflict_is_retried() {
    Testbed::run(1, async |bed| {
        let client = bed.client("client");
        client.create(config_map("a", "k", "v")).await.unwrap();
        let tries = Mutex::new(0);
        let (client, tries) = (&client, &tries);
        let attempts = async |create: bool| {
            *tries.lock() = 0;
            let result: Result<(), ApiError> = retry_on_conflict(&bed.env(client), DEFAULT_RETRY, || async move {
                *tries.lock() += 1;
                if create { client.create(config_map("a", "k", "v")).await.map(drop) } else { get(client, "missing").await.map(drop) }
            })
            .await;
            (result.unwrap_err(), *tries.lock())
        };
        let (error, tries) = attempts(true).await;
        assert!(error.is_already_exists() && tries == 1, "a 409 of another reason: {error}");
        let (error, tries) = attempts(false).await;
        assert!(error.is_not_found() && tries == 1);
    });
}

#[test]
fn k152_many_writers_exhaust_the_default_retry_and_lose_no_acknowledged_update() {
    let (mut acknowledged, mut exhausted) = (0, 0);
    for seed in 0..5 {
        let (added, failed, entries) = Testbed::run(seed, async |bed| {
            let admin = bed.client("admin");
            admin.create(config_map("counter", "k", "v")).await.unwrap();
            let results = Arc::new(Mutex::new((0, 0)));
            for number in 0..20 {
                let (client, results) = (bed.client(&format!("writer-{number}")), results.clone());
                let env = bed.env(&client);
                bed.rt.spawn(client.process(), async move {
                    let client = &client;
                    let result = retry_on_conflict(&env, DEFAULT_RETRY, || async move {
                        let mut counter = (*get(client, "counter").await?).clone();
                        counter.data.get_or_insert_default().insert(format!("entry-{number}"), String::new());
                        client.update(counter).await
                    })
                    .await;
                    match result {
                        Ok(_) => results.lock().0 += 1,
                        Err(error) if error.is_conflict() => results.lock().1 += 1,
                        Err(error) => panic!("{error}"),
                    }
                });
            }
            bed.wait(30 * SECOND).await;
            let (added, failed) = *results.lock();
            (added, failed, get(&admin, "counter").await.unwrap().data.as_ref().unwrap().len() - 1)
        });
        assert_eq!((added + failed, entries), (20, added), "seed {seed}");
        acknowledged += added;
        exhausted += failed;
    }
    assert!(acknowledged > 20 && exhausted > 5, "{acknowledged} acknowledged, {exhausted} exhausted");
}

/// The results of a create, a delete and a get under a fault that affects every request, and the number of times that each was sent.
fn sent(policy: Policy, kind: impl Fn(Probability) -> FaultKind) -> Vec<(u64, Duration, ApiError)> {
    Testbed::run(1, async |bed| {
        let plain = bed.client_on("client", 0);
        let client = Transparent::new(plain.clone(), bed.env(&plain), policy);
        schedule(&bed, &[fault(&bed, 0, Duration::from_secs(3_000), kind(Probability::ALWAYS))]);
        bed.wait(MS).await;
        let mut seen = Vec::new();
        for verb in [Verb::Create, Verb::Delete, Verb::Get] {
            let (requests, started) = (bed.cluster.recorder(|recorder| recorder.counts.requests), bed.rt.now());
            let error = match verb {
                Verb::Create => client.create(config_map("a", "k", "v")).await.unwrap_err(),
                Verb::Delete => client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await.unwrap_err(),
                _ => client.get::<ConfigMap>(&key("a")).await.unwrap_err(),
            };
            seen.push((bed.cluster.recorder(|recorder| recorder.counts.requests) - requests, bed.rt.now() - started, error));
        }
        seen
    })
}

#[test]
fn k153_client_go_resends_any_verb_ten_times_if_told_how_long_to_wait() {
    let kind =
        |chance| FaultKind::TooManyRequests(TooManyRequests { server: target("*"), client: target("client"), chance, retry_after: 3 });
    for (times, waited, error) in sent(Policy::ClientGo, kind) {
        assert_eq!((times, error.code()), (11, Some(429)));
        assert!((30 * SECOND..31 * SECOND).contains(&waited), "{waited:?}");
    }
    for (times, waited, error) in
        sent(Policy::ClientGo, |chance| FaultKind::Unavailable(Unavailable { server: target("*"), client: target("client"), chance }))
    {
        assert_eq!((times, error.code()), (11, Some(503)));
        assert!((10 * SECOND..11 * SECOND).contains(&waited), "{waited:?}");
    }
    for (times, _, error) in
        sent(Policy::ClientGo, |chance| FaultKind::ServerError(ServerError { server: target("*"), client: target("client"), chance }))
    {
        assert_eq!((times, error.code()), (1, Some(500)), "without Retry-After it is the caller's business");
    }
}

#[test]
fn k153_kube_rs_resends_any_verb_fifteen_times_with_doubling_waits() {
    let kind =
        |chance| FaultKind::TooManyRequests(TooManyRequests { server: target("*"), client: target("client"), chance, retry_after: 1 });
    for (times, waited, error) in sent(Policy::KubeRs, kind) {
        assert_eq!((times, error.code()), (16, Some(429)));
        // 5 ms doubling, but a second at least: eight times a second, then 1.28 s to 81.92 s.
        let waits = 8 * SECOND + 5 * MS * ((1 << 15) - (1 << 8));
        assert!((waits..waits + SECOND).contains(&waited), "{waited:?} {waits:?}");
    }
    for (times, _, error) in
        sent(Policy::KubeRs, |chance| FaultKind::ServerError(ServerError { server: target("*"), client: target("client"), chance }))
    {
        assert_eq!((times, error.code()), (1, Some(500)), "500 is not retried");
    }
}

#[test]
fn k153_a_resent_create_meets_its_own_object_and_a_resent_delete_finds_nothing() {
    for (policy, failure) in [(Policy::ClientGo, Failure::ServerTimeout), (Policy::KubeRs, Failure::Timeout)] {
        for seed in 0..5 {
            Testbed::run(seed, async |bed| {
                let plain = bed.client("client");
                let client = Transparent::new(plain.clone(), bed.env(&plain), policy);
                // Long enough for the first attempt, too short for the last.
                let lost = |error| LostReply {
                    server: target("*"),
                    client: target("client"),
                    chance: Probability::ALWAYS,
                    error,
                    after: Span::millis(1),
                };
                schedule(&bed, &[fault(&bed, 0, 100 * MS, FaultKind::LostReply(lost(failure)))]);
                bed.wait(MS).await;
                assert!(client.create(config_map("a", "k", "v")).await.unwrap_err().is_already_exists());
                get(&plain, "a").await.expect("it is there: the caller's own");
                schedule(&bed, &[fault(&bed, 0, 100 * MS, FaultKind::LostReply(lost(failure)))]);
                bed.wait(MS).await;
                let deleted = client.delete::<ConfigMap>(&key("a"), DeleteOptions::default()).await;
                assert!(deleted.unwrap_err().is_not_found(), "its own delete has taken it");
            });
        }
    }
}

#[test]
fn a_broken_connection_is_resent_for_reads_only_and_leads_to_another_server() {
    Testbed::run(1, async |bed| {
        let plain = bed.client_on("client", 0);
        let client = Transparent::new(plain.clone(), bed.env(&plain), Policy::ClientGo);
        client.create(config_map("a", "k", "v")).await.unwrap();
        let lost = LostReply {
            server: target("*"),
            client: target("client"),
            chance: Probability::ALWAYS,
            error: Failure::Reset,
            after: Span::millis(1),
        };
        schedule(&bed, &[fault(&bed, 0, 10 * SECOND, FaultKind::LostReply(lost))]);
        bed.wait(MS).await;
        let error = client.create(config_map("b", "k", "v")).await.unwrap_err();
        assert_eq!(error, kube_machinery::api::TransportError::Reset.into(), "a write is not resent");
        get(&client, "b").await.expect("though it was committed");
    });
}

#[test]
fn a_rate_limited_client_waits_for_tokens_but_not_to_watch() {
    for seed in 0..3 {
        Testbed::run(seed, async |bed| {
            let plain = bed.client("client");
            let client = RateLimited::new(plain.clone(), bed.env(&plain), CLIENT_GO);
            let started = bed.rt.now();
            for _ in 0..30 {
                client.list::<ConfigMap>(None, ListOptions::default()).await.unwrap();
            }
            let waited = bed.rt.now() - started;
            // 10 at once, then 5 per second.
            assert!((4 * SECOND..4_200 * MS).contains(&waited), "{waited:?}");
            let started = bed.rt.now();
            client.watch::<ConfigMap>(None, WatchOptions::default()).await.map(drop).unwrap();
            assert!(bed.rt.now() - started < 150 * MS, "the bucket is empty and a watch needs no token");
        });
    }
}

#[test]
fn each_resend_takes_a_token_of_its_own() {
    Testbed::run(1, async |bed| {
        let plain = bed.client("client");
        let limited = RateLimited::new(plain.clone(), bed.env(&plain), CLIENT_GO);
        let client = Transparent::new(limited, bed.env(&plain), Policy::KubeRs);
        // Empties the bucket, so that each token takes 200 ms.
        for _ in 0..10 {
            get(&client, "a").await.unwrap_err();
        }
        let kind = TooManyRequests { server: target("*"), client: target("client"), chance: Probability::ALWAYS, retry_after: 0 };
        schedule(&bed, &[fault(&bed, 0, SECOND, FaultKind::TooManyRequests(kind))]);
        bed.wait(MS).await;
        let requests = bed.cluster.recorder(|recorder| recorder.counts.requests);
        get(&client, "a").await.unwrap_err();
        let resends = bed.cluster.recorder(|recorder| recorder.counts.requests) - requests;
        // Its own waits of 5, 10, 20, 40 and 80 ms would have allowed nine attempts in that second.
        assert!((5..=7).contains(&resends), "{resends}");
    });
}
