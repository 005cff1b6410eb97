//! Rhai: a hook at each operation, and limits of memory by counts. A filter keeps its state in `this`, a map.

use std::{cell::Cell, rc::Rc};

use rhai::{
    AST, CallFnOptions, Dynamic, Engine, EvalAltResult, FLOAT, INT, Map, Scope,
    packages::{Package, StandardPackage},
};

use crate::{
    event::{Event, Mailbox},
    language::{Limits, Program, text},
    turn,
};

/// Operations between two looks at the turn.
const LOOK_OPERATIONS: u64 = 256;
/// Bytes that one element of an array or map is taken to have.
const ELEMENT_BYTES: usize = 64;
const LEVELS_MAX: usize = 16;
const DEPTH_MAX: usize = 32;
const VARIABLES_MAX: usize = 64;

thread_local! {
    /// The functions of the language, which all filters share.
    static STANDARD: StandardPackage = StandardPackage::new();
}

struct RhaiProgram {
    engine: Engine,
    ast: AST,
    state: Dynamic,
}

/// Loads a program.
///
/// # Errors
/// It is no program, or has no `on_event`.
pub fn load(source: &[u8], mailbox: &Rc<Mailbox>, limits: Limits) -> Result<Box<dyn Program>, String> {
    let mut engine = engine(limits);
    let said = mailbox.clone();
    engine.register_fn("emit", move |key: INT, value: FLOAT| said.emit(key as u32, value));
    let ast = engine.compile(text(source)?).map_err(|error| error.to_string())?;
    let has_handler = ast.iter_functions().any(|known| known.name == "on_event" && known.params.len() == 3);
    if !has_handler {
        return Err("no function on_event(stream, key, value)".to_owned());
    }
    let state = Dynamic::from(Map::new());
    Ok(Box::new(RhaiProgram { engine, ast, state }))
}

fn engine(limits: Limits) -> Engine {
    let mut engine = Engine::new_raw();
    STANDARD.with(|standard| engine.register_global_module(standard.as_shared_module()));
    engine.disable_symbol("eval");
    engine.set_max_call_levels(LEVELS_MAX).set_max_expr_depths(DEPTH_MAX, DEPTH_MAX).set_max_variables(VARIABLES_MAX);
    // A few of each may be live at a time.
    let most = limits.memory_bytes / ELEMENT_BYTES / 4;
    engine.set_max_array_size(most).set_max_map_size(most).set_max_string_size(limits.memory_bytes / 16);
    let operations = Cell::new(0u64);
    engine.on_progress(move |_| {
        operations.set(operations.get().wrapping_add(1));
        let looks = operations.get().is_multiple_of(LOOK_OPERATIONS);
        (looks && turn::breathe_when_over().is_err()).then_some(Dynamic::UNIT)
    });
    engine
}

fn words(error: &EvalAltResult) -> String {
    error.to_string().lines().next().unwrap_or_default().chars().take(160).collect()
}

impl Program for RhaiProgram {
    fn give(&mut self, event: Event) -> Result<(), String> {
        let words_of_event = (INT::from(event.stream), INT::from(event.key), event.value);
        let options = CallFnOptions::new().eval_ast(false).bind_this_ptr(&mut self.state);
        let mut scope = Scope::new();
        let called =
            self.engine.call_fn_with_options::<Dynamic>(options, &mut scope, &self.ast, "on_event", words_of_event);
        called.map(drop).map_err(|error| words(&error))
    }

    fn held_bytes(&self) -> u64 {
        0
    }
}
