//! ADD, DEL and batch release against recorded sequences of upstream's code.
//!
//! The recorded sequences are in `tests/data/flow.jsonl`, or in the file of that name in the folder that the environment variable
//! `IPAM_VECTORS` names. After each step the whole state is compared: pools, endpoints, answer and failure cache.

mod api_server;
mod flow;
mod recorded;

use std::collections::BTreeMap;

use flow::Flow;
use ipam_core::spiderpool::Policy;
use serde_json::{Value, json};

#[test]
fn vectors_flow_upstream_agrees_with_every_recorded_step() {
    let Some(cases) = recorded::cases("flow.jsonl") else { return };
    let mut mismatches = recorded::Mismatches::new("flow.jsonl");
    let mut steps = 0;
    for case in &cases {
        let mut flow = Flow::new(case, Policy::upstream());
        let mut expected = Expected::new(flow.state());
        let id = case["id"].as_str().unwrap();
        for (at, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let answer = flow.step(&step["op"]);
            expected.change(&step["expect"]);
            let name = format!("/step {at} {}", step["op"]["op"].as_str().unwrap());
            mismatches.compare(id, &name, &told(&step["expect"]), &answer);
            mismatches.compare(id, &name, &expected.0, &flow.state());
            steps += 1;
            // What follows a difference differs, too.
            if mismatches.has(id) {
                break;
            }
        }
    }
    println!("flow.jsonl: {steps} steps");
    mismatches.none_in(cases.len());
}

/// The part of a recorded step that is an answer.
fn told(expect: &Value) -> Value {
    let mut told = json!({"ok": expect["ok"], "error": expect["error"]});
    for key in ["ips", "routes"] {
        if let Some(value) = expect.get(key) {
            told[key] = value.clone();
        }
    }
    told
}

/// The state that was recorded.
struct Expected(Value);

impl Expected {
    fn new(state: Value) -> Self {
        Self(state)
    }

    fn change(&mut self, expect: &Value) {
        for part in ["pools", "endpoints", "failure_cache"] {
            let changed: BTreeMap<String, Value> = serde_json::from_value(expect.get(part).cloned().unwrap_or(json!({}))).unwrap();
            for (name, value) in changed {
                let members = self.0[part].as_object_mut().unwrap();
                if value.is_null() {
                    members.remove(&name);
                } else {
                    members.insert(name, value);
                }
            }
        }
        if expect["forgets"] == json!(true) {
            self.0["failure_cache"] = json!({});
        }
    }
}
