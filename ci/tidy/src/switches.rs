//! Functions of the systems under test that read many switches between the hardened and upstream's behaviour: they obscure both.

use regex::Regex;

use crate::repository::{Finding, Repository};
use crate::source;

/// The maximum number of switches in a function.
const MOST: usize = 3;
/// The maximum in a module of upstream's forms, which are separate from the hardened ones.
const MOST_OF_UPSTREAM: usize = 5;

/// Functions of `core` that read more deviations than the maximum. Tests, and the oracles beside them, may.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let function = Regex::new(r"(?m)^ *(?:pub(?:\([a-z: ]+\))? )?(?:async )?fn (\w+)").expect("a constant");
    let switch = Regex::new(r"\bpolicy(?:\(\))?\s*(?:\.\s*reclaim\s*)?\.\s*([a-z_]+)\b").expect("a constant");
    let mut findings = Vec::new();
    for file in repository.files_of(&["rs"]).filter(|file| file.path.starts_with("core/") && !file.path.contains("test")) {
        let most = if file.path.ends_with("upstream.rs") { MOST_OF_UPSTREAM } else { MOST };
        let code = source::code(&file.text);
        let end = code.find("#[cfg(test)]").unwrap_or(code.len());
        let functions: Vec<_> = function.captures_iter(&code[..end]).collect();
        let ends = functions.iter().skip(1).map(|next| next.get(0).expect("all of it").start()).chain([end]);
        for (found, end) in functions.iter().zip(ends) {
            let name = found.get(1).expect("it is not optional");
            let reads = switch.captures_iter(&code[name.end()..end]).filter(|read| &read[1] != "reclaim").count();
            if reads > most {
                let message =
                    format!("`{}` reads {reads} switches; give what is upstream's, or a step of it, a function of its own", name.as_str());
                findings.push(file.finding(name.start(), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_reads_four_switches_is_found_and_one_of_upstream_that_reads_six() {
        let reads = ["    if policy.reclaim.a && self.policy().b || !policy\n        .c {}\n", "    let d = policy.d;\n"];
        let of = |number: usize| {
            let body = reads[0].repeat(number / 3) + &reads[1].repeat(number % 3);
            format!("impl A {{\n    pub(super) async fn b() {{\n{body}    }}\n}}\n")
        };
        let found = |path: &str, text: &str| check(&Repository::of(&[(path, text)])).iter().map(Finding::to_string).collect::<Vec<_>>();
        assert_eq!(found("core/a.rs", &of(3)), [""; 0]);
        assert!(found("core/a.rs", &of(4))[0].starts_with("core/a.rs:2:25: `b` reads 4 switches"), "{:?}", found("core/a.rs", &of(4)));
        for path in ["core/upstream.rs", "core/a_upstream.rs"] {
            assert_eq!(found(path, &of(5)), [""; 0]);
            assert!(found(path, &of(6))[0].contains("`b` reads 6 switches"), "{:?}", found(path, &of(6)));
        }
        assert_eq!(found("sim/a.rs", &of(6)), [""; 0]);
        assert_eq!(found("core/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", of(6))), [""; 0]);
    }
}
