//! GET and LIST (K §2.1, §2.2): the freshness that a request asks for, and the answer.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube_machinery::api::{Cause, ListOptions, Reason, VersionMatch};
use kube_machinery::{ObjectKey, Status};
use serde::{Deserialize, Serialize};
use sim_config::time::SimTime;

use super::State;
use super::api_server::ApiServer;
use super::request::ApiReply;
use super::store::{Revision, in_namespace};
use super::write::{Answer, bad_request, not_found};
use crate::kinds::{KindId, TypeDef};
use crate::object::Obj;
use crate::selector::Selector;

/// The state from which a read is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The store, as of now.
    Latest,
    /// The present state of this server's cache.
    Any,
    /// This server's cache, once it has this revision.
    AtLeast(Revision),
    /// The store as of this revision.
    Exact(Revision),
}

/// The beginning of a page, in the form of the real token: base64url of a small JSON text.
#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(default)]
    v: String,
    /// The revision of the first page; -1 = the latest.
    #[serde(default)]
    rv: i64,
    /// The first key of the page, within the namespace of the list.
    #[serde(default)]
    start: String,
}

impl Token {
    fn encode(revision: i64, namespace: Option<&Arc<str>>, after: &ObjectKey) -> String {
        let start = if namespace.is_some() { after.name() } else { after.as_str() };
        let token = Token { v: "meta.k8s.io/v1".to_owned(), rv: revision, start: format!("{start}\u{0}") };
        let text = serde_json::to_string(&token).unwrap_or_else(|_| unreachable!("a token serialises"));
        URL_SAFE_NO_PAD.encode(text)
    }

    fn decode(text: &str) -> Answer<Self> {
        const VERSION: &str = "meta.k8s.io/v1";
        let bad = |why: &str| bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad("not base64"))?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|_| bad("not a token of this server"))?;
        if token.v != VERSION {
            return Err(bad(&format!("server does not recognize this encoded version {}", token.v)));
        }
        if token.rv == 0 {
            return Err(bad(&format!("incorrect encoded start resourceVersion (version {VERSION})")));
        }
        if token.start.is_empty() {
            return Err(bad(&format!("encoded start key empty (version {VERSION})")));
        }
        if token.start.split('/').any(|part| part == "..") {
            return Err(bad(&token.start));
        }
        Ok(token)
    }
}

/// A prepared list: the state that it reads, and the part of it.
pub struct ListPlan {
    pub freshness: Freshness,
    selector: Selector,
    start: Option<String>,
    limit: usize,
    /// The limit in the request; 0 = none.
    asked: usize,
    /// The time at which the server asked etcd for the revision of a consistent list.
    asked_at: SimTime,
}

impl ListPlan {
    /// The same list by a server that asked etcd at `asked_at` for its revision.
    pub(super) fn asked_at(self, asked_at: SimTime) -> Self {
        Self { asked_at, ..self }
    }

    /// Whether an uninitialised cache lets this list through to etcd: one with a limit and without a selector.
    fn passes_an_unready_cache(&self) -> bool {
        self.asked > 0 && self.selector.is_everything()
    }
}

fn parse_version(text: &str) -> Answer<Revision> {
    text.parse().map_err(|_| bad_request(format!("Invalid value: {text:?}: resource version is not a decimal number")))
}

/// The freshness that a GET asks for.
pub(crate) fn get_freshness(resource_version: Option<&str>) -> Answer<Freshness> {
    Ok(match resource_version {
        None | Some("") => Freshness::Latest,
        Some("0") => Freshness::Any,
        Some(version) => Freshness::AtLeast(version.parse().map_err(|_| malformed(version))?),
    })
}

/// 500 for a malformed version in a GET or a watch; a LIST gets 400 (K111).
pub(super) fn malformed(version: &str) -> Box<Status> {
    let why = match version.bytes().all(|byte| byte.is_ascii_digit()) {
        true => "value out of range",
        false => "invalid syntax",
    };
    let text = format!("resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: {why}");
    Box::new(Status::new(Reason::Unknown, text))
}

pub(super) fn invalid_options(field: &'static str, message: &'static str) -> Box<Status> {
    let mut status = Status::new(Reason::Invalid, "");
    status.details.kind = "ListOptions".into();
    status.details.group = "meta.k8s.io".into();
    status.details.causes = vec![Cause { reason: "FieldValueForbidden".into(), message: message.into(), field: field.into() }];
    Box::new(status)
}

