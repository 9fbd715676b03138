//! Runs the program within the process of a test.

use std::ffi::OsString;

use ipam_sim::cli::{Console, Simulator, dispatch};

/// Exit code, standard output and standard error of `ipam-sim` with these arguments.
pub(crate) fn ipam_sim(args: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = std::iter::once("ipam-sim").chain(args.iter().copied()).map(OsString::from);
    let code = dispatch(args, &Simulator, &mut Console::plain(&mut out, &mut err));
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}
