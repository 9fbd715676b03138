//! Spiderpool's webhooks for the verb `check`.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use ipam_spiderpool::Policy;
use ipam_spiderpool::admission::AdmissionSettings;
use sim_config::Problems;
use sim_config::manifest::Manifest;
use sim_harness::engine::Error;
use sim_harness::webhook::{Judge, Judged, Webhooks};

use super::admission::{Admission, in_order, settings_of};
use super::form::FormArgs;
use crate::Spiderpool;

impl Webhooks for Spiderpool {
    fn args(&self, command: Command) -> Command {
        FormArgs::augment_args(command)
    }

    fn examples(&self) -> &'static [&'static str] {
        &["kubectl get ss,sp,sr -o yaml | ipam-sim check -", "ipam-sim check manifests --settings spiderpool-conf.yaml --profile upstream"]
    }

    fn note(&self) -> &'static str {
        "Settings and form are for the pools, subnets and reservations of manifests."
    }

    fn set_up(&self, args: &ArgMatches) -> Result<Box<dyn Judge>, Error> {
        let form = FormArgs::from_arg_matches(args).map_err(|error| Error::usage(error.to_string()))?;
        let policy = form.policy()?;
        let mut problems = Problems::new();
        let settings = settings_of(&form.settings(&mut problems).select);
        problems.or(Box::new(SetUp { settings, policy }) as Box<dyn Judge>).map_err(Error::from)
    }
}

/// The webhooks of one form of Spiderpool, with their settings.
struct SetUp {
    settings: AdmissionSettings,
    policy: Policy,
}

impl Judge for SetUp {
    fn judge<'a>(&self, cluster: &'a [Manifest]) -> Vec<Judged<'a>> {
        let mut admission = Admission::new(self.settings, &self.policy);
        in_order(cluster).into_iter().map(|manifest| Judged { manifest, broken: admission.create(manifest) }).collect()
    }
}
