//! The console blocks of a Markdown file, and the file with new outputs in them.
//!
//! ````text
//! <!-- slow: 4 s in a release build -->      or <!-- not run: reason -->, on the line above the block
//! ```console
//! $ ipam-sim run scenarios/smoke             a command; `> ` continues it
//! ok  byom-calm  …                           what it prints; `...` stands for any lines
//! ```
//! ````

/// A file, divided at its commands.
pub(crate) struct Page {
    text: Vec<String>,
    /// Its blocks of `console`, in the order of the file.
    pub(crate) blocks: Vec<Block>,
}

/// The condition under which a block runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// In every run of the test.
    Always,
    /// Only on request.
    Slow,
    /// Never; the file gives the reason.
    Never,
}

/// A fenced block of commands with their output.
pub(crate) struct Block {
    /// Whether and when it runs, from the comment on the line above it.
    pub(crate) run: Run,
    /// Its commands in order, each with its output.
    pub(crate) steps: Vec<Step>,
}

/// A command and its output.
pub(crate) struct Step {
    /// The line of the command, from 1.
    pub(crate) line: usize,
    /// The command, without `$` and `>`.
    pub(crate) command: String,
    /// The lines of its output in the file.
    pub(crate) output: String,
    /// The lines of `output` in the file: from, to.
    span: (usize, usize),
}

impl Page {
    /// Finds the blocks; an error begins with a line number.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut blocks = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            let Some(info) = lines[at].strip_prefix("```") else {
                at += 1;
                continue;
            };
            let fence: String = lines[at].chars().take_while(|letter| *letter == '`').collect();
            let end =
                (at + 1..lines.len()).find(|line| lines[*line] == fence).ok_or_else(|| format!("{}: this block has no end", at + 1))?;
            if fence.len() == 3 && info == "console" {
                let before = at.checked_sub(1).map_or("", |line| lines[line].as_str());
                let run = match before {
                    reason if reason.starts_with("<!-- not run: ") => Run::Never,
                    reason if reason.starts_with("<!-- slow: ") => Run::Slow,
                    _ => Run::Always,
                };
                blocks.push(Block { run, steps: steps(&lines, at + 1, end)? });
            }
            at = end + 1;
        }
        Ok(Self { text: lines, blocks })
    }

    /// The file with the current outputs of its steps.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut at = 0;
        for step in self.blocks.iter().flat_map(|block| &block.steps) {
            text.extend(self.text[at..step.span.0].iter().map(|line| format!("{line}\n")));
            text.extend(step.output.lines().map(|line| format!("{line}\n")));
            at = step.span.1;
        }
        text.extend(self.text[at..].iter().map(|line| format!("{line}\n")));
        text
    }
}

fn steps(lines: &[String], from: usize, to: usize) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in lines.iter().enumerate().take(to).skip(from) {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: number + 1, command: command.to_owned(), output: String::new(), span: (number + 1, number + 1) });
            continue;
        }
        let step = steps.last_mut().ok_or_else(|| format!("{}: a console block begins with a command, `$ …`", number + 1))?;
        match line.strip_prefix("> ") {
            Some(more) if step.output.is_empty() => {
                step.command = format!("{}\n{more}", step.command);
                step.span = (number + 1, number + 1);
            }
            _ => {
                step.output += &format!("{line}\n");
                step.span.1 = number + 1;
            }
        }
    }
    Ok(steps)
}

/// The new output in the file, given that the command prints `printed`: all of it, or if the file leaves lines out, the lines that are most
/// like those in the file.
pub(crate) fn told_anew(before: &str, printed: &str) -> String {
    let is_gap = |line: &str| line.trim() == "...";
    if !before.lines().any(is_gap) {
        return printed.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    }
    let shown: Vec<&str> = before.lines().filter(|line| !is_gap(line)).collect();
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let kept = aligned(&shown, &printed);
    let gap = before.lines().find(|line| is_gap(line)).unwrap_or("...");
    let mut told = String::new();
    let mut next = 0;
    for at in kept {
        if at > next {
            told += &format!("{gap}\n");
        }
        told += &format!("{}\n", printed[at]);
        next = at + 1;
    }
    // An empty line at the end belongs to the output, and is no gap.
    if printed[next..].iter().any(|line| !line.is_empty()) {
        told += &format!("{gap}\n");
    }
    told
}

/// The indices of the lines of `printed` that are most like `shown`, in order.
fn aligned(shown: &[&str], printed: &[&str]) -> Vec<usize> {
    const LIKE: f64 = 0.6;
    let (rows, columns) = (shown.len() + 1, printed.len() + 1);
    let mut best = vec![vec![0.0_f64; columns]; rows];
    let like: Vec<Vec<f64>> = shown.iter().map(|old| printed.iter().map(|new| likeness(old, new)).collect()).collect();
    for row in (0..rows - 1).rev() {
        for column in (0..columns - 1).rev() {
            let both = if like[row][column] >= LIKE { like[row][column] + best[row + 1][column + 1] } else { 0.0 };
            best[row][column] = both.max(best[row + 1][column]).max(best[row][column + 1]);
        }
    }
    let (mut row, mut column, mut kept) = (0, 0, Vec::new());
    while row < rows - 1 && column < columns - 1 {
        let both = if like[row][column] >= LIKE { like[row][column] + best[row + 1][column + 1] } else { -1.0 };
        if both >= best[row + 1][column] && both >= best[row][column + 1] {
            kept.push(column);
            (row, column) = (row + 1, column + 1);
        } else if best[row + 1][column] > best[row][column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    kept
}

/// The fraction of words that two lines have in common.
fn likeness(one: &str, other: &str) -> f64 {
    if one == other {
        return 1.0;
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (one, mut other) = (words(one), words(other));
    let all = one.len().max(other.len());
    let common =
        one.iter().filter(|word| other.iter().position(|another| another == *word).map(|at| other.swap_remove(at)).is_some()).count();
    if all == 0 { 0.0 } else { common as f64 / all as f64 }
}

#[test]
fn a_page_is_read_and_written_again() {
    let text = "# Title\n\n```console\n$ one \\\n> two\nout\n\nmore\n$ three\n```\n<!-- not run: no network -->\n```console\n$ four\n```\n";
    let mut page = Page::read(text).unwrap();
    assert_eq!(page.text(), text);
    assert_eq!(page.blocks[0].steps[0].command, "one \\\ntwo");
    assert_eq!(page.blocks[0].steps[0].output, "out\n\nmore\n");
    assert_eq!((page.blocks[0].run, page.blocks[1].run), (Run::Always, Run::Never));
    page.blocks[0].steps[1].output = "four\n".to_owned();
    assert!(page.text().contains("more\n$ three\nfour\n```\n"));
}

#[test]
fn a_block_that_leaves_lines_out_keeps_doing_so() {
    let before = "...\nok  byom-two  200 seeds\n...\nAll held: 3\n";
    let printed = "head\nok  byom-calm  100 seeds\nok  byom-two  300 seeds\nok  z  1 seeds\nAll held: 3\n";
    assert_eq!(told_anew(before, printed), "...\nok  byom-two  300 seeds\n...\nAll held: 3\n");
    assert_eq!(told_anew("anything\n", printed), printed);
}
