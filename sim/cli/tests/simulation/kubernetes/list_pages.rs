//! K §10.2: LIST in pages, and the permitted combinations of options.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{ListOptions, Reason, VersionMatch};
use kube_machinery::{ClientExt, ObjectKey};
use kube_sim::cluster::{ClusterConfig, Knobs, SimClient};
use kube_sim::testbed::{Testbed, config_map};

use super::support::*;

/// Reads every page, and calls `between` after each; returns the items of all pages.
async fn pages(client: &SimClient, options: ListOptions, between: impl AsyncFn()) -> Vec<Arc<ConfigMap>> {
    let limit = options.limit;
    let first = client.list::<ConfigMap>(None, options.clone()).await.unwrap();
    let (revision, mut items) = (first.resource_version, first.items);
    let (mut token, mut remaining) = (first.continue_token, first.remaining);
    while let Some(continued) = token {
        between().await;
        let (resource_version, resource_version_match) = (None, None);
        let page_options = ListOptions { continue_token: Some(continued), resource_version, resource_version_match, ..options.clone() };
        let page = client.list::<ConfigMap>(None, page_options).await.unwrap();
        assert_eq!(page.resource_version, revision, "every page is of one revision");
        if let Some(before) = remaining {
            assert_eq!(page.items.len() as u64 + page.remaining.unwrap_or(0), before);
        }
        assert!(page.continue_token.is_none() || page.items.len() == limit as usize);
        items.extend(page.items);
        (token, remaining) = (page.continue_token, page.remaining);
    }
    items
}

#[test]
fn k028_the_pages_of_a_list_are_one_snapshot() {
    for seed in SEEDS {
        let knobs = Knobs { consistent_list_from_cache: seed % 2 == 0, ..Knobs::default() };
        Testbed::run_with(ClusterConfig { seed, knobs, ..ClusterConfig::default() }, 2, async |bed| {
            fill(&bed, 6).await;
            let (writer, reader) = (bed.client("writer"), bed.client("reader"));
            for limit in [1, 2, 5, 11, 12, 13] {
                bed.wait(secs(5)).await;
                let revision = bed.revision();
                let expected = state_at::<ConfigMap>(&bed, revision);
                let version = if limit % 2 == 0 { None } else { Some(revision.to_string()) };
                let options = ListOptions { limit, resource_version: version, ..ListOptions::default() };
                let items = pages(&reader, options, async || {
                    churn(bed.clone(), writer.clone(), 6).await;
                    writer.create(config_map_in("other", &format!("zz-{}", bed.revision()), "0")).await.unwrap();
                    drop(writer.delete::<ConfigMap>(&ObjectKey::namespaced("other", "m-05"), Default::default()).await);
                    reader.connect_to(1 - reader.server());
                })
                .await;
                assert_eq!(state_of(&items), expected, "limit {limit}");
            }
        });
    }
}

async fn first_page(client: &SimClient, limit: u32) -> ListOptions {
    let page = client.list::<ConfigMap>(None, ListOptions { limit, ..ListOptions::default() }).await.unwrap();
    ListOptions { limit, continue_token: page.continue_token, ..ListOptions::default() }
}

#[test]
fn k029_a_continue_token_from_before_a_compaction_is_expired_and_replaced() {
    Testbed::run(1, async |bed| {
        fill(&bed, 5).await;
        let (writer, reader) = (bed.client("writer"), bed.client("reader"));
        let next = first_page(&reader, 4).await;
        bed.cluster.compact(bed.revision());
        // The revision itself is still available.
        reader.list::<ConfigMap>(None, next.clone()).await.unwrap();
        writer.create(config_map("x", "v", "0")).await.unwrap();
        bed.cluster.compact(bed.revision());
        let status = refused(reader.list::<ConfigMap>(None, next.clone()).await);
        assert_eq!((status.code, status.reason), (410, Reason::Expired));
        assert!(
            status.message().starts_with("The provided continue parameter is too old to display a consistent list result."),
            "{status}"
        );
        let fresh = status.continue_token.expect("a replacement");
        assert!(!fresh.is_empty() && Some(&fresh) != next.continue_token.as_ref());
    });
}

