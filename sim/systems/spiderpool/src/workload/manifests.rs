//! Manifests that operators apply, valid and invalid ones, to test admission (A §9).

use ipam_spiderpool::{ReservedIPSpec, SpiderIPPool, SpiderReservedIP, SpiderSubnet};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_machinery::{ApiError, ClientExt, Object, ObjectKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_harness::workload::InvalidValue;

use super::operator::{Operator, is_denied};
use super::ops::PoolPlan;
use super::spelling::check_name;
use super::subnets::admission::subnet_object;
use super::subnets::ops::SubnetPlan;

/// A reservation as operators write it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationPlan {
    /// Name of the SpiderReservedIP, unique in the cluster.
    pub name: String,
    /// The spec of the SpiderReservedIP, with the field names of its manifest.
    pub spec: ReservedIPSpec,
}

/// An object as operators write it, which need not be valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum Manifest {
    /// A SpiderIPPool: its name, and the spec as operators write it.
    SpiderIPPool(Box<PoolPlan>),
    /// A SpiderSubnet: its name, and the spec as operators write it.
    SpiderSubnet(SubnetPlan),
    /// A SpiderReservedIP: its name, and the spec as operators write it.
    SpiderReservedIP(ReservationPlan),
}

impl Manifest {
    /// The name of the object.
    pub fn name(&self) -> &str {
        match self {
            Self::SpiderIPPool(pool) => &pool.name,
            Self::SpiderSubnet(subnet) => &subnet.name,
            Self::SpiderReservedIP(reservation) => &reservation.name,
        }
    }

    /// The subject of an operation on the object, the same as of operations without a manifest.
    pub(super) fn subject(&self) -> String {
        match self {
            Self::SpiderIPPool(pool) => format!("pool {}", pool.name),
            Self::SpiderSubnet(subnet) => format!("subnet {}", subnet.name),
            Self::SpiderReservedIP(reservation) => format!("reserved {}", reservation.name),
        }
    }
}

/// An operator applies a manifest: creates the object, or replaces the whole spec of an existing one, as `kubectl replace` does. Webhooks
/// may refuse it, and should if it is wrong (A §9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyManifest {
    /// The object, with the name and the spec that the operator wrote.
    pub manifest: Box<Manifest>,
    /// Whether the operator retries for two minutes while the manifest is refused; otherwise there is one attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insists: bool,
    /// The node that owns the created object, without controlling it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Checks that the object can have its name. Any spec can be written.
pub(super) fn check_manifest(op: &ApplyManifest) -> Result<(), InvalidValue> {
    check_name(op.manifest.name())
}

impl Operator {
    /// Applies a manifest, once.
    pub(super) async fn apply_manifest(&self, op: &ApplyManifest) -> Result<(), ApiError> {
        let owner = match &op.owner {
            Some(node) => Some(self.as_owner(node).await?),
            None => None,
        };
        let applied = match &*op.manifest {
            Manifest::SpiderIPPool(pool) => {
                let mut object = SpiderIPPool { spec: pool.spec.clone(), ..SpiderIPPool::default() };
                object.metadata.name = Some(pool.name.clone());
                self.apply(object, owner, |there, object| there.spec = object.spec).await
            }
            Manifest::SpiderSubnet(subnet) => {
                self.apply(subnet_object(subnet), owner, |there, object: SpiderSubnet| there.spec = object.spec).await
            }
            Manifest::SpiderReservedIP(reservation) => {
                let mut object = SpiderReservedIP { spec: reservation.spec.clone(), ..SpiderReservedIP::default() };
                object.metadata.name = Some(reservation.name.clone());
                self.apply(object, owner, |there, object| there.spec = object.spec).await
            }
        };
        match applied {
            Err(error) if !op.insists && is_denied(&error) => Ok(()),
            applied => applied,
        }
    }

    /// A node as an owner that does not control what it owns.
    async fn as_owner(&self, node: &str) -> Result<OwnerReference, ApiError> {
        let there = self.client.get::<Node>(&ObjectKey::cluster(node)).await?;
        let (name, uid) = (node.to_owned(), there.metadata.uid.clone().unwrap_or_default());
        Ok(OwnerReference { api_version: "v1".to_owned(), kind: "Node".to_owned(), name, uid, ..OwnerReference::default() })
    }

    /// Creates an object, which may have an owner, or replaces the spec of an existing one.
    async fn apply<K: Object>(
        &self,
        mut object: K,
        owner: Option<OwnerReference>,
        set_spec: impl FnOnce(&mut K, K),
    ) -> Result<(), ApiError> {
        let there = match self.client.get::<K>(&ObjectKey::of(&object)).await {
            Err(error) if error.is_not_found() => {
                object.meta_mut().owner_references = owner.map(|owner| vec![owner]);
                return self.client.create::<K>(object).await.map(drop);
            }
            there => there?,
        };
        let mut there = K::clone(&there);
        set_spec(&mut there, object);
        self.client.update::<K>(there).await.map(drop)
    }
}
