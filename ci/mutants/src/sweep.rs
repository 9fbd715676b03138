//! Runs the scenarios that must hold, without a mutant and with each.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long a run of a scenario may take before it counts as hung: many times what it takes without a mutant, and not less than this.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_TIMES: u32 = 10;
/// How many seeds of each scenario are run first: most mistakes show at once.
const FIRST: u64 = 5;
/// In how many of the scenarios in which runs differ more seeds are run.
const RARE_IN: usize = 6;
/// Exit code of a sweep in which nothing happened that a claim asks for.
const VACUOUS: i32 = 4;

/// A scenario that must hold.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Scenario {
    /// Its name, or that of the variant.
    pub(crate) name: String,
    file: String,
    expect: Option<String>,
    /// What it does without a mutant.
    #[serde(skip)]
    baseline: Baseline,
}

#[derive(Clone, Debug, Default)]
struct Baseline {
    code: i32,
    takes: Duration,
    /// What its runs came to.
    digest: Option<String>,
    /// The mutants whose places it reaches.
    reaches: BTreeSet<usize>,
}

/// What sweeps say of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub(crate) enum Verdict {
    /// A claim is violated, or the run does not end.
    Noticed {
        /// The scenario, or variant, whose sweep failed.
        scenario: String,
        /// The first claim, or how else the sweep failed.
        by: String,
        /// How many of the scenario's seeds it took.
        seeds: u64,
    },
    /// Scenarios came by, and all held.
    Survives {
        /// How many scenarios came by.
        scenarios: usize,
        /// Those of them whose runs were not what they are without the mutant. Where there is none, nothing that a run shows depends on
        /// the place.
        differ: Vec<String>,
    },
    /// No scenario that must hold comes by.
    NotReached,
    /// None comes by, but it would with upstream's behaviour: the place belongs to a deviation.
    OnlyUpstream,
}

/// Everything that is needed to run a scenario.
pub(crate) struct Sweep<'a> {
    /// The root of the repository, where the scenarios are.
    pub(crate) root: &'a Path,
    /// The program with the switches.
    pub(crate) program: PathBuf,
    /// Where files may be written.
    pub(crate) out: PathBuf,
    /// Seeds of each scenario.
    pub(crate) seeds: u64,
    /// Seeds of the scenarios in which runs differ and all claims hold.
    pub(crate) rare_seeds: u64,
    /// How many run at a time.
    pub(crate) jobs: usize,
}

/// How one run of one scenario ended.
struct Ended {
    /// The exit code; `None` = it hung or crashed.
    code: Option<i32>,
    /// The first claim that is violated.
    claim: Option<String>,
    /// How many seeds it takes to violate one.
    within: Option<u64>,
    /// The digest of its runs.
    digest: Option<String>,
    takes: Duration,
}

impl Ended {
    /// Which claim fails, or how else a sweep with a mutant does not end as one without. `few`: a few seeds may well be vacuous.
    fn noticed_by(&self, scenario: &Scenario, few: bool) -> Option<String> {
        match self.code {
            Some(0) => None,
            Some(VACUOUS) if scenario.baseline.code == VACUOUS || few => None,
            Some(VACUOUS) => Some("vacuous".to_owned()),
            Some(code) => Some(self.claim.clone().unwrap_or_else(|| format!("exit code {code}"))),
            None => Some("it does not end".to_owned()),
        }
    }
}

