//! The command line: arguments in, records through, text or JSON out.
//!
//! Results go to standard output, progress and errors to standard error. The verbs are implemented behind [`Verbs`], except `merge`,
//! `trace` and `completions`, which need no simulation. Each verb ends with an exit code of [`ipam_reports::exit`].

pub mod args;
mod complete;
mod error;
mod gate;
mod interrupt;
mod merge;
mod progress;
pub mod report;
mod shard;
pub mod text;
pub mod trace;
mod verbs;

use sim_harness::explainer::Explanation;
use sim_harness::system::System;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use clap::ColorChoice;
use clap_complete::CompleteEnv;
use ipam_reports::command::{program, set_program};
use ipam_reports::{RunReport, exit, printable};
use serde::Serialize;
use serde::de::DeserializeOwned;
use terminal_size::{Height, Width, terminal_size_of};

use self::args::{
    CheckArgs, Cli, CompletionsArgs, ConformanceArgs, ExplainArgs, Format, GateArgs, HuntArgs, ListArgs, ListForm, ReplayArgs, RunArgs,
    SelftestArgs, ShrinkArgs, Verb,
};
use self::interrupt::stop_on_signals;
use self::text::Paint;

pub use self::error::CliError;
pub use self::progress::LiveProgress;
pub use self::verbs::{Simulator, Verbs};

/// Runs the program with the arguments, streams and environment of the process.
pub fn main() -> ExitCode {
    crate::systems::install();
    process()
}

/// Runs the process of a program that adds its own systems, with every verb of the command line. `build` identifies the build: digests are
/// comparable within one. Help and hints show the name of the program's file.
pub fn main_with(systems: &[&'static dyn System], build: &'static str) -> ExitCode {
    sim_harness::system::install(systems, build);
    let file = std::env::args_os().next().map(PathBuf::from);
    if let Some(name) = file.as_deref().and_then(Path::file_stem) {
        set_program(name.to_string_lossy().into_owned());
    }
    process()
}

fn process() -> ExitCode {
    // To complete a line, a shell calls the program with that line and reads its output.
    CompleteEnv::with_factory(args::command).bin(program()).complete();
    let color = color_wanted(std::env::args_os());
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let (paint_out, paint_err) = (text::choose(color, &stdout), text::choose(color, &stderr));
    let columns = |size: Option<(Width, Height)>| size.map(|(width, _)| usize::from(width.0));
    let mut console = Console {
        paint_out,
        paint_err,
        width: columns(terminal_size_of(&stdout)),
        width_err: columns(terminal_size_of(&stderr)),
        progress_bar: stderr.is_terminal(),
        interrupts: true,
        env: &|name| std::env::var(name).ok(),
        out: &mut stdout.lock(),
        // Not locked: the progress bar and the signal handler write to it as well.
        err: &mut io::stderr(),
    };
    ExitCode::from(dispatch(std::env::args_os(), &Simulator, &mut console))
}

/// The value of `--color`, found before the command line is parsed, because parse errors have colours, too.
fn color_wanted(args: impl Iterator<Item = OsString>) -> ColorChoice {
    let args: Vec<String> = args.take_while(|arg| arg != "--").map(|arg| arg.to_string_lossy().into_owned()).collect();
    let of = |(position, arg): (usize, &String)| match arg.strip_prefix("--color")? {
        "" => args.get(position + 1).cloned(),
        value => value.strip_prefix('=').map(str::to_owned),
    };
    let said = args.iter().enumerate().filter_map(of).next_back();
    said.and_then(|said| said.parse().ok()).unwrap_or(ColorChoice::Auto)
}

/// The streams that a command line writes to, and the properties of its terminal, signals and environment.
pub struct Console<'a> {
    /// Standard output: results and nothing else, so that they can be piped.
    pub out: &'a mut dyn Write,
    /// Standard error: errors and notes. A progress bar does not go through it, see [`Console::progress_bar`].
    pub err: &'a mut dyn Write,
    /// Colour of results, determined by `--color`, their stream and the environment.
    pub paint_out: Paint,
    /// Colour of errors and notes, like [`Console::paint_out`].
    pub paint_err: Paint,
    /// The width of results, in columns: that of the terminal that shows them; `None` = unlimited.
    pub width: Option<usize>,
    /// The width of errors and notes, in columns; `None` = unlimited.
    pub width_err: Option<usize>,
    /// Whether to draw a progress bar on the process's standard error.
    pub progress_bar: bool,
    /// Whether Ctrl-C and the signals of batch systems stop a sweep.
    pub interrupts: bool,
    /// Looks up the environment variables that tell which part of a job this is.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Console<'a> {
    /// A console that is no terminal and part of no job: without colours, width limits, a progress bar, signals and variables.
    pub fn plain(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        Self {
            out,
            err,
            paint_out: Paint::PLAIN,
            paint_err: Paint::PLAIN,
            width: None,
            width_err: None,
            progress_bar: false,
            interrupts: false,
            env: &|_| None,
        }
    }
}

