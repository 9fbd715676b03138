//! The coverage required of runs that must hold: every coverage point of the systems, and every `always` and `eventually` claim, except
//! those that the file calls rare.

use std::collections::BTreeMap;
use std::path::Path;

use ipam_reports::coverage::{CLAIMS, Expected};
use ipam_reports::finding::Kind;
use serde::Deserialize;
use sim_config::nearest;
use sim_config::toml;
use sim_harness::system::systems;

use crate::cli::CliError;

/// The content of the file of `--coverage`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Points that no run has to reach, each with the reason.
    #[serde(default)]
    rare: BTreeMap<String, String>,
}

/// The default file, which need not exist.
const USUAL: &str = "ci/coverage.toml";

/// Reads the file; `None` if the default file does not exist: then nothing has to be reached.
///
/// # Errors
/// A named file does not exist, has a wrong format, names a point that does not exist, or gives no reason for a point.
pub(super) fn read(file: &Path) -> Result<Option<Expected>, CliError> {
    if file == Path::new(USUAL) && !file.exists() {
        return Ok(None);
    }
    let File { rare } = toml::read(file)?;
    let claims = systems().suites().iter().flat_map(|suite| suite.claims);
    let mut points: Vec<String> = systems()
        .iter()
        .flat_map(|system| system.coverage())
        .map(|point| point.to_string())
        .chain(claims.filter(|claim| matches!(claim.kind, Kind::Always | Kind::Eventually)).map(|claim| format!("{CLAIMS}/{}", claim.name)))
        .collect();
    points.sort_unstable();
    for (point, reason) in &rare {
        let refused = |what: String| CliError::usage(format!("{}: {what}", file.display()));
        if points.binary_search(point).is_err() {
            let known = points.iter().map(String::as_str);
            return Err(
                refused(format!("there is no coverage point `{point}`")).hint(format!("the nearest is `{}`", nearest(point, known)))
            );
        }
        if reason.trim().is_empty() {
            return Err(refused(format!("`{point}` has no reason")).hint("say why no run that must hold has to reach it"));
        }
    }
    points.retain(|point| !rare.contains_key(point));
    Ok(Some(Expected { file: file.display().to_string(), points, rare: rare.into_keys().collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("coverage.toml");
        std::fs::write(&file, text).unwrap();
        read(&file).unwrap_err().message
    }

    #[test]
    fn what_is_rare_has_a_name_and_a_reason() {
        assert!(
            refused("[rare]\n\"spiderpool/reclaim/S-99\" = \"why\"\n").ends_with("there is no coverage point `spiderpool/reclaim/S-99`")
        );
        assert!(refused("[rare]\n\"spiderpool/reclaim/S-8\" = \" \"\n").ends_with("`spiderpool/reclaim/S-8` has no reason"));
        assert!(refused("[seldom]\n").contains("coverage.toml:1:2"));
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        // The tests of this package run in its folder, which has no such file.
        assert_eq!(read(Path::new(USUAL)).unwrap(), None);
        assert!(read(Path::new("nowhere/coverage.toml")).unwrap_err().message.contains("nowhere/coverage.toml"));
    }

    #[test]
    fn the_rest_has_to_be_reached() {
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/coverage.toml"));
        let expected = read(file).unwrap().unwrap();
        assert!(expected.points.len() > 50 && expected.points.iter().all(|point| !expected.rare.contains(point)));
    }
}
