//! Keeping results: figures of experiments and a bill in `results/`, and the parts of documents that are made from them.

pub mod commit;
mod watch;

use std::path::Path;

use gyre_results::{BILL, Conditions, Document, FOLDER, Record, Wrong};

use crate::{
    cli,
    exp::report::Report,
    failure::{Context as _, Failure, Result},
    project::Project,
    ui::{Paint, paint, say},
};
pub use watch::Watch;

/// Keeps what an experiment found.
///
/// # Errors
/// When it did not run to its end, or the file cannot be written.
pub fn experiment(project: &Project, report: &Report, conditions: Conditions) -> Result<()> {
    if let Some(why) = &report.failure {
        return Err(Failure::new(format!("{} is not recorded: {why}", report.name)));
    }
    let record = Record {
        experiment: report.name.clone(),
        title: report.title.clone(),
        conditions,
        figures: report.figures.clone(),
        notes: report.notes.clone(),
    };
    let text = record.text().context(|| "cannot write JSON".into())?;
    let own = |extension: &str| format!("{FOLDER}/{}.{extension}", report.name);
    if let Some(lines) = &report.lines {
        write(&project.root, Path::new(&own("csv")), lines)?;
    }
    write(&project.root, Path::new(&own("json")), &text)
}

/// Keeps a bill.
///
/// # Errors
/// When the file cannot be written.
pub fn bill(project: &Project, conditions: &Conditions, text: &str) -> Result<()> {
    write(&project.root, Path::new(BILL), &format!("{conditions}\n\n{text}"))
}

/// Makes the parts of documents that are made from results.
///
/// # Errors
/// When a result file is malformed, or a document lacks its markers.
pub fn documents(project: &Project) -> Result<()> {
    for document in gyre_results::documents(&project.root).map_err(all)?.iter().filter(|one| !one.is_true()) {
        let Document { path, wanted, .. } = document;
        write(&project.root, path, wanted)?;
    }
    Ok(())
}

/// How an experiment was called, without what belongs to this host.
pub fn exp_command(name: &str, arguments: &cli::Exp) -> String {
    let option = |name: &str, value: Option<u32>| value.map_or(String::new(), |value| format!(" --{name} {value}"));
    let kernel = if arguments.kernel.is_some() { " --kernel FILE" } else { "" };
    // Each part of the experiment by itself: the figures of the others stay.
    let only = if arguments.only.is_some() { " --only EACH" } else { "" };
    let [seconds, count] = [option("seconds", arguments.seconds), option("count", arguments.count)];
    format!("./gyre exp {name}{seconds}{count}{only}{kernel}")
}

/// How a machine was run, without what belongs to this host.
pub fn run_command(project: &Project, arguments: &cli::Run) -> String {
    let path = std::path::absolute(&arguments.file).unwrap_or_default();
    let file = path.strip_prefix(&project.root).unwrap_or(Path::new("FILE")).display();
    let limit = arguments.duration.map_or(String::new(), |time| format!(" --for {}s", time.as_secs_f64()));
    format!("./gyre run {file}{limit}")
}

fn all(wrong: Vec<Wrong>) -> Failure {
    let lines: Vec<String> = wrong.iter().map(Wrong::to_string).collect();
    Failure::with_help("the documents cannot be made from results/", lines.join("\n"))
}

fn write(root: &Path, path: &Path, text: &str) -> Result<()> {
    let full = root.join(path);
    full.parent().map_or(Ok(()), std::fs::create_dir_all).context(|| format!("cannot write {}", path.display()))?;
    std::fs::write(&full, text).context(|| format!("cannot write {}", path.display()))?;
    say(&format!("{} {}", paint(Paint::Dim, "written:"), path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::exp::report::Figure;

    fn conditions() -> Conditions {
        Conditions {
            command: "./gyre exp speed".into(),
            date: "2026-11-22".into(),
            commit: "0123abc".into(),
            processor: "Processor".into(),
            processors: 2,
            seconds: 61.0,
            stolen_percent: 0.9,
        }
    }

    fn project() -> (tempfile::TempDir, Project) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("docs/performance")).unwrap();
        let marks = |name: &str| format!("<!-- {name}: begin -->\n<!-- {name}: end -->\n");
        std::fs::write(root.path().join("docs/performance/FIGURES.md"), marks("figures")).unwrap();
        std::fs::write(root.path().join("docs/performance/GOALS.md"), marks("goals")).unwrap();
        std::fs::write(root.path().join("docs/performance.md"), marks("summary")).unwrap();
        std::fs::write(root.path().join("README.md"), marks("attribution") + &marks("bill")).unwrap();
        let project = Project::of_tree(root.path());
        (root, project)
    }

    #[test]
    fn what_an_experiment_found_is_kept_and_stands_in_the_document() {
        let (root, project) = project();
        let mut report = Report::new("speed", "nginx beside Linux");
        report.figures.push(Figure::new("4 KiB pages a second", 821.0, 1, "").linux(1096.0).goal(">= 0.7", true));
        report.lines = Some("page,ms\n1,2\n".into());
        experiment(&project, &report, conditions()).unwrap();
        bill(&project, &conditions(), "gold  2 s\n").unwrap();
        documents(&project).unwrap();
        let read = |path: &str| std::fs::read_to_string(root.path().join(path)).unwrap();
        assert_eq!(read("results/speed.csv"), "page,ms\n1,2\n");
        assert!(read("results/speed.json").contains("\"linux\": 1096.0"));
        assert!(
            read("docs/performance/FIGURES.md")
                .contains("| 4 KiB pages a second | 1096.0 | 821.0 | 0.75 | >= 0.7 | ✓ |")
        );
        let row = "| speed | 4 KiB pages a second | >= 0.7 | 821.0 | 1096.0 | ✓ |";
        assert!(["docs/performance.md", "docs/performance/GOALS.md"].iter().all(|path| read(path).contains(row)));
        assert!(read("README.md").contains("    gold  2 s\n"));
        assert!(gyre_results::documents(root.path()).unwrap().iter().all(Document::is_true));
    }

    #[test]
    fn what_did_not_run_is_not_kept() {
        let (root, project) = project();
        let report = Report { failure: Some("no agent".into()), ..Report::new("speed", "x") };
        assert!(experiment(&project, &report, conditions()).is_err());
        assert!(!root.path().join("results/speed.json").exists());
    }

    #[test]
    fn commands_are_those_that_anybody_can_give() {
        let cli = cli::Cli::parse_from(["gyre", "exp", "speed", "--seconds", "8", "--kernel", "/x/y", "--record"]);
        let cli::Command::Exp(arguments) = cli.command else { panic!("exp") };
        assert_eq!(exp_command("speed", &arguments), "./gyre exp speed --seconds 8 --kernel FILE");
        let (root, project) = project();
        let file = root.path().join("examples/a.toml");
        let cli = cli::Cli::parse_from(["gyre", "run", file.to_str().unwrap(), "--for", "30s", "--record"]);
        let cli::Command::Run(arguments) = cli.command else { panic!("run") };
        assert_eq!(run_command(&project, &arguments), "./gyre run examples/a.toml --for 30s");
    }
}
