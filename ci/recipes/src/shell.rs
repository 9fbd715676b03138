//! Shell scripts: their syntax, and the scripts of the repository that they name.

use std::io::Write;
use std::process::{Command, Stdio};

use regex::Regex;
use tidy::{Finding, Repository};

/// The errors of `bash -n` for a script; `None` if the script is valid.
///
/// # Panics
///
/// If there is no `bash`.
pub fn refused(script: &str) -> Option<String> {
    let mut command = Command::new("bash");
    command.args(["-n", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut bash = command.spawn().expect("bash is there");
    // Written before anything is read: a script fits into the pipe's buffer.
    bash.stdin.take().expect("it is piped").write_all(script.as_bytes()).expect("bash reads");
    let output = bash.wait_with_output().expect("bash ends");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().replace("/dev/stdin: ", ""))
}

/// Scripts of the repository that a script names and that do not exist.
pub fn missing(repository: &Repository, script: &str) -> Vec<String> {
    let named = Regex::new(r"(?:^|[\s;&|(])((?:ci|\.ci|\.github)/[\w./-]*\w)").expect("a constant");
    let paths = named.captures_iter(script).map(|found| found[1].to_owned());
    paths.filter(|path| !repository.paths.contains(path)).collect()
}

/// Scripts that bash refuses, or that name scripts which do not exist.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let is_script = |text: &str| text.starts_with("#!/usr/bin/env bash") || text.starts_with("#!/bin/bash");
    let mut findings = Vec::new();
    for file in repository.files.iter().filter(|file| file.is(&["sh"]) || is_script(&file.text)) {
        if !is_script(&file.text) {
            findings.push(Finding::of_file(&file.path, "does not say what runs it; begin with `#!/usr/bin/env bash`"));
        }
        findings.extend(refused(&file.text).map(|error| Finding::of_file(&file.path, format!("is no script: {error}"))));
        let code: String = file.text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(|line| [line, "\n"]).collect();
        findings.extend(missing(repository, &code).into_iter().map(|path| Finding::of_file(&file.path, format!("there is no `{path}`"))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let repository = Repository::of(&[("ci/a.sh", text), ("ci/b.sh", "#!/usr/bin/env bash\n")]);
        check(&repository).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_is_no_script_is_found() {
        assert_eq!(findings("#!/usr/bin/env bash\nif true; then exec ci/b.sh; fi\n"), [""; 0]);
        assert!(findings("#!/usr/bin/env bash\nif true; then\n")[0].starts_with("ci/a.sh: is no script: line 3: syntax error"));
        assert_eq!(findings("#!/usr/bin/env bash\nexec ci/c.sh\n"), ["ci/a.sh: there is no `ci/c.sh`"]);
        assert!(findings("true\n")[0].contains("does not say what runs it"));
    }
}
