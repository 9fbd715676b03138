//! Colour, if it is on.

use clap::builder::styling::{AnsiColor, Style};

/// A setting for colour, and the few colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Leaves every text unchanged: for pipes, files and users that asked for no colour.
    pub const PLAIN: Paint = Paint { on: false };

    /// Colour, whatever the stream.
    pub const COLOURED: Paint = Paint { on: true };

    /// Whether there is colour.
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// Green: all is well.
    pub fn good(self, text: &str) -> String {
        self.style(AnsiColor::Green.on_default(), text)
    }

    /// Bold red: a failure, or the `error:` before a message.
    pub fn bad(self, text: &str) -> String {
        self.style(AnsiColor::Red.on_default().bold(), text)
    }

    /// Bold yellow: a remark that deserves a look.
    pub fn warn(self, text: &str) -> String {
        self.style(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// Bold: a title, a name, or a command to copy.
    pub fn bold(self, text: &str) -> String {
        self.style(Style::new().bold(), text)
    }

    /// Dim: less important text.
    pub fn dim(self, text: &str) -> String {
        self.style(Style::new().dimmed(), text)
    }

    fn style(self, style: Style, text: &str) -> String {
        if self.on && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
