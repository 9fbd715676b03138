//! Upstream's ways with addresses: as the text that they are (`byom-textual-addresses`), and whether or not they are configured
//! (`byom-foreign-address-returned`).

use super::address::Address;
use super::decide::Setting;

impl Setting<'_> {
    /// Whether the pool may give an address away: it is configured, or nobody asks.
    pub(super) fn may_offer(self, address: &Address) -> bool {
        self.policy.foreign_address_returned || self.config.contains(address.key())
    }

    /// A released address that is not configured: it is not offered again, but for upstream.
    pub(super) fn offered_unconfigured(self, released: &Address) -> Option<Address> {
        if self.policy.foreign_address_returned { released.canonical() } else { None }
    }

    /// A released address as it was recorded, if the configuration spells it so; it is offered again even if it is offered already, or
    /// recorded for somebody else.
    pub(super) fn offered_as_text(self, released: &Address) -> Option<Address> {
        let configured = || self.config.get(released.key()).is_some_and(|address| address.text() == released.text());
        (self.policy.foreign_address_returned || configured()).then(|| released.clone())
    }
}
