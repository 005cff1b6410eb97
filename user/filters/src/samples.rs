//! Programs for tests and measurements, each in the four languages. All work alike: a loop of so many rounds for each event.
//!
//! | kind | program |
//! |---|---|
//! | [`Kind::Watch`] | tells its client of values above a bound |
//! | [`Kind::Correlate`] | remembers the last value of two streams for each key, and tells where they are far apart |
//! | [`Kind::Loop`] | never comes back from its first event |
//! | [`Kind::Hoard`] | takes memory without end |
//! | [`Kind::Throw`] | fails |
//! | [`Kind::Recurse`] | calls itself without end |

use crate::language::Language;

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tells of values above a bound.
    Watch,
    /// Compares two streams.
    Correlate,
    /// Never comes back.
    Loop,
    /// Takes memory without end.
    Hoard,
    /// Fails.
    Throw,
    /// Calls itself without end.
    Recurse,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [Kind::Watch, Kind::Correlate, Kind::Loop, Kind::Hoard, Kind::Throw, Kind::Recurse];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Watch => "watch",
            Kind::Correlate => "correlate",
            Kind::Loop => "loop",
            Kind::Hoard => "hoard",
            Kind::Throw => "throw",
            Kind::Recurse => "recurse",
        }
    }
}

/// Rounds of a language for one of another: its interpreter is so much quicker.
fn quickness(language: Language) -> u32 {
    match language {
        Language::Lua | Language::JavaScript => 2,
        Language::Rhai => 1,
        Language::Wasm => 10,
    }
}

/// Returns the text of a program that computes `rounds` rounds for each event, or as many more as its language is quicker than Rhai, if it is
/// of a kind that comes back.
pub fn source(language: Language, kind: Kind, rounds: u32) -> String {
    let text = match language {
        Language::Lua => lua(kind),
        Language::JavaScript => javascript(kind),
        Language::Rhai => rhai(kind),
        Language::Wasm => wasm(kind),
    };
    text.replace("ROUNDS", &rounds.saturating_mul(quickness(language)).to_string())
}

fn lua(kind: Kind) -> &'static str {
    match kind {
        Kind::Watch => {
            "local sum = 0
            function on_event(stream, key, value)
                for i = 1, ROUNDS do sum = (sum * 31 + key + i) % 1000003 end
                if value > 900 then emit(key, value) end
            end"
        }
        Kind::Correlate => {
            "local last = {[0] = {}, [1] = {}}
            local sum = 0
            function on_event(stream, key, value)
                for i = 1, ROUNDS do sum = (sum * 31 + key + i) % 1000003 end
                last[stream % 2][key] = value
                local other = last[(stream + 1) % 2][key]
                if other and math.abs(other - value) > 800 then emit(key, value - other) end
            end"
        }
        Kind::Loop => "function on_event() while true do end end",
        Kind::Hoard => "local all = {} function on_event() while true do all[#all + 1] = {#all} end end",
        Kind::Throw => "function on_event(stream, key) error('no such key: ' .. key) end",
        Kind::Recurse => "local function deep(n) return 1 + deep(n + 1) end function on_event() deep(0) end",
    }
}

fn javascript(kind: Kind) -> &'static str {
    match kind {
        Kind::Watch => {
            "let sum = 0;
            function on_event(stream, key, value) {
                for (let i = 1; i <= ROUNDS; i++) sum = (sum * 31 + key + i) % 1000003;
                if (value > 900) emit(key, value);
            }"
        }
        Kind::Correlate => {
            "const last = [new Map(), new Map()];
            let sum = 0;
            function on_event(stream, key, value) {
                for (let i = 1; i <= ROUNDS; i++) sum = (sum * 31 + key + i) % 1000003;
                last[stream % 2].set(key, value);
                const other = last[(stream + 1) % 2].get(key);
                if (other !== undefined && Math.abs(other - value) > 800) emit(key, value - other);
            }"
        }
        Kind::Loop => "function on_event() { for (;;) try { for (;;); } catch (e) {} }",
        Kind::Hoard => "const all = []; function on_event() { for (;;) all.push([all.length]); }",
        Kind::Throw => "function on_event(stream, key) { throw new Error('no such key: ' + key); }",
        Kind::Recurse => "function deep(n) { return 1 + deep(n + 1); } function on_event() { deep(0); }",
    }
}

