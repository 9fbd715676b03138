//! The settings of a run: those at the start, and those that operators change later.

use std::collections::BTreeMap;

use sim_config::Choice;
use sim_config::draw::Draw;

use super::super::ops::SetSettings;
use super::SpiderDraft;
use super::operations::Drawn;
use crate::Operation;

impl SpiderDraft {
    /// The settings of a run. Nothing is drawn for a fixed setting, so that other draws stay the same.
    pub(super) fn drawn_settings(&self, draw: &mut Draw) -> BTreeMap<String, String> {
        let value = |choice: &Choice<String>, draw: &mut Draw| match choice {
            Choice::Is(value) => value.clone(),
            choice => choice.draw(draw),
        };
        self.settings.iter().map(|(name, choice)| (name.clone(), value(choice, draw))).collect()
    }
}

impl Drawn<'_> {
    /// Adds an operation that draws the open settings anew, and rolls them out.
    pub(super) fn settings_change(&mut self, draw: &mut Draw) {
        let (at, every) = (self.draft.events.draw(draw).0, self.draft.settings_every.draw(draw));
        let open = self.draft.settings.iter().filter(|(_, choice)| !matches!(choice, Choice::Is(_)));
        let settings = open.map(|(name, choice)| (name.clone(), choice.draw(draw))).collect();
        self.add(at, Operation::SetSettings(SetSettings { settings, every: Some(every) }));
    }
}
