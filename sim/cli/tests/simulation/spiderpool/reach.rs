//! Claims that do not wait for pods whose node never returns.

use super::{ipam_sim, scratch};

/// A cluster in which one process of a node dies early and permanently.
fn losing(process: &str) -> String {
    format!(
        r#"
        name = "losing-{process}"
        why = "Is nobody waited for whose node is gone?"

        [phases]
        safety = "1m"
        liveness = "3m"

        [workload]
        kind = "spiderpool"
        kinds = ["deployment", "daemon-set", "pod", "stateful-set"]
        nodes = 2
        apps = 4

        [[fault]]
        kind = "crash"
        at = "5s"
        process = "{process}"
        down = "forever"

        [check]
        always = ["no-address-has-two-live-sandboxes"]
        eventually = [
            {{ claim = "pods-get-addresses", within = "2m" }},
            {{ claim = "records-equal-endpoints", within = "2m" }},
            {{ claim = "queued-requests-are-served", within = "2m" }},
        ]
        "#
    )
}

#[test]
fn pods_of_a_node_without_its_agent_or_its_kubelet_are_not_waited_for() {
    for process in ["agent-1", "kubelet-1"] {
        let folder = scratch(process);
        let file = folder.join("scenario.toml");
        std::fs::write(&file, losing(process)).unwrap();
        let (file, out) = (file.to_str().unwrap(), folder.to_str().unwrap());
        let (code, report, _) = ipam_sim(&["run", file, "--seeds", "10", "--no-shrink", "--out", out, "--force"]);
        assert_eq!(code, 0, "{report}");
    }
}
