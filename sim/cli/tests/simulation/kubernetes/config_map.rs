//! ConfigMaps are stored as one type and used as two: with the pool's document as a value, and with plain texts only. Users of one form
//! must not be affected by users of the other.

use std::sync::Arc;

use ipam_byom::{Address, PoolConfigMap, PoolDocument, STATE_KEY};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::api::{ListOptions, Patch, WatchEvent};
use kube_machinery::json_text::{JsonText, TextForm};
use kube_machinery::{ClientExt, ObjectKey, Reason};
use kube_sim::testbed::{Testbed, from_json, key};
use serde_json::json;

use super::support::{after, changed, hear, refused, rv, secs, silent, watch};

fn pool_key() -> ObjectKey {
    key("pool")
}

/// A document with these addresses available.
fn document(available: &[&str]) -> PoolDocument {
    PoolDocument { available: available.iter().copied().map(Address::new).collect(), version: 3, ..PoolDocument::default() }
}

fn typed(document: PoolDocument) -> PoolConfigMap {
    PoolConfigMap::new(&pool_key(), document.into())
}

fn plain(text: &str) -> ConfigMap {
    from_json(json!({"metadata": {"name": "pool", "namespace": "default"}, "data": {STATE_KEY: text, "other": "entry"}}))
}

fn text_of(map: &ConfigMap) -> &str {
    &map.data.as_ref().expect("there are entries")[STATE_KEY]
}

#[test]
fn a_plain_client_reads_the_exact_text_of_what_a_typed_client_wrote() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let document = document(&["10.9.0.10", "10.9.0.11"]);
        let created = client.create(typed(document.clone())).await.unwrap();
        let read = client.get::<ConfigMap>(&pool_key()).await.unwrap();
        assert_eq!(text_of(&read), document.to_text());
        assert_eq!(read.metadata, created.metadata);
        let listed = client.list::<ConfigMap>(Some("default"), ListOptions::default()).await.unwrap();
        assert_eq!(listed.items, [read]);
    });
}

#[test]
fn a_typed_client_shares_what_is_stored() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let created = client.create(typed(document(&["10.9.0.10"]))).await.unwrap();
        let read = client.get::<PoolConfigMap>(&pool_key()).await.unwrap();
        assert!(Arc::ptr_eq(&created, &read), "nothing is copied");
    });
}

#[test]
fn a_typed_client_parses_what_a_plain_client_wrote() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let document = document(&["10.9.0.10"]);
        let spelled = document.to_text().replace('\n', "");
        client.create(plain(&spelled)).await.unwrap();
        let read = client.get::<PoolConfigMap>(&pool_key()).await.unwrap();
        assert_eq!(read.document().unwrap().parse().unwrap(), &document);
        assert_eq!(read.data.as_ref().unwrap().others["other"], "entry");
        assert_eq!(text_of(&client.get::<ConfigMap>(&pool_key()).await.unwrap()), spelled);
    });
}

#[test]
fn a_text_that_is_no_document_is_carried_verbatim() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let broken = "{\"allocatedIPs\": ";
        let created = client.create(plain(broken)).await.unwrap();
        let read = client.get::<PoolConfigMap>(&pool_key()).await.unwrap();
        read.document().unwrap().parse().unwrap_err();
        // A client that knows the type passes on what it cannot parse.
        let relabelled = changed(&*read, |map| map.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()));
        let updated = client.update(relabelled).await.unwrap();
        assert!(rv(&*updated) > rv(&*created));
        let read = client.get::<ConfigMap>(&pool_key()).await.unwrap();
        assert_eq!((text_of(&read), &read.data), (broken, &created.data));
    });
}

