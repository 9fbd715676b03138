//! Faults of the network: messages from some processes to others are lost, late, held back or duplicated.

use std::sync::Arc;

use parking_lot::Mutex;
use sim_config::Probability;
use sim_config::time::Span;

use crate::cluster::Cluster;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{any, between, chance, parameters, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};
use crate::net::{Effect as LinkEffect, Rule, RuleId, Side};
use crate::rt::ProcessId;

/// Rules of the network.
#[derive(Debug)]
struct Rules {
    rules: Vec<Rule>,
    active: Mutex<Vec<RuleId>>,
}

impl Effect for Rules {
    fn apply(&self, cluster: &Arc<Cluster>) {
        *self.active.lock() = cluster.network(|net| self.rules.iter().map(|rule| net.add(rule.clone())).collect());
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        for rule in std::mem::take(&mut *self.active.lock()) {
            cluster.network(|net| net.remove(rule));
        }
    }

    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    /// Whether a message has used a link that a rule applies to.
    fn has_observable_effect(&self, cluster: &Cluster) -> bool {
        let rules = self.active.lock().clone();
        rules.into_iter().any(|rule| cluster.network(|net| net.was_met(rule)))
    }
}

/// The effect that cuts a process off from all others, in both directions.
pub(super) fn cut_off(process: ProcessId) -> ActiveEffect {
    let alone = || Side::Only(vec![process]);
    let cut = |from, to| Rule { from, to, effect: LinkEffect::Cut };
    Rules { rules: vec![cut(alone(), Side::Any), cut(Side::Any, alone())], active: Mutex::default() }.into()
}

fn rules(injection: &Injection<'_>, from: &Target, to: &Target, effect: LinkEffect, both_ways: bool) -> Vec<ActiveEffect> {
    let rt = &injection.cluster.rt;
    let (from, to) = (from.side(rt), to.side(rt));
    let mut rules = vec![Rule { from: from.clone(), to: to.clone(), effect }];
    if both_ways {
        rules.push(Rule { from: to, to: from, effect });
    }
    vec![Rules { rules, active: Mutex::default() }.into()]
}

parameters! {
    /// No message gets from one side to the other, in either direction; messages sent during the fault are sent again after it.
    pub struct Partition / PartitionDraft {
        /// Processes on one side, named by themselves or by their hosts; where `to` is `*`, they are cut off from all others.
        from: Target = target("some:*"),
        /// Processes on the other side; `*` is every process, including those that are added later.
        to: Target = any(),
    }
}

impl Inject for Partition {
    const EVENT: &'static str = "a network partition between processes while the machines are fine (K §9.2 C12, D3)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<PartitionDraft>> = Drawn::ByDefault(|targeting| {
        let (from, to) = targeting.link();
        Some(PartitionDraft { from, to })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.from, &self.to])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Links { from: self.from.clone(), to: self.to.clone(), both_ways: true }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        rules(injection, &self.from, &self.to, LinkEffect::Cut, true)
    }
}

parameters! {
    /// No message gets from `from` to `to`; the other direction works.
    pub struct OneWayPartition / OneWayPartitionDraft {
        /// Processes whose messages, requests and answers alike, do not get through to those of `to`.
        from: Target = target("one:*"),
        /// Processes that receive nothing from those of `from`; what they send arrives.
        to: Target = any(),
    }
}

impl Inject for OneWayPartition {
    const EVENT: &'static str =
        "an asymmetric route or a half-dead NAT entry: requests arrive and answers do not, or the reverse (K §9.2 B5)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<OneWayPartitionDraft>> = Drawn::ByDefault(|targeting| {
        let (from, to) = targeting.link();
        Some(OneWayPartitionDraft { from, to })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.from, &self.to])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Links { from: self.from.clone(), to: self.to.clone(), both_ways: false }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        rules(injection, &self.from, &self.to, LinkEffect::Cut, false)
    }
}

parameters! {
    /// Some messages are lost, and retransmitted after 0.2 s, 0.6 s, 1.4 s and so on.
    pub struct Loss / LossDraft {
        /// Processes whose messages to those of `to` may be lost, named by themselves or by their hosts.
        from: Target = any(),
        /// Receivers of the messages that may be lost; their answers are messages of the other direction.
        to: Target = any(),
        /// The probability per message.
        chance: Probability = chance(0.001, 0.1),
    }
}

impl Inject for Loss {
    const EVENT: &'static str = "a lossy network path, on which TCP retransmits packets (K §4.4, K §9.2 A5)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<LossDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(LossDraft::default());
        }
        let (from, to) = targeting.link();
        Some(LossDraft { from, to, ..LossDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.from, &self.to])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Links { from: self.from.clone(), to: self.to.clone(), both_ways: false }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        rules(injection, &self.from, &self.to, LinkEffect::Loss(self.chance.get()), false)
    }
}