/// Resolves the decision table of K §2.2.
pub(crate) fn plan_list(def: &TypeDef, options: &ListOptions) -> Answer<ListPlan> {
    let version = options.resource_version.as_deref().filter(|version| !version.is_empty());
    let token = options.continue_token.as_deref().filter(|token| !token.is_empty());
    if let Some(matching) = options.resource_version_match {
        if token.is_some() {
            return Err(invalid_options("resourceVersionMatch", "Forbidden: resourceVersionMatch is forbidden when continue is provided"));
        }
        match version {
            None => {
                return Err(invalid_options(
                    "resourceVersionMatch",
                    "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            Some("0") if matching == VersionMatch::Exact => {
                return Err(invalid_options(
                    "resourceVersionMatch",
                    "Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            Some(_) => {}
        }
    }
    if token.is_some() && version.is_some_and(|version| version != "0") {
        return Err(bad_request("specifying resource version is not allowed when using continue"));
    }
    let selector = Selector::parse(def, options.label_selector.as_deref(), options.field_selector.as_deref()).map_err(bad_request)?;
    let mut limit = if options.limit == 0 { usize::MAX } else { options.limit as usize };
    let mut start = None;
    let freshness = if let Some(token) = token {
        let token = Token::decode(token)?;
        start = Some(token.start);
        // As for a first page: "0" asks for the whole list (K033).
        if version == Some("0") {
            limit = usize::MAX;
        }
        u64::try_from(token.rv).map_or(Freshness::Latest, Freshness::Exact)
    } else {
        match (version, options.resource_version_match) {
            (None, _) => Freshness::Latest,
            (Some("0"), _) => {
                limit = usize::MAX;
                Freshness::Any
            }
            (Some(version), Some(VersionMatch::Exact)) => Freshness::Exact(parse_version(version)?),
            // The legacy rule: a limit makes the version exact.
            (Some(version), None) if options.limit > 0 => Freshness::Exact(parse_version(version)?),
            (Some(version), _) => Freshness::AtLeast(parse_version(version)?),
        }
    };
    Ok(ListPlan { freshness, selector, start, limit, asked: options.limit as usize, asked_at: SimTime::NEVER })
}

/// 504: this server has not seen that revision (K022).
pub(crate) fn too_large(wanted: Revision, current: Revision) -> Box<Status> {
    let cause = Cause { reason: "ResourceVersionTooLarge".into(), message: "Too large resource version".into(), field: "".into() };
    let text = format!("Too large resource version: {wanted}, current: {current}");
    Box::new(Status::new(Reason::Timeout, text).cause(cause).retry_after(1))
}

impl State {
    /// The time at which the cache of `kind` on `server` has everything up to `revision`, which may be now; `None` = not foreseeable.
    pub fn cache_reaches(&mut self, server: usize, kind: KindId, revision: Revision, now: SimTime) -> Option<SimTime> {
        if revision > self.store.revision() {
            return None;
        }
        let reaches_etcd = self.reaches_etcd(server);
        let table = self.store.table(kind);
        let ApiServer { paused, ref mut caches, .. } = self.servers[server];
        let cache = &mut caches[usize::from(kind.0)];
        if cache.visible(now) >= revision {
            return Some(now);
        }
        if let Some(&(_, due)) = cache.incoming.iter().find(|(incoming, _)| *incoming >= revision) {
            return Some(due);
        }
        // Only etcd can tell that nothing happened up to a revision.
        if cache.frozen || paused || !reaches_etcd {
            return None;
        }
        let taken = table.change(cache.next).is_none_or(|change| change.revision > revision);
        taken.then(|| cache.reaches(revision).max(now))
    }

    /// The revision with which the cache of `kind` answers a consistent list, for which the server asked etcd at `asked_at`. `None` = the
    /// cache has not reached it (K §2.2, KEP-2340).
    pub fn consistent(&mut self, server: usize, kind: KindId, asked_at: SimTime, now: SimTime) -> Option<Revision> {
        let latest = self.store.revision();
        let wanted = if self.cache_reaches(server, kind, latest, now) == Some(now) { latest } else { self.store.revision_at(asked_at) };
        if self.cache_reaches(server, kind, wanted, now) != Some(now) {
            return None;
        }
        // A consistent list shows the cache that it has everything up to here.
        let cache = &mut self.servers[server].caches[usize::from(kind.0)];
        cache.advance(wanted);
        Some(cache.visible(now))
    }

    /// Whether a server lists the objects as of `wanted` from a snapshot of its cache instead of asking etcd (K031).
    pub fn has_snapshot(&self, server: usize, kind: KindId, wanted: Revision, now: SimTime) -> bool {
        let cache = &self.servers[server].caches[usize::from(kind.0)];
        self.knobs.list_from_cache_snapshot
            && self.is_ready(server, kind, now)
            && wanted >= cache.oldest
            && !cache.lost_events.are_found(now)
    }

    /// Whether a cache has its initial list.
    pub fn is_ready(&self, server: usize, kind: KindId, now: SimTime) -> bool {
        let server = &self.servers[server];
        server.ready_at <= now && !server.caches[usize::from(kind.0)].lost
    }

    /// 429: the cache has no initial list. The longer that lasts, the longer the caller has to wait: 1 to 30 s (K §2.2).
    pub fn unready(&self, server: usize, now: SimTime) -> Box<Status> {
        const GROWTH: f64 = 0.06;
        let down = now.since(self.servers[server].started_at).as_secs_f64();
        let after = libm::exp(GROWTH * down).clamp(1.0, 30.0) as u32;
        Box::new(Status::new(Reason::TooManyRequests, "storage is (re)initializing").retry_after(after))
    }

    /// Answers a GET from the state that `freshness` names; the caller has waited for it.
    pub fn get(&mut self, def: &TypeDef, server: usize, kind: KindId, key: &ObjectKey, freshness: &Freshness, now: SimTime) -> Answer<Obj> {
        let ready = self.is_ready(server, kind, now);
        let latest = self.store.revision();
        let table = self.store.table(kind);
        let found = match freshness {
            Freshness::Any | Freshness::AtLeast(_) if ready => {
                let cache = &mut self.servers[server].caches[usize::from(kind.0)];
                let visible = cache.visible(now);
                cache.get(table, key, visible)
            }
            Freshness::AtLeast(wanted) if *wanted > latest => return Err(too_large(*wanted, latest)),
            // An uninitialised cache lets the read through to etcd.
            _ => table.get(key),
        };
        found.cloned().ok_or_else(|| not_found(def, key))
    }

    /// Answers a LIST from the state that the plan names; the caller has waited for it.
    pub fn list(
        &mut self,
        server: usize,
        kind: KindId,
        namespace: Option<&Arc<str>>,
        plan: &ListPlan,
        def: &TypeDef,
        now: SimTime,
    ) -> Answer<ApiReply> {
        let from_cache = match plan.freshness {
            Freshness::Any | Freshness::AtLeast(_) => true,
            Freshness::Latest => self.knobs.consistent_list_from_cache && plan.start.is_none(),
            Freshness::Exact(wanted) => self.has_snapshot(server, kind, wanted, now),
        };
        let unready = from_cache && !self.is_ready(server, kind, now);
        if unready && !plan.passes_an_unready_cache() {
            return Err(self.unready(server, now));
        }
        let latest = self.store.revision();
        let limit = if unready { plan.asked } else { plan.limit };
        let (state_at, revision) = match plan.freshness {
            _ if unready => (latest, latest),
            Freshness::Latest => {
                let cached = if from_cache { self.consistent(server, kind, plan.asked_at, now) } else { None };
                let revision = cached.unwrap_or(latest);
                (revision, revision)
            }
            Freshness::Any => {
                let visible = self.servers[server].caches[usize::from(kind.0)].visible(now);
                (visible, visible)
            }
            Freshness::AtLeast(wanted) => {
                let cache = &mut self.servers[server].caches[usize::from(kind.0)];
                cache.visible(now);
                cache.advance(wanted);
                let visible = cache.visible(now);
                (visible, visible)
            }
            Freshness::Exact(wanted) if wanted > latest => return Err(too_large(wanted, latest)),
            Freshness::Exact(wanted) if wanted < self.store.compacted() => return Err(expired(plan)),
            Freshness::Exact(wanted) => (wanted, wanted),
        };
        let table = self.store.table(kind);
        let start = match (&plan.start, namespace) {
            (Some(start), Some(namespace)) => Cow::Owned(format!("{namespace}/{start}")),
            (Some(start), None) => Cow::Borrowed(start.as_str()),
            (None, _) => Cow::Borrowed(""),
        };
        let all = plan.selector.is_everything();
        let wanted = |(key, object): &(&ObjectKey, &Obj)| {
            key.as_str() >= &*start && in_namespace(key, namespace) && (all || plan.selector.matches(def, &***object))
        };
        let mut items = Vec::with_capacity(if all && namespace.is_none() { limit.min(table.len()) } else { 0 });
        let (mut last, mut remaining) = (None, 0);
        let mut take = |key, object: &Obj| {
            if items.len() < limit {
                items.push(object.clone());
                last = Some(key);
            } else {
                remaining += 1;
            }
        };
        let cache = &self.servers[server].caches[usize::from(kind.0)];
        if from_cache && !unready && cache.lost_events.is_wrong() {
            cache.all(table, state_at).into_iter().filter(wanted).for_each(|(key, object)| take(key, object));
        } else if state_at >= latest {
            table.range(Bound::Unbounded).filter(wanted).for_each(|(key, object)| take(key, object));
        } else {
            table.at(state_at).into_iter().filter(wanted).for_each(|(key, object)| take(key, object));
        }
        let more = remaining > 0;
        Ok(ApiReply::List {
            resource_version: revision.to_string(),
            items,
            continue_token: last.filter(|_| more).map(|last| Token::encode(revision as i64, namespace, last)),
            remaining: (more && all).then_some(remaining),
        })
    }
}

/// 410 for a compacted revision; a list in progress gets a token that continues at the latest revision.
fn expired(plan: &ListPlan) -> Box<Status> {
    let Some(start) = &plan.start else {
        return Box::new(Status::new(Reason::Expired, "The provided resource version is too old to display a consistent list result."));
    };
    let text = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the \
                continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with \
                the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the \
                first chunk was returned and now may show up in the list.";
    let mut status = Status::new(Reason::Expired, text);
    let token = Token { v: "meta.k8s.io/v1".to_owned(), rv: -1, start: start.clone() };
    status.continue_token = serde_json::to_string(&token).ok().map(|text| URL_SAFE_NO_PAD.encode(text));
    Box::new(status)
}
