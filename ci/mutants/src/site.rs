//! A place in the sources, and the small mistake that can be made there.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};

/// One mutant: a change of one expression or statement. In [`crate::instrument`]'s copy it is active at run time if it is the chosen one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Site {
    /// The file, from the root of the repository.
    pub(crate) file: String,
    /// The line where the expression or statement begins.
    pub(crate) line: usize,
    /// The function or method that holds it.
    pub(crate) function: String,
    /// The original code, on one line, cut after 80 characters.
    pub(crate) code: String,
    /// The code of the mutant.
    pub(crate) instead: String,
    /// The number of equal mutants before this one in the function.
    pub(crate) repeated: usize,
}

impl Site {
    /// A number that stays the same while the function does, wherever it moves in its file. A sample of the sites with the smallest numbers
    /// therefore stays the same, except for edited functions.
    pub(crate) fn rank(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (&self.file, &self.function, &self.code, &self.instead, self.repeated).hash(&mut hasher);
        hasher.finish()
    }

    /// The module in reports: package, and folder or file in it.
    pub(crate) fn module(&self) -> String {
        let mut parts = self.file.split('/').filter(|part| *part != "src" && *part != "core");
        let package = parts.next().unwrap_or_default();
        let module = parts.next().unwrap_or_default();
        format!("{package}/{}", module.trim_end_matches(".rs"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(file: &str, line: usize) -> Site {
        let text = |text: &str| text.to_owned();
        Site { file: text(file), line, function: text("f"), code: text("a < b"), instead: text("a <= b"), repeated: 0 }
    }

    #[test]
    fn a_rank_outlives_a_move_in_the_file() {
        assert_eq!(site("core/byom/src/decide.rs", 3).rank(), site("core/byom/src/decide.rs", 30).rank());
        assert_ne!(site("core/byom/src/decide.rs", 3).rank(), Site { repeated: 1, ..site("core/byom/src/decide.rs", 3) }.rank());
    }

    #[test]
    fn a_module_is_a_package_and_what_is_below_its_sources() {
        assert_eq!(site("core/byom/src/decide.rs", 3).module(), "byom/decide");
        assert_eq!(site("core/spiderpool/src/reclaim/scan.rs", 3).module(), "spiderpool/reclaim");
    }
}
