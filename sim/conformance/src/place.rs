//! Places in the record of a case.

use crate::glob::Glob;

/// Places `STEP:PATH` in the record of a case: a step, counted from 1, or `*` for any; and a path with the wildcards of a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The text as it was written.
    pub text: String,
    /// The step; `None` = any.
    pub step: Option<usize>,
    path: Glob,
    below: Glob,
}

impl Place {
    /// Reads `STEP:PATH` from a text.
    ///
    /// # Errors
    ///
    /// Returns the problem of the text.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no place; expected STEP:PATH, e.g. 3:body.message or *:headers.*");
        let (step, path) = text.split_once(':').ok_or_else(wrong)?;
        let step = if step == "*" { None } else { Some(step.parse().map_err(|_| wrong())?) };
        Ok(Self { text: text.to_owned(), step, path: Glob::new(path), below: Glob::new(&format!("{path}.*")) })
    }

    /// Whether the place covers a path of a step, or something above it.
    pub fn covers(&self, step: usize, path: &str) -> bool {
        self.step.is_none_or(|own| own == step) && (self.path.matches(path) || self.below.matches(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_covers_what_is_below_it() {
        let place = Place::read("3:body.status").unwrap();
        assert!(place.covers(3, "body.status") && place.covers(3, "body.status.phase"));
        assert!(!place.covers(2, "body.status") && !place.covers(3, "body.statuses") && !place.covers(3, "body"));
        assert!(Place::read("*:").unwrap().covers(7, ""));
        assert!(Place::read("*:body.*.uid").unwrap().covers(1, "body.items.0.uid.x"));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for wrong in ["body", "x:body", "", "-1:body"] {
            assert!(Place::read(wrong).unwrap_err().contains("expected STEP:PATH"), "{wrong}");
        }
    }
}