fn rhai(kind: Kind) -> &'static str {
    match kind {
        Kind::Watch => {
            "fn on_event(stream, key, value) {
                let sum = if this.sum == () { 0 } else { this.sum };
                for i in 0..ROUNDS { sum = (sum * 31 + key + i) % 1000003; }
                this.sum = sum;
                if value > 900.0 { emit(key, value); }
            }"
        }
        Kind::Correlate => {
            "fn on_event(stream, key, value) {
                let sum = if this.sum == () { 0 } else { this.sum };
                for i in 0..ROUNDS { sum = (sum * 31 + key + i) % 1000003; }
                this.sum = sum;
                this[`${stream % 2}:${key}`] = value;
                let other = this[`${(stream + 1) % 2}:${key}`];
                if other != () && abs(other - value) > 800.0 { emit(key, value - other); }
            }"
        }
        Kind::Loop => "fn on_event(stream, key, value) { loop { try { loop { } } catch { } } }",
        Kind::Hoard => "fn on_event(stream, key, value) { this.all = []; loop { this.all.push([1, 2, 3]); } }",
        Kind::Throw => "fn on_event(stream, key, value) { throw `no such key: ${key}`; }",
        Kind::Recurse => "fn deep(n) { 1 + deep(n + 1) } fn on_event(stream, key, value) { deep(0); }",
    }
}

fn wasm(kind: Kind) -> &'static str {
    match kind {
        Kind::Watch => {
            r#"(module (import "gyre" "emit" (func $emit (param i32 f64)))
            (global $sum (mut i32) (i32.const 0))
            (func (export "on_event") (param $stream i32) (param $key i32) (param $value f64) (local $i i32)
              (loop $more
                (global.set $sum (i32.rem_u (i32.add (i32.mul (global.get $sum) (i32.const 31)) (i32.add (local.get $key) (local.get $i))) (i32.const 1000003)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $more (i32.lt_u (local.get $i) (i32.const ROUNDS))))
              (if (f64.gt (local.get $value) (f64.const 900)) (then (call $emit (local.get $key) (local.get $value))))))"#
        }
        Kind::Correlate => {
            r#"(module (import "gyre" "emit" (func $emit (param i32 f64)))
            (memory (export "memory") 1)
            (global $sum (mut i32) (i32.const 0))
            (func $at (param $stream i32) (param $key i32) (result i32)
              (i32.add (i32.shl (i32.and (local.get $stream) (i32.const 1)) (i32.const 12)) (i32.shl (i32.and (local.get $key) (i32.const 511)) (i32.const 3))))
            (func (export "on_event") (param $stream i32) (param $key i32) (param $value f64) (local $i i32) (local $other f64)
              (loop $more
                (global.set $sum (i32.rem_u (i32.add (i32.mul (global.get $sum) (i32.const 31)) (i32.add (local.get $key) (local.get $i))) (i32.const 1000003)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $more (i32.lt_u (local.get $i) (i32.const ROUNDS))))
              (f64.store (call $at (local.get $stream) (local.get $key)) (local.get $value))
              (local.set $other (f64.load (call $at (i32.add (local.get $stream) (i32.const 1)) (local.get $key))))
              (if (i32.and (f64.ne (local.get $other) (f64.const 0)) (f64.gt (f64.abs (f64.sub (local.get $other) (local.get $value))) (f64.const 800)))
                (then (call $emit (local.get $key) (f64.sub (local.get $value) (local.get $other)))))))"#
        }
        Kind::Loop => r#"(module (func (export "on_event") (param i32 i32 f64) (loop $again (br $again))))"#,
        Kind::Hoard => {
            r#"(module (memory (export "memory") 1)
            (func (export "on_event") (param i32 i32 f64)
              (loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable))"#
        }
        Kind::Throw => r#"(module (func (export "on_event") (param i32 i32 f64) unreachable))"#,
        Kind::Recurse => {
            r#"(module (func $deep (call $deep)) (func (export "on_event") (param i32 i32 f64) (call $deep)))"#
        }
    }
}
