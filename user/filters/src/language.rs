//! The languages of filters. Each is a file that makes a [`Program`] from a text and its [`Limits`].
//!
//! A program defines `on_event(stream, key, value)` and may call `emit(key, value)`; numbers are all that passes. It keeps its state in
//! variables of its own. None has files, clocks, randomness or the network.

use std::{error::Error, fmt, rc::Rc};

use crate::{
    event::{Event, Mailbox},
    turn,
};

/// The longest text of a program, bytes.
pub const SOURCE_BYTES_MAX: usize = 16 << 10;

/// A filter's program, loaded.
pub trait Program {
    /// Gives it an event.
    ///
    /// # Errors
    /// The program's error, in words: it ends.
    fn give(&mut self, event: Event) -> Result<(), String>;
    /// Returns the memory that it holds, bytes; 0 if its language does not say.
    fn held_bytes(&self) -> u64;
}

/// The bounds of a program.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most memory, bytes.
    pub memory_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { memory_bytes: 1 << 20 }
    }
}

/// A language of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Lua 5.4.
    Lua,
    /// JavaScript, as QuickJS has it.
    JavaScript,
    /// Rhai.
    Rhai,
    /// WebAssembly, in its text form or as bytes.
    Wasm,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 4] = [Language::Lua, Language::JavaScript, Language::Rhai, Language::Wasm];

    /// Returns its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Language::Lua => "lua",
            Language::JavaScript => "js",
            Language::Rhai => "rhai",
            Language::Wasm => "wasm",
        }
    }

    /// Finds a language by its name.
    pub fn find(name: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|language| language.name() == name)
    }

    /// Loads a program. To be called on the filter's own stack: its top level is a turn like any other.
    ///
    /// # Errors
    /// The text is no program, or its top level fails.
    pub fn load(self, source: &[u8], mailbox: &Rc<Mailbox>, limits: Limits) -> Result<Box<dyn Program>, String> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(format!("a program of {} bytes; at most {SOURCE_BYTES_MAX}", source.len()));
        }
        match self {
            Language::Lua => crate::lua::load(source, mailbox, limits),
            Language::JavaScript => crate::javascript::load(source, mailbox, limits),
            Language::Rhai => crate::rhai::load(source, mailbox, limits),
            Language::Wasm => crate::wasm::load(source, mailbox, limits),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the text of a program, for languages that are text.
///
/// # Errors
/// It is not UTF-8.
pub(crate) fn text(source: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(source).map_err(|_| "the program is no UTF-8 text".to_owned())
}

/// Returns the first line of an error, for a list.
pub(crate) fn line_of(error: impl Error) -> String {
    error.to_string().lines().next().unwrap_or_default().chars().take(160).collect()
}

/// The life of a filter on its own stack: loads the program, gives it events, and waits for more. Returns why it ended.
pub(crate) fn live(language: Language, source: &[u8], mailbox: &Rc<Mailbox>, seat: &crate::host::Seat) -> String {
    let mut program = match language.load(source, mailbox, seat.limits) {
        Ok(program) => program,
        Err(why) => return why,
    };
    loop {
        let Some(event) = mailbox.take() else {
            // Not after each event: some languages walk their heap for the answer.
            seat.held_bytes.set(program.held_bytes());
            seat.is_busy.set(false);
            match turn::breathe() {
                Ok(()) => continue,
                Err(ended) => return ended.to_string(),
            }
        };
        seat.is_busy.set(true);
        seat.event_ns.set(0);
        if let Err(why) = program.give(event) {
            return why;
        }
        seat.event_ns.set(0);
        if let Err(ended) = turn::breathe_when_over() {
            return ended.to_string();
        }
    }
}
