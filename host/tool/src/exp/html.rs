//! One page with all reports, plots included: when, where and from which source each was measured.
//!
//! It loads nothing, follows the reader's choice of light or dark, scrolls what is wider than the window, and can be printed.

use gyre_results::Conditions;

use super::{plot::escaped, report::Report};

const STYLE: &str = include_str!("report.css");

/// Writes the page.
pub fn page(reports: &[Report]) -> String {
    let sections: String = reports.iter().map(section).collect();
    let contents: String = reports.iter().map(entry).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Gyre: experiments</title><style>{STYLE}</style></head><body><main>\n<h1>Gyre: experiments</h1>\n{}\
         <nav><ul>{contents}</ul></nav>\n{sections}</main></body></html>\n",
        head(reports)
    )
}

/// Says what all have in common, and how many goals are met.
fn head(reports: &[Report]) -> String {
    let figures = || reports.iter().flat_map(|report| &report.figures);
    let count = |is_met| figures().filter(|figure| figure.is_met == Some(is_met)).count();
    let goals = format!("{} experiments, {} goals met, {} missed.", reports.len(), count(true), count(false));
    let words = "The paper's and Linux's figures stand beside ours; those of one table were measured on one machine in one run.";
    format!("<p class=\"note\">{words} {goals}</p>\n")
}

/// An entry of the contents: the name with its verdict.
fn entry(report: &Report) -> String {
    let missed = report.figures.iter().filter(|figure| figure.is_met == Some(false)).count();
    let verdict = match (&report.failure, missed) {
        (Some(_), _) => "<span class=\"bad\">could not run</span>".into(),
        (None, 0) => String::new(),
        (None, missed) => format!("<span class=\"bad\">{missed} ✗</span>"),
    };
    format!("<li><a href=\"#{0}\">{0}</a> {verdict}</li>", escaped(&report.name))
}

fn section(report: &Report) -> String {
    let table = gyre_results::table(&report.figures);
    let (head, rows) = table.split_first().map_or((&[][..], &[][..]), |(head, rows)| (head.as_slice(), rows));
    let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
    let plot = |svg: &str| format!("<div class=\"scroll\">{svg}</div>\n");
    let plots: String = report.plots.iter().map(|one| plot(&one.svg)).collect();
    let failure = report.failure.iter().map(|why| format!("<p class=\"bad\">could not run: {}</p>\n", escaped(why)));
    let notes = report.notes.iter().filter(|note| !note.is_empty());
    let notes = notes.map(|note| format!("<p class=\"note\">{}</p>\n", escaped(note)));
    format!(
        "<section><h2 id=\"{}\">{}</h2>\n{}<div class=\"scroll\"><table>{}{rows}</table></div>\n{plots}{}</section>\n",
        escaped(&report.name),
        escaped(&report.title),
        conditions(report.conditions.as_ref()),
        row(head, "th"),
        failure.chain(notes).collect::<String>()
    )
}

/// Says when, where and from which source it was measured.
fn conditions(conditions: Option<&Conditions>) -> String {
    let Some(of) = conditions else {
        return "<p class=\"where\">When and where this was measured was not kept.</p>\n".into();
    };
    let host = format!("{} x {}", of.processors, of.processor);
    let parts = [
        escaped(&of.date),
        format!("commit {}", escaped(&of.commit)),
        escaped(&host),
        format!("took {:.0} s", of.seconds),
        format!("the hypervisor took {:.1} % away", of.stolen_percent),
        format!("<code>{}</code>", escaped(&of.command)),
    ];
    format!("<p class=\"where\">{}</p>\n", parts.join(" · "))
}

/// Figures keep their units beside them; words may break.
fn row(cells: &[String], tag: &str) -> String {
    let kept =
        |cell: &str| cell.replacen(' ', "\u{a0}", usize::from(cell.starts_with(|first: char| first.is_ascii_digit())));
    let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", marked(&kept(cell)))).collect();
    format!("<tr>{cells}</tr>\n")
}

fn marked(cell: &str) -> String {
    match cell {
        "✓" => "<span class=\"good\">✓</span>".into(),
        "✗" => "<span class=\"bad\">✗</span>".into(),
        text => escaped(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exp::report::Figure;

    #[test]
    fn a_page_holds_figures_plots_and_failures_of_all_reports() {
        let mut speed = Report::new("speed", "nginx & Linux");
        speed.figures.push(Figure::new("pages", 821.0, 1, "a second").goal("< 1", false));
        speed.plot("speed.svg", "<svg>bars</svg>".into());
        let flood = Report { failure: Some("no QEMU".into()), ..Report::new("flood", "A flood") };
        let page = page(&[speed, flood]);
        for part in
            ["id=\"speed\"", "nginx &amp; Linux", "<td>821.0\u{a0}a second</td>", "class=\"bad\">✗", "<svg>bars"]
        {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(page.contains("id=\"flood\"") && page.contains("could not run: no QEMU"), "{page}");
        assert!(page.contains("2 experiments, 0 goals met, 1 missed") && page.contains("href=\"#flood\""), "{page}");
    }

    #[test]
    fn each_report_says_when_where_and_from_which_source() {
        let conditions = Conditions {
            command: "./gyre exp speed".into(),
            date: "2026-11-26".into(),
            commit: "0123456789+".into(),
            processor: "Fast <CPU>".into(),
            processors: 2,
            seconds: 34.4,
            stolen_percent: 0.5,
        };
        let page =
            page(&[Report { conditions: Some(conditions), ..Report::new("speed", "t") }, Report::new("old", "t")]);
        for part in [
            "2026-11-26 · commit 0123456789+ · 2 x Fast &lt;CPU&gt; · took 34 s",
            "<code>./gyre exp speed</code>",
            "was not kept",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(
            page.contains("prefers-color-scheme: dark") && page.contains("@media print") && page.contains("viewport")
        );
    }
}
