//! The way from a request to its answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_machinery::api::{Dry, Patch, PatchKind, Reason, Subresource};
use kube_machinery::{ApiError, ObjectKey, Status};
use kube_sim::cluster::{ApiReply, Cluster, Op, SimClient};
use kube_sim::kinds::{KindId, TypeDef};
use kube_sim::object::Obj;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::custom::{self, CustomResource, Definition};
use crate::discovery::{no_such_page, no_such_resource, not_allowed};
use crate::object::{Form, list_value, object_value};
use crate::path::{Path, ResourcePath};
use crate::query::{FieldValidation, Query};
use crate::response::{Lines, Response, bare_refusal, failure, json_response, refusal, warn};
use crate::user::{User, is_public};
use crate::{body, defaults, delete_options, discovery, eviction, scale, webhooks, yaml};

/// The HTTP interface of the API server that a client is connected to.
pub struct Frontend {
    client: SimClient,
    token: Option<String>,
    /// The types that definitions have added, by group and plural.
    defined: Mutex<BTreeMap<(String, String), Defined>>,
}

#[derive(Clone)]
struct Defined {
    kind: KindId,
    definition: Arc<Definition>,
    /// Whether its definition still exists.
    served: bool,
}

/// A request to a resource, in progress.
struct Asked<'a> {
    path: &'a ResourcePath,
    query: &'a Query,
    headers: &'a HeaderMap,
    body: &'a [u8],
    kind: KindId,
    def: &'a TypeDef,
    form: Form,
}

/// The outcome of a request: an answer, or a refusal in the form of an error of the server.
type Outcome<T> = Result<T, ApiError>;

impl Frontend {
    /// The interface of the server to which `client` is connected. With `token`, callers must send it, or are anonymous.
    pub fn new(client: SimClient, token: Option<&str>) -> Self {
        client.cluster().complete_with(defaults::complete);
        Self { client, token: token.map(str::to_owned), defined: Mutex::default() }
    }

    fn cluster(&self) -> &Arc<Cluster> {
        self.client.cluster()
    }

