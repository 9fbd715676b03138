//! The cluster's settings that admission uses (A §10).

/// Settings under the names of the ConfigMap `spiderpool-conf`; the defaults are those of A §10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// `enableIPv4`: IPv4 objects are permitted.
    pub enable_ipv4: bool,
    /// `enableIPv6`: IPv6 objects are permitted.
    pub enable_ipv6: bool,
    /// `enableSpiderSubnet`: pools belong to the subnet of their CIDR.
    pub enable_spider_subnet: bool,
    /// `enableValidatingResourcesDeletedWebhook`: pools and subnets in use may not be deleted.
    pub enable_delete_check: bool,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        Self { enable_ipv4: true, enable_ipv6: true, enable_spider_subnet: true, enable_delete_check: false }
    }
}
