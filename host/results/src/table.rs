//! Figures as rows of text: the same for the terminal, the page and the documents.

use crate::Figure;

const HEAD: [&str; 7] = ["", "paper", "Linux", "here", "of Linux", "goal", ""];
/// Columns that are there with nothing in them.
const ALWAYS: [usize; 2] = [0, 3];

/// Returns a head and a row for each figure; columns in which nothing stands are left out.
pub fn table(figures: &[Figure]) -> Vec<Vec<String>> {
    let rows: Vec<[String; 7]> = figures.iter().map(cells).collect();
    let is_shown = |column: &usize| ALWAYS.contains(column) || rows.iter().any(|row| !row[*column].is_empty());
    let shown: Vec<usize> = (0..HEAD.len()).filter(is_shown).collect();
    let chosen = |row: &[String; 7]| shown.iter().map(|column| row[*column].clone()).collect();
    [HEAD.map(String::from)].iter().chain(&rows).map(chosen).collect()
}

fn cells(figure: &Figure) -> [String; 7] {
    [
        figure.name.clone(),
        figure.paper.clone(),
        figure.theirs(),
        figure.ours(),
        figure.ratio(),
        figure.goal.clone(),
        figure.mark().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_in_which_nothing_stands_are_left_out() {
        let figures = [Figure::count("crashes", 3), Figure::new("p99", 1.0, 1, "ms").linux(2.0)];
        let rows = table(&figures);
        assert_eq!(rows[0], ["", "Linux", "here", "of Linux"]);
        assert_eq!(rows[1], ["crashes", "", "3", ""]);
        assert_eq!(rows[2], ["p99", "2.0 ms", "1.0 ms", "0.50"]);
    }
}
