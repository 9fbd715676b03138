//! Conventions as tests, so that reviewers need not repeat them.
//!
//! Each check reads the repository's files and returns findings with file, line and column: the problem, and what would be right. Files are
//! found by walking the repository, so that nothing has to be changed here when they move.
//!
//! | check | requirement | its table |
//! |---|---|---|
//! | [`circles`] | modules of a package and of large folders import each other one way | `circles.toml` |
//! | [`citations`] | every citation of the behavioural reference has its place in `docs/reference` | |
//! | [`deviations`] | every deviation has its row and anchor there | |
//! | [`held`] | every statement about Kubernetes has a test with its number, every correction names what holds it | |
//! | [`links`] | relative links of Markdown files lead to files and anchors that exist | |
//! | [`width`] | no line of Rust is wider than rustfmt's limit | |
//! | [`words`] | words that were replaced do not come back | `words.toml` |
//! | [`length`] | a long file has a reason | `long-files.toml` |
//! | [`short_docs`] | documentation comments of three words or fewer become fewer | `short-docs.toml` |
//! | [`leftovers`] | no path of one machine, no note to oneself, no test that is switched off | |
//! | [`switches`] | no function of `core` reads more than three switches to upstream's behaviour, or five if it is a form of upstream's | |
//! | [`selects`] | every `select!` is `biased`, so that it draws no random numbers | |

pub mod circles;
pub mod citations;
pub mod deviations;
pub mod held;
pub mod leftovers;
pub mod length;
pub mod links;
pub mod repository;
pub mod selects;
pub mod short_docs;
pub mod source;
pub mod switches;
pub mod width;
pub mod words;

pub use repository::{File, Finding, Repository};