    /// Answers a request; `None` = the connection breaks without an answer.
    pub async fn request(&self, request: http::Request<Bytes>) -> Option<Response> {
        let (parts, body) = request.into_parts();
        let path = Path::parse(parts.uri.path());
        let query = Query::parse(parts.uri.query());
        let user = User::of(&parts.headers, self.token.as_deref());
        if user == User::Unknown {
            return Some(Response::Whole(refusal(&Status::new(Reason::Unauthorized, "Unauthorized"))));
        }
        let path = match path {
            Path::Other(rest) => {
                if let User::Named(name) = &user
                    && !is_public(&rest)
                {
                    let verb = parts.method.as_str().to_lowercase();
                    let text = format!("forbidden: User {name:?} cannot {verb} path {:?}", parts.uri.path());
                    return Some(Response::Whole(bare_refusal(&Status::new(Reason::Forbidden, text))));
                }
                return Some(Response::Whole(discovery::answer(&self.cluster().registry, &parts.method, &rest)));
            }
            Path::Resource(path) => path,
        };
        if let User::Named(name) = &user {
            return Some(Response::Whole(refusal(&forbidden(name, &path, &query, &parts.method))));
        }
        if let Err(status) = query.timeout() {
            return Some(Response::Whole(refusal(&status)));
        }
        // The older path for bindings: the body names the pod.
        let path = if (path.api_version() == "v1" && path.plural == "bindings") && path.name.is_none() && parts.method == Method::POST {
            let binding: Value = serde_json::from_slice(&body).unwrap_or_default();
            let name = binding["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            ResourcePath { plural: "pods".to_owned(), name: Some(name), subresource: Some("binding".to_owned()), ..path }
        } else {
            path
        };
        let found = self.find(&path);
        let Some(kind) = found else {
            let own = discovery::is_own_group(&self.cluster().registry, &path.group);
            return Some(Response::Whole(if own { no_such_resource() } else { no_such_page() }));
        };
        let registry = self.cluster().registry.clone();
        let def = registry.get(kind);
        let Some(form) = body::form(&parts.headers) else {
            return Some(Response::Whole(not_acceptable(def)));
        };
        let asked = Asked { path: &path, query: &query, headers: &parts.headers, body: &body, kind, def, form };
        match self.answer(&parts.method, &asked).await {
            Ok(response) => Some(response),
            Err(error) => failure(&error).map(Response::Whole),
        }
    }

    /// The type of a path, if it is served in that scope.
    fn find(&self, path: &ResourcePath) -> Option<KindId> {
        let (kind, def) = self
            .cluster()
            .registry
            .iter()
            .filter(|(_, def)| def.plural == path.plural && def.api_version() == path.api_version())
            .last()?;
        let scoped = match (&path.namespace, &path.name) {
            (Some(_), _) => def.namespaced,
            (None, Some(_)) => !def.namespaced,
            (None, None) => true,
        };
        let defined = self.defined.lock();
        let gone = defined.values().any(|defined| defined.kind == kind && !defined.served);
        (scoped && !gone).then_some(kind)
    }

    fn definition(&self, kind: KindId) -> Option<Arc<Definition>> {
        self.defined.lock().values().find(|defined| defined.kind == kind).map(|defined| defined.definition.clone())
    }

    async fn answer(&self, method: &Method, asked: &Asked<'_>) -> Outcome<Response> {
        let path = asked.path;
        if let Some(subresource) = &path.subresource {
            return self.subresource(method, subresource, asked).await.map(Response::Whole);
        }
        if let Some(name) = path.name.as_deref().filter(|name| matches!(*name, "." | "..") || name.contains('%')) {
            return Err(ApiError::Status(body::bad(format!("Name parameter invalid: {name:?}: may not be '{name}'"))));
        }
        let whole = match (method, &path.name) {
            (&Method::GET, None) if asked.query.watches() || path.watch => return self.watch(asked, None).await,
            (&Method::GET, Some(name)) if asked.query.watches() || path.watch => return self.watch(asked, Some(name)).await,
            (&Method::GET, None) => self.list(asked).await?,
            (&Method::GET, Some(name)) => self.get(asked, name).await?,
            (&Method::POST | &Method::DELETE, None) if asked.def.namespaced && path.namespace.is_none() => {
                if discovery::is_own_group(&self.cluster().registry, &path.group) { not_allowed() } else { no_such_page() }
            }
            (&Method::POST, None) => self.create(asked).await?,
            (&Method::DELETE, None) => self.delete_collection(asked).await?,
            (&Method::PUT, Some(name)) => self.update(asked, name, None).await?,
            (&Method::PATCH, Some(name)) => self.patch(asked, name, None).await?,
            (&Method::DELETE, Some(name)) => self.delete(asked, name).await?,
            _ => not_allowed(),
        };
        Ok(Response::Whole(if method == Method::HEAD { without_body(whole) } else { whole }))
    }

    async fn subresource(&self, method: &Method, subresource: &str, asked: &Asked<'_>) -> Outcome<http::Response<Bytes>> {
        let name = asked.path.name.as_deref().unwrap_or_default();
        match (method, subresource) {
            (_, "status") if !asked.def.has_status && !asked.def.custom => Ok(no_such_resource()),
            (&Method::GET, "status") if asked.def.has_status => self.get(asked, name).await,
            (&Method::PUT, "status") if asked.def.has_status => self.update(asked, name, Some(Subresource::Status)).await,
            (&Method::PATCH, "status") if asked.def.has_status => self.patch(asked, name, Some(Subresource::Status)).await,
            (_, "status") if asked.def.has_status => Ok(not_allowed()),
            (&Method::PUT, "finalize") if asked.def.plural == "namespaces" => self.update(asked, name, Some(Subresource::Finalize)).await,
            (&Method::POST, "binding") if asked.def.plural == "pods" => self.bind(asked, name).await,
            (&Method::POST, "eviction") if asked.def.plural == "pods" => {
                body::check_size(asked.body).map_err(ApiError::Status)?;
                let eviction = serde_json::from_slice(asked.body).map_err(|error| ApiError::Status(body::bad(error.to_string())))?;
                let dry = asked.query.dry("CreateOptions").map_err(ApiError::Status)?;
                eviction::evict(&self.client, Self::key(asked, name), &eviction, dry).await
            }
            (_, "finalize") if asked.def.plural == "namespaces" => Ok(not_allowed()),
            (_, "binding" | "eviction") if asked.def.plural == "pods" => Ok(not_allowed()),
            (&Method::GET | &Method::PUT | &Method::PATCH, "scale") if scale::has(asked.def.plural) => {
                let dry = asked.query.dry("UpdateOptions").map_err(ApiError::Status)?;
                let change = match *method {
                    Method::GET => scale::Change::None,
                    Method::PATCH => scale::Change::Patch(body::patch(asked.def, asked.headers, asked.body).map_err(ApiError::Status)?),
                    _ => scale::Change::Put(
                        serde_json::from_slice(asked.body).map_err(|error| ApiError::Status(body::bad(error.to_string())))?,
                    ),
                };
                scale::serve(&self.client, asked.kind, Self::key(asked, name), change, dry).await
            }
            _ if asked.def.custom => {
                let (group, plural) = (asked.def.group, asked.def.plural);
                Err(Status::about(Reason::NotFound, group, plural, &ObjectKey::cluster(name), "").into())
            }
            _ => Ok(no_such_resource()),
        }
    }

    fn key(asked: &Asked<'_>, name: &str) -> ObjectKey {
        match &asked.path.namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::cluster(name),
        }
    }

