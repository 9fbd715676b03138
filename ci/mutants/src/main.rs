//! Makes small mistakes in `core`, one at a time, and runs the scenarios that must hold, to find mistakes that none of them notices.
//!
//! ```text
//!   core/*.rs ──► sites: where a mistake can be made ──► the N with the smallest ranks
//!                                                            │ each behind a switch, in a copy of the workspace, built once
//!   scenarios/{smoke,chaos} ──► without a mutant: which places does each scenario come by?
//!                                                            │ with each mutant, where it is come by: does a claim fail?
//!                                                            ▼
//!                                        score by module, and the mutants that survive
//! ```
//! Only sweeps judge, no unit tests: a feature that only unit tests exercise is not done. `cargo core-mutants --help` lists the options.

mod instrument;
mod kept;
mod report;
mod site;
mod sweep;
mod tree;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Parser;

use kept::Kept;
use report::{Argued, Counts, Judged};
use sweep::{Sweep, Verdict};

/// Mutants that no sweep can notice, with the reasons.
const ARGUED: &str = "ci/mutants/argued.toml";

/// Make small mistakes in core, one at a time, and see which of them the scenarios that must hold notice
#[derive(Parser)]
#[command(after_help = "Fails (1) if the score is lower than --at-least, or if an entry of \
                        ci/mutants/argued.toml is about no mutant that survives.")]
struct Args {
    /// Number of mutants to make, those that rank first
    #[arg(long, value_name = "N", default_value_t = 300)]
    mutants: usize,
    /// Number of mutants that rank first to leave out: another sample than the one that scenarios were written against
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Only mutants whose file or function has this in its name
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Only mutants that survived according to this mutants.json of an earlier run
    #[arg(long, value_name = "FILE")]
    left_by: Option<PathBuf>,
    /// Number of seeds of each scenario
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Number of seeds of the quickest scenarios whose runs a mutant changes, if no claim fails in --seeds
    #[arg(long, value_name = "N", default_value_t = 500)]
    rare_seeds: u64,
    /// The part, in percent, that sweeps must notice
    #[arg(long, value_name = "PERCENT", default_value_t = 85.0)]
    at_least: f64,
    /// Number of runs at a time [default: one per core]
    #[arg(long, value_name = "J")]
    jobs: Option<usize>,
    /// Keep the verdicts that an interrupted run of the same sources left in --out
    #[arg(long)]
    resume: bool,
    /// Folder for the copy, the build and mutants.json
    #[arg(long, value_name = "DIR", default_value = "target/mutants")]
    out: PathBuf,
    /// Only print the mutants
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(passes) => ExitCode::from(u8::from(!passes)),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<bool, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut mutants = tree::sites(&root)?;
    let all = mutants.len();
    mutants.sort_by_key(site::Site::rank);
    mutants.drain(..args.skip.min(all));
    mutants.truncate(args.mutants);
    mutants.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    let left = args.left_by.as_deref().map(report::left_by).transpose()?;
    let is_left = |site: &site::Site| left.as_ref().is_none_or(|left| left.contains(&site.rank()));
    let wanted: Vec<usize> = (0..mutants.len())
        .filter(|number| is_left(&mutants[*number]))
        .filter(|number| mutants[*number].file.contains(&args.only) || mutants[*number].function.contains(&args.only))
        .collect();
    if args.list {
        for site in wanted.iter().map(|number| &mutants[*number]) {
            println!("{}:{}: {}: `{}` to `{}`", site.file, site.line, site.function, site.code, site.instead);
        }
        return Ok(true);
    }
    let argued = Argued::read(&root.join(ARGUED))?;
    fs::create_dir_all(&args.out)?;
    let out = args.out.canonicalize()?;
    eprintln!("{} of {all} mutants, in a copy below {}", mutants.len(), args.out.display());
    let program = tree::build(&root, &out, &mutants)?;
    let jobs = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let sweep = Sweep { root: &root, program, out: out.clone(), seeds: args.seeds, rare_seeds: args.rare_seeds, jobs };
    let (scenarios, upstream) = sweep.prepare()?;
    eprintln!("{} scenarios hold without a mutant", scenarios.len());
    let kept = Kept::open(&out, args.resume)?;
    let count = AtomicUsize::new(0);
    let verdicts = sweep.judge(
        &scenarios,
        &upstream,
        &wanted,
        |number| kept.of(&mutants[number]),
        |index, verdict| {
            let site = &mutants[wanted[index]];
            let done = count.fetch_add(1, Ordering::Relaxed) + 1;
            kept.keep(site, verdict);
            let told = match verdict {
                Verdict::Noticed { scenario, by, seeds } => format!("{by} in {scenario} (seeds: {seeds})"),
                Verdict::Survives { .. } => format!("SURVIVES {}", report::where_it_differs(verdict)),
                Verdict::NotReached => "not reached".to_owned(),
                Verdict::OnlyUpstream => "only upstream".to_owned(),
            };
            eprintln!("[{done}/{}] {}:{}: `{}` to `{}`: {told}", wanted.len(), site.file, site.line, site.code, site.instead);
        },
    );
    let judged: Vec<Judged> = wanted
        .iter()
        .zip(verdicts)
        .map(|(number, verdict)| {
            let site = mutants[*number].clone();
            let argued = argued.iter().find(|argued| argued.is_about(&site)).map(|argued| argued.why().to_owned());
            Judged { site, verdict, argued }
        })
        .collect();
    fs::write(out.join("mutants.json"), serde_json::to_string_pretty(&judged)?)?;
    kept.done()?;
    print!("{}", report::text(&judged));
    let unneeded: Vec<&Argued> = argued.iter().filter(|argued| is_unneeded(argued, &judged)).collect();
    for argued in &unneeded {
        println!("{ARGUED} says why nobody can notice it, and a sweep does: {}", argued.told());
    }
    let score = Counts::of(&judged).score();
    Ok(unneeded.is_empty() && 100.0 * score >= args.at_least)
}

/// Whether a mutant that counts as unnoticeable is noticed after all.
fn is_unneeded(argued: &Argued, judged: &[Judged]) -> bool {
    judged.iter().any(|one| argued.is_about(&one.site) && matches!(one.verdict, Verdict::Noticed { .. }))
}
