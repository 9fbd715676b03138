//! Colour, as far as a stream supports it.

use anstream::AutoStream;
use anstream::stream::RawStream;
use clap::ColorChoice;
use sim_harness::text::Paint;

/// The colour setting that results from `wanted`. By default a stream is coloured if it is a terminal that supports colour; the environment
/// may disable it (`NO_COLOR`, see no-color.org) or force it (`CLICOLOR_FORCE`, see bixense.com/clicolors).
pub(in crate::cli) fn choose(wanted: ColorChoice, stream: &impl RawStream) -> Paint {
    let on = match wanted {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => AutoStream::choice(stream) != anstream::ColorChoice::Never,
    };
    if on { Paint::COLOURED } else { Paint::PLAIN }
}
