//! Figures of experiments: what `gyre exp` shows, what `--record` keeps in `results/`, and what the documents say of it.
//!
//! A figure is written once, by the experiment that measured it. The terminal, the page, `--json`, the file and the tables of the
//! documents are made from it, and tidy fails if a document says something else than the files give.
#![forbid(unsafe_code)]

mod document;
mod error;
mod figure;
mod record;
mod section;
mod table;

pub use document::{BILL, Document, FOLDER, MADE, documents, records};
pub use error::Wrong;
pub use figure::Figure;
pub use record::{Conditions, Record};
pub use table::table;
