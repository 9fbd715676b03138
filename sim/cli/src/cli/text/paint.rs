//! Colour as a stream can show it.

use anstream::AutoStream;
use anstream::stream::RawStream;
use clap::ColorChoice;
use sim_harness::text::Paint;

/// Colour as it is `wanted`. By itself a stream has it if it is a terminal that can show it; the environment may refuse it (`NO_COLOR`,
/// see no-color.org) or insist on it (`CLICOLOR_FORCE`, see bixense.com/clicolors).
pub(in crate::cli) fn choose(wanted: ColorChoice, stream: &impl RawStream) -> Paint {
    let on = match wanted {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => AutoStream::choice(stream) != anstream::ColorChoice::Never,
    };
    if on { Paint::COLOURED } else { Paint::PLAIN }
}
