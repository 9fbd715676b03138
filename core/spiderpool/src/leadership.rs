//! The process's own view of whether it leads, shared between an election and the work that depends on it.

use std::sync::Arc;

use kube_machinery::latest;

/// The sender of leadership changes. Dropping it freezes the last value.
#[derive(Debug)]
pub struct LeadershipTeller {
    sender: latest::Sender<Standing>,
}

/// The current leadership, and the number of the term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Standing {
    leads: bool,
    term: u64,
}

/// The receiver of leadership changes. Clones see the same value.
///
/// It is a belief, as every leader's is ([`kube_machinery::leader`]).
#[derive(Clone, Debug)]
pub struct Leadership {
    standing: latest::Receiver<Standing>,
    /// Keeps the teller alive if it will never say anything more.
    _always: Option<Arc<LeadershipTeller>>,
}

impl LeadershipTeller {
    /// The two ends for a process that does not lead yet.
    pub fn new() -> (Self, Leadership) {
        let (sender, standing) = latest::channel(Standing::default());
        (Self { sender }, Leadership { standing, _always: None })
    }

    /// Reports that leadership was gained: a new term begins, unless the process leads already.
    pub fn gained(&self) {
        let Standing { leads, term } = self.sender.get();
        if !leads {
            self.sender.send_replace(Standing { leads: true, term: term + 1 });
        }
    }

    /// Reports that leadership was lost. The term stays the same.
    pub fn lost(&self) {
        let standing = self.sender.get();
        self.sender.set(Standing { leads: false, ..standing });
    }
}

impl Leadership {
    /// The leadership of a process without an election, which always leads.
    pub fn always() -> Self {
        let (teller, leadership) = LeadershipTeller::new();
        teller.gained();
        Self { _always: Some(Arc::new(teller)), ..leadership }
    }

    /// Whether this process leads.
    pub fn is_leading(&self) -> bool {
        self.standing.get().leads
    }

    /// The number of times that leadership was gained. Work of one term must not continue in the next.
    pub fn term(&self) -> u64 {
        self.standing.get().term
    }

    /// Whether this process leads in this very term.
    pub fn leads_in(&self, term: u64) -> bool {
        let standing = self.standing.get();
        standing.leads && standing.term == term
    }

    /// Completes with the term when this process leads.
    pub async fn gained(&self) -> u64 {
        match self.standing.clone().wait_for(|standing| standing.leads).await {
            Ok(standing) => standing.term,
            Err(latest::Closed) => std::future::pending().await,
        }
    }

    /// Completes when this process no longer leads in that term.
    pub async fn lost(&self, term: u64) {
        if self.standing.clone().wait_for(|standing| !standing.leads || standing.term != term).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gain_is_a_term_of_its_own() {
        let (teller, leadership) = LeadershipTeller::new();
        assert!(!leadership.is_leading());
        teller.gained();
        let first = leadership.term();
        assert!(leadership.leads_in(first));
        teller.lost();
        assert!(!leadership.leads_in(first) && !leadership.is_leading());
        teller.gained();
        assert!(!leadership.leads_in(first) && leadership.is_leading());
        assert!(Leadership::always().clone().is_leading());
    }
}
