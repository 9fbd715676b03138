//! Bringing the list of available addresses in line with the configuration (B §4).

use super::decide::{Answer, Command, Recovered, Refusal};
use super::driver::{Budget, VmPool};
use super::error::{PoolError, ReadError};
use super::observer::Step;
use super::outcome::{Begun, Context, Effort, Outcome};
use super::owners::Owners;
use super::vm::VmAccess;
use kube_machinery::client::Client;
use kube_machinery::env::Env;

impl<C: Client, V: Env, M: VmAccess, O: Owners> VmPool<C, V, M, O> {
    /// Makes the list of available addresses match the configuration; run once when a process starts. No record is removed or changed; if
    /// there is no document, or one without records, it is made from the live owners.
    ///
    /// Upstream waits without a limit, whatever the `context`, and after any error of the first read writes a pool without allocations.
    ///
    /// # Errors
    /// The state, the owners or the node's name are unknown, or the write failed. Upstream logs the error, and the process goes on (B R5).
    pub async fn recover(&self, context: Context) -> Outcome<Recovered> {
        let mut effort = Effort::default();
        let policy = self.policy();
        let begun = self.recover_begun(&effort);
        let result = if policy.recover_decide_once || policy.reset_after_read_error {
            self.recover_as_upstream(&mut effort).await
        } else {
            let budget = self.budget(context);
            self.within(budget.deadline, self.recover_within(budget, &mut effort)).await
        };
        self.recover_ended(begun, false, &result, &effort);
        Outcome { result, effort }
    }

    /// Rebuilds a lost document from the live owners. `of_call` says whether an allocation or a release waits for this, and reports the
    /// effort as part of its own.
    pub(super) async fn rebuild(&self, of_call: bool, budget: Budget, effort: &mut Effort) -> Result<(), PoolError> {
        let begun = self.recover_begun(effort);
        let result = self.recover_within(budget, effort).await;
        self.recover_ended(begun, of_call, &result, effort);
        result.map(drop)
    }

    fn recover_begun(&self, effort: &Effort) -> Begun {
        self.owners.observe(Step::RecoverBegun);
        Begun { at: self.env.monotonic(), effort: *effort }
    }

    fn recover_ended(&self, begun: Begun, of_call: bool, result: &Result<Recovered, PoolError>, effort: &Effort) {
        let took = self.env.monotonic().saturating_sub(begun.at);
        let effort = &effort.since(&begun.effort);
        self.owners.observe(Step::RecoverEnded { result: result.as_ref(), effort, of_call, took });
    }

    async fn recover_within(&self, mut budget: Budget, effort: &mut Effort) -> Result<Recovered, PoolError> {
        loop {
            let guard = self.lock(effort).await;
            let mut snapshot = match self.read(&budget, effort).await {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    drop(guard);
                    self.pause(error, &mut budget, effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
                    continue;
                }
            };
            let mut decision = self.decide(&snapshot, Command::Recover { owners: None });
            if matches!(decision.answer, Err(Refusal::Missing | Refusal::NullMap)) {
                if snapshot.is_absent() {
                    // Nothing is written if the owners are unknown.
                    self.live_owners().await?;
                    // A create has no precondition. If it carried the document, a delayed create would bring back old owners after the
                    // ConfigMap was recreated, used, and deleted again.
                    match self.make_place(&budget, effort).await {
                        Ok(place) => snapshot = place,
                        Err(error) => {
                            drop(guard);
                            self.pause(error, &mut budget, effort).await.map_err(PoolError::Updating)?;
                            continue;
                        }
                    }
                }
                // The owners are listed after the read that found nothing, and written only if nothing was written there since.
                let owners = self.live_owners().await?;
                decision = self.decide(&snapshot, Command::Recover { owners: Some(&owners) });
            }
            let answer = recovered(decision.answer)?;
            let Some(document) = decision.write else { return Ok(answer) };
            match self.write(&snapshot, document.into(), &budget, effort).await {
                Ok(()) => return Ok(answer),
                Err(error) => {
                    drop(guard);
                    self.pause(error, &mut budget, effort).await.map_err(PoolError::Updating)?;
                }
            }
        }
    }

    /// The recovery of B §4.2, step by step.
    async fn recover_as_upstream(&self, effort: &mut Effort) -> Result<Recovered, PoolError> {
        let policy = *self.policy();
        let mut budget = self.endless();
        let guard = self.lock(effort).await;
        if self.settings.node.is_none() {
            return Err(PoolError::NoNodeName);
        }
        // B R2
        let first = match self.read(&budget, effort).await {
            Ok(snapshot) => self.readable(snapshot.found()).map(drop),
            Err(error) => Err(PoolError::Reading(ReadError::Api(error))),
        };
        if let Err(error) = first {
            let lost = matches!(error, PoolError::Reading(ReadError::Missing | ReadError::NullMap));
            if !policy.reset_after_read_error || lost {
                drop(guard);
                let budget = self.budget(Context::BACKGROUND);
                return self.within(budget.deadline, self.recover_within(budget, effort)).await;
            }
            let fresh = self.setting().fresh();
            let left = Recovered { own: 0, in_use: 0, available: fresh.available.len() };
            return self.overwrite(fresh, &mut budget, effort).await.map_err(PoolError::Updating).map(|()| left);
        }
        if !policy.recover_decide_once {
            drop(guard);
            let budget = self.budget(Context::BACKGROUND);
            return self.within(budget.deadline, self.recover_within(budget, effort)).await;
        }
        // B R4
        let snapshot = self.read(&budget, effort).await.map_err(|error| PoolError::Reading(ReadError::Api(error)))?;
        let decision = self.decide(&snapshot, Command::Recover { owners: None });
        let answer = recovered(decision.answer)?;
        if let Some(document) = decision.write {
            self.overwrite(document, &mut budget, effort).await.map_err(PoolError::Updating)?;
        }
        Ok(answer)
    }
}

fn recovered(answer: Result<Answer, Refusal>) -> Result<Recovered, PoolError> {
    match answer? {
        Answer::Recovered(recovered) => Ok(recovered),
        other => unreachable!("{other:?} is no answer to a recover"),
    }
}