impl Sweep<'_> {
    /// The scenarios, and what they do without a mutant; and the mutants that runs with upstream's behaviour come by.
    ///
    /// # Errors
    /// A scenario fails without a mutant.
    pub(crate) fn prepare(&self) -> Result<(Vec<Scenario>, BTreeSet<usize>), Box<dyn Error>> {
        let listed = Command::new(&self.program).args(["list", "scenarios", "--format", "json"]).current_dir(self.root).output()?;
        #[derive(Deserialize)]
        struct Listed {
            scenarios: Vec<Scenario>,
        }
        let Listed { scenarios } = serde_json::from_slice(&listed.stdout)?;
        let must_hold = |scenario: &Scenario| {
            scenario.expect.is_none() && ["scenarios/smoke/", "scenarios/chaos/"].iter().any(|folder| scenario.file.starts_with(folder))
        };
        let mut scenarios: Vec<Scenario> = scenarios.into_iter().filter(must_hold).collect();
        let runs = self.parallel(scenarios.len() * 2, |number| {
            let scenario = &scenarios[number / 2];
            let upstream = number % 2 == 1;
            let file = self.out.join(format!("reached-{number}"));
            let _ = fs::remove_file(&file);
            let extra: &[&str] = if upstream { &["--profile", "upstream"] } else { &[] };
            let seeds = if upstream { FIRST } else { self.seeds };
            let ended = self.run(scenario, seeds, extra, &[("CORE_MUTANTS_REACHED", &file.to_string_lossy())], number, Duration::MAX);
            let reaches = fs::read_to_string(&file).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect();
            (ended, reaches)
        });
        let mut upstream = BTreeSet::new();
        for (number, (ended, reaches)) in runs.into_iter().enumerate() {
            let scenario = &mut scenarios[number / 2];
            if number % 2 == 1 {
                upstream.extend(reaches);
                continue;
            }
            let code = ended.code.unwrap_or(-1);
            if ![0, VACUOUS].contains(&code) {
                let claim = ended.claim.unwrap_or_default();
                return Err(format!("{} does not hold without a mutant: exit code {code} {claim}", scenario.name).into());
            }
            scenario.baseline = Baseline { code, takes: ended.takes, digest: ended.digest, reaches };
        }
        // What is quick is tried first.
        scenarios.sort_by_key(|scenario| scenario.baseline.takes);
        Ok((scenarios, upstream))
    }

    /// Tries each of these mutants in the scenarios that come by, but for those of which there is a verdict already, and tells `done` of
    /// each.
    pub(crate) fn judge(
        &self,
        scenarios: &[Scenario],
        upstream: &BTreeSet<usize>,
        mutants: &[usize],
        known: impl Fn(usize) -> Option<Verdict> + Sync,
        done: impl Fn(usize, &Verdict) + Sync,
    ) -> Vec<Verdict> {
        self.parallel(mutants.len(), |index| {
            let number = mutants[index];
            let verdict = known(number).unwrap_or_else(|| self.verdict(scenarios, upstream, number));
            done(index, &verdict);
            verdict
        })
    }

    fn verdict(&self, scenarios: &[Scenario], upstream: &BTreeSet<usize>, mutant: usize) -> Verdict {
        let reaching: Vec<&Scenario> = scenarios.iter().filter(|scenario| scenario.baseline.reaches.contains(&mutant)).collect();
        if reaching.is_empty() {
            return if upstream.contains(&mutant) { Verdict::OnlyUpstream } else { Verdict::NotReached };
        }
        let mut differ: Vec<&Scenario> = Vec::new();
        for seeds in [FIRST.min(self.seeds), self.seeds] {
            for &scenario in &reaching {
                let ended = self.run_mutant(scenario, seeds, mutant);
                if let Some(by) = ended.noticed_by(scenario, seeds < self.seeds) {
                    return Verdict::Noticed { scenario: scenario.name.clone(), by, seeds: ended.within.unwrap_or(seeds) };
                }
                if seeds == self.seeds && ended.digest != scenario.baseline.digest {
                    differ.push(scenario);
                }
            }
        }
        // A run that differs and holds may have a rarer one that does not.
        for scenario in differ.iter().take(RARE_IN).filter(|_| self.rare_seeds > self.seeds) {
            let ended = self.run_mutant(scenario, self.rare_seeds, mutant);
            if let Some(by) = ended.noticed_by(scenario, false) {
                return Verdict::Noticed { scenario: scenario.name.clone(), by, seeds: ended.within.unwrap_or(self.rare_seeds) };
            }
        }
        Verdict::Survives { scenarios: reaching.len(), differ: differ.into_iter().map(|scenario| scenario.name.clone()).collect() }
    }

    fn run_mutant(&self, scenario: &Scenario, seeds: u64, mutant: usize) -> Ended {
        let times = u32::try_from(seeds.div_ceil(self.seeds)).unwrap_or(u32::MAX);
        let limit = scenario.baseline.takes.saturating_mul(PATIENCE_TIMES.saturating_mul(times)).max(PATIENCE);
        self.run(scenario, seeds, &[], &[("CORE_MUTANT", &mutant.to_string())], mutant, limit)
    }

    fn run(&self, scenario: &Scenario, seeds: u64, extra: &[&str], env: &[(&str, &str)], number: usize, limit: Duration) -> Ended {
        let began = Instant::now();
        let out = self.out.join(format!("run-{number}"));
        let result = out.with_extension("json");
        let file = fs::File::create(&result).map(Stdio::from).unwrap_or_else(|_| Stdio::null());
        let mut command = Command::new(&self.program);
        command.args([
            "run",
            &scenario.file,
            "--variant",
            &scenario.name,
            "--seeds",
            &seeds.to_string(),
            "--jobs",
            "1",
            "--no-shrink",
            "--force",
        ]);
        command.args(["--format", "json", "--out"]).arg(&out).args(extra).envs(env.iter().copied());
        let started = command.current_dir(self.root).stdin(Stdio::null()).stdout(file).stderr(Stdio::null()).spawn();
        let code = started.ok().and_then(|mut child| {
            loop {
                match child.try_wait() {
                    Ok(None) if began.elapsed() < limit => thread::sleep(Duration::from_millis(10)),
                    Ok(None) => {
                        let _ = child.kill();
                        let _ = child.wait();
                        return None;
                    }
                    ended => return ended.ok().flatten().and_then(|status| status.code()),
                }
            }
        });
        let takes = began.elapsed();
        let told: serde_json::Value = fs::read(&result).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let scenario = &told["scenarios"][0];
        let claim = scenario["failures"][0]["claim"].as_str().map(str::to_owned);
        let failing = scenario["failures"].as_array().into_iter().flatten().filter_map(|failure| failure["seed"].as_u64()).min();
        let within = failing.map(|seed| seed - scenario["seed_ranges"][0]["first"].as_u64().unwrap_or_default() + 1);
        let digest = scenario["digest"].as_str().map(str::to_owned);
        let _ = fs::remove_dir_all(&out);
        let _ = fs::remove_file(&result);
        Ended { code, claim, within, digest, takes }
    }

    /// Does a number of things, some at a time, and gives what came of them in order.
    fn parallel<T: Send>(&self, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
        thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            break;
                        }
                        let result = work(number);
                        done.lock().expect("no worker panics").push((number, result));
                    }
                });
            }
        });
        let mut done = done.into_inner().expect("no worker panics");
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, result)| result).collect()
    }
}
