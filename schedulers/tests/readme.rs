//! The README shows the list of policies. With `GYRE_WRITE` in the environment the test writes the table instead of comparing it.
use gyre_schedulers::POLICIES;
use std::path::Path;

const README: &str = include_str!("../README.md");
const BEGIN: &str = "<!-- policies: begin -->\n";
const END: &str = "<!-- policies: end -->";

fn table() -> String {
    let head = "| name | whom it serves next | promise | starves | rests | source |\n|---|---|---|---|---|---|\n";
    let row = |(name, file, cells): (&str, String, [&str; 5])| {
        format!("| [`{name}`](src/{file}.rs) | {} |\n", cells.join(" | "))
    };
    let rows = POLICIES.iter().map(|one| {
        let cells = [one.about, one.promise, one.starves, one.rests, one.source];
        row((one.name, file_of(one.name), cells))
    });
    head.to_owned() + &rows.collect::<String>()
}

/// The file that holds a policy: the one whose list entry has its name.
fn file_of(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let entry = format!("    name: \"{name}\",\n    short:");
    let mut holders = files.filter(|path| std::fs::read_to_string(path).unwrap().contains(&entry));
    holders.next().unwrap().file_stem().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn the_readme_shows_the_list_of_policies() {
    let [begin, end] = [BEGIN, END].map(|mark| README.find(mark).expect("the README has the marks of the table"));
    let wanted = format!("{}{}{}", &README[..begin + BEGIN.len()], table(), &README[end..]);
    if std::env::var_os("GYRE_WRITE").is_some() {
        return std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"), wanted).unwrap();
    }
    assert!(README == wanted, "GYRE_WRITE=1 cargo test -p gyre-schedulers the_readme_shows writes the table anew");
}
