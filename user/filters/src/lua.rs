//! Lua 5.4: a hook by count, a memory limit of each state, and no function that can work for long without the hook.

use std::rc::Rc;

use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};

use crate::{
    event::{Event, Mailbox},
    language::{Limits, Program, line_of, text},
    turn,
};

/// Instructions between two looks at the turn.
const LOOK_INSTRUCTIONS: u32 = 1000;
/// Functions that catch the service's own error, work without the hook, read files, or have a finalizer do so.
const TAKEN: [&str; 13] = [
    "pcall",
    "xpcall",
    "load",
    "loadstring",
    "loadfile",
    "dofile",
    "require",
    "collectgarbage",
    "setmetatable",
    "getmetatable",
    "print",
    "warn",
    "debug",
];
/// Functions of `string` whose work is bounded by the bytes that they make.
const STRINGS: [&str; 7] = ["byte", "char", "format", "len", "lower", "sub", "upper"];

struct LuaProgram {
    lua: Lua,
    on_event: Function,
}

/// Loads a program.
///
/// # Errors
/// It is no program, has no `on_event`, or its top level fails.
pub fn load(source: &[u8], mailbox: &Rc<Mailbox>, limits: Limits) -> Result<Box<dyn Program>, String> {
    let program = start(text(source)?, mailbox, limits).map_err(line_of)?;
    Ok(Box::new(program))
}

fn start(source: &str, mailbox: &Rc<Mailbox>, limits: Limits) -> mlua::Result<LuaProgram> {
    let lua = Lua::new_with(StdLib::STRING | StdLib::MATH, LuaOptions::default())?;
    lua.set_memory_limit(limits.memory_bytes)?;
    let globals = lua.globals();
    for name in TAKEN {
        globals.set(name, Value::Nil)?;
    }
    let strings: Table = globals.get("string")?;
    let names =
        strings.pairs::<String, Value>().map(|pair| pair.map(|(name, _)| name)).collect::<Result<Vec<_>, _>>()?;
    for name in names.iter().filter(|name| !STRINGS.contains(&name.as_str())) {
        strings.set(name.as_str(), Value::Nil)?;
    }
    let said = mailbox.clone();
    globals.set("emit", lua.create_function(move |_, (key, value): (u32, f64)| Ok(said.emit(key, value)))?)?;
    lua.set_hook(HookTriggers::new().every_nth_instruction(LOOK_INSTRUCTIONS), |_, _| {
        turn::breathe_when_over().map_err(mlua::Error::external)?;
        Ok(VmState::Continue)
    })?;
    lua.load(source).set_name("filter").exec()?;
    let on_event = globals.get("on_event")?;
    Ok(LuaProgram { lua, on_event })
}

impl Program for LuaProgram {
    fn give(&mut self, event: Event) -> Result<(), String> {
        self.on_event.call::<()>((event.stream, event.key, event.value)).map_err(line_of)
    }

    fn held_bytes(&self) -> u64 {
        self.lua.used_memory() as u64
    }
}
