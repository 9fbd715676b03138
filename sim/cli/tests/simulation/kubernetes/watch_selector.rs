//! K §10.3: the events of a WATCH with a selector, a namespace or a name.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{Patch, WatchEvent, WatchOptions};
use kube_machinery::{Client, ClientExt};
use kube_sim::cluster::SimWatch;
use kube_sim::testbed::{Testbed, config_map, key, pod};
use serde_json::json;

use super::support::*;

#[test]
fn k046_an_object_that_begins_to_match_is_added_with_its_new_content() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            writer.create(config_map("a", "v", "0")).await.unwrap();
            let created = writer.create(pod("p", "n1")).await.unwrap();
            bed.wait(secs(3_600)).await;
            let mut maps = watch::<ConfigMap>(&reader, on("switch=on", after(bed.revision()))).await;
            let fields = Some("status.phase=Failed".to_owned());
            let mut pods = watch::<Pod>(&reader, WatchOptions { field_selector: fields, ..after(bed.revision()) }).await;
            set(&writer, "a", 1).await;
            let patch = Patch::merge(json!({"metadata": {"labels": {"switch": "on"}}, "data": {"v": "2"}}));
            let matching = writer.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
            let failed = Patch::merge(json!({"status": {"phase": "Failed"}}));
            let failed = writer.patch_status::<Pod>(&key("p"), failed).await.unwrap();
            let heard = hear(&bed, &mut maps, secs(5)).await;
            let [WatchEvent::Added(map)] = &heard.events[..] else { panic!("{:?}", heard.all()) };
            assert_eq!(map, &matching);
            let heard = hear(&bed, &mut pods, secs(5)).await;
            let [WatchEvent::Added(pod)] = &heard.events[..] else { panic!("{:?}", heard.all()) };
            assert_eq!((pod, uid(&**pod)), (&failed, uid(&*created)));
            // While the object matches, changes are modifications.
            let patch = Patch::merge(json!({"data": {"v": "3"}}));
            let modified = writer.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
            let heard = hear(&bed, &mut maps, secs(5)).await;
            assert_eq!(heard.lines(), [("MODIFIED", "default/a".to_owned(), rv(&*modified))]);
        });
    }
}

#[test]
fn k047_an_object_that_ceases_to_match_is_deleted_with_its_old_content_and_still_exists() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let (writer, reader) = (bed.client_on("writer", 0), bed.client_on("reader", 1));
            let body = changed(&config_map("a", "v", "0"), |map| map.metadata.labels = Some([("switch".into(), "on".into())].into()));
            let old = writer.create(body).await.unwrap();
            let mut live = watch::<ConfigMap>(&reader, on("switch=on", after(bed.revision()))).await;
            let start = bed.revision();
            let patch = Patch::merge(json!({"metadata": {"labels": {"switch": "off"}}, "data": {"v": "1"}}));
            let new = writer.patch::<ConfigMap>(&key("a"), patch).await.unwrap();
            bed.wait(secs(5)).await;
            // The same for a watch that replays the past.
            let mut replayed = watch::<ConfigMap>(&bed.client_on("later", 1), on("switch=on", after(start))).await;
            for stream in [&mut live, &mut replayed] {
                let heard = hear(&bed, stream, secs(5)).await;
                let [WatchEvent::Deleted(map)] = &heard.events[..] else { panic!("{:?}", heard.all()) };
                assert_eq!(**map, changed(&*old, |map| map.metadata.resource_version = new.metadata.resource_version.clone()));
            }
            assert_eq!(reader.get::<ConfigMap>(&key("a")).await.unwrap(), new);
            assert_eq!(reader.get_cached::<ConfigMap>(&key("a"), "0").await.unwrap(), new);
            // This watch does not report the real deletion any more.
            writer.delete::<ConfigMap>(&key("a"), Default::default()).await.unwrap();
            assert_eq!(hear(&bed, &mut live, secs(5)).await.all(), []);
        });
    }
}

#[test]
fn k055_a_watch_hears_of_its_namespace_and_name_only() {
    for seed in SEEDS {
        Testbed::run(seed, async |bed| {
            let client = bed.client("client");
            let start = bed.revision();
            let mut streams = Vec::new();
            for (namespace, fields) in [
                (Some("default"), None),
                (Some("other"), None),
                (None, Some("churn-1")),
                (Some("other"), Some("churn-2")),
                (Some("empty"), None),
            ] {
                let field_selector = fields.map(|name| format!("metadata.name={name}"));
                let options = WatchOptions { field_selector, ..after(start) };
                let stream: SimWatch<ConfigMap> = client.watch(namespace.map(Arc::from), options).await.unwrap();
                streams.push((namespace, fields, stream));
            }
            churn(bed.clone(), client.clone(), 60).await;
            let mut seen = 0;
            for (namespace, fields, mut stream) in streams {
                let heard = hear(&bed, &mut stream, secs(5)).await;
                let expected = truth::<ConfigMap>(&bed, start, |map| {
                    namespace.is_none_or(|namespace| map.metadata.namespace.as_deref() == Some(namespace))
                        && fields.is_none_or(|own| name(map) == own)
                });
                assert_eq!(heard.lines(), expected);
                assert!(namespace != Some("empty") || expected.is_empty());
                seen += expected.len();
            }
            assert!(seen > 10);
        });
    }
}
