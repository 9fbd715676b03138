//! Hardened processes under many faults at once, checked against a ledger of the addresses that each sandbox was given.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The addresses that the running sandboxes were given.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<String, Arc<str>>>>);

impl Ledger {
    fn grant(&self, instance: &Instance) {
        let before = self.0.lock().unwrap().insert(instance.address.to_string(), instance.allocation_id.clone());
        assert_eq!(before, None, "{} is granted twice (B I1)", instance.address);
    }

    fn give_up(&self, instance: &Instance) {
        let before = self.0.lock().unwrap().remove(instance.address.text());
        assert_eq!(before.as_ref(), Some(&instance.allocation_id));
    }

    /// B I6: every grant is in the document.
    fn check(&self, document: &PoolDocument) {
        for (address, id) in &*self.0.lock().unwrap() {
            let record = document.allocated.get(id).unwrap_or_else(|| panic!("the record of {id} is lost (B I6)"));
            assert_eq!(record.ip.text(), address);
        }
        let mut seen = BTreeSet::new();
        let recorded = document.allocated.iter().map(|(_, record)| record.ip.text());
        assert!(
            document.available.iter().map(Address::text).chain(recorded).all(|text| seen.insert(text)),
            "an address stands twice (B I2)"
        );
    }
}

/// Requests fail, are not carried out or lose their answer, drawn by a separate generator.
fn storm(bed: &Bed, ledger: &Ledger, seed: u64) {
    let (mut state, ledger) = (seed, ledger.clone());
    bed.script(move |letter, store| {
        if letter == "G" && store.object().is_some() {
            ledger.check(&store.document());
        }
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        match (state >> 33) % 20 {
            0 => Act::Fail(Status::new(Reason::InternalError, "").into()),
            1 => Act::Fail(TransportError::Reset.into()),
            2 | 3 => Act::LoseReply,
            4 => {
                store.touch();
                Act::Serve
            }
            _ => Act::Serve,
        }
    });
}

#[test]
fn no_fault_grants_an_address_twice_or_loses_a_record() {
    for seed in 0..40 {
        let mut bed = Bed::recovered(Policy::hardened(), &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
        bed.server.read = Duration::from_millis(4);
        bed.server.write = Duration::from_millis(10);
        let ledger = Ledger::default();
        storm(&bed, &ledger, seed);
        for process in 0..4 {
            let (pool, ledger, env) = (bed.process(), ledger.clone(), bed.env.clone());
            bed.env.spawn(async move {
                for round in 0..4 {
                    let id = allocation_id(&format!("pod-{process}"), &format!("sandbox-{round}"));
                    let data: Arc<str> = "data".into();
                    let outcome = pool.create_instance(&id, &pod(&id), &data, Context::BACKGROUND).await;
                    let instance = match outcome.result {
                        Ok(instance) => instance,
                        // It is unknown whether the ID holds an address: it is deleted all the same.
                        Err(_) => Instance { address: Address::new(""), allocation_id: id.clone() },
                    };
                    let told = !instance.address.text().is_empty();
                    if told {
                        ledger.grant(&instance);
                    }
                    env.sleep(Duration::from_millis(100 * round)).await;
                    if told {
                        ledger.give_up(&instance);
                    }
                    while pool.delete_instance(Some(&instance), Releaser::Stop, Context::BACKGROUND).await.result.is_err() {}
                }
            });
        }
        bed.env.advance(Duration::from_secs(3600));
        assert_eq!(bed.env.tasks_alive(), 0, "seed {seed}: every process comes to its end (B I14)");
        assert_eq!((bed.holders().len(), bed.document().available.len()), (0, 4), "seed {seed}: nothing leaks (B I9)");
    }
}
