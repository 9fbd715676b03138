//! Names of Spiderpool's API group, finalizer, labels and annotations (A §1).

/// The API group of all of Spiderpool's kinds.
pub const GROUP: &str = "spiderpool.spidernet.io";
/// The only version, served and stored.
pub const VERSION: &str = "v2beta1";
/// The finalizer of SpiderIPPool, SpiderSubnet and SpiderEndpoint; equal to the group. SpiderReservedIP has none.
pub const FINALIZER: &str = GROUP;

/// On each pool, by the webhook: its subnet with `.`, `:` and `/` replaced by `-`.
pub const LABEL_IPPOOL_CIDR: &str = "ipam.spidernet.io/ippool-cidr";
/// On each subnet, by the webhook: its CIDR, written as in [`LABEL_IPPOOL_CIDR`].
pub const LABEL_SUBNET_CIDR: &str = "ipam.spidernet.io/subnet-cidr";
/// On a pool controlled by a subnet: the name of the subnet.
pub const LABEL_OWNER_SUBNET: &str = "ipam.spidernet.io/owner-spider-subnet";

/// On an auto pool: `group_version` of the workload, or `version` for the core group.
pub const LABEL_OWNER_APPLICATION_GV: &str = "ipam.spidernet.io/owner-application-gv";
/// On an auto pool: the kind of the workload.
pub const LABEL_OWNER_APPLICATION_KIND: &str = "ipam.spidernet.io/owner-application-kind";
/// On an auto pool: the namespace of the workload.
pub const LABEL_OWNER_APPLICATION_NAMESPACE: &str = "ipam.spidernet.io/owner-application-namespace";
/// On an auto pool: the name of the workload. A pool with this label *is* an auto pool.
pub const LABEL_OWNER_APPLICATION_NAME: &str = "ipam.spidernet.io/owner-application-name";
/// On an auto pool: the UID of the workload.
pub const LABEL_OWNER_APPLICATION_UID: &str = "ipam.spidernet.io/owner-application-uid";
/// On an auto pool: the NIC it serves.
pub const LABEL_INTERFACE: &str = "ipam.spidernet.io/interface";
/// On an auto pool: [`IP_VERSION_4`] or [`IP_VERSION_6`].
pub const LABEL_IP_VERSION: &str = "ipam.spidernet.io/ip-version";
/// A value of [`LABEL_IP_VERSION`].
pub const IP_VERSION_4: &str = "IPv4";
/// A value of [`LABEL_IP_VERSION`].
pub const IP_VERSION_6: &str = "IPv6";
/// On an auto pool: `true` if it is deleted with its workload, else `false`.
pub const LABEL_IPPOOL_RECLAIM: &str = ANNOTATION_IPPOOL_RECLAIM;

/// `matchLabels` of an auto pool's `podAffinity`: the API group of the workload.
pub const AFFINITY_APP_API_GROUP: &str = "ipam.spidernet.io/app-api-group";
/// `matchLabels` of an auto pool's `podAffinity`: the API version of the workload.
pub const AFFINITY_APP_API_VERSION: &str = "ipam.spidernet.io/app-api-version";
/// `matchLabels` of an auto pool's `podAffinity`: the kind of the workload.
pub const AFFINITY_APP_KIND: &str = "ipam.spidernet.io/app-kind";
/// `matchLabels` of an auto pool's `podAffinity`: the namespace of the workload.
pub const AFFINITY_APP_NAMESPACE: &str = "ipam.spidernet.io/app-namespace";
/// `matchLabels` of an auto pool's `podAffinity`: the name of the workload.
pub const AFFINITY_APP_NAME: &str = "ipam.spidernet.io/app-name";
/// The exact set of keys of an auto pool's `podAffinity`.
pub const AFFINITY_APP: [&str; 5] =
    [AFFINITY_APP_API_GROUP, AFFINITY_APP_API_VERSION, AFFINITY_APP_KIND, AFFINITY_APP_NAMESPACE, AFFINITY_APP_NAME];

/// On a pod, tier 1: `[{"interface":"eth0","ipv4":["s4"],"ipv6":["s6"]}]`.
pub const ANNOTATION_SUBNETS: &str = "ipam.spidernet.io/subnets";
/// On a pod, tier 1: one element of [`ANNOTATION_SUBNETS`]; the interface is `eth0` if absent.
pub const ANNOTATION_SUBNET: &str = "ipam.spidernet.io/subnet";
/// On a pod or an auto pool: the number of addresses of the auto pool (`"5"`), or the number beyond that of pods (`"+2"`).
pub const ANNOTATION_IPPOOL_IP_NUMBER: &str = "ipam.spidernet.io/ippool-ip-number";
/// On a pod: `true` if its auto pool is deleted with the workload, as Go writes a bool; true if absent.
pub const ANNOTATION_IPPOOL_RECLAIM: &str = "ipam.spidernet.io/ippool-reclaim";
/// On a pod, tier 2: `[{"interface":"eth0","ipv4":["p4"],"ipv6":["p6"],"cleangateway":false}]`.
pub const ANNOTATION_IPPOOLS: &str = "ipam.spidernet.io/ippools";
/// On a pod, tier 3: `{"ipv4":["p4a","p4*"],"ipv6":["p6"]}`.
pub const ANNOTATION_IPPOOL: &str = "ipam.spidernet.io/ippool";
/// On a pod: `[{"dst":"10.0.0.0/16","gw":"10.1.0.1"}]`.
pub const ANNOTATION_ROUTES: &str = "ipam.spidernet.io/routes";
/// On a namespace, tier 4: a JSON array of pools, wildcards allowed.
pub const ANNOTATION_DEFAULT_IPV4_IPPOOL: &str = "ipam.spidernet.io/default-ipv4-ippool";
/// On a namespace, tier 4: a JSON array of pools, wildcards allowed.
pub const ANNOTATION_DEFAULT_IPV6_IPPOOL: &str = "ipam.spidernet.io/default-ipv6-ippool";
/// The outdated name of [`ANNOTATION_DEFAULT_IPV4_IPPOOL`]; the hardened form still reads it.
pub const ANNOTATION_DEFAULT_IPV4_IPPOOL_OUTDATED: &str = "ipam.spidernet.io/defaultv4ippool";
/// The outdated name of [`ANNOTATION_DEFAULT_IPV6_IPPOOL`]; the hardened form still reads it.
pub const ANNOTATION_DEFAULT_IPV6_IPPOOL_OUTDATED: &str = "ipam.spidernet.io/defaultv6ippool";

/// On an endpoint: the sandbox that was answered last, as long as it is not torn down. A DEL of another sandbox, which may come any number
/// of times and also after the ADD of its successor, then releases nothing (K §5.4, K131). Upstream has no such key.
pub const ANNOTATION_SANDBOX: &str = "ipam.spidernet.io/sandbox";
/// On an endpoint: the sandboxes that [`ANNOTATION_SANDBOX`] named before and that are not known to be torn down, separated by commas,
/// newest first. They answer on the same addresses, which are therefore released with the last of them (K §5.1, §5.3). Upstream has no such
/// key.
pub const ANNOTATION_REPLACED_SANDBOXES: &str = "ipam.spidernet.io/replaced-sandboxes";

/// On a pod: the Multus network of its first NIC.
pub const ANNOTATION_MULTUS_DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// On a pod: the Multus networks of its further NICs, JSON or a list of `namespace/name@interface`.
pub const ANNOTATION_MULTUS_NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