/// Runs one command line, whose first word is the program's name, and returns the exit code. A panic is a bug of the harness.
pub fn dispatch(args: impl IntoIterator<Item = OsString>, verbs: &dyn Verbs, console: &mut Console<'_>) -> u8 {
    let mut cli = match Cli::read(args) {
        Ok(cli) => cli,
        Err(error) => return explain_usage(&error, console),
    };
    if let Err(error) = choose_part(&mut cli.verb, console) {
        return explain_error(&error, console);
    }
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| match &cli.verb {
        Verb::Run(args) => run(args, verbs, console),
        Verb::Hunt(args) => hunt(args, verbs, console),
        Verb::Replay(args) => replay(args, verbs, console),
        Verb::Shrink(args) => shrink(args, verbs, console),
        Verb::Selftest(args) => selftest(args, verbs, console),
        Verb::List(args) => list(args, verbs, console),
        Verb::Check(args) => check(args, verbs, console),
        Verb::Conformance(args) => conformance(args, verbs, console),
        Verb::Explain(args) => explain(args, verbs, console),
        Verb::Gate(args) => gate::gate(args, verbs, console),
        Verb::Merge(args) => merge::merge(args, console),
        Verb::Report(args) => report::report(args, verbs, console),
        Verb::Trace(args) => trace::trace(args, console),
        Verb::Completions(args) => completions(args, console),
    }));
    let outcome = outcome.unwrap_or_else(|cause| Err(CliError::harness(format!("{} panicked: {}", program(), panic_message(&*cause)))));
    match outcome {
        Ok(code) => code,
        Err(error) => explain_error(&error, console),
    }
}

/// Prints the error, and returns its exit code.
fn explain_error(CliError { exit_code, message, hint }: &CliError, console: &mut Console<'_>) -> u8 {
    let hint = hint.iter().map(|hint| format!("  {}\n", printable::lines(hint))).collect::<String>();
    say(console, &format!("{} {}\n{hint}", console.paint_err.bad("error:"), printable::lines(message)));
    *exit_code
}

/// Writes to standard error, and ignores a closed stream.
fn say(console: &mut Console<'_>, text: &str) {
    let text = printable::console(text, console.paint_err.is_on());
    let _ = console.err.write_all(text::fit(&text, console.width_err).as_bytes());
}

/// Determines the part of its work that a verb does.
fn choose_part(verb: &mut Verb, console: &mut Console<'_>) -> Result<(), CliError> {
    let (choice, part) = match verb {
        // A single seed is not divided into shards.
        Verb::Run(RunArgs { seed: None, shard, part, .. }) | Verb::Gate(GateArgs { shard, part, .. }) => (shard, part),
        _ => return Ok(()),
    };
    let chosen = shard::choose(*choice, console.env).map_err(CliError::usage)?;
    *part = chosen.part;
    if let Some(note) = chosen.note {
        say(console, &format!("note: {}\n", printable::text(&note)));
    }
    Ok(())
}

/// Prints clap's message: help and version are results, everything else is an error.
fn explain_usage(error: &clap::Error, console: &mut Console<'_>) -> u8 {
    let text = |paint: Paint| if paint.is_on() { error.render().ansi().to_string() } else { error.render().to_string() };
    if error.use_stderr() {
        say(console, &text(console.paint_err));
        exit::USAGE
    } else {
        let _ = console.out.write_all(text(console.paint_out).as_bytes());
        exit::HELD
    }
}

