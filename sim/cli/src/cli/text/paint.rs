//! Colour, if there is any.

use std::ffi::OsStr;

use clap::builder::styling::{AnsiColor, Style};

/// Whether to colour text, and the few colours there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// No colour.
    pub const PLAIN: Paint = Paint { on: false };

    /// Colour on a terminal that can show it, unless `NO_COLOR` is set and not empty (see no-color.org).
    pub fn choose(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty()) || term.is_some_and(|term| term == "dumb");
        Self { on: is_terminal && !refused }
    }

    /// Whether there is colour.
    pub const fn is_on(self) -> bool {
        self.on
    }

    /// Good news.
    pub(super) fn good(self, text: &str) -> String {
        self.style(AnsiColor::Green.on_default(), text)
    }

    /// Bad news.
    pub(crate) fn bad(self, text: &str) -> String {
        self.style(AnsiColor::Red.on_default().bold(), text)
    }

    /// News that asks for a look.
    pub(crate) fn warn(self, text: &str) -> String {
        self.style(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// A heading.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let choose = |terminal, no_color: Option<&str>, term: Option<&str>| {
            Paint::choose(terminal, no_color.map(OsStr::new), term.map(OsStr::new)).is_on()
        };
        assert!(choose(true, None, Some("xterm")));
        assert!(choose(true, Some(""), None));
        assert!(!choose(true, Some("1"), Some("xterm")));
        assert!(!choose(true, None, Some("dumb")));
        assert!(!choose(false, None, Some("xterm")));
    }
}
