//! Colour, if there is any.

use anstream::AutoStream;
use anstream::stream::RawStream;
use clap::ColorChoice;
use clap::builder::styling::{AnsiColor, Style};

/// Whether to colour text, and the few colours there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Leaves every text as it is: for pipes, files and whoever asked for no colour.
    pub const PLAIN: Paint = Paint { on: false };

    /// Colour, whatever the stream.
    #[cfg(test)]
    pub(crate) const COLOURED: Paint = Paint { on: true };

    /// Colour as it is `wanted`. By itself a stream has it if it is a terminal that can show it; the environment may refuse it (`NO_COLOR`,
    /// see no-color.org) or insist on it (`CLICOLOR_FORCE`, see bixense.com/clicolors).
    pub fn choose(wanted: ColorChoice, stream: &impl RawStream) -> Self {
        let on = match wanted {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => AutoStream::choice(stream) != anstream::ColorChoice::Never,
        };
        Self { on }
    }

    /// Whether there is colour.
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// Green: it is as it should be.
    pub(super) fn good(self, text: &str) -> String {
        self.style(AnsiColor::Green.on_default(), text)
    }

    /// Bold red: a failure, or the `error:` before a message.
    pub(crate) fn bad(self, text: &str) -> String {
        self.style(AnsiColor::Red.on_default().bold(), text)
    }

    /// News that asks for a look.
    pub(crate) fn warn(self, text: &str) -> String {
        self.style(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// Bold: a title, a name, or a command to copy.
    pub(super) fn bold(self, text: &str) -> String {
        self.style(Style::new().bold(), text)
    }

    /// What the eye may skip.
    pub(super) fn dim(self, text: &str) -> String {
        self.style(Style::new().dimmed(), text)
    }

    fn style(self, style: Style, text: &str) -> String {
        if self.on && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
