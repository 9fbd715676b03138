//! Errors of ranges and CIDRs, and of the fields that refer to them.

use thiserror::Error;

use super::IpVersion;

/// The reason why a text is refused. If it matters to a user the message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// An IP version that is neither 4 nor 6.
    #[error("IP version {0}: must be 4 or 6")]
    Version(i64),
    /// `spec.ipVersion` is absent, so that the family of the texts is unknown.
    #[error("the IP version is not set; it must be 4 or 6")]
    NoVersion,
    /// The text is no address.
    #[error("`{0}` is no IP address")]
    Address(String),
    /// An end of a range is no address.
    #[error("range `{text}`: `{end}` is no IP address")]
    End {
        /// The whole range, as written.
        text: String,
        /// The end that is no address, as written.
        end: String,
    },
    /// An address or a CIDR of the other family.
    #[error("`{text}` is not of {version}")]
    Family {
        /// The address or the CIDR, as written.
        text: String,
        /// The family that is required.
        version: IpVersion,
    },
    /// The range has more than two ends.
    #[error("range `{0}`: must be one address, or the first and the last with one `-` between them")]
    Ends(String),
    /// One end is IPv4, the other IPv6.
    #[error("range `{0}`: the ends are of different families")]
    Mixed(String),
    /// The first address is above the last.
    #[error("range `{0}`: the first address is above the last; swap them")]
    Reversed(String),
    /// Upstream only: its code would expand the range endlessly.
    #[error("range `{0}`: upstream never finishes to expand it")]
    Endless(String),
    /// The text is no CIDR.
    #[error("`{0}` is no CIDR")]
    Cidr(String),
    /// An IPv4-mapped address with fewer than 96 bits of prefix.
    #[error("CIDR `{0}`: an IPv4-mapped address with a prefix below 96 is of neither family; write an IPv4 CIDR")]
    HalfMapped(String),
    /// An end of a range, a gateway or a next hop outside the CIDR.
    #[error("`{text}` is outside of {cidr}")]
    Outside {
        /// The address that is outside, as written.
        text: String,
        /// The CIDR of the pool or subnet, as parsed.
        cidr: String,
    },
    /// Two entries of one list share addresses.
    #[error("range `{text}` shares addresses with `{other}`; write each address once")]
    Overlap {
        /// The later entry, as written.
        text: String,
        /// The earlier entry, as written.
        other: String,
    },
    /// The gateway is one of the addresses.
    #[error("gateway `{gateway}` is in the range `{range}`; exclude it")]
    Gateway {
        /// The gateway, as written.
        gateway: String,
        /// The entry of `ips`.
        range: String,
    },
}

impl RangeError {
    /// The same error for an end of the range `text`.
    pub(super) fn of_end(self, text: &str) -> Self {
        match self {
            Self::Address(end) if end != text => Self::End { text: text.to_owned(), end },
            error => error,
        }
    }
}
