//! `gyre top` in tmux.

use super::{
    fake::{Host, PATIENCE, SENT, Tenant, sixty, three},
    terminal::Terminal,
};

/// Returns the rate in the head line, bits per second.
fn rate(screen: &str) -> f64 {
    let words: Vec<&str> = screen.lines().next().unwrap_or_default().split_whitespace().collect();
    let at = words.iter().position(|word| *word == "sending").unwrap();
    let unit = match words[at + 2] {
        "Mbit/s" => 1e6,
        "kbit/s" => 1e3,
        other => panic!("{other} in {screen}"),
    };
    words[at + 1].parse::<f64>().unwrap() * unit
}

#[test]
fn at_80_columns_everything_is_whole_and_the_rate_is_right() {
    let host = Host::new();
    let _machine = host.machine("shop", three());
    let terminal = Terminal::start("three", 80, &host.line("top --machine shop"));
    let screen =
        terminal.until(|screen| screen.contains("gold") && screen.contains("sending") && !screen.contains("sending 0"));
    // The rate goes up and down by half; three tenants send.
    let expected = 3.0 * SENT;
    assert!((expected * 0.4..expected * 1.6).contains(&rate(&screen)), "{screen}");
    let row = screen.lines().find(|line| line.contains("gold")).unwrap();
    assert!(row.contains("running") && row.contains(" MiB") && row.contains(" %") && row.contains("bit/s"), "{screen}");
    assert!(screen.lines().any(|line| line.contains("bronze") && line.contains("ended with code 7")), "{screen}");
    let head = screen.lines().next().unwrap();
    assert!(head.matches(':').count() >= 2 && head.chars().count() <= 80 && !head.ends_with("bi"), "{head}");
    terminal.press(&["Down", "Enter"]);
    let one = terminal.until(|screen| screen.contains("nginx"));
    assert!(one.contains("worker") && one.contains("Esc"), "{one}");
    terminal.press(&["Escape"]);
    terminal.until(|screen| screen.contains("silver"));
}

#[test]
fn sixty_are_scrolled_sorted_and_filtered() {
    let host = Host::new();
    let _machine = host.machine("big", sixty());
    let terminal = Terminal::start("sixty", 80, &host.line("top --machine big"));
    let screen = terminal.until(|screen| screen.contains("of 61 tenants"));
    assert!(screen.contains("customer-01-of-berlin"), "{screen}");
    terminal.press(&["End"]);
    terminal.until(|screen| screen.contains("customer-59-of-berlin"));
    terminal.press(&["Home", "s"]);
    terminal.until(|screen| screen.contains("by CPU"));
    terminal.press(&["/", "0", "7", "Enter"]);
    let filtered = terminal.until(|screen| screen.contains(" 1 tenants") || screen.contains(" 1 tenant "));
    assert!(filtered.contains("customer-07-of-berlin") && !filtered.contains("customer-01"), "{filtered}");
}

#[test]
fn a_programs_name_cannot_write_on_the_terminal() {
    let host = Host::new();
    let mut tenant = Tenant::new("gold", 1);
    tenant.programs = vec!["\x1b[2J\x1b[31mevil\x07".into(), "calm".into()];
    let machine = host.machine("shop", vec![tenant]);
    machine.log("gold", "\x1b[2J\x1b]0;title\x07 shouted");
    let said = host.gyre().args(["top", "--machine", "shop", "--tenant", "gold"]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("␛[2Jevil␇") && text.contains("calm") && !text.contains('\x1b'), "{text:?}");
    let terminal = Terminal::start("evil", 100, &host.line("top --machine shop"));
    terminal.until(|screen| screen.contains("gold"));
    terminal.press(&["Down", "Enter"]);
    terminal.until(|screen| screen.contains("␛[2Jevil␇") && screen.contains("␛[2J␛]0;title␇ shouted"));
}

#[test]
fn a_terminal_that_vanishes_ends_the_view() {
    let host = Host::new();
    let _machine = host.machine("shop", three());
    let terminal = Terminal::start("gone", 80, &host.line("top --machine shop"));
    terminal.until(|screen| screen.contains("gold"));
    let process = std::path::PathBuf::from(format!("/proc/{}", terminal.process()));
    assert!(std::fs::read_to_string(process.join("cmdline")).unwrap().contains("top"));
    drop(terminal);
    let start = std::time::Instant::now();
    while std::fs::read_to_string(process.join("cmdline")).is_ok_and(|line| line.contains("top")) {
        assert!(start.elapsed() < PATIENCE, "it goes on without a terminal");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn a_signal_ends_the_view_and_the_terminal_is_as_before() {
    let host = Host::new();
    let _machine = host.machine("shop", three());
    for signal in ["INT", "TERM", "HUP"] {
        let modes = "stty -g | cksum";
        let line = format!("{modes}; {}; {modes}; echo over; cat", host.line("top --machine shop"));
        let terminal = Terminal::start(&format!("signal-{signal}"), 80, &line);
        terminal.until(|screen| screen.contains("gold"));
        let shell = terminal.process();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let killed = std::process::Command::new("kill").args([&format!("-{signal}"), children.trim()]).status();
        assert!(killed.unwrap().success());
        let screen = terminal.until(|screen| screen.contains("over"));
        let lines: Vec<&str> = screen.lines().take(3).collect();
        assert!(lines[0] == lines[1] && lines[2] == "over", "{signal}: {screen}");
    }
}

#[test]
fn e_shows_the_events_of_the_machine_and_of_one_tenant() {
    let host = Host::new();
    let machine = host.machine("shop", three());
    machine.event(Some("gold"), "the owner \x1b[2Jstops it");
    machine.event(Some("silver"), "ended with code 3");
    let terminal = Terminal::start("events", 80, &host.line("top --machine shop"));
    let screen = terminal.until(|screen| screen.contains("silver"));
    assert!(screen.contains("e: events") && screen.contains("q: end"), "{screen}");
    terminal.press(&["e"]);
    let all = terminal.until(|screen| screen.contains("3 events"));
    let place = |word: &str| all.find(word).unwrap_or_else(|| panic!("{word} in {all}"));
    assert!(place("ended with code 3") < place("␛[2Jstops it") && place("stops it") < place("the machine runs"));
    machine.event(Some("gold"), "the owner starts it");
    terminal.until(|screen| screen.contains("4 events") && screen.contains("the owner starts it"));
    terminal.press(&["e", "Down", "Enter"]);
    terminal.until(|screen| screen.contains("its events"));
    terminal.press(&["e"]);
    let own = terminal.until(|screen| screen.contains("2 events of gold"));
    assert!(own.contains("stops it") && !own.contains("code 3"), "{own}");
    terminal.press(&["q"]);
}
