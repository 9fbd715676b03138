//! The part of the work that this process does, by `--shard` and the environment of the job.
//!
//! | given | part |
//! |---|---|
//! | `--shard K/N` | that |
//! | `--shard /N` | K is the first of: `CI_NODE_INDEX`, `JOB_COMPLETION_INDEX` + 1 (Kubernetes), `SLURM_ARRAY_TASK_ID` − `SLURM_ARRAY_TASK_MIN` + 1 |
//! | nothing | `CI_NODE_INDEX` of `CI_NODE_TOTAL`, if both are set (GitLab and others); else everything |

use super::args::{Shard, ShardChoice};

/// Looks up an environment variable.
pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The part that was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The shard of this process; `None` = it does everything.
    pub(super) part: Option<Shard>,
    /// A note for the user about the choice, because no flag stated it.
    pub(super) note: Option<String>,
}

/// Chooses the part. An error is a sentence about an invalid variable.
pub(super) fn choose(choice: Option<ShardChoice>, env: Env<'_>) -> Result<Chosen, String> {
    let noted = |part: Shard, source: &str| {
        let note = format!("this is shard {}/{}, says {source}", part.index, part.total);
        Chosen { part: Some(part), note: Some(note) }
    };
    match choice {
        Some(ShardChoice::Is(part)) => Ok(Chosen { part: Some(part), note: None }),
        Some(ShardChoice::Of(total)) => match index(env)? {
            Some((index, source)) => within(index, total, source).map(|part| noted(part, source)),
            None => Err(format!("--shard /{total} needs CI_NODE_INDEX, JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID in the environment")),
        },
        None => match (number(env, "CI_NODE_INDEX")?, number(env, "CI_NODE_TOTAL")?) {
            (Some(index), Some(total)) => {
                let total = u32::try_from(total).map_err(|_| format!("CI_NODE_TOTAL is {total}: that is too many"))?;
                within(index, total, "CI_NODE_INDEX").map(|part| noted(part, "CI_NODE_INDEX of CI_NODE_TOTAL"))
            }
            _ => Ok(Chosen { part: None, note: unused(env) }),
        },
    }
}

