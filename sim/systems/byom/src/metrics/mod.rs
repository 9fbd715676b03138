//! What calls for addresses met in the pool.

mod calls;
mod pool;

pub use pool::PoolMetrics;
