//! Pages in headless Chromium, as a person sees them.
//!
//! Each test starts a host of `fake.rs` with machines that exist in formulas only, a `gyre page` over it, and a browser of a wide or a
//! narrow window. It reads the page by scripts, as text, positions and colours.
//!
//! The tests hold that pages have no faults and fit into the window, that ticks of charts are round, that three tenants and sixty can be
//! read, sorted, filtered and picked, and that state, processes, log, events, goal and bill of a tenant are shown. Whatever a tenant
//! writes stays a text. A machine's end is told, its events stay, and pages refuse other hosts and origins and run no script of their
//! own.
//!
//! The look of the pages is for a person to judge: with GYRE_PICTURES a run keeps pictures. `gyre top` is in `top.rs`.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::Value;

use super::{
    browser::{
        Browser,
        Scheme::{Dark, Light},
    },
    fake::{Host, Tenant, sixty, three},
};

const WIDE: u32 = 1280;
const NARROW: u32 = 390;

/// A page has no faults and is not wider than the window.
fn is_well(browser: &Browser, width: u32) {
    assert_eq!(browser.faults(), Vec::<String>::new());
    let wide = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
    assert!(wide <= u64::from(width), "{wide} > {width}");
}

fn numbers(browser: &Browser, script: &str) -> Vec<f64> {
    browser.value(script).as_array().unwrap().iter().map(|one| one.as_f64().unwrap_or(f64::NAN)).collect()
}

/// Ticks begin at 0, are as far from each other, and stand at one, two or two and a half times a power of ten.
fn ticks_are_round(browser: &Browser, chart: &str) {
    let ticks = numbers(
        browser,
        &format!("[...document.querySelectorAll('#{chart} .tick')].map(t => parseFloat(t.textContent))"),
    );
    assert!(ticks.len() >= 3 && ticks[0] == 0.0, "{chart}: {ticks:?}");
    let step = ticks[1];
    assert!(ticks.windows(2).all(|pair| (pair[1] - pair[0] - step).abs() < step * 0.01), "{chart}: {ticks:?}");
    let mantissa = step / 10f64.powf(step.log10().floor());
    assert!([1.0, 2.0, 2.5, 5.0].iter().any(|round| (round - mantissa).abs() < 0.01), "{chart}: {ticks:?}");
}

#[test]
fn the_page_of_a_machine_shows_three_tenants() {
    let (host, browser) = (Host::new(), Browser::start());
    let _machine = host.machine("shop", three());
    let page = host.page();
    for (width, scheme) in [(WIDE, Light), (WIDE, Dark), (NARROW, Light), (NARROW, Dark)] {
        browser.open(&page.url("/machine/shop/"), width, scheme);
        browser.until("document.querySelectorAll('#tenants tr').length === 5 && document.querySelectorAll('#chart-latency polyline').length > 0");
        browser.until("document.querySelectorAll('#chart-cpu .time').length >= 2 && document.querySelectorAll('#events li').length > 0");
        is_well(&browser, width);
        ["chart-link", "chart-cpu", "chart-wait", "chart-latency"]
            .iter()
            .for_each(|chart| ticks_are_round(&browser, chart));
        browser.picture(&format!("machine-3-{width}-{scheme:?}"), width);
    }
    browser.open(&page.url("/machine/shop/"), WIDE, Light);
    browser.until("document.querySelectorAll('#tenants tr').length === 5 && document.getElementById('busy').innerText.endsWith('%')");
    let words = ["gold", "silver", "bronze", "ended with code 7", "12.2 ms", "MiB"];
    words.iter().for_each(|word| browser.shows("tenants", word));
    let time = browser.value("document.querySelector('#chart-cpu .time').textContent");
    assert!(time.as_str().unwrap().len() == 8 && time.as_str().unwrap().matches(':').count() == 2, "{time}");
    browser.shows("running", "2 of 3");
    browser.shows("troubles", "bronze has ended with code 7");
    // A reason is a text, not markup.
    browser.shows("goals", "it keeps its time <b>easily</b>");
    browser.shows("goals", "of the link it uses 10.0 %, holds 40.0 %, gets 50.0 %: it waits for the link");
    browser.shows("goals", "its overload controller keeps a delay of 80.0 ms");
    browser.shows("sum", "✓ adds up");
    let colours = |scheme| {
        browser.open(&page.url("/machine/shop/"), WIDE, scheme);
        browser.until("document.body !== null && document.styleSheets.length === 1");
        browser.value("getComputedStyle(document.body).backgroundColor")
    };
    assert_ne!(colours(Light), colours(Dark));
}

