//! What the command line of `trace` says.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::value::output_file;

/// What the command line of `trace` says.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = TRACE_EXAMPLES)]
pub struct TraceArgs {
    /// What the trace is made of.
    #[command(subcommand)]
    pub of: TraceOf,
}

/// What a trace is made of.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum TraceOf {
    /// From what `kubectl get pods -A -o json` or `-o yaml` printed, once or several times
    #[command(after_help = PODS_EXAMPLES)]
    FromPods(TraceFiles),
    /// From the audit log of an API server, in JSON lines
    #[command(after_help = AUDIT_EXAMPLES)]
    FromAudit(TraceFiles),
}

/// What is read, and where the trace goes.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct TraceFiles {
    /// Files to read, all of one cluster; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Where to write the trace [default: standard output]
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
