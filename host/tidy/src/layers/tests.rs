//! Small trees with one wrong arrow, and this tree with a wrong table.

use super::*;

/// A table of each kind of row.
const ROWS: &[(&str, &str)] = &[
    ("platform", "platform/api"),
    ("", "platform/x86_64"),
    ("", "platform/vdso"),
    ("", "platform/boot_test"),
    ("", "platform/machine"),
    ("parts", "parts/*"),
    ("resources", "resources/*"),
    ("system", "system/assembly"),
    ("", "system/kernel"),
    ("tests", "tests/*"),
    ("simulation", "simulation/*"),
];
/// A crate for each of these rows, two for groups.
const CRATES: &[&str] = &[
    "platform/api",
    "platform/x86_64",
    "platform/vdso",
    "platform/boot_test",
    "platform/machine",
    "parts/flow",
    "parts/overload",
    "resources/net",
    "resources/ext2",
    "system/assembly",
    "system/kernel",
    "tests/mutate",
    "simulation/runner",
];

fn document(rows: &[(&str, &str)]) -> String {
    let rows: String = rows.iter().map(|(layer, folder)| format!("| {layer} | `{folder}` | words | no |\n")).collect();
    format!("# Architecture\n\n| layer | folder | contents | unsafe |\n|---|---|---|---|\n{rows}\nEnd.\n")
}

/// Writes a manifest; the package's name is the folder's last part.
fn write_crate(root: &Path, folder: &str, sections: &str) {
    let (path, name) = (root.join(folder), folder.rsplit('/').next().unwrap());
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("Cargo.toml"), format!("[package]\nname = \"{name}\"\n{sections}")).unwrap();
}

/// Makes a tree without a fault.
fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("Cargo.toml"), "[workspace]\n").unwrap();
    fs::write(root.path().join(DOCUMENT), document(ROWS)).unwrap();
    CRATES.iter().for_each(|folder| write_crate(root.path(), folder, ""));
    assert_eq!(faults(root.path()), Vec::<String>::new());
    root
}

/// Returns the faults of a tree in which one crate has such sections.
fn faults_with(folder: &str, sections: &str) -> Vec<String> {
    let root = tree();
    write_crate(root.path(), folder, sections);
    faults(root.path())
}

/// Returns the faults of the tree with such a table.
fn faults_of_table(rows: &[(&str, &str)]) -> Vec<String> {
    let root = tree();
    fs::write(root.path().join(DOCUMENT), document(rows)).unwrap();
    faults(root.path())
}

fn arrow(section: &str, used: &str) -> String {
    format!("[{section}]\n{used}.workspace = true\n")
}

#[test]
fn arrows_to_earlier_rows_and_within_a_group_are_no_faults() {
    for (user, used) in [("system/kernel", "assembly"), ("parts/flow", "overload"), ("simulation/runner", "mutate")] {
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            assert_eq!(faults_with(user, &arrow(section, used)), Vec::<String>::new(), "{user} {section}");
        }
    }
}

#[test]
fn an_arrow_to_a_later_row_is_refused_in_each_section() {
    let sections = ["dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"];
    for section in sections {
        let said = faults_with("resources/net", &arrow(section, "kernel"));
        assert_eq!(said, ["resources/net: uses kernel, which stands in a later row"], "{section}");
    }
    for section in ["dev-dependencies", "target.'cfg(unix)'.dev-dependencies"] {
        let said = faults_with("resources/net", &arrow(section, "runner"));
        assert_eq!(said, ["resources/net: its tests use runner, which stands in a later row"], "{section}");
    }
}

#[test]
fn rows_of_one_layer_have_an_order() {
    let said = faults_with("system/assembly", &arrow("dependencies", "kernel"));
    assert_eq!(said, ["system/assembly: uses kernel, which stands in a later row"]);
    let said = faults_with("platform/api", &arrow("dev-dependencies", "vdso"));
    assert_eq!(said, ["platform/api: its tests use vdso, which stands in a later row"]);
}

#[test]
fn only_tests_of_a_resource_use_another_resource() {
    let said = faults_with("resources/net", &arrow("dependencies", "ext2"));
    assert_eq!(said, ["resources/net: uses ext2, which is another resource"]);
    assert_eq!(faults_with("resources/net", &arrow("dev-dependencies", "ext2")), Vec::<String>::new());
}

#[test]
fn only_tests_and_later_rows_use_a_crate_for_tests() {
    let said = faults_with("parts/flow", &arrow("dependencies", "mutate"));
    assert_eq!(said, ["parts/flow: uses mutate, which stands in a later row"]);
    assert_eq!(faults_with("parts/flow", &arrow("dev-dependencies", "mutate")), Vec::<String>::new());
}

#[test]
fn a_crate_for_tests_uses_no_crate_of_the_tree() {
    for (section, words) in [("dependencies", "uses"), ("dev-dependencies", "its tests use")] {
        let said = faults_with("tests/mutate", &arrow(section, "api"));
        assert_eq!(said, [format!("tests/mutate: {words} api, but a crate for tests uses no crate of the tree")]);
    }
}

#[test]
fn only_three_crates_name_the_machine() {
    for section in ["dependencies", "build-dependencies"] {
        let said = faults_with("resources/net", &arrow(section, "x86_64"));
        assert_eq!(said, ["resources/net: uses x86_64, which stands behind platform/machine"], "{section}");
    }
    let said = faults_with("system/assembly", &arrow("dev-dependencies", "x86_64"));
    assert_eq!(said, ["system/assembly: its tests use x86_64, which stands behind platform/machine"]);
    for folder in MACHINE_USERS {
        assert_eq!(faults_with(folder, &arrow("dependencies", "x86_64")), Vec::<String>::new(), "{folder}");
    }
}

