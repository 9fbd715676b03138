//! Metrics of calls for addresses and of their pools.

mod calls;
mod pool;

pub use pool::PoolMetrics;
