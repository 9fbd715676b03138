//! The command-line arguments of `explain` for Spiderpool.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::input::cluster::DEFAULT_NAMESPACE;
use crate::input::form::FormArgs;

/// The arguments that describe the cluster, the pod or the scan, and Spiderpool.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = EXPLAIN_EXAMPLES, group = clap::ArgGroup::new("which").required(true).args(["pod", "pod_file", "reclaim"]))]
pub(super) struct ExplainArgs {
    /// The cluster as kubectl prints it: files or folders; - is standard input
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(super) manifests: Vec<PathBuf>,
    /// The pod, one of those in the manifests
    #[arg(long, value_name = "NS/NAME")]
    pub(super) pod: Option<PodKey>,
    /// A file with the pod, which need not be in the cluster yet
    #[arg(long, value_name = "FILE")]
    pub(super) pod_file: Option<PathBuf>,
    /// Instead: what reclaim would do with each address of the cluster, and why
    #[arg(long, conflicts_with_all = ["node", "cni_config", "master"])]
    pub(super) reclaim: bool,
    /// The time of the scan, e.g. 2026-01-01T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["pod", "pod_file"])]
    pub(super) now: Option<jiff::Timestamp>,
    /// The NIC of the ADD
    #[arg(long, value_name = "NAME", value_parser = nic, default_value = ipam_spiderpool::select::FIRST_NIC)]
    pub(super) nic: String,
    /// The node [default: the one in the pod's spec]
    #[arg(long, value_name = "NAME")]
    pub(super) node: Option<String>,
    /// The network configuration (.conf or .conflist) of the ADD
    #[arg(long, value_name = "FILE")]
    pub(super) cni_config: Option<PathBuf>,
    /// An address of the NIC's physical function, for match_master_subnet; repeatable
    #[arg(long, value_name = "ADDRESS")]
    pub(super) master: Vec<std::net::IpAddr>,
    /// The cluster's Spiderpool
    #[command(flatten)]
    pub(super) form: FormArgs,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ipam-sim explain --manifests scenarios/manifests --pod shop/reasons
  kubectl get ns,no,sp,sr,ss,deploy,rs,po -A -o yaml | ipam-sim explain --manifests - --pod a/b
  ipam-sim explain --manifests cluster.yaml --pod-file new.yaml --node n1 --format json
  kubectl get po,no,sp,se,sts -A -o yaml | ipam-sim explain --reclaim --manifests -

Exits 0 with an answer, also if the answer is that the pod gets no address; 2 on bad input.";

/// `namespace/name` of a pod; `default` if only the name is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodKey {
    /// Never empty; [`DEFAULT_NAMESPACE`] where the argument is a name alone.
    pub(super) namespace: String,
    /// As in `metadata.name`; never empty, and without a `/`.
    pub(super) name: String,
}

impl FromStr for PodKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) = text.split_once('/').unwrap_or((DEFAULT_NAMESPACE, text));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err("expected NS/NAME, e.g. default/web-0".to_owned());
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// Parses the name of a network interface, by the rules of Linux and CNI.
fn nic(text: &str) -> Result<String, String> {
    let fine = (1..16).contains(&text.len()) && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
    if fine { Ok(text.to_owned()) } else { Err("expected the name of an interface, e.g. eth0".to_owned()) }
}
