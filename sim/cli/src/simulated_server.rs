//! The simulated API server as a target for conformance cases: over HTTP, in process, on its own clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api_conformance::{Answer, EventStream, Identity, Kit, Need, Options, Record, RequestError, Runner, Server};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use kube_sim::cluster::server::ServerDelays;
use kube_sim::cluster::{Cluster, ClusterConfig, Knobs, SimClient};
use kube_sim::kinds::{self, Registry};
use kube_sim::net::Delay;
use kube_sim::rt::{Rt, run};
use kube_sim::trace::recorder::Recorder;
use kube_sim_http::{Frontend, Lines, Response, types};
use sim_config::time::Span;

/// The token of the administrator.
const TOKEN: &str = "conformance";
/// The seed of the cluster: random values in it (delays, names) do not appear in a recording.
const SEED: u64 = 1;
/// The maximum number of types that a case may define in addition to the existing ones.
const LATE_TYPES: usize = 64;
/// The number of revisions used before the server started: a real server is not asked in its first second either.
const BEFORE: u64 = 1_000;
/// The time limit of a request.
const REQUEST_MAX: Duration = Duration::from_secs(45);

/// The features that cases need and the simulated server has. Its webhooks are some that nobody serves.
const HAS: [Need; 4] = [Need::Auth, Need::Rbac, Need::Webhooks, Need::Etcd];

/// Runs all cases of a kit against a simulated API server. Returns the records, and the errors before the first case, a sentence each.
pub fn record(kit: &Kit) -> (Vec<Record>, Vec<String>) {
    let options = Options { has: BTreeSet::from(HAS), managed_fields: false, run_id: "sim0".to_owned() };
    run(SEED, async |rt| {
        let server = SimulatedServer::start(rt);
        let runner = Runner::new(kit, &options);
        let wrong = runner.set_up(&server).await;
        let records = runner.run(&server).await;
        server.cluster.tear_down();
        (records, wrong)
    })
}

/// One API server, and a client for it.
struct SimulatedServer {
    rt: Rt,
    cluster: Arc<Cluster>,
    frontend: Frontend,
}

impl SimulatedServer {
    /// Starts a server whose caches are up to date with the store: the kit was recorded on an idle machine.
    fn start(rt: Rt) -> Self {
        let at_once = || Delay::Constant(Span::micros(0));
        let delays = ServerDelays { cache_lag: at_once(), watch_lag: at_once(), ..ServerDelays::default() };
        let knobs = Knobs { managed_fields: true, ..Knobs::default() };
        let config = ClusterConfig { seed: SEED, delays, knobs, ..ClusterConfig::default() };
        let registry = Arc::new(Registry::new(kinds::all(types())).with_room_for(LATE_TYPES));
        let cluster = Cluster::new(rt.clone(), registry, &config, Recorder::default());
        cluster.burn_revisions(BEFORE);
        cluster.add_server(rt.add_process(rt.add_host("control-plane-0"), "apiserver-0"));
        let client = rt.add_process(rt.add_host("client"), "client");
        rt.start(client);
        let frontend = Frontend::new(SimClient::new(&cluster, client), Some(TOKEN));
        Self { rt, cluster, frontend }
    }

    async fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
        identity: Identity,
    ) -> Result<Response, RequestError> {
        let mut request = http::Request::builder().method(method).uri(target);
        if !headers.iter().any(|(name, _)| name == "accept") {
            request = request.header(ACCEPT, "application/json");
        }
        request = match identity {
            Identity::Admin => request.header(AUTHORIZATION, format!("Bearer {TOKEN}")),
            Identity::Nobody => request.header(AUTHORIZATION, format!("Bearer {TOKEN}")).header("impersonate-user", "kit-nobody"),
            Identity::Stranger => request.header(AUTHORIZATION, "Bearer no-such-token"),
            Identity::Anonymous => request,
        };
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Bytes::from(body)).map_err(|_| RequestError::Connection)?;
        let answered = Box::pin(self.frontend.request(request));
        let given_up = Box::pin(self.rt.sleep(REQUEST_MAX));
        match futures_util::future::select(answered, given_up).await {
            futures_util::future::Either::Left((response, _)) => response.ok_or(RequestError::Connection),
            futures_util::future::Either::Right(_) => Err(RequestError::Timeout),
        }
    }
}

/// An answer without its body.
fn head<T>(response: &http::Response<T>) -> Answer {
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Answer { status: response.status().as_u16(), headers: response.headers().iter().map(header).collect(), body: Vec::new() }
}

impl Server for SimulatedServer {
    type Stream = Stream;

    async fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: Option<Vec<u8>>,
        identity: Identity,
    ) -> Result<Answer, RequestError> {
        match self.send(method, target, headers, body.unwrap_or_default(), identity).await? {
            Response::Whole(response) => Ok(Answer { body: response.body().to_vec(), ..head(&response) }),
            // A watch that is read as a whole ends with its connection.
            Response::Stream(response, _) => Ok(head(&response)),
        }
    }

    async fn watch(
        &self,
        target: &str,
        headers: &[(String, String)],
        identity: Identity,
    ) -> Result<(Answer, Option<Stream>), RequestError> {
        Ok(match self.send("GET", target, headers, Vec::new(), identity).await? {
            Response::Stream(response, lines) => (head(&response), Some(Stream::Watch(lines))),
            // A request that the server does not treat as a watch is a stream of one line for a client that does.
            Response::Whole(response) if response.status() == http::StatusCode::OK => {
                (head(&response), Some(Stream::Whole(Some(response.body().to_vec()))))
            }
            Response::Whole(response) => (Answer { body: response.body().to_vec(), ..head(&response) }, None),
        })
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> {
        self.rt.sleep(duration)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.rt.now().as_micros())
    }

    async fn compact(&self, revision: u64, announce: bool) {
        // After a compaction by another client, the caches still have everything that these cases need (K029, K031).
        if announce {
            self.cluster.compact(revision);
        }
    }
}

/// The answer to a watch.
enum Stream {
    Watch(Box<Lines>),
    Whole(Option<Vec<u8>>),
}

impl EventStream for Stream {
    async fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Stream::Watch(lines) => lines.next().await.map(|line| line.to_vec()),
            Stream::Whole(line) => line.take(),
        }
    }
}
