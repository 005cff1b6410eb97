//! JavaScript by QuickJS: an interrupt handler, a memory limit of each runtime, and a bound on the length of arrays, whose functions work
//! without the handler.

use std::rc::Rc;

use rquickjs::{
    CatchResultExt as _, CaughtError, Context, Ctx, Function, Runtime,
    context::intrinsic::{Eval, MapSet},
};

use crate::{
    event::{Event, Mailbox},
    language::{Limits, Program},
    turn,
};

/// Bytes of a filter's stack that the interpreter may use.
const STACK_BYTES: usize = 192 << 10;
/// No function of arrays takes a longer one: it would work on it without the interrupt handler.
const PRELUDE: &str = "(() => {
    const most = 16384;
    const check = (x) => {
        if (x !== null && typeof x === 'object' && x.length > most) throw new RangeError('an array of more than ' + most);
    };
    const bound = (of, name) => {
        const inner = of[name], apply = Reflect.apply;
        of[name] = function (...given) { check(this); for (const x of given) check(x); return apply(inner, this, given); };
    };
    for (const name of Object.getOwnPropertyNames(Array.prototype)) {
        if (name !== 'constructor' && typeof Array.prototype[name] === 'function') bound(Array.prototype, name);
    }
    bound(Array, 'from');
    delete Array.fromAsync;
})();";

struct JavaScript {
    context: Context,
    runtime: Runtime,
}

/// Loads a program.
///
/// # Errors
/// It is no program, has no `on_event`, or its top level fails.
pub fn load(source: &[u8], mailbox: &Rc<Mailbox>, limits: Limits) -> Result<Box<dyn Program>, String> {
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    runtime.set_memory_limit(limits.memory_bytes);
    runtime.set_max_stack_size(STACK_BYTES);
    runtime.set_interrupt_handler(Some(Box::new(|| turn::breathe_when_over().is_err())));
    let context = Context::custom::<(Eval, MapSet)>(&runtime).map_err(|error| error.to_string())?;
    context.with(|ctx| start(&ctx, source, mailbox))?;
    Ok(Box::new(JavaScript { context, runtime }))
}

fn start(ctx: &Ctx<'_>, source: &[u8], mailbox: &Rc<Mailbox>) -> Result<(), String> {
    let said = mailbox.clone();
    let emit = Function::new(ctx.clone(), move |key: f64, value: f64| said.emit(key as u32, value));
    emit.and_then(|emit| ctx.globals().set("emit", emit)).catch(ctx).map_err(words)?;
    ctx.eval::<(), _>(PRELUDE).catch(ctx).map_err(words)?;
    ctx.eval::<(), _>(source).catch(ctx).map_err(words)?;
    handler(ctx).map(drop)
}

/// Its function for events, which it may replace.
fn handler<'js>(ctx: &Ctx<'js>) -> Result<Function<'js>, String> {
    ctx.globals().get("on_event").catch(ctx).map_err(words)
}

fn words(error: CaughtError<'_>) -> String {
    error.to_string().lines().next().unwrap_or_default().chars().take(160).collect()
}

impl Program for JavaScript {
    fn give(&mut self, event: Event) -> Result<(), String> {
        self.context.with(|ctx| {
            let called = handler(&ctx)?.call::<_, ()>((event.stream, event.key, event.value));
            called.catch(&ctx).map_err(words)
        })
    }

    fn held_bytes(&self) -> u64 {
        u64::try_from(self.runtime.memory_usage().malloc_size).unwrap_or(0)
    }
}
