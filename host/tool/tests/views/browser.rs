//! Headless Chromium, told by its debugging pipe what to do: messages of JSON that end with a zero byte (Chrome DevTools Protocol).

use std::{
    cell::RefCell,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::fake::PATIENCE;

/// A browser with one tab.
pub struct Browser {
    process: Child,
    inner: RefCell<Inner>,
    session: String,
    _profile: tempfile::TempDir,
}

struct Inner {
    input: ChildStdin,
    answers: Receiver<Value>,
    count: u64,
    /// Errors of scripts, and whatever the page's policy has refused.
    faults: Vec<String>,
}

/// Light or dark.
#[derive(Clone, Copy, Debug)]
pub enum Scheme {
    Light,
    Dark,
}

impl Browser {
    /// Starts it.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let words = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars \
                     --disable-background-networking --remote-debugging-pipe --user-data-dir=\"$0\" about:blank 3<&0 4>&1 >/dev/null 2>&1";
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(words).arg(profile.path()).env("HOME", profile.path());
        let spawned = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let _ = tell.send(serde_json::from_slice(&message).unwrap_or(Value::Null));
            }
        });
        let inner = RefCell::new(Inner { input, answers, count: 0, faults: vec![] });
        let mut browser = Self { process, inner, session: String::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    fn call(&self, method: &str, parameters: Value) -> Value {
        let mut inner = self.inner.borrow_mut();
        inner.count += 1;
        let mut message = json!({"id": inner.count, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let written = inner.input.write_all(format!("{message}\0").as_bytes());
        written.expect("chromium does not run: apt-get install chromium, as ./gyre test does");
        loop {
            let lost = "chromium does not answer; is it installed (apt-get install chromium, as ./gyre test does)?";
            let answer = inner.answers.recv_timeout(PATIENCE).expect(lost);
            if answer["id"] == inner.count {
                // A page that is left while it is asked has no answer.
                let is_left =
                    method == "Runtime.evaluate" && answer["error"]["message"].to_string().contains("navigated");
                assert!(answer["error"].is_null() || is_left, "{method}: {answer}");
                return answer["result"].clone();
            }
            let is_fault =
                answer["method"] == "Runtime.exceptionThrown" || answer["params"]["entry"]["level"] == "error";
            if is_fault {
                inner.faults.push(answer["params"].to_string());
            }
        }
    }

    /// Opens a page at a width, and forgets the faults of the one before.
    pub fn open(&self, url: &str, width: u32, scheme: Scheme) {
        self.size(width, 900);
        let scheme = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        self.inner.borrow_mut().faults.clear();
        self.call("Page.navigate", json!({"url": url}));
    }

    /// Shows the page as paper would.
    pub fn print(&self) {
        self.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
    }

    fn size(&self, width: u32, height: u64) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Returns the value of an expression.
    pub fn value(&self, script: &str) -> Value {
        let answer =
            self.call("Runtime.evaluate", json!({"expression": script, "returnByValue": true, "awaitPromise": true}));
        if answer["exceptionDetails"].is_null() { answer["result"]["value"].clone() } else { Value::Null }
    }

    /// Waits until an expression is true.
    pub fn until(&self, script: &str) {
        let start = Instant::now();
        while self.value(script) != Value::Bool(true) {
            let shown = || self.value("document.body.innerText").to_string();
            assert!(start.elapsed() < PATIENCE, "not true: {script}\n{}\n{:?}", shown(), self.faults());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until an element shows a text: what a page is told comes with a sample.
    pub fn shows(&self, id: &str, text: &str) {
        let text = Value::from(text);
        self.until(&format!("document.getElementById('{id}').innerText.includes({text})"));
    }

    /// Returns the faults of the page so far.
    pub fn faults(&self) -> Vec<String> {
        self.value("0");
        self.inner.borrow().faults.clone()
    }

    /// Keeps a picture of the whole page below the folder that GYRE_PICTURES names, if it does.
    pub fn picture(&self, name: &str, width: u32) {
        let Some(folder) = std::env::var_os("GYRE_PICTURES") else { return };
        let height = self.value("document.documentElement.scrollHeight").as_u64().unwrap_or(900);
        self.size(width, height.clamp(300, 6000));
        std::thread::sleep(Duration::from_millis(1500));
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let mut decoder =
            Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = decoder.stdin.take().unwrap();
        let data = shot["data"].as_str().unwrap().to_owned();
        let writer = std::thread::spawn(move || input.write_all(data.as_bytes()));
        let bytes = decoder.wait_with_output().unwrap().stdout;
        writer.join().unwrap().unwrap();
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
        self.size(width, 900);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
