//! One crash as a line of comma-separated values.

use super::check::{Found, Promised};

/// Names of the columns.
pub const HEAD: &str = "crash,machine,moment,writes,unflushed,e2fsck,fixes,e2fsck again,records,rows,tree,rounds,lost";

/// A crash and what was found after it.
pub struct Line<'a> {
    /// The machine that was crashed, from 1.
    pub machine: u32,
    /// Which of its moments, from 1.
    pub moment: u32,
    /// Writes and flushes before it.
    pub writes: usize,
    /// Of these, writes after the last flush, of which some sectors are lost.
    pub unflushed: usize,
    /// The things that had to be there.
    pub promised: &'a Promised,
    /// The things that were found.
    pub found: &'a Found,
}

impl Line<'_> {
    /// Writes the line of crash `number`, from 1. Losses are in words, `none` if there were none.
    pub fn text(&self, number: u32) -> String {
        let Self { machine, moment, writes, unflushed, promised, found } = self;
        let Found { code, fixes, code_again, .. } = found;
        let lost = match found.lost.is_empty() {
            true => "none".to_owned(),
            false => found.lost.join("; ").replace([',', '\n', '\r'], " "),
        };
        let Promised { records, rows, tree, rounds, .. } = promised;
        format!(
            "{number},{machine},{moment},{writes},{unflushed},{code},{fixes},{code_again},{records},{rows},{tree},{rounds},{lost}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_value_for_each_column() {
        let promised = Promised { ready: true, records: 12, rows: 7, tree: 3, rounds: 9 };
        let line = |lost: &[&str]| {
            let lost = lost.iter().map(|one| (*one).to_owned()).collect();
            let found = Found { code: 1, fixes: 2, lost, ..Found::default() };
            Line { machine: 2, moment: 3, writes: 400, unflushed: 5, promised: &promised, found: &found }.text(8)
        };
        assert_eq!(line(&[]), "8,2,3,400,5,1,2,0,12,7,3,9,none\n");
        assert_eq!(line(&["a, b", "c\n"]), "8,2,3,400,5,1,2,0,12,7,3,9,a  b; c \n");
        assert_eq!(line(&[]).matches(',').count(), HEAD.matches(',').count());
    }
}
