//! Links: the fate of a message, decided before it travels.
//!
//! ```text
//!  client ──request──► link(client→server) ─► Fate ─► server
//!         ◄──reply──── link(server→client) ◄─ Fate ◄─
//! ```
//! A request and its reply are two messages on two links, so "applied but the answer never came" needs no special case. They are bytes of a
//! TCP connection: lost data is sent again, and nothing is lost permanently while the connection lasts (K158). Faults do not touch links:
//! they add [`Rule`]s, and each link folds the rules that match it when they change.
//!
//! The draws of the n-th message on a link depend only on the seed, the link and n: removing one fault from a plan does not reshuffle the
//! messages of other links.

mod delay;
mod retransmission;
mod rule;

use std::task::Waker;
use std::time::Duration;

use kube_machinery::FxHashMap;
use serde::{Deserialize, Serialize};
use sim_config::draw::{BLOCK, Concern, Draw, unit};
use sim_config::time::SimTime;

use crate::rt::ProcessId;

pub use delay::{Delay, Sampler};
pub use retransmission::Retransmission;
pub use rule::{Effect, Rule, RuleId, Side};

/// Delays of a healthy and of a degraded link (K §11.2: network, one way).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDelays {
    /// A small to medium cluster in good health.
    pub healthy: Delay,
    /// Overload or a bad network path.
    pub degraded: Delay,
}

impl Default for LinkDelays {
    fn default() -> Self {
        Self { healthy: Delay::lognormal_us(300, 2_000, 50_000), degraded: Delay::lognormal_us(2_000, 200_000, 5_000_000) }
    }
}

/// The fate of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives after the delay, and once more after the second one.
    Deliver {
        /// Time from the sending of the message until its arrival.
        after: Duration,
        /// The delay of the copy, if there is one.
        again: Option<Duration>,
    },
    /// The link is cut: ask again when the network has changed ([`Network::on_change`]) and the sender tries again ([`Retransmission`]).
    Cut,
    /// The message is held: ask again when the network has changed.
    Held,
}

/// The number of times in a row that a message is lost, for a uniform number: at least n with the n-th power of `chance`.
fn losses(chance: f64, uniform: f64) -> u32 {
    /// After this many losses its connection is dead.
    const MOST: u32 = 9;
    let mut reached = chance;
    let mut times = 0;
    while uniform < reached && times < MOST {
        (times, reached) = (times + 1, reached * chance);
    }
    times
}

/// The draws for one message: those not used by the link are for the code that handles the message.
pub type Block = [u64; BLOCK];

struct Link {
    draw: Draw,
    /// The generation of rules that the fields below were folded from.
    generation: u64,
    cut: bool,
    held: bool,
    loss: f64,
    duplicate: (f64, Duration),
    reorder: (f64, Duration),
    slower: Duration,
    degraded: bool,
    /// The time at which a message that had to be sent again arrives; none that follows it arrives earlier.
    blocked_until: SimTime,
}

/// All links of a run.
pub struct Network {
    seed: u64,
    healthy: Sampler,
    degraded: Sampler,
    links: FxHashMap<(u32, u32), Link>,
    /// The rules, each with whether a link to which it applies was used since it was added.
    rules: Vec<(RuleId, Rule, bool)>,
    generation: u64,
    waiting: Vec<Waker>,
    /// The number of messages with each fate; for vacuity checks and reports.
    pub counts: Counts,
}

/// Counts of the fates of messages so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages on links that were neither cut nor held; those that meet such a link count when they get through.
    pub sent: u64,
    /// Times at which a message met a cut link.
    pub cut: u64,
    /// Messages that were lost by chance, and sent again.
    pub lost: u64,
    /// Messages that arrive twice because of a rule ([`Effect::Duplicate`]).
    pub duplicated: u64,
    /// Messages that were delayed so that later ones may overtake them.
    pub reordered: u64,
    /// Times at which a message met a link that holds messages back.
    pub held: u64,
}

/// The upper half of a word as a uniform number.
pub fn high(word: u64) -> f64 {
    unit(word & !0xffff_ffff)
}

/// The lower half of a word as a uniform number.
pub fn low(word: u64) -> f64 {
    unit(word << 32)
}

