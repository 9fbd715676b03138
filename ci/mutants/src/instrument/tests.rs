use super::*;

const FILE: &str = "core/byom/src/decide.rs";

fn changes(code: &str) -> Vec<(String, String)> {
    sites(FILE, code).unwrap().into_iter().map(|site| (site.code, site.instead)).collect()
}

fn pair(code: &str, instead: &str) -> (String, String) {
    (code.to_owned(), instead.to_owned())
}

#[test]
fn conditions_operators_and_numbers_are_changed() {
    assert_eq!(
        changes("fn f(a: u8) { if a < 3 { g(); } }"),
        [
            pair("3", "4"),
            pair("a < 3", "a <= 3"),
            pair("g()", "nothing"),
            pair("a < 3", "true"),
            pair("a < 3", "false"),
            pair("f", "return ()"),
        ]
    );
}

#[test]
fn values_of_known_types_are_returned_at_once() {
    assert_eq!(changes("fn f() -> bool { g }"), [pair("f", "return true"), pair("f", "return false")]);
    assert_eq!(changes("fn f() -> Option<u8> { Some(g) }"), [pair("Some(g)", "None"), pair("f", "return None")]);
    assert_eq!(changes("fn f() -> Foreign { g }"), []);
}

#[test]
fn what_binds_names_or_is_constant_or_no_logic_is_left_alone() {
    assert_eq!(changes("const A: u8 = 1 + 2; static B: bool = true;"), []);
    assert_eq!(changes("const fn f() -> bool { true }"), []);
    assert_eq!(changes("#[cfg(test)] mod tests { fn f() -> bool { true } }"), []);
    assert_eq!(changes("#[test] fn f() { g(); }"), []);
    assert_eq!(changes("impl Display for A { fn fmt(&self) { g(); } fn h(&self) { g(); } }"), []);
    assert_eq!(changes("fn f() -> Foreign { match a { 1 => [b; 2], _ => c::<3>() } }"), []);
    let chain = changes("fn f() -> Foreign { if let Some(a) = b && a == c { d } else { e } }");
    assert_eq!(chain, [pair("a == c", "a != c")]);
}

#[test]
fn switches_of_deviations_are_left_to_the_mutations_by_name() {
    assert_eq!(changes("fn f() -> Foreign { if self.policy().a { b } else { c } }"), []);
    assert_eq!(
        changes("fn f() -> Foreign { if d && !policy.a { b } else { c } }"),
        [
            pair("d && !policy.a", "!policy.a"),
            pair("d && !policy.a", "d || !policy.a"),
            pair("d && !policy.a", "true"),
            pair("d && !policy.a", "false"),
        ]
    );
}

#[test]
fn what_makes_a_difference_to_deviations_only_is_left_alone() {
    assert_eq!(changes("fn f() -> Foreign { if self.policy.a { g(1) } else { h(2) } }"), [pair("2", "3")]);
    assert_eq!(changes("fn f() -> Foreign { if !self.policy.a { g(1) } else { h(2) } }"), [pair("1", "0")]);
    assert_eq!(changes("fn f() -> Foreign { match b { c if self.policy.a => g(1), _ => h(2) } }"), [pair("2", "3")]);
    assert_eq!(changes("fn f() -> Foreign { self.policy.a || !self.policy.b }"), []);
    // With the switch alone it is false, too.
    assert_eq!(changes("fn f() -> Foreign { d && self.policy.a }"), [pair("d && self.policy.a", "d || self.policy.a")]);
    assert_eq!(changes("fn f() -> Foreign { let a = self.policy.a; !a || d }"), [pair("!a || d", "!a && d")]);
    assert_eq!(
        changes("fn f() -> Foreign { let a = self.policy.a; if a && d { g(1) } else { h(2) } }"),
        [pair("a && d", "a || d"), pair("2", "3"), pair("a && d", "true")]
    );
}

#[test]
fn the_places_are_the_same_whichever_are_chosen() {
    let code = "fn f() -> Foreign { if (b && policy.a) && c == 1 { g(1) } else { h(policy.a && !policy.b, 2) } }";
    let all = sites(FILE, code).unwrap().len();
    for position in 0..all {
        let text = with_switches(FILE, code, &BTreeMap::from([(position, 17)])).unwrap();
        assert_eq!(text.matches("mutant :: is (17)").count(), 1, "{position}: {text}");
    }
    assert_eq!(with_switches(FILE, code, &BTreeMap::from([(all, 17)])).unwrap().matches("mutant").count(), 0);
}

#[test]
fn only_the_chosen_are_behind_a_switch() {
    let code = "fn f(a: u8) -> bool { a == 1 }";
    let chosen = BTreeMap::from([(1, 17)]);
    let text = with_switches(FILE, code, &chosen).unwrap().replace(' ', "");
    assert_eq!(text, "fnf(a:u8)->bool{(if::kube_machinery::mutant::is(17){a!=1}else{a==1})}");
    let within = with_switches("core/kube/src/leader.rs", code, &chosen).unwrap().replace(' ', "");
    assert!(within.contains("ifcrate::mutant::is(17)"), "{within}");
    assert_eq!(with_switches(FILE, code, &BTreeMap::new()).unwrap().replace(' ', ""), code.replace(' ', ""));
}

#[test]
fn an_alternative_is_one_condition_and_one_operand() {
    let made = |code: &str, instead: &str| {
        let all = sites(FILE, code).unwrap();
        let position = all.iter().position(|site| site.instead == instead).unwrap_or_else(|| panic!("{instead}: {all:?}"));
        with_switches(FILE, code, &BTreeMap::from([(position, 17)])).unwrap().replace(' ', "")
    };
    let never = made("fn f() -> Foreign { if a || b { g() } else { h() } }", "false");
    assert!(never.contains("(!::kube_machinery::mutant::is(17)&&(a||b))"), "{never}");
    let both = made("fn f() -> Foreign { g(a || b || c) }", "(a || b) && c");
    assert!(both.contains("{(a||b)&&c}"), "{both}");
}

#[test]
fn all_of_core_still_parses_with_all_switches() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = crate::tree::sites(&root).unwrap();
    assert!(all.len() > 2_000, "{}", all.len());
    let files: std::collections::BTreeSet<&str> = all.iter().map(|site| site.file.as_str()).collect();
    for file in files {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let of_file = all.iter().filter(|site| site.file == file).count();
        let chosen = (0..of_file).map(|position| (position, position)).collect();
        let switched = with_switches(file, &text, &chosen).unwrap();
        syn::parse_file(&switched).unwrap_or_else(|error| panic!("{file}: {error}"));
        for number in 0..of_file {
            assert!(switched.contains(&format!("mutant :: is ({number})")), "{file}: {number}");
        }
    }
}
