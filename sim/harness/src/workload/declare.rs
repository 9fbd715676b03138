//! The workloads and operations that a system adds to files.

use schemars::JsonSchema;
use sim_config::kinds::OpenKinds;

use super::{DraftKinds, Workload, WorkloadDraft, WorkloadPlan};
use crate::operation::{OpKind, Operation};

/// The kinds of workloads and operations of a system, for [`System`](crate::system::System).
pub struct WorkloadKinds {
    /// Workloads in scenario files.
    pub drafts: OpenKinds<WorkloadDraft>,
    /// The same kinds in plans, where every value is drawn.
    pub plans: OpenKinds<WorkloadPlan>,
    /// The operations of actors.
    pub operations: OpenKinds<OpKind>,
}

impl WorkloadKinds {
    /// The kinds that [`workloads!`](crate::workloads) and [`kinds!`](macro@sim_config::kinds) have declared.
    pub fn of<D: DraftKinds + JsonSchema, P: Workload + JsonSchema, O: Operation + JsonSchema>() -> Self {
        Self { drafts: OpenKinds::of::<D>(), plans: OpenKinds::of::<P>(), operations: OpenKinds::of::<O>() }
    }
}

/// Declares the workloads of a system, each with its name in files, its [`Draft`](crate::workload::Draft) and its
/// [`Work`](crate::workload::Work): the enums `Drafts` and `Plans`, and the conversions of each draft and plan to the types of the harness.
///
/// ```text
/// workloads! {
///     /// Clients that increment a number.
///     "counter" => Counter(CounterDraft, CounterPlan),
/// }
/// ```
#[macro_export]
macro_rules! workloads {
    ($( $(#[$doc:meta])* $name:literal => $Variant:ident($Draft:ty, $Plan:ty) ),+ $(,)?) => {
        $crate::workload::kinds! {
            /// The workloads of plans.
            pub enum Plans {
                $( $(#[$doc])* $name => $Variant(Box<$Plan>) ),+
            }
        }

        $crate::workload::kinds! {
            /// The workloads of scenarios.
            pub enum Drafts {
                $( $(#[$doc])* $name => $Variant(Box<$Draft>) ),+
            }
        }

        $(
            impl From<$Plan> for $crate::workload::WorkloadPlan {
                fn from(plan: $Plan) -> Self {
                    Self::new(Plans::$Variant(Box::new(plan)))
                }
            }

            impl From<$Draft> for $crate::workload::WorkloadDraft {
                fn from(draft: $Draft) -> Self {
                    Self::new(Drafts::$Variant(Box::new(draft)))
                }
            }
        )+

        impl $crate::workload::Workload for Plans {
            fn work(&self) -> &dyn $crate::workload::Work {
                match self {
                    $( Self::$Variant(plan) => &**plan ),+
                }
            }
        }

        impl $crate::workload::DraftKinds for Drafts {
            fn draft(&self) -> &dyn $crate::workload::AnyDraft {
                match self {
                    $( Self::$Variant(draft) => &**draft ),+
                }
            }

            fn draft_mut(&mut self) -> &mut dyn $crate::workload::AnyDraft {
                match self {
                    $( Self::$Variant(draft) => &mut **draft ),+
                }
            }
        }
    };
}