#[test]
fn sixty_tenants_can_be_read_sorted_filtered_and_picked() {
    let (host, browser) = (Host::new(), Browser::start());
    let _machine = host.machine("big", sixty());
    let page = host.page();
    for (width, scheme) in [(WIDE, Light), (NARROW, Dark)] {
        browser.open(&page.url("/machine/big/"), width, scheme);
        browser.until("document.querySelectorAll('#tenants tr').length === 62 && document.querySelectorAll('#chart-cpu polyline').length >= 9");
        is_well(&browser, width);
        browser.picture(&format!("machine-60-{width}-{scheme:?}"), width);
    }
    browser.open(&page.url("/machine/big/"), WIDE, Light);
    browser.until("document.querySelectorAll('#tenants tr').length === 62");
    let height = browser.value("document.documentElement.scrollHeight").as_u64().unwrap();
    assert!(height < 4500, "{height} pixels are too long to look through");
    // Eight and the system tenant have lines of their own, the others one together; each colour is one tenant's.
    let colours =
        "new Set([...document.querySelectorAll('#legend .key')].map(k => k.style.getPropertyValue('--c'))).size";
    assert_eq!(browser.value(colours), Value::from(9));
    browser.shows("picked", "8 of 60");
    let name = "[...document.querySelectorAll('#tenants td:first-child a')].map(a => a.textContent)";
    let heads = "[...document.querySelectorAll('#tenants th')]";
    browser.value(&format!("{heads}[0].click()"));
    assert_eq!(browser.value(name)[0], "customer-00");
    browser.value("document.getElementById('filter').value = '07'; document.getElementById('filter').oninput()");
    assert_eq!(browser.value(name), serde_json::json!(["customer-07-of-berlin"]));
    browser.shows("count", "1 of 61");
    let cut = "[...document.querySelectorAll('#tenants td')].filter(c => c.scrollWidth > c.clientWidth + 1).length";
    browser.value("document.getElementById('filter').value = ''; document.getElementById('filter').oninput()");
    assert_eq!(browser.value(cut), Value::from(0), "no cell is cut");
    // A mark that is pressed takes its tenant out of the charts: seven are left, and the system tenant.
    browser.value("document.querySelector('#tenants button.key:not(.off)').click()");
    assert_eq!(browser.value("document.querySelectorAll('#legend .key').length"), Value::from(8));
    is_well(&browser, WIDE);
}

#[test]
fn the_page_of_a_tenant_shows_its_state_processes_log_events_goal_and_bill() {
    let (host, browser) = (Host::new(), Browser::start());
    let machine = host.machine("shop", three());
    host.prices("shop");
    machine.event(Some("gold"), "running");
    machine.event(Some("bronze"), "ended with code 7");
    (0..40).for_each(|number| machine.log("gold", &format!("GET /page/{number} 200")));
    let page = host.page();
    for (width, scheme) in [(WIDE, Light), (WIDE, Dark), (NARROW, Light)] {
        browser.open(&page.url("/machine/shop/tenant/gold"), width, scheme);
        browser.until("document.querySelectorAll('#processes tr').length === 3 && document.querySelectorAll('#log p').length >= 40");
        browser.until("document.querySelectorAll('#chart-latency polyline').length >= 2 && document.querySelectorAll('#events li').length === 1");
        is_well(&browser, width);
        browser.picture(&format!("tenant-{width}-{scheme:?}"), width);
    }
    for chart in ["cpu", "memory", "disk", "link", "wait", "latency"] {
        assert!(
            browser.value(&format!("document.querySelectorAll('#chart-{chart} polyline').length")).as_u64() > Some(0),
            "{chart}"
        );
    }
    browser.shows("how", "running");
    // Entitlement among those who want is known from the second sample on.
    let words = [
        "50 of 100: entitled to 50.0 %",
        "entitled to 50.0 % of the link, gets",
        "of at most 64.0 MiB",
        "127.0.0.1:8080:80",
        "data at /srv",
    ];
    words.iter().for_each(|word| browser.shows("has", word));
    ["nginx", "computes"].iter().for_each(|word| browser.shows("processes", word));
    ["EUR", "user mode"].iter().for_each(|word| browser.shows("bill", word));
    ["99 % in 50 ms", "✓ yes", "gets 50.0 %: it waits for the link", "a delay of 80.0 ms"]
        .iter()
        .for_each(|word| browser.shows("goal", word));
    machine.log("gold", "a line that came later");
    browser.until("document.getElementById('log').innerText.includes('a line that came later')");
    browser.until("(l => l.scrollHeight - l.scrollTop - l.clientHeight < 30)(document.getElementById('log'))");
    browser.open(&page.url("/machine/shop/tenant/bronze"), WIDE, Light);
    browser.until("document.getElementById('how').innerText === 'ended with code 7' && document.getElementById('events').innerText.includes('code 7')");
    browser.until("document.getElementById('log-note').innerText === 'it has written nothing' && document.getElementById('goal-card').hidden");
    browser.open(&page.url("/machine/shop/tenant/nobody"), WIDE, Light);
    browser.until("document.getElementById('how').innerText === 'there is no tenant `nobody`'");
}

