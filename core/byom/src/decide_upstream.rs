//! Upstream's treatment of addresses: compared as text (`byom-textual-addresses`), and returned to the pool whether or not they are
//! configured (`byom-foreign-address-returned`).

use super::address::Address;
use super::decide::Setting;

impl Setting<'_> {
    /// Whether the pool may give an address away: it is configured, or the policy does not check that.
    pub(super) fn may_offer(self, address: &Address) -> bool {
        self.policy.foreign_address_returned || self.config.contains(address.key())
    }

    /// The spelling in which a released address that is not configured is offered again: none, except upstream.
    pub(super) fn offered_unconfigured(self, released: &Address) -> Option<Address> {
        if self.policy.foreign_address_returned { released.canonical() } else { None }
    }

    /// A released address as it was recorded, if the configuration spells it the same; it is offered again even if it is available already,
    /// or recorded for another allocation.
    pub(super) fn offered_as_text(self, released: &Address) -> Option<Address> {
        let configured = || self.config.get(released.key()).is_some_and(|address| address.text() == released.text());
        (self.policy.foreign_address_returned || configured()).then(|| released.clone())
    }
}
