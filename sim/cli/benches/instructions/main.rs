//! The cost of sweeps in instructions, and its growth with the size of the cluster: `cargo bench -p ipam-sim --bench instructions`.
//!
//! Instructions are counted by valgrind, so that a busy machine gives the same figure twice. They are compared with those of `figures.csv`,
//! recorded by an earlier run: a figure that has grown by more than a few percent fails (exit code 1), and so does a cost that grows faster
//! with the cluster than it may. `--update` records the counts. A word as argument counts only the figures whose name contains it.
//!
//! Figures depend on the compiler, its flags and the architecture: compare only those of one machine with one toolchain. Without `--bench`
//! (as under `cargo test --benches`) one short run is counted, to show that it still works.

mod figures;
mod programs;
mod valgrind;

use std::process::ExitCode;

use figures::{Figure, Figures};
use programs::{GROWTHS, Program, SEEDS};

/// The highest exponent with which a cost may grow: a little above linear.
const STEEPEST: f64 = 1.1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if !has("--bench") {
        return smoke();
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).map_or("", String::as_str);
    match measure(filter, has("--update")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Counts one short run if valgrind is installed.
fn smoke() -> ExitCode {
    match valgrind::instructions(&Program::SHORTEST, 1) {
        Ok(count) if count > 100_000 => ExitCode::SUCCESS,
        Ok(count) => {
            eprintln!("error: {count} instructions are too few for a run");
            ExitCode::FAILURE
        }
        Err(valgrind::Error::Missing) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts the figures that match the filter. Returns whether no figure has grown too much.
fn measure(filter: &str, update: bool) -> Result<bool, Box<dyn std::error::Error>> {
    let mut figures = Figures::read()?;
    let start_up = start_up()?;
    for &(name, set, seeds, units) in SEEDS.iter().filter(|(name, ..)| name.contains(filter)) {
        let program = Program::of(set);
        let one = valgrind::instructions(&program, 1)?;
        let all = valgrind::instructions(&program, 1 + seeds)?;
        figures.count(Figure { name: name.to_owned(), instructions: all.saturating_sub(one) / (seeds * units), growth: None });
    }
    for growth in GROWTHS.iter().filter(|growth| growth.name.contains(filter)) {
        let mut smaller: Option<(u64, u64)> = None;
        for &size in growth.sizes {
            let cost = valgrind::instructions(&growth.program(size), 1)?.saturating_sub(start_up);
            let exponent = smaller.map(|smaller| (exponent(smaller, (size, cost)), growth.steepest));
            figures.count(Figure { name: format!("{}: {size}", growth.name), instructions: cost, growth: exponent });
            smaller = Some((size, cost));
        }
    }
    figures.print();
    if update {
        figures.write()?;
        return Ok(true);
    }
    Ok(figures.hold())
}

/// The cost of a run apart from its seeds.
fn start_up() -> Result<u64, valgrind::Error> {
    let one = valgrind::instructions(&Program::SHORTEST, 1)?;
    let many = valgrind::instructions(&Program::SHORTEST, 11)?;
    Ok(one.saturating_sub((many - one) / 10))
}

/// The exponent with which the cost grows from one size to the other.
fn exponent((size_before, cost_before): (u64, u64), (size, cost): (u64, u64)) -> f64 {
    (cost as f64 / cost_before as f64).ln() / (size as f64 / size_before as f64).ln()
}
