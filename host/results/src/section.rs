//! Markdown made from result files.

use crate::{Record, table};

/// The section "Figures": a table for each experiment that was recorded.
pub fn figures(records: &[Record]) -> String {
    if records.is_empty() {
        return "Nothing is recorded yet: `./gyre exp NAME --record`.\n".into();
    }
    records.iter().map(section).collect::<Vec<_>>().join("\n")
}

fn section(record: &Record) -> String {
    let rows = table(&record.figures);
    let mut lines = rows.iter().map(|row| line(row));
    let head = lines.next().unwrap_or_default();
    let rule = format!("|{}", "---|".repeat(rows.first().map_or(0, Vec::len)));
    let body: String = lines.map(|line| line + "\n").collect();
    let notes: String = record.notes.iter().filter(|note| !note.is_empty()).map(|note| format!("\n{note}\n")).collect();
    format!("### {}: {}\n\n{}.\n\n{head}\n{rule}\n{body}{notes}", record.experiment, record.title, record.conditions)
}

fn line(cells: &[String]) -> String {
    let escaped: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |", escaped.join(" | "))
}

/// A recorded bill as a block of text.
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
    fn a_bill_is_indented_and_none_says_how_to_get_one() {
        assert_eq!(bill(Some("a  b\n\nc\n")), "    a  b\n\n    c\n");
        assert!(bill(None).contains("--record"));
    }
}
