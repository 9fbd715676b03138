//! A folder that looks like a fresh checkout, in which commands of a document run.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::root;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_ipam-sim");

/// The commands with which documents build and run the program.
const THROUGH_CARGO: [&str; 2] = ["cargo run --release --quiet -- ", "cargo run --release -- "];

/// A replacement for `kubectl get` of a cluster: prints the manifests of the repository, and the pod that examples ask for; if only pods
/// are requested, the existing ones.
const KUBECTL: &str = "#!/bin/sh
if [ \"$2\" = pods ]; then exec cat scenarios/traces/pods.yaml; fi
for file in scenarios/manifests/*.yaml; do cat \"$file\"; echo ---; done
cat <<end
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: a}
spec: {nodeName: n1, containers: [{name: c, image: c}]}
end
";

/// The folder; files that commands write stay there until the next run of the test.
pub(crate) struct Sandbox {
    folder: PathBuf,
}

impl Sandbox {
    /// A sandbox with an empty `target` folder, otherwise like the checkout.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        std::fs::create_dir_all(folder.join("target")).unwrap();
        for entry in std::fs::read_dir(root()).unwrap() {
            let entry = entry.unwrap();
            let kept = entry.file_name() != "target" && entry.file_name() != ".git";
            if kept && entry.file_type().unwrap().is_dir() {
                symlink(entry.path().canonicalize().unwrap(), folder.join(entry.file_name())).unwrap();
            }
        }
        symlink(PROGRAM, folder.join("bin/ipam-sim")).unwrap();
        std::fs::write(folder.join("bin/kubectl"), KUBECTL).unwrap();
        std::fs::set_permissions(folder.join("bin/kubectl"), PermissionsExt::from_mode(0o755)).unwrap();
        Self { folder }
    }

    /// The path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The output of a command, as a terminal shows it: standard output and standard error together.
    pub(crate) fn shell(&self, command: &str) -> String {
        self.run(command).1
    }

    /// The exit code of a command, and its output.
    pub(crate) fn run(&self, command: &str) -> (Option<i32>, String) {
        let output = self.command(command).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    /// The exit code of a command and its output; no code if it is stopped after `limit`.
    pub(crate) fn run_for(&self, command: &str, limit: Duration) -> (Option<i32>, String) {
        let printed = self.path("printed");
        let file = File::create(&printed).unwrap();
        // In a separate process group, so that the processes that it started are stopped with it.
        let mut child = self.command(command).stdout(file).process_group(0).spawn().unwrap();
        let end = Instant::now() + limit;
        let code = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if Instant::now() > end => {
                    let group = format!("-{}", child.id());
                    Command::new("kill").args(["-KILL", "--", &group]).status().unwrap();
                    child.wait().unwrap();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        (code, std::fs::read_to_string(printed).unwrap())
    }

    fn command(&self, command: &str) -> Command {
        let through_cargo = THROUGH_CARGO.iter().find_map(|prefix| command.strip_prefix(prefix));
        let command = through_cargo.map_or(command.to_owned(), |args| format!("ipam-sim {args}"));
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("HOME", &self.folder)
            .env("NO_COLOR", "1")
            // In one of several parallel jobs, these variables would select a part of the seeds.
            .env_remove("CI_NODE_INDEX")
            .env_remove("CI_NODE_TOTAL");
        shell
    }
}
