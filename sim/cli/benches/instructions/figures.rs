//! The figures: counted in this run, and recorded earlier.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use super::valgrind::root;

/// The relative growth up to which a figure passes: it allows for differences between compilers and for an added line.
const TOLERANCE: f64 = 0.03;

/// A figure that was counted.
pub(crate) struct Figure {
    /// The name of the figure; the key in the recorded file.
    pub(crate) name: String,
    /// The instructions that a seed, an increment or a run takes, without the cost of starting the process.
    pub(crate) instructions: u64,
    /// The exponent with which the cost has grown since the smaller size, and the highest exponent allowed.
    pub(crate) growth: Option<(f64, f64)>,
}

impl Figure {
    fn is_too_steep(&self) -> bool {
        self.growth.is_some_and(|(exponent, steepest)| exponent > steepest)
    }
}

/// The figures of this run together with those that an earlier one recorded.
pub(crate) struct Figures {
    recorded: BTreeMap<String, u64>,
    counted: Vec<Figure>,
}

fn path() -> PathBuf {
    root().join("sim/cli/benches/instructions/figures.csv")
}

impl Figures {
    /// Reads the recorded figures.
    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(path()).unwrap_or_default();
        let recorded = csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>();
        Ok(Self { recorded: recorded.map_err(|error| format!("{}: {error}", path().display()))?, counted: Vec::new() })
    }

    /// Enters a figure, and reports on standard error that it was counted.
    pub(crate) fn count(&mut self, figure: Figure) {
        eprintln!("{}: {}", figure.name, millions(figure.instructions));
        self.counted.push(figure);
    }

    /// The relative growth of a figure since it was recorded; `None` = it was not recorded.
    fn change(&self, figure: &Figure) -> Option<f64> {
        let recorded = self.recorded.get(&figure.name)?;
        Some(figure.instructions as f64 / *recorded as f64 - 1.0)
    }

    fn has_grown(&self, figure: &Figure) -> bool {
        self.change(figure).is_some_and(|change| change > TOLERANCE)
    }

    /// Whether no figure has grown too much.
    pub(crate) fn hold(&self) -> bool {
        !self.counted.iter().any(|figure| self.has_grown(figure) || figure.is_too_steep())
    }

    /// Prints the figures in columns.
    pub(crate) fn print(&self) {
        let width = self.counted.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
        println!("{:<width$}  {:>12}  {:>8}  {:>8}", "instructions", "", "change", "exponent");
        for figure in &self.counted {
            let change = self.change(figure).map_or("new".to_owned(), |change| format!("{:+.1} %", change * 100.0));
            let exponent = figure.growth.map_or(String::new(), |(exponent, _)| format!("{exponent:.2}"));
            let verdict = match figure.growth {
                _ if self.has_grown(figure) => "GROWN".to_owned(),
                Some((_, steepest)) if figure.is_too_steep() => format!("TOO STEEP, at most {steepest}"),
                Some((_, steepest)) => format!("<= {steepest}"),
                None => String::new(),
            };
            let line = format!("{:<width$}  {:>12}  {change:>8}  {exponent:>8}  {verdict}", figure.name, millions(figure.instructions));
            println!("{}", line.trim_end());
        }
    }

    /// Records the counted figures, and keeps the recorded ones that were not counted now.
    pub(crate) fn write(&self) -> Result<(), Box<dyn Error>> {
        let counted = self.counted.iter().map(|figure| (figure.name.clone(), figure.instructions));
        let all: BTreeMap<String, u64> = self.recorded.clone().into_iter().chain(counted).collect();
        let mut writer = csv::Writer::from_path(path())?;
        writer.write_record(["figure", "instructions"])?;
        for (name, instructions) in all {
            writer.serialize((name, instructions))?;
        }
        Ok(writer.flush()?)
    }
}

fn millions(count: u64) -> String {
    if count < 1_000_000 { format!("{:.1} k", count as f64 / 1e3) } else { format!("{:.1} M", count as f64 / 1e6) }
}
