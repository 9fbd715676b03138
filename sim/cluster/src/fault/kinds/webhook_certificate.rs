//! Webhook servers whose certificate API servers reject.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Choice;
use sim_config::choice::Open;

use super::webhooks::Hit;
use crate::cluster::admission::{Certificate, HookFault, WebhookFailure};
use crate::cluster::{EPOCH, later};
use crate::fault::effect::{ActiveEffect, Inject, Injection};
use crate::fault::parameters::{parameters, resolves_to_itself, target};
use crate::fault::{Aim, Blocks, Drawn, Lasts, Subject, Target, Trigger, Wait};

parameters! {
    /// API servers do not accept the certificate of webhook servers; open connections stay in use.
    pub struct WebhookCertificate / WebhookCertificateDraft {
        /// Processes whose webhook servers have such a certificate, named by themselves or by their hosts; `*` is all that serve webhooks.
        process: Target = target("*"),
        /// The error of the certificate.
        problem: CertificateProblem = Choice::OneOf(vec![CertificateProblem::Expired, CertificateProblem::UnknownAuthority]),
    }
}

/// The error of a webhook server's certificate (K198).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateProblem {
    /// It has expired, by the clock of the API server, since the fault began.
    Expired,
    /// It was rotated, and the `caBundle` of the webhooks does not have its authority yet.
    UnknownAuthority,
}

impl Open for CertificateProblem {}

resolves_to_itself! {
    CertificateProblem: problem => [CertificateProblem::Expired].into_iter().filter(|simpler| simpler < problem).collect(),
}

impl Inject for WebhookCertificate {
    const EVENT: &'static str = "a certificate that was not renewed, or a rotation that is ahead of its `caBundle` (K §8.3, K198)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    const DRAWN: Drawn<Aim<WebhookCertificateDraft>> = Drawn::ByDefault(|targeting| {
        Some(WebhookCertificateDraft { process: targeting.webhooks_alike()?, ..WebhookCertificateDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::Admission
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let cluster = injection.cluster;
        let certificate = match self.problem {
            // The true time: servers whose clocks are behind go on accepting it.
            CertificateProblem::Expired => {
                let since = jiff::SignedDuration::from_micros(cluster.rt.now().as_micros().cast_signed());
                Certificate::Expired { at: later(EPOCH, since) }
            }
            CertificateProblem::UnknownAuthority => Certificate::UnknownAuthority,
        };
        let servers = self.process.side(&cluster.rt);
        vec![Hit(HookFault { fault: injection.index, servers, chance: 1.0, failure: WebhookFailure::Certificate(certificate) }).into()]
    }
}
