//! The files of the pages, in the tool itself.

use axum::{
    Router,
    http::header,
    response::{Html, IntoResponse, Response},
    routing::get,
};

/// The page of a machine.
pub const MACHINE: &str = include_str!("machine.html");
/// The page of a tenant.
pub const TENANT: &str = include_str!("tenant.html");
/// The page of a machine's events.
pub const EVENTS: &str = include_str!("events.html");
/// The page of all machines.
pub const MACHINES: &str = include_str!("machines.html");

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, kind and contents of what pages load.
const FILES: &[(&str, &str, &str)] = &[
    ("style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("common.js", SCRIPT, include_str!("common.js")),
    ("chart.js", SCRIPT, include_str!("chart.js")),
    ("machine.js", SCRIPT, include_str!("machine.js")),
    ("tenant.js", SCRIPT, include_str!("tenant.js")),
    ("events.js", SCRIPT, include_str!("events.js")),
    ("machines.js", SCRIPT, include_str!("machines.js")),
];

/// Returns a page.
pub fn page(text: &'static str) -> Response {
    Html(text).into_response()
}

/// Returns what pages load, below `/assets`.
pub fn routes() -> Router {
    FILES.iter().fold(Router::new(), |router, &(name, kind, text)| {
        router.route(&format!("/assets/{name}"), get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = &'static str> {
        [MACHINE, TENANT, EVENTS, MACHINES].into_iter().chain(FILES.iter().map(|(_, _, text)| *text))
    }

    #[test]
    fn pages_link_nowhere() {
        for text in all() {
            for word in ["http://", "https://", "src=\"//", "@import"] {
                assert!(!text.replace("http://www.w3.org/2000/svg", "").contains(word), "{word}");
            }
        }
    }

    #[test]
    fn no_text_becomes_markup_and_no_page_has_a_script_of_its_own() {
        for text in all() {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "<script>",
                "onclick=",
                "style=",
            ] {
                assert!(!text.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn what_a_page_loads_is_there() {
        for page in [MACHINE, TENANT, EVENTS, MACHINES] {
            for (before, _) in page.match_indices("/assets/") {
                let name = page[before + "/assets/".len()..].split('"').next().unwrap();
                assert!(FILES.iter().any(|(known, _, _)| *known == name), "{name}");
            }
        }
    }
}