#[test]
fn whatever_a_tenant_writes_stays_a_text() {
    const NAME: &str = "a\"b<img src=x onerror=window.pwned=1>&";
    let (host, browser) = (Host::new(), Browser::start());
    let mut tenant = Tenant::new(NAME, 1);
    tenant.programs = ["<script>window.pwned=1</script>".into(), "\x1b[2J\u{202e}live".into()].to_vec();
    tenant.state = gyre_contract::monitor::State::Unhealthy { why: "<img src=x onerror=window.pwned=1>\x07".into() };
    let machine = host.machine("shop", vec![tenant, Tenant::new("calm", 1)]);
    let evil = "</p><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\x1b]0;title\x07\u{202e}";
    machine.event(Some(NAME), evil);
    let log = machine.folder.join("logs").join("calm.log");
    machine.log("calm", evil);
    let mut flood = vec![b'x'; 20 << 20];
    flood.extend_from_slice(b"\n\xff\xfe\0\x80 no text\n");
    std::fs::OpenOptions::new().append(true).open(log).unwrap().write_all(&flood).unwrap();
    machine.log("calm", evil);
    let page = host.page();
    let encoded: String = NAME.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for (path, sign) in [
        ("/machine/shop/".to_owned(), "document.getElementById('tenants').innerText.includes('onerror')"),
        ("/machine/shop/events".to_owned(), "document.getElementById('events').innerText.includes('</script><img')"),
        (
            format!("/machine/shop/tenant/{encoded}"),
            "document.getElementById('processes').innerText.includes('<script>window')",
        ),
        ("/machine/shop/tenant/calm".to_owned(), "document.getElementById('log').innerText.includes('</script><img')"),
        ("/".to_owned(), "document.getElementById('machines').innerText.includes('onerror')"),
    ] {
        browser.open(&page.url(&path), WIDE, Light);
        browser.until(sign);
        browser.until("document.readyState === 'complete'");
        assert_eq!(browser.value("typeof window.pwned"), "undefined", "{path}");
        assert_eq!(
            browser.value("document.querySelectorAll('img, script:not([src^=\"/assets/\"])').length"),
            Value::from(0),
            "{path}"
        );
        let unseen = "/[\\u0000-\\u0008\\u000e-\\u001f\\u007f-\\u009f\\u202e]/.test(document.body.innerText)";
        assert_eq!(browser.value(unseen), Value::Bool(false), "{path}");
        is_well(&browser, WIDE);
    }
    let (status, body) = get(page.port, "/machine/shop/tenant/calm/log.json", "127.0.0.1", "");
    assert!(status == 200 && body.len() < 1 << 20, "{status}, {} bytes", body.len());
}

