//! Runs of the scenarios that must hold, without a mutant and with each one.

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

/// The minimum time after which a run of a scenario counts as hung; the actual limit is a multiple of its time without a mutant, if that is
/// longer.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_TIMES: u32 = 10;
/// The number of seeds of each scenario that are run first: most mistakes show at once.
const FIRST: u64 = 5;
/// The number of scenarios with differing runs in which more seeds are run.
const RARE_IN: usize = 6;
/// The exit code of a vacuous sweep.
const VACUOUS: i32 = 4;

/// A scenario that must hold.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Scenario {
    /// Its name, or that of the variant.
    pub(crate) name: String,
    file: String,
    expect: Option<String>,
    /// Its results without a mutant.
    #[serde(skip)]
    baseline: Baseline,
}

#[derive(Clone, Debug, Default)]
struct Baseline {
    code: i32,
    takes: Duration,
    /// The digest of its runs.
    digest: Option<String>,
    /// The mutants whose places it reaches.
    reaches: BTreeSet<usize>,
}

/// The verdict of sweeps on a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub(crate) enum Verdict {
    /// A claim is violated, or the run does not end.
    Noticed {
        /// The scenario, or variant, whose sweep failed.
        scenario: String,
        /// The first violated claim, or another failure of the sweep.
        by: String,
        /// The number of the scenario's seeds that it took.
        seeds: u64,
    },
    /// Scenarios reach the place, and all hold.
    Survives {
        /// The number of scenarios that reach the place.
        scenarios: usize,
        /// The scenarios whose runs differ from those without the mutant. If there are none, no visible result of a run depends on the
        /// place.
        differ: Vec<String>,
    },
    /// No scenario that must hold reaches the place.
    NotReached,
    /// No scenario that must hold reaches the place, but runs with upstream's behaviour do: it belongs to a deviation.
    OnlyUpstream,
}

/// The inputs for running a scenario.
pub(crate) struct Sweep<'a> {
    /// The root of the repository, where the scenarios are.
    pub(crate) root: &'a Path,
    /// The program with the switches.
    pub(crate) program: PathBuf,
    /// The folder in which files may be written.
    pub(crate) out: PathBuf,
    /// The number of seeds of each scenario.
    pub(crate) seeds: u64,
    /// The number of seeds of scenarios in which runs differ and all claims hold.
    pub(crate) rare_seeds: u64,
    /// The number of runs at a time.
    pub(crate) jobs: usize,
}

/// The result of one run of one scenario.
struct Ended {
    /// The exit code; `None` = it hung or crashed.
    code: Option<i32>,
    /// The first violated claim.
    claim: Option<String>,
    /// The number of seeds up to the first violation.
    within: Option<u64>,
    /// The digest of its runs.
    digest: Option<String>,
    takes: Duration,
}

impl Ended {
    /// The violated claim, or another difference between the results of a sweep with a mutant and without. `few`: the sweep has so few
    /// seeds that it may be vacuous.
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
    /// Runs all scenarios without a mutant. Returns the scenarios with their results, and the mutants that runs with upstream's behaviour
    /// reach.
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
        // Quick scenarios are tried first.
        scenarios.sort_by_key(|scenario| scenario.baseline.takes);
        Ok((scenarios, upstream))
    }

    /// Tries each of these mutants in the scenarios that reach it, except those with a known verdict, and reports each verdict to `done`.
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
        // Runs that differ and hold may have a rarer one that fails.
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

    /// Runs `work` for each of `count` numbers, several at a time, and returns the results in order.
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
