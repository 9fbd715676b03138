//! A Lease as the lock of a pool: whoever holds it reads and writes the pool, the others ask again.
//!
//! ```text
//!  GET Lease ── free ──► PUT my name ──► … the pool … ──► PUT nobody
//!      ▲          │ held, or 409: sleep, full jitter
//!      └──────────┘
//! ```
//! It fences nothing: writes of the pool stay guarded by their version. Whoever dies with it holds it until it was seen unchanged for
//! [`EXPIRES`].

use std::sync::Arc;
use std::time::Duration;

use ipam_byom::Effort;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::retry::{Backoff, Jitter};
use kube_machinery::{Client, ClientExt, Env, ObjectKey};
use kube_sim::env::SimEnv;

/// How long a Lease must be seen unchanged before its holder counts as gone.
const EXPIRES: Duration = Duration::from_secs(15);

/// How long a call waits for it: as long as an operation on the pool may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How soon a Lease that is held is asked for again.
const ASKS: Backoff =
    Backoff { steps: u32::MAX, base: Duration::from_millis(20), factor: 2.0, cap: Duration::from_millis(100), jitter: Jitter::Full };

/// The lock of a pool, as one process sees it.
#[derive(Clone)]
pub(super) struct LeaseLock<C> {
    client: C,
    env: SimEnv,
    key: ObjectKey,
    me: Arc<str>,
}

/// The Lease as its holder wrote it.
pub(super) struct Held(Arc<Lease>);

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn held_by(lease: &Lease, holder: Option<&str>) -> Lease {
    let spec = LeaseSpec { holder_identity: holder.map(str::to_owned), ..LeaseSpec::default() };
    Lease { metadata: lease.metadata.clone(), spec: Some(spec) }
}

impl<C: Client> LeaseLock<C> {
    /// That of the pool with this key, which it shares the name with.
    pub(super) fn new(client: C, env: SimEnv, key: ObjectKey, me: Arc<str>) -> Self {
        Self { client, env, key, me }
    }

    /// Waits for the lock; `None` = in vain. What is asked of the API server for it counts as any other request.
    pub(super) async fn take(&self, effort: &mut Effort) -> Option<Held> {
        let end = self.env.monotonic() + PATIENCE;
        let mut seen: Option<(Option<String>, Duration)> = None;
        for tries in 1.. {
            effort.reads += 1;
            let now = self.env.monotonic();
            let written = match self.client.get::<Lease>(&self.key).await {
                Ok(lease) => {
                    let version = lease.metadata.resource_version.clone();
                    let since = seen.as_ref().filter(|(known, _)| *known == version).map_or(now, |(_, since)| *since);
                    seen = Some((version, since));
                    if holder(&lease).is_none_or(|holder| holder == &*self.me) || now.saturating_sub(since) >= EXPIRES {
                        effort.writes += 1;
                        Some(self.client.update(held_by(&lease, Some(&self.me))).await)
                    } else {
                        None
                    }
                }
                Err(error) if error.is_not_found() => {
                    effort.writes += 1;
                    let metadata = ObjectMeta {
                        name: Some(self.key.name().to_owned()),
                        namespace: self.key.namespace().map(str::to_owned),
                        ..ObjectMeta::default()
                    };
                    Some(self.client.create(held_by(&Lease { metadata, spec: None }, Some(&self.me))).await)
                }
                Err(_) => None,
            };
            match written {
                Some(Ok(lease)) => return Some(Held(lease)),
                Some(Err(error)) => {
                    effort.conflicts += u32::from(error.is_conflict());
                    effort.create_races += u32::from(error.is_already_exists());
                }
                None => {}
            }
            let sleep = ASKS.sleep(tries, || self.env.random_unit())?;
            if self.env.monotonic() + sleep >= end {
                return None;
            }
            self.env.sleep(sleep).await;
        }
        None
    }

    /// Hands it back. If that fails, it expires.
    pub(super) async fn give_back(&self, held: Held) {
        drop(self.client.update(held_by(&held.0, None)).await);
    }
}
