//! Features of the HTTP interface only: deletion of collections (K107), and Bindings as they are sent (K111).

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::ClientExt;
use kube_machinery::api::ListOptions;
use kube_sim::cluster::SimClient;
use kube_sim::cluster::server::InjectedFault;
use kube_sim::testbed::{Testbed, config_map, key, pod};
use kube_sim_http::{Frontend, Response};
use serde_json::{Value, json};

use super::expect::{calm, labelled, rv, secs, trouble, uid};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The code and the body of an answer; `None` = the connection broke.
async fn ask(frontend: &Frontend, method: &str, target: &str, body: Value) -> Option<(u16, Value)> {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = http::Request::builder().method(method).uri(target).body(body).unwrap();
    match frontend.request(request).await? {
        Response::Whole(response) => Some((response.status().as_u16(), serde_json::from_slice(response.body()).unwrap())),
        Response::Stream(..) => panic!("a stream"),
    }
}

/// Creates ConfigMaps of these names, labelled with their first letter.
async fn fill(client: &SimClient, names: &[&str]) {
    for name in names {
        client.create(labelled(&config_map(name, "v", "1"), "letter", &name[..1])).await.unwrap();
    }
}

/// The names of the existing ConfigMaps.
async fn left(client: &SimClient) -> Vec<String> {
    let list = client.list::<ConfigMap>(None, ListOptions::default()).await.unwrap();
    list.items.iter().map(|map| map.metadata.name.clone().unwrap()).collect()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[test]
fn k107_a_collection_is_deleted_as_far_as_its_selector_and_its_limit_go() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let frontend = Frontend::new(bed.client("http"), None);
        fill(&client, &["a-1", "a-2", "a-3", "b-1"]).await;
        let before = client.get::<ConfigMap>(&key("a-1")).await.unwrap();
        let (code, list) = ask(&frontend, "DELETE", &format!("{MAPS}?labelSelector=letter%3Da&limit=2"), Value::Null).await.unwrap();
        assert_eq!((code, &list["kind"], names(&list)), (200, &json!("ConfigMapList"), vec!["a-1", "a-2"]));
        assert_eq!(list["items"][0]["metadata"]["resourceVersion"], json!(rv(&*before).to_string()), "as it was before");
        assert_eq!(left(&client).await, ["a-3", "b-1"]);
        ask(&frontend, "DELETE", &format!("{MAPS}?labelSelector=letter%3Da"), Value::Null).await.unwrap();
        assert_eq!(left(&client).await, ["b-1"]);
    });
}

#[test]
fn k107_a_precondition_that_does_not_hold_ends_the_deletion_of_a_collection() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let frontend = Frontend::new(bed.client("http"), None);
        fill(&client, &["a", "b", "c"]).await;
        let first = uid(&*client.get::<ConfigMap>(&key("a")).await.unwrap());
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": first}});
        let (code, status) = ask(&frontend, "DELETE", MAPS, options).await.unwrap();
        assert_eq!((code, &status["reason"], &status["details"]["name"]), (409, &json!("Conflict"), &json!("b")));
        assert_eq!(left(&client).await, ["b", "c"], "what was deleted before stays deleted");
    });
}

#[test]
fn k107_a_crash_leaves_a_collection_deleted_in_part() {
    Testbed::run(1, async |bed| {
        let client = bed.client_on("writer", 1);
        let caller = bed.client_on("http", 0);
        let frontend = Frontend::new(caller.clone(), None);
        fill(&client, &["a", "b", "c", "d"]).await;
        // The list and each delete take a second.
        trouble(&bed, &caller, &[], InjectedFault::Slow { by: secs(1) });
        let crash = async {
            bed.wait(Duration::from_millis(3_500)).await;
            bed.cluster.crash_server(0);
        };
        let (answer, ()) = futures_util::future::join(ask(&frontend, "DELETE", MAPS, Value::Null), crash).await;
        assert_eq!(answer, None);
        calm(&bed);
        assert_eq!(left(&client).await, ["c", "d"]);
    });
}

#[test]
fn k111_a_binding_without_a_target_is_an_error_without_a_reason() {
    Testbed::run(1, async |bed| {
        let client = bed.client("writer");
        let frontend = Frontend::new(bed.client("http"), None);
        client.create(pod("a", "")).await.unwrap();
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node"}});
        let (code, status) = ask(&frontend, "POST", "/api/v1/namespaces/default/pods/a/binding", binding).await.unwrap();
        assert_eq!((code, status.get("reason"), &status["message"]), (500, None, &json!("target.name: Required value")));
    });
}