#[test]
fn k030_the_replacement_goes_on_at_the_latest_revision() {
    Testbed::run(1, async |bed| {
        fill(&bed, 5).await;
        let (writer, reader) = (bed.client("writer"), bed.client("reader"));
        let next = first_page(&reader, 4).await;
        let early = writer.create(config_map("a-before", "v", "0")).await.unwrap();
        let late = writer.create(config_map_in("other", "z-after", "0")).await.unwrap();
        let gone = ObjectKey::namespaced("other", "m-04");
        writer.delete::<ConfigMap>(&gone, Default::default()).await.unwrap();
        bed.cluster.compact(bed.revision());
        let fresh = refused(reader.list::<ConfigMap>(None, next).await).continue_token;
        let rest = reader.list::<ConfigMap>(None, ListOptions { continue_token: fresh, ..ListOptions::default() }).await.unwrap();
        assert_eq!(rest.resource_version, bed.revision().to_string());
        assert!(rest.items.contains(&late) && !rest.items.contains(&early));
        assert!(!rest.items.iter().any(|map| ObjectKey::of(&**map) == gone));
        assert_eq!(rest.items.len(), 10 - 4 + 1 - 1);
    });
}

#[test]
fn k032_a_match_needs_a_version_that_it_can_match() {
    Testbed::run(1, async |bed| {
        fill(&bed, 3).await;
        let client = bed.client("reader");
        let token = first_page(&client, 2).await;
        for matching in [VersionMatch::Exact, VersionMatch::NotOlderThan] {
            let bare = ListOptions { resource_version_match: Some(matching), ..ListOptions::default() };
            let zero = ListOptions { resource_version: Some("0".into()), ..bare.clone() };
            let continued = ListOptions { resource_version_match: Some(matching), ..token.clone() };
            let both = ListOptions { resource_version: Some("0".into()), ..continued.clone() };
            let mut refusals = vec![bare, continued, both];
            if matching == VersionMatch::Exact {
                refusals.push(zero);
            }
            for options in refusals {
                let status = refused(client.list::<ConfigMap>(None, options.clone()).await);
                assert_eq!((status.code, status.reason), (422, Reason::Invalid), "{options:?}");
                assert_eq!(status.details.causes[0].field, "resourceVersionMatch");
                assert!(status.message().contains("resourceVersionMatch: Forbidden: "), "{status}");
            }
        }
    });
}

#[test]
fn k033_a_continue_token_with_a_version_is_a_bad_request() {
    Testbed::run(1, async |bed| {
        fill(&bed, 3).await;
        let client = bed.client("reader");
        let token = first_page(&client, 2).await;
        for version in ["1", &bed.revision().to_string(), "1000000"] {
            let status =
                refused(client.list::<ConfigMap>(None, ListOptions { resource_version: Some(version.into()), ..token.clone() }).await);
            assert_eq!((status.code, status.reason), (400, Reason::BadRequest));
        }
        // "0" requests all the rest: the limit has no effect, as on the first page.
        for (version, items) in [("", 2), ("0", 4)] {
            let options = ListOptions { resource_version: Some(version.into()), ..token.clone() };
            assert_eq!(client.list::<ConfigMap>(None, options).await.unwrap().items.len(), items, "{version:?}");
        }
    });
}

#[test]
fn k034_a_list_with_a_selector_does_not_say_how_many_items_remain() {
    Testbed::run(1, async |bed| {
        fill(&bed, 5).await;
        let client = bed.client("reader");
        let limited = |options: ListOptions| ListOptions { limit: 2, ..options };
        for (options, expected) in [
            (ListOptions::default(), Some(8)),
            (ListOptions { label_selector: Some("!gone".into()), ..ListOptions::default() }, None),
            (ListOptions { field_selector: Some("metadata.namespace!=nowhere".into()), ..ListOptions::default() }, None),
        ] {
            let list = client.list::<ConfigMap>(None, limited(options)).await.unwrap();
            assert_eq!((list.items.len(), list.remaining), (2, expected));
            assert!(list.continue_token.is_some());
        }
    });
}
