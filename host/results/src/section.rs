//! Markdown made from result files.

use crate::{Figure, Record, table};

/// Returns the section "Figures": a table for each experiment that was recorded.
pub fn figures(records: &[Record]) -> String {
    if records.is_empty() {
        return "Nothing is recorded yet: `./gyre exp NAME --record`.\n".into();
    }
    records.iter().map(section).collect::<Vec<_>>().join("\n")
}

/// Returns a table of all figures that have a goal: goal, here, Linux or the paper, met or not.
pub fn goals(records: &[Record]) -> String {
    let rows: String =
        records.iter().flat_map(|record| record.figures.iter().filter_map(|figure| goal(record, figure))).collect();
    format!("| experiment | figure | goal | here | Linux or paper | met |\n|---|---|---|---|---|---|\n{rows}")
}

fn goal(record: &Record, figure: &Figure) -> Option<String> {
    figure.is_met?;
    let theirs = figure.theirs();
    let other = if theirs.is_empty() { figure.paper.clone() } else { theirs };
    let cells = [
        record.experiment.clone(),
        figure.name.clone(),
        figure.goal.clone(),
        figure.ours(),
        other,
        figure.mark().into(),
    ];
    Some(line(&cells) + "\n")
}

/// Returns the table of one experiment, without its heading.
pub fn one(records: &[Record], experiment: &str) -> String {
    let Some(record) = records.iter().find(|record| record.experiment == experiment) else {
        return format!("(Not recorded yet: `./gyre exp {experiment} --record`.)\n");
    };
    body(record)
}

fn section(record: &Record) -> String {
    format!("### {}: {}\n\n{}", record.experiment, record.title, body(record))
}

/// Conditions, table and notes of an experiment.
fn body(record: &Record) -> String {
    let rows = table(&record.figures);
    let mut lines = rows.iter().map(|row| line(row));
    let head = lines.next().unwrap_or_default();
    let rule = format!("|{}", "---|".repeat(rows.first().map_or(0, Vec::len)));
    let body: String = lines.map(|line| line + "\n").collect();
    let notes: String = record.notes.iter().filter(|note| !note.is_empty()).map(|note| format!("\n{note}\n")).collect();
    format!("{}.\n\n{head}\n{rule}\n{body}{notes}", record.conditions)
}

fn line(cells: &[String]) -> String {
    let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |", escaped.join(" | "))
}

/// Returns a recorded bill as a block of text.
pub fn bill(text: Option<&str>) -> String {
    match text {
        Some(text) => text.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect(),
        None => "(No bill is recorded yet: `./gyre run FILE --for 30s --record`.)\n".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    #[test]
    fn a_record_becomes_a_table_with_its_conditions() {
        let text = figures(&[record()]);
        assert!(text.starts_with("### speed: nginx beside Linux\n\n./gyre exp speed, 2026-11-22, commit 0123abc"));
        assert!(text.contains("took 0.9 % of the processors away."), "{text}");
        assert!(text.contains("|  | Linux | here | of Linux | goal |  |\n|---|---|---|---|---|---|\n"), "{text}");
        assert!(text.contains("| pages | 1096.0 a second | 821.0 a second | 0.75 | >= 0.7 of Linux | ✓ |\n"), "{text}");
        assert!(text.ends_with("\nOne core | no limit.\n"), "{text}");
    }

    #[test]
    fn figures_with_a_goal_are_one_table() {
        let text = goals(&[record()]);
        let row = "| speed | pages | >= 0.7 of Linux | 821.0 a second | 1096.0 a second | ✓ |\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn an_experiment_that_was_not_recorded_says_how_to() {
        assert!(one(&[record()], "attribution").contains("./gyre exp attribution --record"));
        assert!(one(&[record()], "speed").starts_with("./gyre exp speed, 2026-11-22"));
    }

    #[test]
    fn a_bill_is_indented_and_none_says_how_to_get_one() {
        assert_eq!(bill(Some("a  b\n\nc\n")), "    a  b\n\n    c\n");
        assert!(bill(None).contains("--record"));
    }
}
