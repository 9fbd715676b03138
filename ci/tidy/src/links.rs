//! Relative links of Markdown files.

use std::collections::BTreeMap;

use regex::Regex;

use crate::repository::{File, Finding, Repository};

/// Links whose targets do not exist.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let link = Regex::new(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)").expect("a constant");
    let mut findings = Vec::new();
    for file in repository.files_of(&["md"]) {
        let text = without_code(&file.text);
        for found in link.captures_iter(&text) {
            let target = found.get(1).expect("the link has a target");
            if let Some(problem) = problem(repository, file, target.as_str()) {
                findings.push(file.finding(target.start(), problem));
            }
        }
    }
    findings
}

fn problem(repository: &Repository, file: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) = target.split_once('#').map_or((target, None), |(path, fragment)| (path, Some(fragment)));
    let path = match path {
        "" => file.path.clone(),
        path => match resolve(&file.path, path) {
            Some(path) => path,
            None => return Some(format!("`{target}` leads out of the repository")),
        },
    };
    if !path.is_empty() && !repository.paths.contains(&path) {
        return Some(format!("`{target}` leads to {path}, which does not exist"));
    }
    let (fragment, aim) = (fragment?, repository.file(&path)?);
    if !aim.is(&["md"]) || anchors(&aim.text).contains(&fragment.to_owned()) {
        return None;
    }
    Some(format!("{path} has no anchor `{fragment}`; its anchors are the slugs of its headings and `<a id=\"...\">`"))
}

/// A path relative to a file's folder, resolved from the root.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut folders: Vec<_> = from.split('/').collect();
    folders.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                folders.pop()?;
            }
            part => folders.push(part),
        }
    }
    Some(folders.join("/"))
}

/// The text with blanks for fenced blocks and code spans.
fn without_code(text: &str) -> String {
    let span = Regex::new(r"`[^`\n]+`").expect("a constant");
    let mut fenced = false;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        if fenced || fence {
            out.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        } else {
            out.push_str(&span.replace_all(line, |found: &regex::Captures<'_>| " ".repeat(found[0].len())));
        }
        fenced ^= fence;
    }
    out
}

/// The anchors of a Markdown file: the slugs of its headings, as GitHub makes them, and explicit ones.
fn anchors(text: &str) -> Vec<String> {
    let explicit = Regex::new(r#"<a (?:id|name)="([^"]+)">"#).expect("a constant");
    let link = Regex::new(r"\[([^\]]*)\]\([^)]*\)").expect("a constant");
    let mut anchors: Vec<String> = explicit.captures_iter(text).map(|found| found[1].to_owned()).collect();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let heading = link.replace_all(heading.trim(), "$1").to_lowercase();
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
        let slug: String = kept.map(|char| if char == ' ' { '-' } else { char }).collect();
        let count = seen.entry(slug.clone()).or_default();
        anchors.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let other = ("docs/other.md", "# Its title: `so`\n<a id=\"k001\"></a>\n## Twice\n## Twice\n");
        check(&Repository::of(&[other, ("docs/a.md", text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_lead_to_files_folders_and_anchors() {
        let text = "[a](other.md) [b](../docs) [c](other.md#its-title-so) [d](#here) [e](other.md#k001) [f](other.md#twice-1)\n# Here\n";
        assert_eq!(findings(text), [""; 0]);
        assert_eq!(findings("[a](https://example.com/x#y) `[b](none.md)`\n```\n[c](none.md)\n```\n"), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(findings("see [a](none.md)\n"), ["docs/a.md:1:9: `none.md` leads to docs/none.md, which does not exist"]);
        assert!(findings("[a](other.md#twice-2)")[0].contains("docs/other.md has no anchor `twice-2`"));
        assert!(findings("[a](#nowhere)")[0].contains("no anchor `nowhere`"));
        assert!(findings("[a](../../x.md)")[0].contains("out of the repository"));
    }
}