    fn namespace(asked: &Asked<'_>) -> Option<Arc<str>> {
        asked.path.namespace.as_deref().map(Arc::from)
    }

    async fn call(&self, asked: &Asked<'_>, op: Op) -> Outcome<ApiReply> {
        self.client.call_as(asked.kind, op, Some(manager(asked).into())).await
    }

    async fn get(&self, asked: &Asked<'_>, name: &str) -> Outcome<http::Response<Bytes>> {
        let resource_version = asked.query.get("resourceVersion").map(str::to_owned);
        let reply = self.call(asked, Op::Get { key: Self::key(asked, name), resource_version }).await?;
        Ok(Self::object_response(200, &reply, asked))
    }

    async fn list(&self, asked: &Asked<'_>) -> Outcome<http::Response<Bytes>> {
        let options = Box::new(asked.query.list().map_err(ApiError::Status)?);
        let reply = self.call(asked, Op::List { namespace: Self::namespace(asked), options }).await?;
        Ok(json_response(200, &list_value(asked.def, reply, asked.form)))
    }

    async fn watch(&self, asked: &Asked<'_>, name: Option<&String>) -> Outcome<Response> {
        let mut options = asked.query.watch().map_err(ApiError::Status)?;
        if asked.query.refuses_initial_events() {
            // The stream is to begin with new events.
            options.resource_version = Some(self.cluster().store(|store| store.revision()).to_string());
        }
        if let Some(name) = name {
            options.field_selector = Some(format!("metadata.name={name}"));
        }
        let watch = self.client.watch_any(asked.kind, Self::namespace(asked), options).await?;
        let mut head = http::Response::new(());
        head.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        Ok(Response::Stream(head, Box::new(Lines::new(watch, asked.def, asked.form))))
    }

    /// The object in a request, and the warnings about it.
    fn object(&self, asked: &Asked<'_>, options: &'static str) -> Outcome<(Obj, Vec<String>)> {
        let validation = asked.query.field_validation(options).map_err(ApiError::Status)?;
        let value = body::object(asked.def, asked.headers, asked.body).map_err(ApiError::Status)?;
        let decode_error = |error: String| ApiError::Status(body::decode_error(asked.def, &error));
        let (object, dropped): (Obj, Vec<String>) = match self.definition(asked.kind) {
            Some(definition) => {
                let sent = value["metadata"].clone();
                let (object, mut dropped) = CustomResource::decode(value, &definition).map_err(decode_error)?;
                let object: Obj = Arc::new(object);
                let understood = object.to_value();
                dropped.extend(unknown_fields(&sent, &understood["metadata"]).iter().map(|path| format!("metadata.{path}")));
                (object, dropped)
            }
            None => {
                let mut value = value;
                defaults::complete(asked.def.kind, &mut value);
                let sent = value.clone();
                let object = (asked.def.from_value)(value).map_err(decode_error)?;
                let dropped = unknown_fields(&sent, &object.to_value());
                (object, dropped)
            }
        };
        let warnings: Vec<String> = dropped.iter().map(|path| format!("unknown field {path:?}")).collect();
        if validation == FieldValidation::Strict && !warnings.is_empty() {
            return Err(decode_error(format!("strict decoding error: {}", warnings.join(", "))));
        }
        Ok((object, if validation == FieldValidation::Ignore { Vec::new() } else { warnings }))
    }