impl Network {
    /// A network without rules whose links draw from `seed`.
    pub fn new(seed: u64, delays: LinkDelays) -> Self {
        Self {
            seed,
            healthy: delays.healthy.sampler(),
            degraded: delays.degraded.sampler(),
            links: FxHashMap::default(),
            rules: Vec::new(),
            generation: 1,
            waiting: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Adds a rule: it applies to messages sent from then on, until it is removed by the number returned.
    pub fn add(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.generation);
        self.rules.push((id, rule, false));
        self.changed();
        id
    }

    /// Removes a rule; nothing happens if it is gone already.
    pub fn remove(&mut self, id: RuleId) {
        self.rules.retain(|(rule, ..)| *rule != id);
        self.changed();
    }

    /// Whether a link to which an active rule applies was used since the rule was added.
    pub fn was_met(&self, id: RuleId) -> bool {
        self.rules.iter().any(|(rule, _, met)| *rule == id && *met)
    }

    /// Whether no message gets from `process` to any other, or none from any other to it.
    pub fn is_isolated(&self, process: ProcessId) -> bool {
        self.rules.iter().any(|(_, Rule { from, to, effect }, _)| {
            let all = |one: &Side, other: &Side| *one == Side::Any && other.contains(process);
            matches!(effect, Effect::Cut | Effect::Hold) && (all(from, to) || all(to, from))
        })
    }

    /// Removes every rule, whatever added it, and wakes everything that waits for a change.
    pub fn heal(&mut self) {
        self.rules.clear();
        self.changed();
    }

    fn changed(&mut self) {
        self.generation += 1;
        self.wake_waiting();
    }

    /// Wakes everything that waits for a change.
    pub fn wake_waiting(&mut self) {
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }

    /// Arranges that `waker` is called at the next change of a rule.
    pub fn on_change(&mut self, waker: &Waker) {
        self.waiting.push(waker.clone());
    }

    #[inline]
    fn link(&mut self, from: ProcessId, to: ProcessId) -> &mut Link {
        let link = self.links.entry((from.0, to.0)).or_insert_with(|| Link {
            draw: Draw::new(self.seed, Concern::Link, u64::from(from.0) << 32 | u64::from(to.0)),
            generation: 0,
            cut: false,
            held: false,
            loss: 0.0,
            duplicate: (0.0, Duration::ZERO),
            reorder: (0.0, Duration::ZERO),
            slower: Duration::ZERO,
            degraded: false,
            blocked_until: SimTime::ZERO,
        });
        if link.generation != self.generation {
            link.fold(self.generation, &mut self.rules, from, to);
        }
        link
    }

    /// A number that changes with each change of the rules.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether no rule applies to the messages between `one` and `other`, in either direction.
    pub fn is_untouched(&self, one: ProcessId, other: ProcessId) -> bool {
        let about = |rule: &Rule, from, to| rule.from.contains(from) && rule.to.contains(to);
        !self.rules.iter().any(|(_, rule, _)| about(rule, one, other) || about(rule, other, one))
    }

    /// Like [`is_cut`](Self::is_cut), for observers: the link does not count as used.
    pub fn blocks(&self, from: ProcessId, to: ProcessId) -> bool {
        let stops = |effect| matches!(effect, Effect::Cut | Effect::Hold) || matches!(effect, Effect::Loss(chance) if chance >= 1.0);
        self.rules.iter().any(|(_, rule, _)| stops(rule.effect) && rule.from.contains(from) && rule.to.contains(to))
    }

    /// Whether no message gets from `from` to `to` at present.
    pub fn is_cut(&mut self, from: ProcessId, to: ProcessId) -> bool {
        let link = self.link(from, to);
        link.cut || link.held
    }

    /// Decides the fate of the next message from `from` to `to`, sent at `now`. A message that meets a cut or held link takes its draws
    /// when it gets through.
    #[inline]
    pub fn send(&mut self, from: ProcessId, to: ProcessId, now: SimTime) -> (Fate, Block) {
        let (healthy, degraded) = (self.healthy, self.degraded);
        let link = self.link(from, to);
        if link.held || link.cut {
            let (fate, count) = if link.held { (Fate::Held, &mut self.counts.held) } else { (Fate::Cut, &mut self.counts.cut) };
            *count += 1;
            return (fate, [0; BLOCK]);
        }
        let block = link.draw.block();
        let base = if link.degraded { degraded } else { healthy }.sample(unit(block[0])) + link.slower;
        if link.is_plain() && link.blocked_until <= now {
            self.counts.sent += 1;
            return (Fate::Deliver { after: base, again: None }, block);
        }
        let losses = losses(link.loss, high(block[1]));
        let (copy_chance, gap) = link.duplicate;
        let (late_chance, by) = link.reorder;
        let mut after = base + Retransmission::DATA.after(losses);
        let is_late = low(block[1]) < late_chance;
        if is_late {
            after += by.mul_f64(low(block[0]));
        }
        if losses > 0 {
            link.blocked_until = link.blocked_until.max(now + after);
        } else if !is_late {
            after = after.max(link.blocked_until.since(now));
        }
        // Loss took the lower end of the same number; the copy takes the upper end.
        let copied = high(block[1]) >= 1.0 - copy_chance;
        self.counts.sent += 1;
        self.counts.lost += u64::from(losses > 0);
        self.counts.reordered += u64::from(is_late);
        self.counts.duplicated += u64::from(copied);
        (Fate::Deliver { after, again: copied.then(|| after + gap) }, block)
    }
}

impl Link {
    fn is_plain(&self) -> bool {
        self.loss == 0.0 && self.duplicate.0 == 0.0 && self.reorder.0 == 0.0
    }

