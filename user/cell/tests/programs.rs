//! Programs of the host, unmodified, in plain cells: what they write and how they end is as without one.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

const CELL: &str = env!("CARGO_BIN_EXE_gyre-cell");
const PROBE: &str = env!("CARGO_BIN_EXE_gyre-cell-probe");
const POLICIES: [&[&str]; 5] = [
    &[],
    &["--pager", "eager", "--io", "poll"],
    &["--pager", "keep", "--fibers", "newest"],
    &["--frames", "coloured"],
    &["--memory", "256M", "--pager", "eager", "--frames", "coloured", "--fibers", "newest", "--io", "poll"],
];

fn run(mut command: Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that does not read its input is no concern of the test.
    let _ = child.stdin.take().expect("it has an input").write_all(input.as_bytes());
    child.wait_with_output().expect("the program ends")
}

fn in_cell(options: &[&str], program: &[&str], input: &str) -> Output {
    let mut command = Command::new(CELL);
    command.args(["--plain", "--unleased"]).args(options).arg("--").args(program);
    run(command, input)
}

fn alone(program: &[&str], input: &str) -> Output {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]);
    run(command, input)
}

/// Runs a program with and without a cell, under each set of policies.
fn same(program: &[&str], input: &str) {
    let expected = alone(program, input);
    for options in POLICIES {
        let output = in_cell(options, program, input);
        assert_eq!(output, expected, "{program:?} with {options:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_the_runtime_answers_by_itself_is_as_linux_does_it() {
    for what in ["threads", "memory", "sleep", "wrong", "files"] {
        same(&[PROBE, what], "");
    }
}

#[test]
fn signals_are_held_back_and_go_to_the_thread_that_they_are_for() {
    for (name, part) in [("held_signals", "here"), ("thread_signals", "waits")] {
        same(&[&of_c(name), part], "");
    }
}

/// Makes a program of tests/linux; answers its path.
fn of_c(name: &str) -> String {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/linux");
    let program = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
    let words = ["-O1", "-static", "-pthread", "-I", tests, "-o", &program, &format!("{tests}/{name}.c")];
    assert!(Command::new("cc").args(words).status().expect("there is a compiler of C").success());
    program
}

#[test]
fn small_programs_do_as_without_a_cell() {
    same(&["/bin/true"], "");
    same(&["/bin/false"], "");
    same(&["/bin/echo", "a", "b c"], "");
    same(&["/bin/cat"], "some\nlines\n");
    same(&["/bin/ls", "/", "/no-such-folder"], "");
}

#[test]
fn programs_with_much_memory_do_as_without_a_cell() {
    let lines: String = (0..100_000u64).map(|n| format!("{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    same(&["/usr/bin/sort", "-S", "20M"], &lines);
    same(&["/bin/grep", "-c", "77"], &lines);
}

#[test]
fn files_that_are_read_ahead_are_read_as_they_are() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ahead.txt");
    let lines: String = (0..60_000u64).map(|n| format!("{} {n}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    std::fs::write(&path, lines).expect("there is room");
    let path = path.to_str().expect("a name");
    for program in [&["/usr/bin/wc", path][..], &["/usr/bin/comm", path, path], &["/bin/sed", "-n", "s/77/x/p", path]] {
        same(program, "");
    }
    same(&["/usr/bin/head", "-n", "3", path], "");
    same(&["/bin/dd", "bs=5000", "skip=7", "status=none", &format!("if={path}")], "");
    let expected = alone(&["/usr/bin/md5sum", path], "");
    for options in [["--ahead", "doubling"], ["--ahead", "nothing"]] {
        assert_eq!(in_cell(&options, &["/usr/bin/md5sum", path], ""), expected);
    }
}

#[test]
fn what_a_cell_cannot_do_gets_a_clear_answer() {
    let output = in_cell(&[], &["/bin/sh", "-c", "/bin/ls"], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("Cannot fork"), "{output:?}");
    let output = in_cell(&["--memory", "4M"], &["/usr/bin/perl", "-e", "$x = 'x' x 50000000"], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("more memory than the cell has"), "{output:?}");
    for (program, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let output = in_cell(&[], &[program], "");
        assert!(output.status.code() == Some(code) && !output.stderr.is_empty(), "{output:?}");
    }
}

/// A disk of 3 MiB and half a page, none of whose sectors are alike.
fn make_disk(name: &str) -> (String, Vec<u8>) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let bytes: Vec<u8> = (0..(3 << 20) / 8 + 256u64).flat_map(|word| (word * 0x9e37_79b9).to_le_bytes()).collect();
    std::fs::write(&path, &bytes).expect("there is room");
    (path.to_str().expect("a name").into(), bytes)
}

/// Runs a script of a shell's words with a disk at /dev/cell0.
fn with_disk(disk: &str, options: &[&str], program: &[&str], input: &str) -> Output {
    in_cell(&[options, &["--disk", "/dev/cell0", "--disk-file", disk]].concat(), program, input)
}

#[test]
fn a_disk_is_read_as_a_file() {
    let (disk, bytes) = make_disk("read.img");
    let read = |program: &[&str]| {
        for options in POLICIES {
            let output = with_disk(&disk, options, program, "");
            assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(output.stdout == bytes, "{program:?} with {options:?}: {} bytes", output.stdout.len());
        }
    };
    read(&["/bin/dd", "if=/dev/cell0", "bs=4k", "status=none"]);
    read(&["/bin/dd", "if=/dev/cell0", "bs=1M", "status=none"]);
    read(&["/bin/cat", "/dev/cell0"]);
    let part = with_disk(&disk, &[], &["/bin/dd", "if=/dev/cell0", "bs=1000", "skip=70", "count=9", "status=none"], "");
    assert!(part.stdout == bytes[70_000..79_000], "{} bytes", part.stdout.len());
}

#[test]
fn a_disk_is_written_in_whole_sectors() {
    let (disk, mut bytes) = make_disk("write.img");
    let text = "0123456789abcdef".repeat(10_000 / 16 * 512 / 10 / 16 * 2);
    let words =
        ["/bin/dd", "of=/dev/cell0", "bs=512", "seek=5", "iflag=fullblock", "conv=notrunc,fsync", "status=none"];
    let whole = text.len() / 512 * 512;
    let output = with_disk(&disk, &[], &words, &text[..whole]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    bytes[5 * 512..5 * 512 + whole].copy_from_slice(&text.as_bytes()[..whole]);
    assert!(std::fs::read(&disk).expect("it is there") == bytes);
    let output = with_disk(&disk, &[], &["/bin/dd", "of=/dev/cell0", "bs=100", "conv=notrunc"], &text[..100]);
    assert!(!output.status.success() && std::fs::read(&disk).expect("it is there") == bytes);
    let output = with_disk(&disk, &["--device", "1"], &["/bin/cat", "/dev/cell0"], "");
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("No such device"));
}

#[test]
fn a_plain_cell_without_a_kernel_that_leases_says_so() {
    let mut command = Command::new(CELL);
    command.args(["--plain", "--", "/bin/true"]);
    let output = run(command, "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(126));
    assert!(said.contains("keeps no cores and memory for cells") && said.contains("--unleased"), "{said}");
}
