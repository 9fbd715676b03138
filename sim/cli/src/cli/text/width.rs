//! Text folded to the width of a terminal.

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

/// The minimum width of the last column; a narrower one is moved below the others.
const COLUMN_MIN: usize = 24;
/// The additional indentation of a continued line.
const HANGING: usize = 4;
/// The minimum width at which text is folded: below it, folding would only make the text longer.
const WIDTH_MIN: usize = 30;
/// The beginnings of lines that are copied into a shell, which are not folded.
const COMMANDS: [&str; 2] = ["replay  ", "$ "];

/// Folds lines that are longer than `width` columns, between words. A line of a table continues below its last column, which is moved below
/// the others if there is no room for it; any other line continues with some additional indentation. A word without spaces stays whole, and
/// so do commands.
pub fn fit(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|&width| width >= WIDTH_MIN) else { return text.to_owned() };
    let fold = |line: &str| {
        let fits = display_width(line) <= width || COMMANDS.iter().any(|command| line.starts_with(command));
        if fits { line.to_owned() } else { folded(line, width) }
    };
    text.split('\n').map(fold).collect::<Vec<_>>().join("\n")
}

fn folded(line: &str, width: usize) -> String {
    let begins = display_width(&line[..line.len() - line.trim_start().len()]);
    let further = " ".repeat((begins + HANGING).min(width / 2));
    // Columns are separated by two spaces.
    let last = line.trim_end().rfind("  ").map(|at| line.split_at(at + 2)).filter(|(head, _)| !head.trim().is_empty());
    match last {
        Some((head, _)) if display_width(head) + COLUMN_MIN <= width => wrapped(line, width, "", &" ".repeat(display_width(head))),
        Some((head, tail)) if display_width(head.trim_end()) <= width => {
            format!("{}\n{}", head.trim_end(), wrapped(tail, width, &further, &further))
        }
        _ => wrapped(line, width, "", &further),
    }
}

fn wrapped(text: &str, width: usize, first: &str, others: &str) -> String {
    let options = Options::new(width).initial_indent(first).subsequent_indent(others).break_words(false);
    let options = options.word_splitter(WordSplitter::NoHyphenation).wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_goes_on_below_its_last_column() {
        let line = "    no-increment-is-lost     always      no two increments are acknowledged with the same value (K070)";
        let folded = "    no-increment-is-lost     always      no two increments are\n\
                      \x20                                        acknowledged with the same\n\
                      \x20                                        value (K070)";
        assert_eq!(fit(line, Some(68)), folded);
        assert_eq!(fit(line, None), line);
        assert_eq!(fit(line, Some(200)), line);
    }

    #[test]
    fn a_column_without_room_comes_below_the_others() {
        let line = "    no-increment-is-lost  always  no two increments are acknowledged with the same value (K070)";
        let folded = "    no-increment-is-lost  always\n        no two increments are acknowledged with\n        the same value (K070)";
        assert_eq!(fit(line, Some(50)), folded);
    }

    #[test]
    fn a_paragraph_goes_on_a_little_further_in_and_commands_stay() {
        let text = "      one two three four five six seven eight\nreplay  ipam-sim replay target/a-very-long-name.toml --trace\n";
        let folded =
            "      one two three four five\n          six seven eight\nreplay  ipam-sim replay target/a-very-long-name.toml --trace\n";
        assert_eq!(fit(text, Some(32)), folded);
    }

    #[test]
    fn colours_take_no_room() {
        let line = "\u{1b}[1mno-increment-is-lost\u{1b}[0m  ten chars.";
        assert_eq!(fit(line, Some(32)), line);
    }

    proptest! {
        #[test]
        fn no_line_is_longer_than_it_must_be_and_no_word_is_lost(text in "( {0,3}[a-zé-]{1,12}\n?){1,40}", width in 30..100usize) {
            let folded = fit(&text, Some(width));
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&folded), words(&text));
            for line in folded.lines() {
                prop_assert!(display_width(line) <= width || line.split_whitespace().count() == 1, "{line:?} in {width}");
            }
        }
    }
}
