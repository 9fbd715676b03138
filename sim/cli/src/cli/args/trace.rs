//! The command line of `trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::value::output_file;

/// Arguments of `trace`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = TRACE_EXAMPLES)]
pub struct TraceArgs {
    /// The source of the trace.
    #[command(subcommand)]
    pub of: TraceOf,
}

/// The source of a trace.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum TraceOf {
    /// From the output of `kubectl get pods -A -o json` or `-o yaml`, taken once or several times
    #[command(after_help = PODS_EXAMPLES)]
    FromPods(TraceFiles),
    /// From the audit log of an API server, in JSON lines
    #[command(after_help = AUDIT_EXAMPLES)]
    FromAudit(TraceFiles),
}

/// The input files, and the destination of the trace.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct TraceFiles {
    /// Files to read, all of one cluster; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Write the trace here [default: standard output]
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub out: Option<PathBuf>,
}

const TRACE_EXAMPLES: &str = "\
Examples:
  ipam-sim trace from-audit audit.log > pods.csv
  kubectl get pods -A -o json | ipam-sim trace from-pods - --out pods.csv
  ipam-sim trace from-audit audit.log | ipam-sim report capacity --trace - --objective 'refused<1%'

What the input cannot say is told on standard error.";

const PODS_EXAMPLES: &str = "\
Examples:
  ipam-sim trace from-pods monday.json tuesday.json --out pods.csv
  kubectl get pods -A -o json | ipam-sim trace from-pods -

A snapshot has the pods that exist: those that are gone are in none. An audit log has them all.";

const AUDIT_EXAMPLES: &str = "\
Examples:
  ipam-sim trace from-audit audit.log --out pods.csv
  ipam-sim trace from-audit audit.log | ipam-sim report capacity --trace - --objective 'refused<1%'

The audit policy needs a rule for pods and pods/binding, at the level Metadata or above.";