    async fn create(&self, asked: &Asked<'_>) -> Outcome<http::Response<Bytes>> {
        let dry = asked.query.dry("CreateOptions").map_err(ApiError::Status)?;
        let (body, warnings) = self.object(asked, "CreateOptions")?;
        let result = self.call(asked, Op::Create { namespace: Self::namespace(asked), body, dry }).await;
        self.write_response(asked, 201, result, dry, &warnings)
    }

    async fn update(&self, asked: &Asked<'_>, name: &str, subresource: Option<Subresource>) -> Outcome<http::Response<Bytes>> {
        let dry = asked.query.dry("UpdateOptions").map_err(ApiError::Status)?;
        let (body, warnings) = self.object(asked, "UpdateOptions")?;
        let key = Self::key(asked, name);
        let existed = self.cluster().store(|store| store.table(asked.kind).get(&key).is_some());
        let result = self.call(asked, Op::Update { key, body, subresource, dry }).await;
        self.write_response(asked, if existed { 200 } else { 201 }, result, dry, &warnings)
    }

    /// The answer to a write of a whole object. A refusal has the warnings, too.
    fn write_response(
        &self,
        asked: &Asked<'_>,
        code: u16,
        result: Outcome<ApiReply>,
        dry: Dry,
        warnings: &[String],
    ) -> Outcome<http::Response<Bytes>> {
        let mut response = match result {
            Ok(reply) => {
                self.learn(asked, &reply, dry);
                Self::object_response(code, &reply, asked)
            }
            Err(error) => failure(&error).ok_or(error)?,
        };
        warn(&mut response, warnings);
        Ok(response)
    }

    async fn patch(&self, asked: &Asked<'_>, name: &str, subresource: Option<Subresource>) -> Outcome<http::Response<Bytes>> {
        let dry = asked.query.dry("PatchOptions").map_err(ApiError::Status)?;
        let validation = asked.query.field_validation("PatchOptions").map_err(ApiError::Status)?;
        let is_apply = body::is_apply(asked.headers);
        let (mut patch, warnings) = if is_apply {
            body::check_size(asked.body).map_err(ApiError::Status)?;
            let (value, warnings) = yaml::read(asked.body, validation).map_err(ApiError::Status)?;
            (Patch::of(PatchKind::Apply, value), warnings)
        } else {
            (body::patch(asked.def, asked.headers, asked.body).map_err(ApiError::Status)?, Vec::new())
        };
        patch.manager = asked.query.get("fieldManager").map(Arc::from);
        patch.force = asked.query.is("force");
        let key = Self::key(asked, name);
        let creates = is_apply && self.cluster().store(|store| store.table(asked.kind).get(&key).is_none());
        let result = self.call(asked, Op::Patch { key, patch, subresource, dry }).await;
        self.write_response(asked, if creates { 201 } else { 200 }, result, dry, &warnings)
    }

    async fn delete(&self, asked: &Asked<'_>, name: &str) -> Outcome<http::Response<Bytes>> {
        let delete_options::Asked { options, takes_dependents } =
            delete_options::read(asked.query, asked.headers, asked.body).map_err(ApiError::Status)?;
        let options = Box::new(options);
        let dry = options.dry;
        let key = Self::key(asked, name);
        let reply = self.call(asked, Op::Delete { key, options }).await?;
        if dry == Dry::No {
            self.forget(asked, name);
        }
        if let ApiReply::Deleted { uid } = &reply {
            let mut details = json!({"name": name, "kind": asked.def.plural, "uid": uid});
            if !asked.def.group.is_empty() {
                details["group"] = json!(asked.def.group);
            }
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
            return Ok(json_response(200, &status));
        }
        Ok(Self::object_response(if takes_dependents { 202 } else { 200 }, &reply, asked))
    }

