//! Commands that reproduce a result, quoted for a shell.

use std::sync::OnceLock;

static PROGRAM: OnceLock<String> = OnceLock::new();

/// Sets the program's name in the commands that are shown: a program with systems of its own has another name. Only the first call takes
/// effect.
pub fn set_program(name: String) {
    // If the name is already set, the first one stays.
    let _ = PROGRAM.set(name);
}

/// The program's name in the commands that are shown: `ipam-sim` unless set otherwise.
pub fn program() -> &'static str {
    PROGRAM.get().map_or("ipam-sim", String::as_str)
}

/// The command that replays a plan file or, if there is none, the seed of a scenario.
pub fn replay_command(plan: Option<&str>, file: &str, seed: u64) -> String {
    match plan {
        Some(plan) => format!("{} replay {} --trace", program(), quoted(plan)),
        None => format!("{} replay {} --seed {seed} --trace", program(), quoted(file)),
    }
}

/// The command that shows which mutations a sweep of a scenario on the user's manifests would notice.
pub fn mutation_score_command(file: &str) -> String {
    format!("{} selftest {} --must-hold --manifests ...", program(), quoted(file))
}

/// A path, quoted for a shell.
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
