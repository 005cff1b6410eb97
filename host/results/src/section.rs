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
    let row = |record: &Record, figure: &Figure| goal(&record.experiment, &figure.name, figure);
    goal_table(records, |record| record.promised().map(|figure| row(record, figure)).collect())
}

/// Returns the table of goals in short: a row for each that is missed, and one for each experiment that misses none.
pub fn summary(records: &[Record]) -> String {
    goal_table(records, |record| match record.promised().any(Figure::is_missed) {
        true => missed(record),
        false => all_met(record),
    })
}

fn goal_table(records: &[Record], rows: impl Fn(&Record) -> String) -> String {
    let rows: String = records.iter().map(rows).collect();
    format!("| experiment | figure | goal | here | Linux or paper | met |\n|---|---|---|---|---|---|\n{rows}")
}

fn missed(record: &Record) -> String {
    let missed = record.promised().filter(|figure| figure.is_missed());
    missed.map(|figure| goal(&record.experiment, &figure.name, figure)).collect()
}

/// Returns the row of an experiment whose goals are all met: how many, and the first; nothing if it has none.
fn all_met(record: &Record) -> String {
    let Some(first) = record.promised().next() else { return String::new() };
    let name = match record.promised().count() {
        1 => first.name.clone(),
        goals => format!("{goals} goals met, the first: {}", first.name),
    };
    goal(&record.experiment, &name, first)
}

fn goal(experiment: &str, name: &str, figure: &Figure) -> String {
    let theirs = figure.theirs();
    let other = if theirs.is_empty() { figure.paper.clone() } else { theirs };
    let cells = [experiment.into(), name.into(), figure.goal.clone(), figure.ours(), other, figure.mark().into()];
    line(&cells) + "\n"
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

    /// Returns a record with such figures and a title of its own.
    fn record_of(experiment: &str, figures: Vec<Figure>) -> Record {
        Record { experiment: experiment.into(), figures, ..record() }
    }

    /// Returns the rows of the table of goals in short, and of the whole one.
    fn rows(record: Record) -> [Vec<String>; 2] {
        let records = [record];
        [summary(&records), goals(&records)].map(|text| text.lines().skip(2).map(str::to_owned).collect())
    }

    #[test]
    fn an_experiment_that_meets_all_its_goals_has_one_row_in_the_short_table() {
        let figures = ["B", "A"].map(|name| Figure::new(name, 1.0, 1, "").goal("<= 1.1", true));
        let [short, whole] = rows(record_of("attacks", figures.to_vec()));
        assert_eq!(short, ["| attacks | 2 goals met, the first: B | <= 1.1 | 1.0 |  | ✓ |"]);
        assert_eq!(whole, ["| attacks | B | <= 1.1 | 1.0 |  | ✓ |", "| attacks | A | <= 1.1 | 1.0 |  | ✓ |"]);
        let [short, whole] = rows(record_of("attacks", figures[..1].to_vec()));
        assert_eq!((short.len(), &short), (1, &whole));
    }

    #[test]
    fn an_experiment_that_misses_goals_has_a_row_for_each_of_them_alone() {
        let figure = |name, is_met| Figure::new(name, 1.0, 1, "").paper("0.9").goal("<= 1.1", is_met);
        let figures = vec![figure("B", true), figure("A", false), figure("D", false)];
        let [short, whole] = rows(record_of("attacks", figures));
        assert_eq!(short, ["| attacks | A | <= 1.1 | 1.0 | 0.9 | ✗ |", "| attacks | D | <= 1.1 | 1.0 | 0.9 | ✗ |"]);
        assert_eq!(whole.len(), 3);
    }

    #[test]
    fn an_experiment_without_goals_stands_in_neither_table() {
        let [short, whole] = rows(record_of("cell-scale", vec![Figure::count("threads", 2)]));
        assert!(short.is_empty() && whole.is_empty(), "{short:?} {whole:?}");
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