#[test]
fn a_crate_that_the_rule_on_the_machine_names_and_that_is_gone_is_a_fault() {
    let root = tree();
    fs::remove_dir_all(root.path().join(MACHINE)).unwrap();
    let rows: Vec<_> = ROWS.iter().copied().filter(|(_, folder)| *folder != MACHINE).collect();
    fs::write(root.path().join(DOCUMENT), document(&rows)).unwrap();
    assert_eq!(faults(root.path()), ["platform/x86_64: a rule names it, and there is no such crate"]);
}

#[test]
fn a_row_says_whether_its_crates_may_hold_unsafe_code() {
    let text =
        document(ROWS).replacen("| no |", "| yes |", 2).replace("`parts/*` | words | no", "`parts/*` | words | yes");
    let table = Table::parse(&text).unwrap();
    let may = |file: &str| table.may_hold_unsafe(Path::new(file));
    for file in ["platform/api/src/a.rs", "platform/x86_64/src/deep/a.rs", "parts/flow/src/lib.rs"] {
        assert!(may(file), "{file}");
    }
    for file in ["platform/vdso/src/a.rs", "resources/net/src/lib.rs", "experiments/a.rs", "parts.rs"] {
        assert!(!may(file), "{file}");
    }
}

#[test]
fn another_name_hides_no_arrow() {
    let renamed = "[dependencies]\nroot = { path = \"../../system/kernel\", package = \"kernel\" }\n";
    assert_eq!(faults_with("parts/flow", renamed).len(), 1);
    let root = tree();
    write_crate(root.path(), "parts/flow", &arrow("dependencies", "root"));
    assert_eq!(faults(root.path()), Vec::<String>::new());
    fs::write(root.path().join("Cargo.toml"), "[workspace.dependencies]\nroot = { package = \"kernel\" }\n").unwrap();
    assert_eq!(faults(root.path()), ["parts/flow: uses kernel, which stands in a later row"]);
}

#[test]
fn a_crate_without_a_layer_is_a_fault_wherever_it_stands() {
    for folder in ["platform/extra", "extra", "extra/deep/one"] {
        assert_eq!(faults_with(folder, ""), [format!("{folder}: stands in no layer of ARCHITECTURE.md")]);
    }
    let without: Vec<_> = ROWS.iter().copied().filter(|(_, folder)| *folder != "platform/vdso").collect();
    assert_eq!(faults_of_table(&without), ["platform/vdso: stands in no layer of ARCHITECTURE.md"]);
}

#[test]
fn a_row_without_a_crate_is_a_fault() {
    for folder in ["system/gone", "gone/*", "parts/*"] {
        let said = faults_of_table(&[ROWS, &[("more", folder)]].concat());
        assert_eq!(said, [format!("ARCHITECTURE.md: the row of `{folder}` stands for no crate")]);
    }
}

#[test]
fn a_rule_whose_layer_is_gone_is_a_fault() {
    for name in [RESOURCES, TESTS] {
        let renamed = |layer| if layer == name { "renamed" } else { layer };
        let rows: Vec<_> = ROWS.iter().map(|(layer, folder)| (renamed(*layer), *folder)).collect();
        assert_eq!(faults_of_table(&rows), [format!("ARCHITECTURE.md: the table has no layer `{name}`")]);
    }
}

#[test]
fn a_table_or_a_manifest_that_cannot_be_read_is_a_fault() {
    let root = tree();
    for text in ["", "# Architecture\n", &document(&[("", "platform/api")])] {
        fs::write(root.path().join(DOCUMENT), text).unwrap();
        let said = faults(root.path());
        assert!(said.len() == 1 && said[0].starts_with("ARCHITECTURE.md: "), "{said:?}");
    }
    fs::write(root.path().join(DOCUMENT), document(ROWS).replace("`parts/*`", "parts")).unwrap();
    assert!(faults(root.path())[0].ends_with("names no folder"));
    fs::write(root.path().join(DOCUMENT), document(ROWS).replacen("| no |", "| some |", 1)).unwrap();
    assert!(faults(root.path())[0].ends_with("names no `yes` or `no` for unsafe code"));
    let said = faults_with("parts/flow", "[dependencies\n");
    assert!(said.len() == 1 && said[0].starts_with("parts/flow/Cargo.toml: "), "{said:?}");
}

/// Returns the faults of this tree's manifests under its own table, with two rows in each other's place.
fn faults_with_swapped(one: &str, other: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut table = Table::parse(&fs::read_to_string(root.join(DOCUMENT)).unwrap()).unwrap();
    let row = |table: &Table, folder: &str| table.rows.iter().position(|row| row.folder == folder).unwrap();
    let (one, other) = (row(&table, one), row(&table, other));
    table.rows.swap(one, other);
    judge(&table, &manifests::read(&root).unwrap())
}

#[test]
fn this_tree_holds_under_its_table_and_not_with_two_rows_swapped() {
    assert_eq!(faults_with_swapped("system/kernel", "system/kernel"), Vec::<String>::new());
    let said = faults_with_swapped("system/assembly", "system/kernel");
    assert!(said.contains(&"system/kernel: uses gyre-assembly, which stands in a later row".into()), "{said:?}");
    let said = faults_with_swapped("platform/boot_test", "platform/x86_64");
    assert!(said.contains(&"platform/boot_test: uses gyre-x86-64, which stands in a later row".into()), "{said:?}");
}
