//! People who lay hands on Nodes: they delete one, or say of a machine that it is off (K §6.3).
//!
//! They are processes that a fault hires, and their requests go the way of everybody's: they try until they succeed.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube_machinery::api::DeleteOptions;
use kube_machinery::{ApiError, ClientExt, ObjectKey};

use crate::cluster::{Fabric, SimClient};
use crate::node::taints::{NO_EXECUTE, OUT_OF_SERVICE, taints_of};
use crate::rt::ProcessId;

/// Between two tries.
const RETRY: Duration = Duration::from_secs(1);

/// A process of this name, which is not started.
fn process(fabric: &Arc<Fabric>, name: &str) -> ProcessId {
    let rt = &fabric.rt;
    rt.find_process(name).unwrap_or_else(|| rt.add_process(rt.add_host(name), name))
}

/// Somebody who deletes these Nodes for the fault with this number from its start.
pub(super) fn hire_deleter(fabric: &Arc<Fabric>, index: u32, nodes: Vec<Arc<str>>) -> ProcessId {
    let process = process(fabric, &format!("node-deleter-{index}"));
    let (shared, nodes) = (Arc::downgrade(fabric), Arc::new(nodes));
    fabric.rt.set_main(process, move |_| {
        let (fabric, nodes) = (shared.upgrade(), nodes.clone());
        async move {
            let Some(fabric) = fabric else { return };
            let client = SimClient::new(&fabric, process);
            for node in nodes.iter() {
                let key = ObjectKey::cluster(node);
                while is_to_try_again(&client.delete::<Node>(&key, DeleteOptions::default()).await.map(drop)) {
                    fabric.rt.sleep(RETRY).await;
                }
            }
        }
    });
    process
}

/// Somebody who says of these machines that they are off, `after` its start, as long as the process is among the fences; and takes it back
/// when it starts and is not.
pub(super) fn hire_fence(fabric: &Arc<Fabric>, index: u32, nodes: Vec<Arc<str>>, after: Duration) -> ProcessId {
    let process = process(fabric, &format!("node-fence-{index}"));
    let (shared, nodes) = (Arc::downgrade(fabric), Arc::new(nodes));
    fabric.rt.set_main(process, move |_| {
        let (fabric, nodes) = (shared.upgrade(), nodes.clone());
        async move {
            let Some(fabric) = fabric else { return };
            let fences = fabric.nodes.is_fence(process);
            if fences {
                fabric.rt.sleep(after).await;
            }
            let client = SimClient::new(&fabric, process);
            for node in nodes.iter() {
                while is_to_try_again(&set_out_of_service(&client, node, fences).await) {
                    fabric.rt.sleep(RETRY).await;
                }
            }
        }
    });
    process
}

/// What is not there is done with.
fn is_to_try_again(result: &Result<(), ApiError>) -> bool {
    matches!(result, Err(error) if !error.is_not_found())
}

async fn set_out_of_service(client: &SimClient, node: &str, is: bool) -> Result<(), ApiError> {
    let mut node = Node::clone(&*client.get::<Node>(&ObjectKey::cluster(node)).await?);
    let mut taints = taints_of(&node).to_vec();
    taints.retain(|taint| taint.key != OUT_OF_SERVICE);
    if is {
        let value = Some("nodeshutdown".to_owned());
        taints.push(Taint { key: OUT_OF_SERVICE.to_owned(), value, effect: NO_EXECUTE.to_owned(), ..Taint::default() });
    }
    if taints == taints_of(&node) {
        return Ok(());
    }
    node.spec.get_or_insert_default().taints = Some(taints).filter(|taints| !taints.is_empty());
    client.update(node).await.map(drop)
}