    /// Folds the rules that match this link. Of several probabilities of one kind the largest counts; delays add up.
    fn fold(&mut self, generation: u64, rules: &mut [(RuleId, Rule, bool)], from: ProcessId, to: ProcessId) {
        self.generation = generation;
        (self.cut, self.held, self.degraded) = (false, false, false);
        (self.loss, self.slower) = (0.0, Duration::ZERO);
        (self.duplicate, self.reorder) = ((0.0, Duration::ZERO), (0.0, Duration::ZERO));
        for (_, rule, met) in rules.iter_mut().filter(|(_, rule, _)| rule.from.contains(from) && rule.to.contains(to)) {
            *met = true;
            match rule.effect {
                Effect::Cut => self.cut = true,
                Effect::Hold => self.held = true,
                // If every packet is lost, no message gets through.
                Effect::Loss(chance) => (self.loss, self.cut) = (self.loss.max(chance), self.cut || chance >= 1.0),
                Effect::Duplicate { chance, gap } if chance > self.duplicate.0 => self.duplicate = (chance, gap),
                Effect::Reorder { chance, by } if chance > self.reorder.0 => self.reorder = (chance, by),
                Effect::Duplicate { .. } | Effect::Reorder { .. } => {}
                Effect::Slower(by) => self.slower += by,
                Effect::Degraded => self.degraded = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProcessId = ProcessId(0);
    const B: ProcessId = ProcessId(1);
    const NOW: SimTime = SimTime::ZERO;

    fn network() -> Network {
        Network::new(7, LinkDelays::default())
    }

    fn rule(effect: Effect) -> Rule {
        Rule { from: Side::Only(vec![A]), to: Side::Any, effect }
    }

    #[test]
    fn a_one_way_cut_stops_one_direction_only() {
        let mut net = network();
        let id = net.add(rule(Effect::Cut));
        assert_eq!(net.send(A, B, NOW).0, Fate::Cut);
        assert!(matches!(net.send(B, A, NOW).0, Fate::Deliver { .. }));
        net.remove(id);
        assert!(matches!(net.send(A, B, NOW).0, Fate::Deliver { .. }));
    }

    #[test]
    fn rates_are_what_the_rules_say() {
        let mut net = network();
        net.add(rule(Effect::Loss(0.2)));
        net.add(rule(Effect::Duplicate { chance: 0.1, gap: Duration::from_millis(1) }));
        net.add(rule(Effect::Reorder { chance: 0.3, by: Duration::from_secs(1) }));
        for _ in 0..10_000 {
            net.send(A, B, NOW);
        }
        let Counts { lost, duplicated, reordered, .. } = net.counts;
        assert!((1_850..2_150).contains(&lost), "{lost}");
        assert!((880..1_120).contains(&duplicated), "{duplicated}");
        assert!((2_850..3_150).contains(&reordered), "{reordered}");
    }

    #[test]
    fn a_rule_on_one_link_leaves_the_draws_of_others_alone() {
        let delays = |faulty: bool| {
            let mut net = network();
            if faulty {
                net.add(rule(Effect::Loss(0.5)));
            }
            (0..20).map(|_| (net.send(A, B, NOW), net.send(B, A, NOW)).1).collect::<Vec<_>>()
        };
        assert_eq!(delays(false), delays(true));
    }

    #[test]
    fn what_meets_a_held_or_a_cut_link_is_asked_again_and_has_taken_no_draws() {
        let delays = |effects: &[Effect]| {
            let mut net = network();
            for &effect in effects {
                let id = net.add(rule(effect));
                assert!(matches!(net.send(A, B, NOW).0, Fate::Held | Fate::Cut));
                net.remove(id);
            }
            (0..20).map(|_| net.send(A, B, NOW)).collect::<Vec<_>>()
        };
        assert_eq!(delays(&[Effect::Hold, Effect::Cut, Effect::Loss(1.0)]), delays(&[]));
    }

    #[test]
    fn k158_a_lost_message_is_sent_again_after_a_time_out_that_doubles_and_holds_up_what_follows_it() {
        let mut net = network();
        let id = net.add(rule(Effect::Loss(0.5)));
        let mut times = [0; 4];
        let (mut arrival, mut now) = (SimTime::ZERO, SimTime::ZERO);
        for _ in 0..10_000 {
            now += Duration::from_micros(1);
            let Fate::Deliver { after, .. } = net.send(A, B, now).0 else { panic!("nothing is lost for good") };
            let millis = after.as_millis();
            for (n, least) in [200, 600, 1_400, 3_000].into_iter().enumerate() {
                times[n] += u32::from((least..least + 60).contains(&millis));
            }
            assert!(now + after >= arrival || millis < 200, "only what was sent before may arrive before");
            arrival = arrival.max(now + after);
            now = arrival;
        }
        for (n, expected) in [2_500, 1_250, 625, 312].into_iter().enumerate() {
            assert!(times[n].abs_diff(expected) < expected / 6, "{n}: {times:?}");
        }
        // A message sent a moment later queues behind it.
        net.remove(id);
        let id = net.add(rule(Effect::Loss(0.999)));
        let Fate::Deliver { after: lost, .. } = net.send(A, B, now).0 else { panic!("it is lost and sent again") };
        net.remove(id);
        let Fate::Deliver { after, .. } = net.send(A, B, now).0 else { panic!("nothing stops it") };
        assert!(lost >= Duration::from_millis(200) && after >= lost, "{lost:?} {after:?}");
    }

    #[test]
    fn k158_what_is_not_acknowledged_is_sent_again_after_a_time_out_that_doubles_up_to_two_minutes() {
        let at = |millis: u64| SimTime::ZERO + Duration::from_millis(millis);
        for (now, next) in
            [(0, 200), (200, 200), (201, 600), (601, 1_400), (1_401, 3_000), (50_000, 51_000), (102_201, 204_600), (204_601, 324_600)]
        {
            assert_eq!(Retransmission::DATA.next(at(0), at(now)), at(next), "{now}");
        }
        assert_eq!(Retransmission::SYN.next(at(500), at(4_000)), at(7_500));
    }

    #[test]
    fn who_hears_nobody_or_is_heard_by_nobody_is_isolated_and_who_has_a_bad_link_is_not() {
        let only = || Side::Only(vec![A]);
        let mut net = network();
        net.add(Rule { from: only(), to: Side::Only(vec![B]), effect: Effect::Cut });
        net.add(Rule { from: only(), to: Side::Any, effect: Effect::Loss(1.0) });
        assert!(!net.is_isolated(A));
        for (from, to, effect) in [(only(), Side::Any, Effect::Cut), (Side::Any, only(), Effect::Hold)] {
            let id = net.add(Rule { from, to, effect });
            assert_eq!([net.is_isolated(A), net.is_isolated(B)], [true, false]);
            assert_eq!([net.blocks(A, B) || net.blocks(B, A), net.was_met(id)], [true, false]);
            net.remove(id);
            assert!(!net.is_isolated(A));
        }
    }

    #[test]
    fn a_degraded_link_is_slower() {
        let mut net = network();
        let sum = |net: &mut Network| {
            let one = |net: &mut Network| match net.send(A, B, NOW).0 {
                Fate::Deliver { after, .. } => after,
                other => panic!("{other:?}"),
            };
            (0..500).map(|_| one(net)).sum::<Duration>()
        };
        let healthy = sum(&mut net);
        net.add(rule(Effect::Degraded));
        assert!(sum(&mut net) > healthy * 3);
    }
}
