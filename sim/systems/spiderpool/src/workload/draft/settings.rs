//! Settings of a run: those of the beginning, and those that operators change while it goes on.

use std::collections::BTreeMap;

use sim_config::Choice;
use sim_config::draw::Draw;

use super::super::ops::SetSettings;
use super::SpiderDraft;
use super::operations::Drawn;
use crate::Operation;

impl SpiderDraft {
    /// The settings of a run. What is not left open takes no number, so that it changes nothing else.
    pub(super) fn drawn_settings(&self, draw: &mut Draw) -> BTreeMap<String, String> {
        let value = |choice: &Choice<String>, draw: &mut Draw| match choice {
            Choice::Is(value) => value.clone(),
            choice => choice.draw(draw),
        };
        self.settings.iter().map(|(name, choice)| (name.clone(), value(choice, draw))).collect()
    }
}

impl Drawn<'_> {
    /// The operator draws the settings anew that are left open, and rolls them out.
    pub(super) fn settings_change(&mut self, draw: &mut Draw) {
        let (at, every) = (self.draft.events.draw(draw).0, self.draft.settings_every.draw(draw));
        let open = self.draft.settings.iter().filter(|(_, choice)| !matches!(choice, Choice::Is(_)));
        let settings = open.map(|(name, choice)| (name.clone(), choice.draw(draw))).collect();
        self.add(at, Operation::SetSettings(SetSettings { settings, every: Some(every) }));
    }
}
