//! Signals that ask the process to end: Ctrl-C, the signals of CI and batch systems, and a closed terminal.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use ipam_reports::exit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sim_harness::engine::output;

use super::{CliError, LiveProgress};

/// The interval after the first signal within which another one counts as the same: `timeout` sends each signal to the process and to its
/// group.
const ONE_SIGNAL: Duration = Duration::from_millis(300);

/// Installs the signal handler. The first signal asks the sweep to end and print its results so far; the second ends the process, without
/// truncating files.
pub(super) fn stop_on_signals(progress: &LiveProgress) -> Result<(), CliError> {
    let wanted = [Some(SIGINT), Some(SIGTERM), (!is_ignored(SIGHUP)).then_some(SIGHUP)];
    let failed = |error: io::Error| CliError::harness(format!("failed to listen for signals: {error}"));
    let mut signals = Signals::new(wanted.into_iter().flatten()).map_err(failed)?;
    let stop = progress.stop_handle();
    let listen = move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            let code = exit_code(signal);
            if first.is_some_and(|first| first.elapsed() < ONE_SIGNAL) {
                continue;
            }
            if stop.ask(code) {
                first = Some(Instant::now());
                let again = if signal == SIGINT { "press Ctrl-C again" } else { "send a second signal" };
                // A plain `eprintln` would panic on a closed stream.
                let _ = writeln!(io::stderr(), "\nstopping after the runs that are under way; {again} to quit at once");
            } else {
                let _settled = output::settle();
                std::process::exit(code.into());
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(listen).map(drop).map_err(failed)
}

/// The exit code of a process that a signal ended.
fn exit_code(signal: i32) -> u8 {
    if signal == SIGINT { exit::INTERRUPTED } else { exit::TERMINATED }
}

/// Whether the parent process set a signal to be ignored, as `nohup` does. Known on Linux; `false` elsewhere.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