    /// Deletes the objects of a list, one after the other, and answers with the list (K107).
    async fn delete_collection(&self, asked: &Asked<'_>) -> Outcome<http::Response<Bytes>> {
        if matches!(asked.def.plural, "namespaces" | "services") {
            return Ok(not_allowed());
        }
        let options = delete_options::read(asked.query, asked.headers, asked.body).map_err(ApiError::Status)?.options;
        let selection = Box::new(asked.query.list().map_err(ApiError::Status)?);
        let reply = self.call(asked, Op::List { namespace: Self::namespace(asked), options: selection }).await?;
        if let ApiReply::List { items, .. } = &reply {
            for item in items {
                let key = kube_sim::object::key_of(item);
                match self.call(asked, Op::Delete { key, options: Box::new(options.clone()) }).await {
                    Err(error) if error.is_not_found() => {}
                    other => drop(other?),
                }
            }
        }
        Ok(json_response(200, &list_value(asked.def, reply, asked.form)))
    }

    /// Assigns a pod to a node, by a Binding (K126).
    async fn bind(&self, asked: &Asked<'_>, name: &str) -> Outcome<http::Response<Bytes>> {
        body::check_size(asked.body).map_err(ApiError::Status)?;
        let bad = |text: &str| ApiError::Status(body::bad(text.to_owned()));
        let value: Value =
            serde_json::from_slice(asked.body).map_err(|_| bad("the object provided is unrecognized (must be of type Binding)"))?;
        let meta = &value["metadata"];
        if meta["name"].as_str().is_some_and(|own| own != name) {
            return Err(bad("name in URL does not match name in Binding object"));
        }
        let target = value["target"]["name"].as_str().unwrap_or_default();
        match value["target"]["kind"].as_str() {
            None | Some("" | "Node") => {}
            Some(other) => {
                let text = format!("target.kind: Unsupported value: {other:?}: supported values: \"Node\", \"<empty>\"");
                return Err(Status::new(Reason::Unknown, text).into());
            }
        }
        if target.is_empty() {
            return Err(Status::new(Reason::Unknown, "target.name: Required value").into());
        }
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": asked.path.namespace, "uid": meta["uid"], "resourceVersion": meta["resourceVersion"],
                "labels": meta["labels"], "annotations": meta["annotations"],
            },
            "spec": {"nodeName": target, "containers": []},
        }))
        .map_err(|error| bad(&error.to_string()))?;
        let key = Self::key(asked, name);
        let dry = asked.query.dry("CreateOptions").map_err(ApiError::Status)?;
        self.call(asked, Op::Update { key, body: Arc::new(pod), subresource: Some(Subresource::Binding), dry }).await?;
        Ok(json_response(201, &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})))
    }

    fn object_response(code: u16, reply: &ApiReply, asked: &Asked<'_>) -> http::Response<Bytes> {
        match reply.object() {
            Some(object) => json_response(code, &object_value(&**object, asked.form)),
            // The object was removed: the answer is a Status.
            None => json_response(code, &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})),
        }
    }

    /// Serves the type of a new definition from now on, and calls the webhooks of a new configuration.
    fn learn(&self, asked: &Asked<'_>, reply: &ApiReply, dry: Dry) {
        let Some(object) = reply.object().filter(|_| dry == Dry::No) else { return };
        if let Some(mutating) = webhooks::is_mutating(asked.def) {
            let (configuration, registry) = (object.to_value(), &self.cluster().registry);
            let name = object.meta().name.as_deref().unwrap_or_default();
            self.cluster().configure_webhooks(name, mutating, webhooks::webhooks_of(&configuration, mutating, registry));
        }
        let Some(crd) = object.as_any().downcast_ref::<CustomResourceDefinition>() else { return };
        debug_assert_eq!(asked.def.plural, "customresourcedefinitions");
        let place = (crd.spec.group.clone(), crd.spec.names.plural.clone());
        let mut defined = self.defined.lock();
        if let Some(known) = defined.get_mut(&place) {
            known.definition.update(crd);
            known.served = true;
            return;
        }
        if let Some((def, definition)) = custom::define(crd)
            && let Some(kind) = self.cluster().registry.define(def)
        {
            defined.insert(place, Defined { kind, definition, served: true });
        }
    }

    /// Stops serving the type of a deleted definition, and calling the webhooks of a deleted configuration.
    fn forget(&self, asked: &Asked<'_>, name: &str) {
        if let Some(mutating) = webhooks::is_mutating(asked.def) {
            self.cluster().configure_webhooks(name, mutating, Vec::new());
        }
        if asked.def.plural == "customresourcedefinitions"
            && let Some((plural, group)) = name.split_once('.')
            && let Some(defined) = self.defined.lock().get_mut(&(group.to_owned(), plural.to_owned()))
        {
            defined.served = false;
        }
    }
}

