//! WebAssembly by wasmi: fuel, and a memory limit of each store. A module exports `on_event(i32, i32, f64)` and may import `gyre.emit(i32,
//! f64)`. A call that runs out of fuel is resumed in the next turn.

use std::{cell::RefCell, rc::Rc};

use wasmi::{
    Caller, Config, Engine, Linker, Module, Store, StoreLimits, StoreLimitsBuilder, TypedFunc, TypedResumableCall,
};

use crate::{
    event::{Event, Mailbox},
    language::{Limits, Program, line_of},
    turn,
};

/// Fuel between two looks at the turn; an instruction takes about one.
const LOOK_FUEL: u64 = 20_000;
/// Calls inside each other.
const DEPTH_MAX: usize = 256;
/// Bytes of the interpreter's own stack.
const STACK_BYTES: usize = 64 << 10;

thread_local! {
    /// The interpreter, which all filters share.
    static ENGINE: Engine = Engine::new(&config());
}

fn config() -> Config {
    let mut config = Config::default();
    config.consume_fuel(true).set_max_recursion_depth(DEPTH_MAX).set_max_stack_height(STACK_BYTES);
    config
}

/// The part of a store that its program does not see. Events that it emits are passed on after each call, for a store may move to other
/// threads and a mailbox may not.
struct Own {
    limits: StoreLimits,
    said: Vec<(u32, f64)>,
}

struct Wasm {
    store: RefCell<Store<Own>>,
    on_event: TypedFunc<(u32, u32, f64), ()>,
    mailbox: Rc<Mailbox>,
    memory: Option<wasmi::Memory>,
}

/// Loads a module.
///
/// # Errors
/// It is no module, has no `on_event`, imports something else, or asks for more memory than it may have.
pub fn load(source: &[u8], mailbox: &Rc<Mailbox>, limits: Limits) -> Result<Box<dyn Program>, String> {
    let engine = ENGINE.with(Engine::clone);
    let module = Module::new(&engine, source).map_err(line_of)?;
    let most = StoreLimitsBuilder::new().memory_size(limits.memory_bytes).instances(1).memories(1).tables(1);
    let own = Own { limits: most.table_elements(1000).build(), said: Vec::new() };
    let mut store = Store::new(&engine, own);
    store.limiter(|own| &mut own.limits);
    store.set_fuel(LOOK_FUEL).map_err(line_of)?;
    let mut linker = Linker::new(&engine);
    let emit = |mut caller: Caller<'_, Own>, key: u32, value: f64| {
        let said = &mut caller.data_mut().said;
        if said.len() < crate::event::QUEUE_EVENTS {
            said.push((key, value));
        }
    };
    linker.func_wrap("gyre", "emit", emit).map_err(line_of)?;
    let instance = linker.instantiate_and_start(&mut store, &module).map_err(line_of)?;
    let on_event = instance.get_typed_func(&store, "on_event").map_err(line_of)?;
    let memory = instance.get_memory(&store, "memory");
    Ok(Box::new(Wasm { store: RefCell::new(store), on_event, mailbox: mailbox.clone(), memory }))
}

impl Program for Wasm {
    fn give(&mut self, event: Event) -> Result<(), String> {
        let store = self.store.get_mut();
        store.set_fuel(LOOK_FUEL).map_err(line_of)?;
        let words = (event.stream, event.key, event.value);
        let mut call = self.on_event.call_resumable(&mut *store, words).map_err(line_of)?;
        loop {
            for (key, value) in store.data_mut().said.drain(..) {
                self.mailbox.emit(key, value);
            }
            match call {
                TypedResumableCall::Finished(()) => return Ok(()),
                TypedResumableCall::HostTrap(_) => return Err("emit failed".to_owned()),
                TypedResumableCall::OutOfFuel(rest) => {
                    turn::breathe_when_over().map_err(line_of)?;
                    store.set_fuel(LOOK_FUEL.max(rest.required_fuel())).map_err(line_of)?;
                    call = rest.resume(&mut *store).map_err(line_of)?;
                }
            }
        }
    }

    fn held_bytes(&self) -> u64 {
        let store = self.store.borrow();
        self.memory.map_or(0, |memory| memory.data_size(&*store) as u64)
    }
}
