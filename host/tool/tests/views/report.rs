//! The experiments' report in headless Chromium.

use std::{fs, path::Path, process::Command};

use super::browser::{
    Browser,
    Scheme::{Dark, Light},
};

/// Makes the report of what is recorded, and of one that ran here.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["host/tool", "report", "results"] {
        fs::create_dir_all(tree.path().join(folder)).unwrap();
    }
    fs::write(tree.path().join("host/tool/Cargo.toml"), "").unwrap();
    for entry in fs::read_dir(source.join("results")).unwrap().flatten() {
        fs::copy(entry.path(), tree.path().join("results").join(entry.file_name())).unwrap();
    }
    let plot = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 320'><rect width='720' height='320'/></svg>";
    fs::write(tree.path().join("report/speed.svg"), plot).unwrap();
    let figure = r#"{"name": "pages", "value": 821.0, "decimals": 1, "unit": "a second", "linux": 1096.0, "paper": "", "goal": ">= 0.7 of Linux", "is_met": true}"#;
    let report = format!(
        r#"{{"name": "speed", "title": "nginx <b>here</b>", "figures": [{figure}], "plots": [{{"file": "speed.svg"}}], "notes": [], "failure": null}}"#
    );
    fs::write(tree.path().join("report/speed.json"), report).unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_gyre"))
        .args(["exp", "--report"])
        .env("GYRE_ROOT", tree.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    tree
}

#[test]
fn the_report_can_be_read_in_the_dark_in_a_narrow_window_and_on_paper() {
    let (tree, browser) = (tree(), Browser::start());
    let url = format!("file://{}", tree.path().join("report/index.html").display());
    for (width, scheme) in [(1280, Light), (1280, Dark), (390, Light)] {
        browser.open(&url, width, scheme);
        browser.until("document.readyState === 'complete' && document.querySelectorAll('section').length > 20");
        let wide = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
        assert!(wide <= u64::from(width), "{wide} > {width}");
        assert_eq!(browser.faults(), Vec::<String>::new());
        browser.picture(&format!("report-{width}-{scheme:?}"), width);
    }
    let text = browser.value("document.body.innerText").to_string();
    for part in ["nginx <b>here</b>", "was not kept", "commit ", "goals met", "./gyre exp cpu-shares"] {
        assert!(text.contains(part), "{part}");
    }
    let colour = |scheme| {
        browser.open(&url, 1280, scheme);
        browser.until("document.readyState === 'complete' && document.querySelectorAll('section').length > 20");
        browser.value("getComputedStyle(document.body).backgroundColor")
    };
    assert_ne!(colour(Light), colour(Dark));
    // On paper it is light whatever the reader has chosen, and nothing scrolls.
    browser.print();
    assert_eq!(browser.value("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
    assert_eq!(browser.value("getComputedStyle(document.querySelector('.scroll')).overflowX"), "visible");
}
