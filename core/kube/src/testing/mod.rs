//! A virtual clock, an executor, a scripted API server and one with objects, for unit tests of code that uses this package.
//!
//! No test waits for time to pass: [`TestEnv`] moves its clock to the next timer as soon as nothing else can run.
//!
//! ```
//! use std::time::Duration;
//!
//! use kube_machinery::Env;
//! use kube_machinery::testing::TestEnv;
//!
//! let env = TestEnv::new();
//! env.block_on(env.sleep(Duration::from_secs(3600)));
//! assert_eq!(env.monotonic(), Duration::from_secs(3600));
//! ```

mod client;
mod env;
mod objects;
mod watch;

pub use client::{Answer, TestClient};
pub use env::{TestEnv, TestTask};
pub use objects::Objects;
pub use watch::{Events, Feed, TestWatch};