fn panic_message(cause: &(dyn std::any::Any + Send)) -> &str {
    let text = cause.downcast_ref::<&str>().copied();
    text.or_else(|| cause.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Writes a result. A reader that closed the pipe (`| head`) is not an error: the exit code is still that of the verdict.
fn write_out(console: &mut Console<'_>, text: &str) -> Result<ControlFlow<()>, CliError> {
    match console.out.write_all(text.as_bytes()).and_then(|()| console.out.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(CliError::usage(format!("cannot write the result: {error}"))),
    }
}

/// Prints a record in the requested format. External text is made safe to display: see [`printable`].
fn print<T: Serialize + DeserializeOwned + Clone>(
    console: &mut Console<'_>,
    format: Format,
    record: &T,
    text: impl Fn(&T, Paint) -> String,
) -> Result<(), CliError> {
    match format {
        Format::Text => print_made(console, format, &*printable::record(record), text),
        Format::Json => print_made(console, format, record, text),
    }
}

/// Like `print`, for a record of numbers and of names that the program has checked, and for one whose text function makes its names safe to
/// display. If the result cannot be written, its text goes to standard error: a full disk must not hide a verdict.
fn print_made<T: Serialize>(
    console: &mut Console<'_>,
    format: Format,
    record: &T,
    text: impl Fn(&T, Paint) -> String,
) -> Result<(), CliError> {
    let printed = match format {
        Format::Text => {
            let text = printable::console(&text(record, console.paint_out), console.paint_out.is_on()).into_owned();
            text::fit(&text, console.width)
        }
        Format::Json => {
            let json = serde_json::to_string_pretty(record).map_err(|error| CliError::harness(error.to_string()))?;
            printable::json(&json).into_owned() + "\n"
        }
    };
    write_out(console, &printed).map(drop).inspect_err(|_| {
        let told = text(record, console.paint_err);
        let _ = console.err.write_all(printable::console(&told, console.paint_err.is_on()).as_bytes());
    })
}

/// Prints the report of a sweep, and returns the exit code of the process, which depends on the verdict, on the signal that ended the
/// sweep, and on failed writes. `report` returns the exit code and the failed writes of the record.
fn conclude<T>(
    console: &mut Console<'_>,
    format: Format,
    progress: &LiveProgress,
    mut record: T,
    report: impl Fn(&mut T) -> (&mut u8, &[String]),
    print: impl FnOnce(&mut Console<'_>, Format, &T) -> Result<(), CliError>,
) -> u8 {
    let (exit_code, unwritten) = report(&mut record);
    let unwritten = unwritten.to_vec();
    *exit_code = progress.ending(*exit_code);
    if !unwritten.is_empty() {
        *exit_code = exit::unwritten(*exit_code);
    }
    let code = *exit_code;
    let printed = print(console, format, &record);
    tell_unwritten(console, code, unwritten.into_iter().map(CliError::usage).chain(printed.err()))
}

/// Reports failed writes, and returns the exit code of the process, given that of the verdict, `code`.
fn tell_unwritten(console: &mut Console<'_>, code: u8, errors: impl IntoIterator<Item = CliError>) -> u8 {
    errors
        .into_iter()
        .map(|error| explain_error(&error, console))
        .fold(code, |code, told| if told == exit::USAGE { exit::unwritten(code) } else { exit::worst([code, told]) })
}

fn run(args: &RunArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let progress = LiveProgress::default();
    if console.interrupts {
        stop_on_signals(&progress)?;
    }
    let report = watched(&progress, console, |progress| verbs.run(args, progress))?;
    Ok(conclude_sweep(args.format, &progress, report, console))
}

/// Prints the report of runs, and returns the exit code of the process.
fn conclude_sweep(format: Format, progress: &LiveProgress, report: RunReport, console: &mut Console<'_>) -> u8 {
    conclude(
        console,
        format,
        progress,
        report,
        |report| (&mut report.exit_code, &report.unwritten),
        |console, format, report| print(console, format, report, text::run),
    )
}

fn hunt(args: &HuntArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let progress = LiveProgress::default();
    if console.interrupts {
        stop_on_signals(&progress)?;
    }
    let report = watched(&progress, console, |progress| verbs.hunt(args, progress))?;
    Ok(conclude_sweep(args.format, &progress, report, console))
}

/// Does `work` on another thread, while this one draws the progress bar.
fn watched<T: Send>(
    progress: &LiveProgress,
    console: &Console<'_>,
    work: impl FnOnce(&LiveProgress) -> Result<T, CliError> + Send,
) -> Result<T, CliError> {
    thread::scope(|scope| {
        let (running, done) = mpsc::channel::<()>();
        let sweep = move || {
            // Dropped at the end, also by a panic, which stops the drawing.
            let _running = running;
            work(progress)
        };
        let sweep = thread::Builder::new()
            .name("sweep".to_owned())
            .stack_size(sim_harness::engine::STACK_BYTES)
            .spawn_scoped(scope, sweep)
            .map_err(|error| CliError::harness(format!("failed to start a thread: {error}")))?;
        if console.progress_bar {
            progress::draw_until(&done, progress, console.paint_err.is_on());
        }
        sweep.join().unwrap_or_else(|cause| panic::resume_unwind(cause))
    })
}

fn replay(args: &ReplayArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let mut recorded = Vec::new();
    let mut failed = None;
    let mut report = verbs.replay(args, &mut |line| match args.format {
        Format::Json => {
            recorded.push(line);
            ControlFlow::Continue(())
        }
        Format::Text => {
            let line = text::fit(&printable::console(&text::trace_line(&printable::record(&line)), false), console.width);
            write_out(console, &line).unwrap_or_else(|error| {
                failed.get_or_insert(error);
                ControlFlow::Break(())
            })
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    if (args.trace || args.follow.is_some()) && args.format == Format::Json {
        report.trace = Some(recorded);
    }
    let printed = print(console, args.format, &report, text::replay);
    let unwritten = report.unwritten.into_iter().map(CliError::usage);
    Ok(tell_unwritten(console, report.exit_code, unwritten.chain(printed.err())))
}

fn shrink(args: &ShrinkArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let progress = LiveProgress::default();
    if console.interrupts {
        stop_on_signals(&progress)?;
    }
    let report = watched(&progress, console, |progress| verbs.shrink(args, progress))?;
    Ok(conclude(
        console,
        args.format,
        &progress,
        report,
        |report| (&mut report.exit_code, &[]),
        |console, format, report| print(console, format, report, text::shrink),
    ))
}

fn selftest(args: &SelftestArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let progress = LiveProgress::default();
    if console.interrupts {
        stop_on_signals(&progress)?;
    }
    let report = watched(&progress, console, |progress| verbs.selftest(args, progress))?;
    Ok(conclude(
        console,
        args.format,
        &progress,
        report,
        |report| (&mut report.exit_code, &report.unwritten),
        |console, format, report| print(console, format, report, text::selftest),
    ))
}

fn list(args: &ListArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let report = verbs.list(args)?;
    match args.output {
        None => print(console, args.format, &report, text::list)?,
        Some(ListForm::Table) => print(console, Format::Text, &report, text::list)?,
        Some(ListForm::Json) => print(console, Format::Json, &report, text::list)?,
        Some(ListForm::Name) => print(console, Format::Text, &report, |report, _| text::names(report))?,
    }
    Ok(exit::HELD)
}

fn check(args: &CheckArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let report = verbs.check(args)?;
    let printed = print(console, args.format, &report, text::check);
    Ok(tell_unwritten(console, report.exit_code(), printed.err()))
}

fn conformance(args: &ConformanceArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let report = verbs.conformance(args)?;
    let printed = print(console, args.format, &report, text::conformance);
    let unwritten = report.unwritten.into_iter().map(CliError::usage);
    Ok(tell_unwritten(console, report.exit_code, unwritten.chain(printed.err())))
}

fn explain(args: &ExplainArgs, verbs: &dyn Verbs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let explanation = verbs.explain(args)?;
    warn(console, explanation.warnings());
    print_made(console, args.format, &explanation, Explanation::text)?;
    Ok(exit::HELD)
}

fn warn(console: &mut Console<'_>, warnings: &[String]) {
    for warning in warnings {
        say(console, &format!("{} {}\n", console.paint_err.warn("warning:"), printable::text(warning)));
    }
}

fn completions(args: &CompletionsArgs, console: &mut Console<'_>) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), program(), &mut script);
    write_out(console, &String::from_utf8_lossy(&script)).map(|_| exit::HELD)
}

#[cfg(test)]
mod tests;
