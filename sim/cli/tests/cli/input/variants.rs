//! A variant states how it differs from its file, and an error in it is reported at that place.

use std::fs;

use super::*;

const FILE: &str = r#"name = "f"
why = "w"
[workload]
kind = "counter"
clients = 2
increments = 3
[check]
always = ["counter/*"]
sometimes = ["clients-conflict"]
"#;

#[test]
fn a_typo_deep_in_a_variant_is_named_with_line_and_column() {
    let file = scratch("typo-in-variant").join("f.toml");
    let name = file.display().to_string();
    fs::write(
        &file,
        format!("{FILE}[[variant]]\nname = \"a\"\nwhy = \"w\"\n[[variant]]\nname = \"b\"\nwhy = \"w\"\nworkload = {{ cleints = 3 }}\n"),
    )
    .unwrap();
    for verb in ["check", "run"] {
        let (code, out, err) = ipam_sim(&[verb, &name]);
        let said = format!("{out}{err}");
        assert!(code == 2 && said.contains("f.toml:16:14: ") && said.contains("unknown key `cleints`; did you mean `clients`?"), "{said}");
        assert_eq!(said.matches("f.toml:").count(), 1, "{said}");
    }
}

#[test]
fn a_typo_in_what_variants_share_is_told_once() {
    let file = scratch("typo-of-variants").join("f.toml");
    let rows = "[[variant]]\nname = \"a\"\nwhy = \"w\"\n[[variant]]\nname = \"b\"\nwhy = \"w\"\nworkload = { clients = 3 }\n";
    fs::write(&file, FILE.replace("increments", "incremnets") + rows).unwrap();
    let (code, out, err) = ipam_sim(&["check", &file.display().to_string()]);
    let said = format!("{out}{err}");
    assert!(code == 2 && said.contains("f.toml:6:1: ") && said.contains("did you mean `increments`?"), "{said}");
    assert_eq!(said.matches("f.toml:").count(), 1, "{said}");
}
