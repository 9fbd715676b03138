//! Addresses of pools: texts of ranges and CIDRs, sets of addresses, and the choice of a free one (A §1.6, §5.4).
//!
//! Pure values for selection, allocation, admission and the cutting of subnets. A range is two numbers and a set is a list of ranges, so
//! `::/0` costs as much as one address; nothing here walks through addresses unless a caller iterates.
//!
//! Each parser has two forms. The hardened one has one rule: an address is identified by its number (an IPv4-mapped address *is* its IPv4
//! address), a range has its lower end first, and anything else is a [`RangeError`]. With `upstream-ranges`
//! ([`Policy::upstream_ranges`](super::Policy)) texts mean what they mean to upstream's code, and where upstream would never return the
//! error is [`RangeError::Endless`].

mod checked;
mod cidr;
mod error;
mod intervals;
mod lists;
mod pool;
mod range;
mod route;
mod set;
mod text;
mod version;

pub use checked::{CheckedRange, CheckedRanges};
pub use cidr::{Cidr, cidr_label};
pub use error::RangeError;
pub use intervals::Intervals;
pub use lists::{diff_sorted, merge_ranges, parse_ranges, range_contains, ranges_overlap, reserved_ips, subtract, total_ips};
pub use pool::{PoolAddresses, Shortage, bad_entries};
pub use range::IpRange;
pub use route::{check_gateway, check_route, check_route_of_any_version};
pub use set::IpSet;
pub use text::{check_range, parse_ip, parse_range};
pub use version::IpVersion;
