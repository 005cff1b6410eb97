//! One page with all reports, plots included.

use super::{plot::escaped, report::Report};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:860px;margin:32px auto;padding:0 16px;color:#1c1e21}\
h1{font-size:26px}h2{margin:40px 0 8px;font-size:19px}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{text-align:right;padding:5px 0 5px 14px;border-top:1px solid #e2e2de}th{color:#6b7076;font-weight:500;border:0}\
th:first-child,td:first-child{text-align:left;padding-left:0}.good{color:#1a7f4b}.bad{color:#c0392b}.note{color:#6b7076}\
svg{width:100%;height:auto;margin:14px 0;border:1px solid #e2e2de;border-radius:8px}";

/// Writes the page.
pub fn page(reports: &[Report]) -> String {
    let sections: String = reports.iter().map(section).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Gyre: experiments</title><style>{STYLE}</style>\n\
         <h1>Gyre: experiments</h1>\n<p class=\"note\">The paper's and Linux's figures beside ours; those of one table were measured on one machine in one run.</p>\n{sections}</html>\n"
    )
}

fn section(report: &Report) -> String {
    let table = gyre_results::table(&report.figures);
    let (head, rows) = table.split_first().map_or((&[][..], &[][..]), |(head, rows)| (head.as_slice(), rows));
    let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
    let plots: String = report.plots.iter().map(|plot| plot.svg.as_str()).collect();
    let failure = report.failure.iter().map(|why| format!("<p class=\"bad\">could not run: {}</p>\n", escaped(why)));
    let notes = report.notes.iter().filter(|note| !note.is_empty());
    let notes = notes.map(|note| format!("<p class=\"note\">{}</p>\n", escaped(note)));
    format!(
        "<h2 id=\"{}\">{}</h2>\n<table>{}{rows}</table>\n{plots}{}",
        report.name,
        escaped(&report.title),
        row(head, "th"),
        failure.chain(notes).collect::<String>()
    )
}

fn row(cells: &[String], tag: &str) -> String {
    let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", marked(cell))).collect();
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
        for part in ["id=\"speed\"", "nginx &amp; Linux", "<td>821.0 a second</td>", "class=\"bad\">✗", "<svg>bars"] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(page.contains("id=\"flood\"") && page.contains("could not run: no QEMU"), "{page}");
    }
}
