//! Bills for programs: each document says who wrote it.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{
    fake::{Host, PATIENCE, three},
    pages::get,
};

fn is_signed(document: &Value) -> bool {
    document["by"].as_str().is_some_and(|by| by.starts_with("gyre 0.") && by.contains(" (commit "))
}

#[test]
fn every_bill_in_json_says_which_version_wrote_it() {
    let host = Host::new();
    let _machine = host.machine("shop", three());
    let words: [(&[&str], &str); 3] = [(&[], "tenants"), (&["--processes"], "processes"), (&["--changes"], "changes")];
    for (words, list) in words {
        let said = host.gyre().args(["bill", "--machine", "shop", "--json"]).args(words).output().unwrap();
        let bill: Value = serde_json::from_slice(&said.stdout).unwrap();
        assert!(is_signed(&bill) && bill[list].is_array(), "{words:?}: {bill}");
    }
    let (page, start) = (host.page(), Instant::now());
    let mut answer = (0, String::new());
    // The first figures take a moment.
    while answer.0 != 200 && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        answer = get(page.port, "/machine/shop/bill.json", "127.0.0.1", "");
    }
    let bill: Value = serde_json::from_str(&answer.1).unwrap();
    assert!(is_signed(&bill) && bill["machine_cycles"].is_u64(), "{bill}");
}
