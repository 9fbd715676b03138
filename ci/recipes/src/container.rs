//! Container files: instructions, pinned images, copied files, and the user.

use ignore::gitignore::GitignoreBuilder;
use tidy::{File, Finding, Repository};

/// Every instruction of a container file.
const INSTRUCTIONS: [&str; 17] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Images, and packages of distributions, that bring a compiler.
const COMPILERS: [&str; 6] = ["rust", "gcc", "clang", "cargo", "build-essential", "buildpack-deps"];

/// An instruction with its arguments, lines joined.
struct Instruction<'a> {
    /// The byte offset at which it begins.
    at: usize,
    name: &'a str,
    rest: String,
}

/// Container files that would not build, or whose images contain things that they must not.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let is_container = |file: &&File| matches!(file.path.rsplit('/').next(), Some("Containerfile" | "Dockerfile"));
    repository.files.iter().filter(is_container).flat_map(|file| check_file(repository, file)).collect()
}

fn check_file(repository: &Repository, file: &File) -> Vec<Finding> {
    let instructions = instructions(&file.text);
    let mut findings = Vec::new();
    let mut stages: Vec<&str> = Vec::new();
    for Instruction { at, name, rest } in &instructions {
        let words: Vec<&str> = rest.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        match *name {
            name if !INSTRUCTIONS.contains(&name) => findings.push(file.finding(*at, format!("`{name}` is no instruction"))),
            "FROM" => {
                let image = words.first().copied().unwrap_or_default();
                if !stages.contains(&image) {
                    findings.extend(unpinned(image).map(|wrong| file.finding(*at, wrong)));
                }
                stages.extend(words.iter().skip_while(|word| !word.eq_ignore_ascii_case("as")).nth(1));
            }
            "COPY" | "ADD" if !rest.contains("--from=") => {
                let sources = words.iter().rev().skip(1);
                findings.extend(sources.filter_map(|source| uncopied(repository, source)).map(|wrong| file.finding(*at, wrong)));
            }
            "RUN" => findings.extend(super::shell::refused(&words.join(" ")).map(|wrong| file.finding(*at, wrong))),
            _ => {}
        }
    }
    // The image that runs is the last stage.
    let last = instructions.iter().rposition(|instruction| instruction.name == "FROM").unwrap_or(0);
    let run = &instructions[last..];
    let user = run.iter().rev().find(|instruction| instruction.name == "USER").map(|instruction| instruction.rest.trim());
    if user.and_then(|user| user.split(':').next()?.parse::<u32>().ok()).is_none_or(|id| id == 0) {
        findings.push(Finding::of_file(&file.path, "the image runs as root; end its last stage with `USER` and a number other than 0"));
    }
    for Instruction { at, rest, .. } in run.iter().filter(|instruction| ["FROM", "RUN"].contains(&instruction.name)) {
        let mut words = rest.split(|char: char| !char.is_ascii_alphanumeric() && char != '-');
        if let Some(word) = words.find(|word| COMPILERS.contains(word)) {
            findings.push(file.finding(*at, format!("`{word}` brings a compiler into what is run; build in a stage of its own")));
        }
    }
    findings
}

fn instructions(text: &str) -> Vec<Instruction<'_>> {
    let mut instructions: Vec<Instruction<'_>> = Vec::new();
    let (mut at, mut open) = (0, false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let (content, goes_on) = trimmed.strip_suffix('\\').map_or((trimmed, false), |content| (content, true));
        // Comments and empty lines do not end an instruction.
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            match instructions.last_mut() {
                Some(last) if open => last.rest.extend([" ", content]),
                _ => {
                    let (name, rest) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
                    instructions.push(Instruction { at, name, rest: rest.to_owned() });
                }
            }
            open = goes_on;
        }
        at += line.len();
    }
    instructions
}

/// The reason why an image is not pinned.
pub fn unpinned(image: &str) -> Option<String> {
    let (name, tag) = match image.split_once('@') {
        Some((_, digest)) => return (!digest.starts_with("sha256:")).then(|| format!("`{digest}` is no digest")),
        None => image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((image, "")),
    };
    (image != "scratch" && (tag.is_empty() || tag == "latest"))
        .then(|| format!("the image `{name}` is not pinned; give it a tag other than `latest`"))
}

/// The reason why a source of `COPY` is missing.
fn uncopied(repository: &Repository, source: &str) -> Option<String> {
    let source = source.trim_end_matches('/');
    if source == "." {
        return None;
    }
    if !repository.paths.contains(source) {
        return Some(format!("there is no `{source}` to copy"));
    }
    let ignored = repository.file(".dockerignore")?;
    let mut rules = GitignoreBuilder::new("");
    for line in ignored.text.lines().filter(|line| !line.starts_with('#')) {
        // A pattern without `**/` counts at the root only.
        rules.add_line(None, &format!("/{}", line.trim_start_matches('/'))).ok()?;
    }
    let is_ignored = rules.build().ok()?.matched_path_or_any_parents(source, true).is_ignore();
    is_ignored.then(|| format!("`{source}` is left out by .dockerignore"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# One.\nFROM rust:1.91 AS build\nRUN if true; then \\\n    # why\n    cargo build; fi\n\nFROM debian:12-slim\n\
                        COPY --from=build /out /\nCOPY a/b.sh ./\nUSER 7:7\n";

    fn findings(text: &str, ignored: &str) -> Vec<String> {
        let files = [("Containerfile", text), ("a/b.sh", ""), (".dockerignore", ignored)];
        check(&Repository::of(&files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_would_not_build_is_found() {
        assert_eq!(findings(GOOD, "target\n"), [""; 0]);
        assert_eq!(findings(&GOOD.replace("COPY a", "COPPY a"), "")[0], "Containerfile:9:1: `COPPY` is no instruction");
        assert_eq!(findings(&GOOD.replace("b.sh", "c.sh"), ""), ["Containerfile:9:1: there is no `a/c.sh` to copy"]);
        assert_eq!(findings(GOOD, "# x\na\n"), ["Containerfile:9:1: `a/b.sh` is left out by .dockerignore"]);
        assert!(findings(&GOOD.replace("; fi", ""), "")[0].contains("syntax error"));
    }

    #[test]
    fn what_should_not_run_is_found() {
        for user in ["", "USER 0\n", "USER root\n", "USER nobody\n"] {
            assert!(findings(&GOOD.replace("USER 7:7\n", user), "")[0].contains("runs as root"), "{user}");
        }
        assert!(findings(&GOOD.replace("debian:12-slim", "rust:1.91"), "")[0].contains("brings a compiler"));
        assert!(findings(&GOOD.replace("USER", "RUN apt-get install -y gcc\nUSER"), "")[0].contains("brings a compiler"));
        for image in ["debian", "debian:latest", "localhost:5000/debian"] {
            assert!(findings(&GOOD.replace("debian:12-slim", image), "")[0].contains("is not pinned"), "{image}");
        }
    }
}