#[test]
fn a_put_of_the_same_bytes_in_the_other_form_changes_nothing() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let document = document(&["10.9.0.10"]);
        client.create(typed(document.clone())).await.unwrap();
        silent::<PoolConfigMap, _>(&bed, async || {
            let plain = client.get::<ConfigMap>(&pool_key()).await.unwrap();
            client.update(changed(&*plain, |_| {})).await.unwrap();
        })
        .await;

        let read = client.get::<ConfigMap>(&pool_key()).await.unwrap();
        let spelled = document.to_text().replace('\n', "");
        let other = changed(&*read, |map| map.data = Some([(STATE_KEY.to_owned(), spelled.clone())].into()));
        let updated = client.update(other).await.unwrap();
        assert!(rv(&*updated) > rv(&*read), "another spelling is another text");
        assert_eq!(text_of(&updated), spelled);

        let canonical = |map: &mut PoolConfigMap| *map = map.clone().with_document(document.clone().into());
        let read = client.get::<PoolConfigMap>(&pool_key()).await.unwrap();
        let updated = client.update(changed(&*read, canonical)).await.unwrap();
        assert!(rv(&*updated) > rv(&*read), "the canonical spelling differs from what stands there");
        let in_text = JsonText::verbatim(document.to_text());
        silent::<ConfigMap, _>(&bed, async || client.update((*updated).clone().with_document(in_text.clone())).await.unwrap()).await;
    });
}

#[test]
fn a_patch_works_on_the_texts() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let (first, second) = (document(&["10.9.0.10"]), document(&["10.9.0.12"]));
        client.create(typed(first.clone())).await.unwrap();
        let patched = client.patch::<ConfigMap>(&pool_key(), Patch::merge(json!({"data": {"k": "v"}}))).await.unwrap();
        assert_eq!((text_of(&patched), patched.data.as_ref().unwrap().len()), (&*first.to_text(), 2));
        silent::<ConfigMap, _>(&bed, async || {
            let same = json!({"data": {STATE_KEY: first.to_text()}});
            client.patch::<PoolConfigMap>(&pool_key(), Patch::merge(same)).await.unwrap()
        })
        .await;
        let patch = Patch::merge(json!({"data": {STATE_KEY: second.to_text()}}));
        let patched = client.patch::<PoolConfigMap>(&pool_key(), patch).await.unwrap();
        assert_eq!(patched.document().unwrap().parse().unwrap(), &second);
        assert_eq!(patched.data.as_ref().unwrap().others["k"], "v");
    });
}

#[test]
fn watches_of_both_types_hear_the_same() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let revision = bed.revision();
        let mut plainly = watch::<ConfigMap>(&bed.client("plain"), after(revision)).await;
        let mut typewise = watch::<PoolConfigMap>(&bed.client("typed"), after(revision)).await;
        let (first, second) = (document(&["10.9.0.10"]), document(&[]));
        let created = client.create(typed(first.clone())).await.unwrap();
        client.update((*created).clone().with_document(second.clone().into())).await.unwrap();
        client.delete::<ConfigMap>(&pool_key(), Default::default()).await.unwrap();

        let (heard, typed) = (hear(&bed, &mut plainly, secs(5)).await, hear(&bed, &mut typewise, secs(5)).await);
        assert_eq!(heard.lines(), typed.lines());
        assert_eq!(heard.lines().len(), 3);
        let texts: Vec<&str> = heard
            .events
            .iter()
            .map(|event| match event {
                WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map) => text_of(map),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, [first.to_text(), second.to_text(), second.to_text()]);
    });
}

#[test]
fn a_document_counts_with_the_length_of_its_text() {
    /// The most bytes of data that a ConfigMap may have, 1 MiB (K017).
    const MAX: usize = 1 << 20;
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let with_name_of = |length: usize| document(&["x".repeat(length).as_str()]);
        let rest = with_name_of(0).text_len();
        let fits = client.create(typed(with_name_of(MAX - rest))).await.unwrap();
        let body = refused(client.update((*fits).clone().with_document(with_name_of(MAX - rest + 1).into())).await);
        assert_eq!((body.reason, body.details.causes[0].reason.as_ref()), (Reason::Invalid, "FieldValueTooLong"));
    });
}
