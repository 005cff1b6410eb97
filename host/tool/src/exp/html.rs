//! One page with all reports, plots included.

use super::{
    plot::escaped,
    report::{Figure, Report},
};

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
         <h1>Gyre: experiments</h1>\n<p class=\"note\">The paper's or Linux's figure beside ours, measured on one machine in one run.</p>\n{sections}</html>\n"
    )
}

fn section(report: &Report) -> String {
    let rows: String = report.figures.iter().map(row).collect();
    let plots: String = report.plots.iter().map(|(_, svg)| svg.as_str()).collect();
    let notes: String = report
        .notes
        .iter()
        .filter(|note| !note.is_empty())
        .map(|note| format!("<p class=\"note\">{}</p>\n", escaped(note)))
        .collect();
    format!(
        "<h2 id=\"{}\">{}</h2>\n<table><tr><th></th><th>paper or Linux</th><th>here</th><th>goal</th><th></th></tr>\n{rows}</table>\n{plots}{notes}",
        report.name,
        escaped(&report.title)
    )
}

fn row(figure: &Figure) -> String {
    let mark = match figure.is_met {
        Some(true) => "<span class=\"good\">✓</span>",
        Some(false) => "<span class=\"bad\">✗</span>",
        None => "",
    };
    let cells =
        [&figure.what, &figure.theirs, &figure.ours, &figure.goal].map(|text| format!("<td>{}</td>", escaped(text)));
    format!("<tr>{}<td>{mark}</td></tr>\n", cells.concat())
}
