//! A §14.31: an endpoint that names a gateway says whether it is used.

use super::view::{EventMask, Seen, View};
use super::{Findings, IpamClaim};

/// An entry of an endpoint that an agent writes says whether its gateway is left out if it names a gateway of either family, and otherwise
/// says nothing about it. Entries that were there before are not judged.
///
/// Broken by `random-clean-gateway`. It does not see what the plugin makes of it.
pub(crate) struct GatewaysAreDecided;

impl IpamClaim for GatewaysAreDecided {
    fn event_mask(&self) -> EventMask {
        EventMask::ENDPOINT
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Endpoint(change) = seen else { return };
        let Some(after) = change.after.as_ref().filter(|_| view.agents.is_agent(change.said.by)) else { return };
        let entries =
            |object: &ipam_spiderpool::SpiderEndpoint| object.status.as_ref().map(|status| status.current.ips.clone()).unwrap_or_default();
        let before = change.before.as_deref().map(entries).unwrap_or_default();
        for entry in entries(after).into_iter().filter(|entry| !before.contains(entry)) {
            findings.exercised();
            let named = entry.ipv4_gateway.is_some() || entry.ipv6_gateway.is_some();
            if named != entry.clean_gateway.is_some() {
                findings.violated(|| {
                    let says = if named { "names a gateway and does not say" } else { "names no gateway and says" };
                    vec![format!(
                        "endpoint {} {says} for {} whether it is left out ({})",
                        change.key,
                        entry.interface,
                        view.by(change.said)
                    )]
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::SpiderEndpoint;
    use kube_machinery::ObjectKey;

    use super::super::testing::on_stage;

    #[test]
    fn an_entry_with_a_gateway_says_what_becomes_of_it() {
        for (gateway, says, by_agent, violated) in [
            (true, true, true, false),
            (true, false, true, true),
            (false, true, true, true),
            (false, false, true, false),
            (true, false, false, false),
        ] {
            on_stage("gateways-are-decided", |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pod("ns/a", "a");
                stage.endpoint(stage.agent, "ns/a", "a", &[("eth0", "p", "10.0.0.1")]);
                let by = if by_agent { stage.agent } else { stage.person };
                stage.change::<SpiderEndpoint>(by, &ObjectKey::namespaced("ns", "a"), |endpoint| {
                    let entry = &mut endpoint.status.get_or_insert_default().current.ips[0];
                    entry.ipv4_gateway = gateway.then(|| "10.0.0.254".to_owned());
                    entry.clean_gateway = says.then_some(false);
                });
                assert_eq!((!stage.excuses().is_empty(), stage.exercised()), (violated, true), "{gateway} {says} {by_agent}");
            });
        }
    }
}
