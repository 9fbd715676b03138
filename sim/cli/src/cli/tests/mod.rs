//! Tests of the command line, with verbs that answer from prepared records.
//!
//! This file holds the console and the verbs; [`records`] holds the answers; there is a file of tests for each verb.

mod arguments;
mod conformance;
mod gate;
mod listing;
mod merge;
mod printable;
mod records;
mod replay;
mod run;
mod selftest;
mod shrink;

use ipam_reports::replay::TraceLine;
use ipam_reports::{
    CapacityReport, CheckReport, ConflictsReport, ConformanceReport, GateReport, ListReport, MatrixReport, ReplayReport, RunReport,
    ShrinkReport,
};

use super::report::args::{CalibrateArgs, CapacityArgs, ConflictsArgs, MetricsArgs, ReclaimArgs};
use super::*;

/// The output of a command and its exit code.
struct Ran {
    code: u8,
    out: String,
    err: String,
}

fn ran(verbs: &dyn Verbs, line: &str) -> Ran {
    ran_into(&mut Vec::new(), verbs, line)
}

fn ran_into(out: &mut impl OutputText, verbs: &dyn Verbs, line: &str) -> Ran {
    ran_in(&|_| None, out, verbs, line)
}

fn ran_in(env: &dyn Fn(&str) -> Option<String>, out: &mut impl OutputText, verbs: &dyn Verbs, line: &str) -> Ran {
    let mut err = Vec::new();
    let mut console = Console { env, ..Console::plain(out, &mut err) };
    let args = std::iter::once("ipam-sim").chain(line.split_whitespace()).map(OsString::from);
    let code = dispatch(args, verbs, &mut console);
    Ran { code, out: out.text(), err: String::from_utf8(err).unwrap() }
}

#[test]
fn errors_fit_the_terminal_that_shows_them() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console { width_err: Some(40), ..Console::plain(&mut out, &mut err) };
    let line = ["ipam-sim", "replay", "a-plan-that-is-nowhere.toml", "--until", "5s"];
    assert_eq!(dispatch(line.map(OsString::from), &Simulator, &mut console), exit::USAGE);
    let err = String::from_utf8(err).unwrap();
    assert!(err.lines().count() > 1 && err.lines().all(|line| line.len() <= 40), "{err}");
}

trait OutputText: Write {
    fn text(&self) -> String;
}

impl OutputText for Vec<u8> {
    fn text(&self) -> String {
        String::from_utf8(self.clone()).unwrap()
    }
}

/// A reader that reads `room` bytes and then closes the pipe.
struct Closing {
    room: usize,
    error: io::ErrorKind,
}

impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(self.error.into());
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl OutputText for Closing {
    fn text(&self) -> String {
        String::new()
    }
}

type Answer<T> = Option<Result<T, CliError>>;

/// Verbs that answer from records; a verb without a record must not be called.
#[derive(Default)]
struct Prepared {
    run: Answer<RunReport>,
    replay: Answer<ReplayReport>,
    shrink: Answer<ShrinkReport>,
    selftest: Answer<MatrixReport>,
    trace: Vec<TraceLine>,
    list: Answer<ListReport>,
    check: Answer<CheckReport>,
    conformance: Answer<ConformanceReport>,
    explain: Answer<Explanation>,
    gate: Answer<GateReport>,
    conflicts: Answer<ConflictsReport>,
}

fn answer<T: Clone>(prepared: &Answer<T>) -> Result<T, CliError> {
    prepared.clone().expect("this verb is not part of the test")
}

impl Verbs for Prepared {
    fn run(&self, _: &RunArgs, _: &LiveProgress) -> Result<RunReport, CliError> {
        answer(&self.run)
    }

    fn replay(&self, _: &ReplayArgs, trace: &mut dyn FnMut(TraceLine) -> ControlFlow<()>) -> Result<ReplayReport, CliError> {
        let _ = self.trace.iter().cloned().try_for_each(trace);
        answer(&self.replay)
    }

    fn hunt(&self, _: &HuntArgs, _: &LiveProgress) -> Result<RunReport, CliError> {
        unreachable!("nobody hunts here")
    }

    fn shrink(&self, _: &ShrinkArgs, _: &LiveProgress) -> Result<ShrinkReport, CliError> {
        answer(&self.shrink)
    }

    fn gate(&self, _: &GateArgs, _: &LiveProgress) -> Result<GateReport, CliError> {
        answer(&self.gate)
    }

    fn selftest(&self, _: &SelftestArgs, _: &LiveProgress) -> Result<MatrixReport, CliError> {
        answer(&self.selftest)
    }

    fn list(&self, _: &ListArgs) -> Result<ListReport, CliError> {
        answer(&self.list)
    }

    fn check(&self, _: &CheckArgs) -> Result<CheckReport, CliError> {
        answer(&self.check)
    }

    fn conformance(&self, _: &ConformanceArgs) -> Result<ConformanceReport, CliError> {
        answer(&self.conformance)
    }

    fn conflicts(&self, _: &ConflictsArgs, _: &LiveProgress) -> Result<ConflictsReport, CliError> {
        answer(&self.conflicts)
    }

    fn metrics(&self, _: &MetricsArgs, _: &LiveProgress) -> Result<ipam_reports::MetricsReport, CliError> {
        unreachable!("no test of the command line asks for it")
    }

    fn leaks(&self, _: &ReclaimArgs, _: &LiveProgress) -> Result<ipam_reports::LeaksReport, CliError> {
        unreachable!("no test of the command line asks for it")
    }

    fn calibrate(&self, _: &CalibrateArgs) -> Result<ipam_reports::CalibrateReport, CliError> {
        unreachable!("no test of the command line asks for it")
    }

    fn capacity(&self, _: &CapacityArgs, _: &LiveProgress) -> Result<CapacityReport, CliError> {
        answer(&self.conflicts).map(CapacityReport::Bursts)
    }

    fn explain(&self, _: &ExplainArgs) -> Result<Explanation, CliError> {
        answer(&self.explain)
    }
}

fn running(report: RunReport) -> Prepared {
    Prepared { run: Some(Ok(report)), ..Prepared::default() }
}

fn explaining<T>(record: T, warnings: Vec<String>, text: fn(&T, Paint) -> String) -> Prepared
where
    T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
{
    Prepared { explain: Some(Ok(Explanation::new(record, text, warnings))), ..Prepared::default() }
}

fn replaying(report: ReplayReport) -> Prepared {
    Prepared { replay: Some(Ok(ReplayReport { exit_code: report.judge(), ..report })), ..Prepared::default() }
}
