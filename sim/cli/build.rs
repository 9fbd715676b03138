//! Computes the identifier of the build: digests are comparable within one build, whatever its profile or machine.

use std::path::{Path, PathBuf};

/// The folders of the repository whose code affects a digest.
const FOLDERS: [&str; 9] = [
    "core/kube/src",
    "core/byom/src",
    "core/spiderpool/src",
    "sim/config/src",
    "sim/cluster/src",
    "sim/harness/src",
    "sim/systems",
    "sim/cli/src",
    "reports/src",
];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let repository = here.join("../..");
    // In a published package the lock file identifies the other packages, by their checksums.
    let (root, folders) = if repository.join(FOLDERS[0]).is_dir() { (repository, &FOLDERS[..]) } else { (here, &["src"][..]) };
    let mut files = vec![root.join("Cargo.lock")];
    for folder in folders {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        collect(&root.join(folder), &mut files);
    }
    println!("cargo::rerun-if-changed={}", root.join("Cargo.lock").display());
    files.sort();
    // FNV-1a over names and contents: it needs no dependency, and gives the same hash on every machine.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut eat = |bytes: &[u8]| bytes.iter().for_each(|byte| hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        eat(name.as_bytes());
        let text = std::fs::read(file).unwrap_or_default();
        eat(&text.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<u8>>());
    }
    println!("cargo::rustc-env=IPAM_SIM_BUILD={}-{hash:016x}", env!("CARGO_PKG_VERSION"));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