parameters! {
    /// Some messages arrive twice.
    pub struct Duplication / DuplicationDraft {
        /// Processes whose messages to those of `to` may arrive twice, named by themselves or by their hosts.
        from: Target = any(),
        /// Receivers of the messages that may arrive twice; their answers are messages of the other direction.
        to: Target = any(),
        /// The probability per message.
        chance: Probability = chance(0.001, 0.1),
        /// Time between the two arrivals.
        gap: Span = between(Span::millis(1), Span::secs(30)),
    }
}

impl Inject for Duplication {
    const EVENT: &'static str = "a proxy or a client library that resends a request (K §9.2 A4, K §2.13)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<DuplicationDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(DuplicationDraft::default());
        }
        let (from, to) = targeting.link();
        Some(DuplicationDraft { from, to, ..DuplicationDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.from, &self.to])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Links { from: self.from.clone(), to: self.to.clone(), both_ways: false }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        rules(injection, &self.from, &self.to, LinkEffect::Duplicate { chance: self.chance.get(), gap: self.gap.0 }, false)
    }
}

parameters! {
    /// Some messages are delayed so that later ones overtake them.
    pub struct Reordering / ReorderingDraft {
        /// Processes whose messages to those of `to` may be overtaken, named by themselves or by their hosts.
        from: Target = any(),
        /// Receivers of the messages that may be overtaken; their answers are messages of the other direction.
        to: Target = any(),
        /// The probability per message.
        chance: Probability = chance(0.01, 0.5),
        /// The longest additional delay.
        by: Span = between(Span::millis(1), Span::secs(1)),
    }
}

impl Inject for Reordering {
    const EVENT: &'static str = "requests of one client that overtake each other on a multiplexed connection (K §9.2 A7)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<ReorderingDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(ReorderingDraft::default());
        }
        let (from, to) = targeting.link();
        Some(ReorderingDraft { from, to, ..ReorderingDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.from, &self.to])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Links { from: self.from.clone(), to: self.to.clone(), both_ways: false }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        rules(injection, &self.from, &self.to, LinkEffect::Reorder { chance: self.chance.get(), by: self.by.0 }, false)
    }
}

parameters! {
    /// Every message takes longer.
    pub struct Delay / DelayDraft {
        /// Processes whose messages to those of `to` take longer, named by themselves or by their hosts.
        from: Target = any(),
        /// Receivers of the messages that take longer; their answers are messages of the other direction.
        to: Target = any(),
        /// The additional time that each message takes; for a link with several such faults these times add up.
        by: Span = between(Span::millis(1), Span::secs(5)),
    }
}

impl Inject for Delay {
    const EVENT: &'static str = "a congested or distant network path (K §9.2 A5)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<DelayDraft>> = Drawn::ByDefault(|targeting| {
        let (from, to) = targeting.link();
        Some(DelayDraft { from, to, ..DelayDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.from, &self.to])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Links { from: self.from.clone(), to: self.to.clone(), both_ways: false }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        rules(injection, &self.from, &self.to, LinkEffect::Slower(self.by.0), false)
    }
}

parameters! {
    /// The links are in their degraded class.
    pub struct DegradedLink / DegradedLinkDraft {
        /// Processes whose messages to those of `to` take the delays of `cluster.links.degraded`.
        from: Target = any(),
        /// Receivers of the messages that take these delays; their answers are messages of the other direction.
        to: Target = any(),
    }
}

impl Inject for DegradedLink {
    const EVENT: &'static str = "a bad network path that comes and goes (K §11.2, degraded column)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<DegradedLinkDraft>> = Drawn::ByDefault(|targeting| {
        if !targeting.coin() {
            return Some(DegradedLinkDraft::default());
        }
        let (from, to) = targeting.link();
        Some(DegradedLinkDraft { from, to })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.from, &self.to])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Links { from: self.from.clone(), to: self.to.clone(), both_ways: false }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        rules(injection, &self.from, &self.to, LinkEffect::Degraded, false)
    }
}

parameters! {
    /// Messages are held back, and delivered after the fault ends.
    pub struct Hold / HoldDraft {
        /// Processes whose messages to those of `to` are held back, named by themselves or by their hosts.
        from: Target = target("one:*"),
        /// Receivers of the messages that are held back; their answers are messages of the other direction.
        to: Target = any(),
    }
}

impl Inject for Hold {
    const EVENT: &'static str = "a blocked queue or a frozen proxy that loses nothing (K §9.1, unobserved state)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<HoldDraft>> = Drawn::ByDefault(|targeting| {
        let (from, to) = targeting.link();
        Some(HoldDraft { from, to })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.from, &self.to])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Links { from: self.from.clone(), to: self.to.clone(), both_ways: false }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        rules(injection, &self.from, &self.to, LinkEffect::Hold, false)
    }
}
