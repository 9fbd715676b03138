//! The commands that show something again, as a shell takes them.

/// The command that replays a plan file or, if there is none, the seed of a scenario.
pub fn replay_command(plan: Option<&str>, file: &str, seed: u64) -> String {
    match plan {
        Some(plan) => format!("ipam-sim replay {} --trace", quoted(plan)),
        None => format!("ipam-sim replay {} --seed {seed} --trace", quoted(file)),
    }
}

/// The command that tells which mutations a sweep of a scenario on the user's manifests would notice.
pub fn mutation_score_command(file: &str) -> String {
    format!("ipam-sim selftest {} --must-hold --manifests ...", quoted(file))
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !path.is_empty() && path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(replay_command(Some("target/a-7.toml"), "s.toml", 7), "ipam-sim replay target/a-7.toml --trace");
        assert_eq!(replay_command(Some("my plans/it's.toml"), "s.toml", 7), r"ipam-sim replay 'my plans/it'\''s.toml' --trace");
        assert_eq!(replay_command(None, "s.toml", 7), "ipam-sim replay s.toml --seed 7 --trace");
    }
}
