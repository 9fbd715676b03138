//! The parts of a workload that faults can affect, and a swarm's choice among them: processes that exist, resources that are used, objects
//! that are worked on.

use sim_config::Choice;
use sim_config::draw::{Draw, below};

use super::Target;

/// The pattern that the names of API servers match.
const SERVERS: &str = "apiserver-*";

/// The parts of a workload that faults can affect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultTargets {
    /// The active processes: the system under test and those that it depends on.
    pub processes: Vec<String>,
    /// The hosts of these processes, by name.
    pub hosts: Vec<String>,
    /// The processes that they communicate with, besides API servers.
    pub peers: Vec<String>,
    /// The plurals of the types that these processes read and write.
    pub resources: Vec<String>,
    /// Objects that other clients may write, too, as `PLURAL/NAMESPACE/NAME`.
    pub objects: Vec<String>,
    /// The processes that are kubelets with a container runtime and plugins (`actor::kubelet`).
    pub kubelets: Vec<String>,
    /// Addresses that machines outside the cluster may use.
    pub addresses: Vec<String>,
    /// The hosts whose Nodes may be lost, if a controller handles such Nodes.
    pub nodes: Vec<String>,
    /// The processes that serve webhooks.
    pub webhooks: Vec<String>,
    /// The leases of leaders, as `leases/NAMESPACE/NAME`.
    pub leases: Vec<String>,
}

impl FaultTargets {
    /// Processes, each on its own host with the same name, and the plurals of the types that they read and write.
    pub fn alone(processes: Vec<String>, resources: &[&str]) -> Self {
        let resources = resources.iter().map(|&plural| plural.to_owned()).collect();
        Self { hosts: processes.clone(), processes, resources, ..Self::default() }
    }
}

/// The targets of a workload, and the random numbers by which one fault chooses among them: the same numbers whatever its kind.
pub struct Targeting<'a> {
    targets: &'a FaultTargets,
    link: (String, String),
    coin: bool,
    resource: u64,
    object: u64,
}

impl<'a> Targeting<'a> {
    /// Draws the numbers: the same number of draws whatever the targets are.
    pub fn draw(targets: &'a FaultTargets, draw: &mut Draw) -> Self {
        let link = link(targets, draw);
        Self { targets, link, coin: draw.u64() >> 63 == 0, resource: draw.u64(), object: draw.u64() }
    }

    /// Whether the coin shows heads, as it does half of the time. All choices of a fault that depend on it go together.
    pub fn coin(&self) -> bool {
        self.coin
    }

    /// Senders and receivers: some processes and the API servers or their other peers, in either direction.
    pub fn link(&self) -> (Choice<Target>, Choice<Target>) {
        (Choice::Is(Target::from_text(&self.link.0)), Choice::Is(Target::from_text(&self.link.1)))
    }

    /// One of the processes.
    pub fn process(&self) -> Option<Choice<Target>> {
        one(&self.targets.processes)
    }

    /// All of the processes, if there are several.
    pub fn processes(&self) -> Option<Choice<Target>> {
        let all = &self.targets.processes;
        (all.len() > 1).then(|| Choice::Is(Target::from_text(&all.join(","))))
    }

    /// One of their hosts.
    pub fn host(&self) -> Option<Choice<Target>> {
        one(&self.targets.hosts)
    }

    /// One of the kubelets.
    pub fn kubelet(&self) -> Option<Choice<Target>> {
        one(&self.targets.kubelets)
    }

    /// One of the hosts whose Nodes may be lost.
    pub fn node(&self) -> Option<Choice<Target>> {
        one(&self.targets.nodes)
    }

    /// One of the processes that serve webhooks.
    pub fn webhook(&self) -> Option<Choice<Target>> {
        one(&self.targets.webhooks)
    }

    /// All of the processes that serve webhooks, as they share the content of a Secret, or one of them, by the [coin](Self::coin).
    pub fn webhooks_alike(&self) -> Option<Choice<Target>> {
        let all = || (!self.targets.webhooks.is_empty()).then(|| Choice::Is(Target::from_text(&self.targets.webhooks.join(","))));
        if self.coin { all() } else { self.webhook() }
    }

    /// Every type (`*`), or the plural of one, by the [coin](Self::coin).
    pub fn resource(&self) -> Choice<String> {
        let resource = if self.coin { None } else { pick(&self.targets.resources, self.resource) };
        Choice::Is(resource.unwrap_or_else(|| "*".to_owned()))
    }

    /// One of the objects that other clients may write, too.
    pub fn object(&self) -> Option<Choice<String>> {
        pick(&self.targets.objects, self.object).map(Choice::Is)
    }

    /// One of the leases of leaders.
    pub fn lease(&self) -> Option<Choice<String>> {
        pick(&self.targets.leases, self.object).map(Choice::Is)
    }

    /// One of the addresses that machines outside the cluster may use.
    pub fn address(&self) -> Option<Choice<String>> {
        pick(&self.targets.addresses, self.object).map(Choice::Is)
    }
}

fn one(names: &[String]) -> Option<Choice<Target>> {
    (!names.is_empty()).then(|| Choice::Is(Target::from_text(&format!("one:{}", names.join(",")))))
}

fn pick(names: &[String], word: u64) -> Option<String> {
    (!names.is_empty()).then(|| names[below(word, names.len() as u64) as usize].clone())
}

fn link(targets: &FaultTargets, draw: &mut Draw) -> (String, String) {
    let (few, whom, back) = (draw.u64(), draw.u64(), draw.u64() >> 63 == 0);
    let few = if few >> 63 == 0 { "one:" } else { "some:" };
    let us = if targets.processes.is_empty() { "*".to_owned() } else { format!("{few}{}", targets.processes.join(",")) };
    let mut others = vec![SERVERS.to_owned(), format!("one:{SERVERS}")];
    others.extend(targets.peers.iter().cloned());
    let them = others.swap_remove(below(whom, others.len() as u64) as usize);
    if back { (them, us) } else { (us, them) }
}