#[test]
fn events_are_shown_and_filtered_and_are_json_too() {
    let (host, browser) = (Host::new(), Browser::start());
    let machine = host.machine("shop", three());
    machine.event(Some("gold"), "running");
    machine.event(Some("bronze"), "ended with code 7");
    let page = host.page();
    browser.open(&page.url("/machine/shop/events"), NARROW, Light);
    browser.until("document.querySelectorAll('#events li').length === 3");
    browser.shows("events", "the machine runs");
    is_well(&browser, NARROW);
    browser.picture("events-390", NARROW);
    browser.value("document.getElementById('tenant').value = 'bronze'; document.getElementById('tenant').onchange()");
    browser.until("document.querySelectorAll('#events li').length === 1 && document.getElementById('events').innerText.includes('code 7')");
    machine.event(Some("bronze"), "started again (1 times so far)");
    browser.until("document.querySelectorAll('#events li').length === 2");
    let (status, body) = get(page.port, "/machine/shop/events.json?tenant=gold", "127.0.0.1", "");
    let events: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, events["events"].as_array().unwrap().len(), &events["events"][0]["event"]),
        (200, 1, &Value::from("running"))
    );
}

#[test]
fn the_machines_of_a_host_are_on_one_page_and_an_end_is_told() {
    let (host, browser) = (Host::new(), Browser::start());
    let _stays = host.machine("shop", three());
    let mut goes = host.machine("batch", sixty());
    let page = host.page();
    for (width, scheme) in [(WIDE, Light), (WIDE, Dark), (NARROW, Light)] {
        browser.open(&page.url("/"), width, scheme);
        browser.until("document.querySelectorAll('#machines tr').length === 3 && document.querySelectorAll('#machines .spark polyline').length === 2");
        browser.until("document.getElementById('machines').innerText.includes(' of 4') && document.getElementById('machines').innerText.includes('runs since')");
        is_well(&browser, width);
        browser.picture(&format!("machines-{width}-{scheme:?}"), width);
    }
    browser.open(&page.url("/"), WIDE, Light);
    browser.until("document.getElementById('machines').innerText.includes('60 of 60')");
    browser.until("document.getElementById('machines').innerText.includes('2 of 3')");
    browser.shows("machines", "bronze has ended with code 7");
    goes.end("ended in order");
    browser.until("document.getElementById('troubles').innerText.includes('machine batch has ended in order')");
    browser.until("/batch[^]*ended in order, \\d+ s ago/.test(document.getElementById('machines').innerText)");
    browser.picture("machines-ended", WIDE);
    browser.value("document.querySelector('#machines a[href=\"/machine/shop/\"]').click()");
    browser
        .until("location.pathname === '/machine/shop/' && document.getElementById('nav').innerText === 'all machines'");
    // The page of the one that has ended says so, and keeps its events.
    browser.open(&page.url("/machine/batch/"), WIDE, Light);
    browser.until("document.getElementById('state').innerText === 'the machine has ended in order'");
    browser.until("document.getElementById('events').innerText.includes('the machine runs')");
    assert_eq!(get(page.port, "/machine/nothing/", "127.0.0.1", "").0, 404);
}

#[test]
fn every_page_refuses_other_hosts_and_origins_and_runs_no_script_of_its_own() {
    let host = Host::new();
    let _machine = host.machine("shop", three());
    let page = host.page();
    let paths = [
        "/",
        "/machines.json",
        "/assets/common.js",
        "/machine/shop/",
        "/machine/shop/history",
        "/machine/shop/live",
        "/machine/shop/events.json",
        "/machine/shop/tenant/gold",
        "/machine/shop/tenant/gold/figures.json",
        "/machine/shop/tenant/gold/log.json",
    ];
    for path in paths {
        assert_eq!(get(page.port, path, "evil.example", "").0, 403, "{path}");
        let origin = "Origin: http://evil.example\r\n";
        assert_eq!(get(page.port, path, "127.0.0.1", origin).0, 403, "{path}");
        assert_eq!(get(page.port, path, "127.0.0.1", "Sec-Fetch-Site: cross-site\r\n").0, 403, "{path}");
    }
    let (_, head) = head(page.port, "/machine/shop/", "127.0.0.1", "");
    let policy = head.lines().find(|line| line.starts_with("content-security-policy:")).unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe-inline"), "{policy}");
    assert_eq!(
        get(page.port, "/machine/shop/tenant/..%2F..%2Flock/log.json", "127.0.0.1", "").1,
        "{\"lines\":[],\"next\":0,\"is_cut\":false}"
    );
}

pub fn get(port: u16, path: &str, host: &str, more: &str) -> (u16, String) {
    let (status, text) = head(port, path, host, more);
    (status, text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

/// Asks for something and returns the whole answer; of one that does not end, its beginning.
fn head(port: u16, path: &str, host: &str, more: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n{more}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0), text)
}