/// The manager of the fields that a request writes: the one that it names, else the first part of its user agent.
fn manager<'a>(asked: &Asked<'a>) -> &'a str {
    let named = asked.query.get("fieldManager").filter(|name| !name.is_empty());
    let agent = || asked.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    named.or_else(|| agent()?.split('/').next()).unwrap_or_default()
}

/// The paths of fields that were sent and are not in the object as understood.
fn unknown_fields(sent: &Value, understood: &Value) -> Vec<String> {
    fn walk(sent: &Value, understood: &Value, path: &str, found: &mut Vec<String>) {
        match (sent, understood) {
            (Value::Object(sent), Value::Object(understood)) => {
                for (name, value) in sent {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    match understood.get(name) {
                        Some(other) => walk(value, other, &path, found),
                        None if is_nothing(value) => {}
                        None => found.push(path),
                    }
                }
            }
            (Value::Array(sent), Value::Array(understood)) if sent.len() == understood.len() => {
                for (index, (value, other)) in sent.iter().zip(understood).enumerate() {
                    walk(value, other, &format!("{path}[{index}]"), found);
                }
            }
            _ => {}
        }
    }
    /// Whether an encoder may omit the value.
    fn is_nothing(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            _ => false,
        }
    }
    let mut found = Vec::new();
    walk(sent, understood, "", &mut found);
    found
}

/// The answer to a HEAD request.
fn without_body(mut response: http::Response<Bytes>) -> http::Response<Bytes> {
    *response.body_mut() = Bytes::new();
    response
}

/// 406, in the words of the server of the type.
fn not_acceptable(def: &TypeDef) -> http::Response<Bytes> {
    if def.custom {
        let text = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        return refusal(&Status::new(Reason::NotAcceptable, text));
    }
    let text = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    bare_refusal(&Status::new(Reason::NotAcceptable, text))
}

/// The answer of the RBAC authorizer to a user without any permission.
fn forbidden(user: &str, path: &ResourcePath, query: &Query, method: &Method) -> Status {
    let verb = match (method.as_str(), &path.name) {
        ("GET", _) if query.watches() || path.watch => "watch",
        ("GET", None) => "list",
        ("GET", Some(_)) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", None) => "deletecollection",
        _ => "delete",
    };
    let resource = path.subresource.as_ref().map_or_else(|| path.plural.clone(), |subresource| format!("{}/{subresource}", path.plural));
    let namespace = if path.plural == "namespaces" { path.name.as_ref() } else { path.namespace.as_ref() };
    let place = namespace.map_or_else(|| "at the cluster scope".to_owned(), |namespace| format!("in the namespace {namespace:?}"));
    let text = format!("User {user:?} cannot {verb} resource {resource:?} in API group {:?} {place}", path.group);
    let mut status = Status::new(Reason::Forbidden, text);
    status.details.name = path.name.clone().map(Into::into);
    status.details.group = path.group.clone().into();
    status.details.kind = path.plural.clone().into();
    status
}