/// The number of this shard according to the environment, counted from 1, and the variable that states it.
fn index(env: Env<'_>) -> Result<Option<(u64, &'static str)>, String> {
    if let Some(index) = number(env, "CI_NODE_INDEX")? {
        return Ok(Some((index, "CI_NODE_INDEX")));
    }
    if let Some(index) = number(env, "JOB_COMPLETION_INDEX")? {
        return Ok(Some((index.saturating_add(1), "JOB_COMPLETION_INDEX")));
    }
    let Some(task) = number(env, "SLURM_ARRAY_TASK_ID")? else { return Ok(None) };
    let first = number(env, "SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
    match task.checked_sub(first) {
        Some(before) => Ok(Some((before.saturating_add(1), "SLURM_ARRAY_TASK_ID"))),
        None => Err(format!("SLURM_ARRAY_TASK_ID is {task}, less than SLURM_ARRAY_TASK_MIN, which is {first}")),
    }
}

/// Reads a variable that holds a number; an empty one counts as unset.
fn number(env: Env<'_>, name: &str) -> Result<Option<u64>, String> {
    match env(name).filter(|text| !text.is_empty()) {
        Some(text) => text.parse().map(Some).map_err(|_| format!("{name} is `{text}`, expected a number")),
        None => Ok(None),
    }
}

fn within(index: u64, total: u32, source: &str) -> Result<Shard, String> {
    match u32::try_from(index) {
        Ok(index) if (1..=total).contains(&index) => Ok(Shard { index, total }),
        _ => Err(format!("{source} makes this shard {index} of {total}: expected 1 to {total}")),
    }
}

/// A note if this is one of many jobs, each of which would do everything: this is seldom intended.
fn unused(env: Env<'_>) -> Option<String> {
    let name = ["JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID"].into_iter().find(|name| env(name).is_some_and(|text| !text.is_empty()))?;
    Some(format!("{name} is set, but not how many shards there are: everything runs here; give the number with --shard /N"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for a flag and variables: `K/N`, `all`, or the error.
    fn chosen(flag: &str, variables: &str) -> (String, String) {
        let choice = (!flag.is_empty()).then(|| flag.parse().unwrap());
        let env = |name: &str| {
            let mut pairs = variables.split_whitespace().filter_map(|pair| pair.split_once('='));
            pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        };
        match choose(choice, &env) {
            Ok(Chosen { part, note }) => {
                (part.map_or("all".to_owned(), |part| format!("{}/{}", part.index, part.total)), note.unwrap_or_default())
            }
            Err(error) => (error, String::new()),
        }
    }

    #[test]
    fn flags_and_variables_choose_the_part() {
        for (flag, variables, part) in [
            ("", "", "all"),
            ("2/4", "", "2/4"),
            ("2/4", "CI_NODE_INDEX=1 CI_NODE_TOTAL=9", "2/4"),
            ("", "CI_NODE_INDEX=3 CI_NODE_TOTAL=4", "3/4"),
            ("", "CI_NODE_TOTAL=1", "all"),
            ("", "CI_NODE_INDEX= CI_NODE_TOTAL=4", "all"),
            ("/4", "CI_NODE_INDEX=3", "3/4"),
            ("/4", "JOB_COMPLETION_INDEX=0", "1/4"),
            ("/4", "JOB_COMPLETION_INDEX=3", "4/4"),
            ("/3", "SLURM_ARRAY_TASK_ID=12 SLURM_ARRAY_TASK_MIN=10", "3/3"),
            ("/3", "SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_MIN=0", "1/3"),
            ("/3", "CI_NODE_INDEX=2 JOB_COMPLETION_INDEX=0 SLURM_ARRAY_TASK_ID=2", "2/3"),
            ("", "JOB_COMPLETION_INDEX=0", "all"),
            ("", "SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_MIN=1", "all"),
        ] {
            assert_eq!(chosen(flag, variables).0, part, "--shard {flag:?} with {variables}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (flag, variables, expected) in [
            ("/4", "", "--shard /4 needs CI_NODE_INDEX, JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID"),
            ("/4", "JOB_COMPLETION_INDEX=4", "JOB_COMPLETION_INDEX makes this shard 5 of 4: expected 1 to 4"),
            ("", "CI_NODE_INDEX=0 CI_NODE_TOTAL=4", "CI_NODE_INDEX makes this shard 0 of 4: expected 1 to 4"),
            ("", "CI_NODE_INDEX=one CI_NODE_TOTAL=4", "CI_NODE_INDEX is `one`, expected a number"),
            ("/4", "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=2", "SLURM_ARRAY_TASK_ID is 1, less than SLURM_ARRAY_TASK_MIN, which is 2"),
            ("/4", "SLURM_ARRAY_TASK_ID=18446744073709551615", "expected 1 to 4"),
        ] {
            let (said, _) = chosen(flag, variables);
            assert!(said.contains(expected), "--shard {flag:?} with {variables}: {said}");
        }
    }

    #[test]
    fn what_no_flag_said_is_noted() {
        assert_eq!(chosen("", "CI_NODE_INDEX=3 CI_NODE_TOTAL=4").1, "this is shard 3/4, says CI_NODE_INDEX of CI_NODE_TOTAL");
        assert_eq!(chosen("/2", "JOB_COMPLETION_INDEX=0").1, "this is shard 1/2, says JOB_COMPLETION_INDEX");
        assert!(chosen("", "JOB_COMPLETION_INDEX=0").1.contains("--shard /N"));
        assert_eq!(chosen("2/4", "JOB_COMPLETION_INDEX=0").1, "");
    }
}
