//! Colour, if there is any.

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
    pub const COLOURED: Paint = Paint { on: true };

    /// Whether there is colour.
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// Green: it is as it should be.
    pub fn good(self, text: &str) -> String {
        self.style(AnsiColor::Green.on_default(), text)
    }

    /// Bold red: a failure, or the `error:` before a message.
    pub fn bad(self, text: &str) -> String {
        self.style(AnsiColor::Red.on_default().bold(), text)
    }

    /// News that asks for a look.
    pub fn warn(self, text: &str) -> String {
        self.style(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// Bold: a title, a name, or a command to copy.
    pub fn bold(self, text: &str) -> String {
        self.style(Style::new().bold(), text)
    }

    /// What the eye may skip.
    pub fn dim(self, text: &str) -> String {
        self.style(Style::new().dimmed(), text)
    }

    fn style(self, style: Style, text: &str) -> String {
        if self.on && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}
