//! Which functions a function calls, as far as names and declared types tell. A value is known by the types that it
//! may hold; what a standard method answers holds what its receiver held.
//!
//! Protocol of use: [`calls`] takes the tables of all declarations and one function, and answers the numbers of the
//! functions that it may call. Nothing else here is public.
//!
//! * `known` maps each local name to its bag of types. Parameters come first, then each `let`, pattern and closure as
//!   the walk meets them.
//! * A method call looks in each type of the receiver's bag. If none has it, it is a standard one.
//! * A closure's parameters hold what the called function declares, else what stands beside it.
//! * A function that is given to `spawn` or `errand` is not called: a task runs it with a stack of its own.
//!
//! The answer is a guess to the safe side: too many calls, never too few for code that names its types. Left out:
//! macros whose arguments are no expressions, and calls through pointers that no type names.

use super::source::Source;
use super::types::{Bag, Function, Tables, names_of};
use std::collections::{BTreeSet, HashMap};
use syn::punctuated::Punctuated;
use syn::{Expr, Pat};

/// Returns the functions that a function calls, by number.
pub fn calls(tables: &Tables, sources: &[Source], function: &Function) -> BTreeSet<usize> {
    let mut body = Body { tables, sources, function, known: HashMap::new(), calls: BTreeSet::new() };
    for input in &function.signature.inputs {
        match input {
            syn::FnArg::Receiver(_) => _ = body.known.insert("self".into(), body.own_types()),
            syn::FnArg::Typed(input) => {
                let bag = body.types_in(&input.ty);
                body.bind(&input.pat, &bag);
            }
        }
    }
    body.block(function.block);
    body.calls
}

/// True for what starts a task: it is given work, which it does not do.
fn is_start(name: &str) -> bool {
    name.starts_with("spawn") || name == "errand"
}

struct Body<'a> {
    tables: &'a Tables<'a>,
    sources: &'a [Source],
    function: &'a Function<'a>,
    known: HashMap<String, Bag>,
    calls: BTreeSet<usize>,
}

impl Body<'_> {
    fn own_types(&self) -> Bag {
        self.function.of.into_iter().collect()
    }

    fn types_in(&self, ty: &syn::Type) -> Bag {
        self.tables.look_up(self.sources, self.function.file, &names_of(ty, false), &self.function.parameters)
    }

    fn named(&self, name: &str) -> Bag {
        if name == "Self" {
            return self.own_types();
        }
        let names = [name.to_owned()].into();
        self.tables.look_up(self.sources, self.function.file, &names, &self.function.parameters)
    }

    fn block(&mut self, block: &syn::Block) -> Bag {
        let mut last = Bag::new();
        for statement in &block.stmts {
            last = match statement {
                syn::Stmt::Local(local) => {
                    self.local(local);
                    Bag::new()
                }
                syn::Stmt::Expr(value, _) => self.value(value),
                syn::Stmt::Macro(call) => self.tokens(&call.mac),
                syn::Stmt::Item(_) => Bag::new(),
            };
        }
        last
    }

    fn local(&mut self, local: &syn::Local) {
        let mut bag = Bag::new();
        if let Some(init) = &local.init {
            bag = self.value(&init.expr);
            if let Some((_, otherwise)) = &init.diverge {
                self.value(otherwise);
            }
        }
        if let Pat::Type(typed) = &local.pat {
            let declared = self.types_in(&typed.ty);
            bag = if declared.is_empty() { bag } else { declared };
        }
        self.bind(&local.pat, &bag);
    }

    /// Gives the names of a pattern what they may hold.
    fn bind(&mut self, pattern: &Pat, bag: &Bag) {
        match pattern {
            Pat::Ident(name) => {
                self.known.insert(name.ident.to_string(), bag.clone());
                if let Some((_, inner)) = &name.subpat {
                    self.bind(inner, bag);
                }
            }
            Pat::TupleStruct(parts) => {
                let variant = parts.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
                let whole = self.named(&variant);
                let inner = self.field(bag, &variant).or_else(|| (!whole.is_empty()).then(|| self.all_fields(&whole)));
                let inner = inner.unwrap_or_else(|| bag.clone());
                parts.elems.iter().for_each(|part| self.bind(part, &inner));
            }
            Pat::Struct(parts) => {
                let variant = parts.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
                let whole: Bag = bag.union(&self.named(&variant)).copied().collect();
                for field in &parts.fields {
                    let syn::Member::Named(name) = &field.member else { continue };
                    let inner = self.field(&whole, &name.to_string()).unwrap_or_default();
                    self.bind(&field.pat, &inner);
                }
            }
            Pat::Tuple(parts) => parts.elems.iter().for_each(|part| self.bind(part, bag)),
            Pat::Slice(parts) => parts.elems.iter().for_each(|part| self.bind(part, bag)),
            Pat::Or(parts) => parts.cases.iter().for_each(|part| self.bind(part, bag)),
            Pat::Reference(part) => self.bind(&part.pat, bag),
            Pat::Paren(part) => self.bind(&part.pat, bag),
            Pat::Type(part) => self.bind(&part.pat, bag),
            _ => {}
        }
    }

    /// Returns the types that a field may hold; `None` if none of the types has it.
    fn field(&self, bag: &Bag, name: &str) -> Option<Bag> {
        let mut found = None;
        for ty in bag.iter().map(|ty| &self.tables.types[*ty]) {
            if let Some(names) = ty.fields.get(name) {
                found.get_or_insert_with(Bag::new).extend(self.tables.look_up(
                    self.sources,
                    ty.file,
                    names,
                    &ty.parameters,
                ));
            }
        }
        found
    }

    fn all_fields(&self, bag: &Bag) -> Bag {
        let fields = |ty: &usize| {
            let ty = &self.tables.types[*ty];
            ty.fields.values().flat_map(|names| self.tables.look_up(self.sources, ty.file, names, &ty.parameters))
        };
        bag.iter().flat_map(fields).collect()
    }

    /// Returns the types that an expression may hold; notes the calls in it.
    fn value(&mut self, expression: &Expr) -> Bag {
        match expression {
            Expr::Path(path) => self.path(&path.path),
            Expr::Field(field) => {
                let base = self.value(&field.base);
                let name = match &field.member {
                    syn::Member::Named(name) => name.to_string(),
                    syn::Member::Unnamed(place) => place.index.to_string(),
                };
                let is_tuple = matches!(field.member, syn::Member::Unnamed(_));
                self.field(&base, &name).unwrap_or_else(|| if is_tuple { base } else { Bag::new() })
            }
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Call(call) => self.call(call),
            Expr::Closure(closure) => self.closure(closure, &Bag::new()),
            Expr::Block(block) => self.block(&block.block),
            Expr::Async(block) => self.block(&block.block),
            Expr::Unsafe(block) => self.block(&block.block),
            Expr::Const(block) => self.block(&block.block),
            Expr::If(branch) => {
                self.value(&branch.cond);
                let mut bag = self.block(&branch.then_branch);
                if let Some((_, otherwise)) = &branch.else_branch {
                    bag.extend(self.value(otherwise));
                }
                bag
            }
            Expr::Match(choice) => {
                let chosen = self.value(&choice.expr);
                let mut bag = Bag::new();
                for arm in &choice.arms {
                    self.bind(&arm.pat, &chosen);
                    if let Some((_, guard)) = &arm.guard {
                        self.value(guard);
                    }
                    bag.extend(self.value(&arm.body));
                }
                bag
            }
            Expr::Let(binding) => {
                let bag = self.value(&binding.expr);
                self.bind(&binding.pat, &bag);
                Bag::new()
            }
            Expr::While(repeat) => {
                self.value(&repeat.cond);
                self.block(&repeat.body)
            }
            Expr::ForLoop(repeat) => {
                let bag = self.value(&repeat.expr);
                self.bind(&repeat.pat, &bag);
                self.block(&repeat.body)
            }
            Expr::Loop(repeat) => self.block(&repeat.body),
            Expr::Struct(made) => {
                made.fields.iter().for_each(|field| _ = self.value(&field.expr));
                made.rest.iter().for_each(|rest| _ = self.value(rest));
                self.path(&made.path)
            }
            Expr::Macro(call) => self.tokens(&call.mac),
            other => self.parts(other),
        }
    }

    /// Expressions that hold what their parts hold.
    fn parts(&mut self, expression: &Expr) -> Bag {
        let parts: Vec<&Expr> = match expression {
            Expr::Await(part) => vec![&part.base],
            Expr::Try(part) => vec![&part.expr],
            Expr::Reference(part) => vec![&part.expr],
            Expr::Paren(part) => vec![&part.expr],
            Expr::Group(part) => vec![&part.expr],
            Expr::Unary(part) => vec![&part.expr],
            Expr::Cast(part) => vec![&part.expr],
            Expr::Index(part) => vec![&part.index, &part.expr],
            Expr::Binary(part) => vec![&part.left, &part.right],
            Expr::Assign(part) => vec![&part.left, &part.right],
            Expr::Range(part) => part.start.iter().chain(&part.end).map(|end| &**end).collect(),
            Expr::Repeat(part) => vec![&part.expr],
            Expr::Return(part) => part.expr.iter().map(|value| &**value).collect(),
            Expr::Break(part) => part.expr.iter().map(|value| &**value).collect(),
            Expr::Tuple(parts) => parts.elems.iter().collect(),
            Expr::Array(parts) => parts.elems.iter().collect(),
            _ => Vec::new(),
        };
        parts.into_iter().flat_map(|part| self.value(part)).collect()
    }

    fn path(&mut self, path: &syn::Path) -> Bag {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        match &names[..] {
            [name] => match self.known.get(name) {
                Some(bag) => bag.clone(),
                None => self.constant(name),
            },
            [.., of, name] => {
                let bag = self.named(of);
                // A function given to another one: it is called there.
                let methods: Vec<usize> = bag.iter().flat_map(|ty| self.tables.find_methods(*ty, name)).collect();
                self.calls.extend(methods);
                if bag.is_empty() { self.constant(name) } else { bag }
            }
            [] => Bag::new(),
        }
    }

    fn constant(&self, name: &str) -> Bag {
        let mut bag = self.named(name);
        for (file, names) in self.tables.statics.get(name).into_iter().flatten() {
            bag.extend(self.tables.look_up(self.sources, *file, names, &HashMap::new()));
        }
        bag
    }

    fn closure(&mut self, closure: &syn::ExprClosure, given: &Bag) -> Bag {
        for input in &closure.inputs {
            let bag = if let Pat::Type(typed) = input { self.types_in(&typed.ty) } else { given.clone() };
            self.bind(input, &bag);
        }
        self.value(&closure.body)
    }

    /// Values given to functions; closures among them get what those declare, else what their neighbours hold.
    fn given(&mut self, arguments: &Punctuated<Expr, syn::Token![,]>, receiver: &Bag, to: &[usize]) -> Bag {
        let (closures, values): (Vec<&Expr>, Vec<&Expr>) =
            arguments.iter().partition(|value| matches!(value, Expr::Closure(_)));
        let mut bag: Bag = values
            .into_iter()
            .filter(|value| !self.is_constructor(value))
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|value| self.value(value))
            .collect();
        let around: Bag = match to {
            [] => bag.union(receiver).copied().collect(),
            to => to.iter().flat_map(|function| self.declared_for_closures(*function)).collect(),
        };
        for closure in closures {
            if let Expr::Closure(closure) = closure {
                bag.extend(self.closure(closure, &around));
            }
        }
        bag
    }

    /// True for the name of a type that is given as a function: `map_err(Page)`.
    fn is_constructor(&self, value: &Expr) -> bool {
        let Expr::Path(path) = value else { return false };
        let name = path.path.get_ident().map(ToString::to_string);
        name.is_some_and(|name| !self.known.contains_key(&name) && !self.tables.statics.contains_key(&name))
    }

    /// Returns the arguments of a function's closures, as it declares them.
    fn declared_for_closures(&self, function: usize) -> Bag {
        let function = &self.tables.functions[function];
        let of_generics = function.parameters.values().cloned();
        let of_inputs = function.signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(input) => Some(names_of(&input.ty, false)),
            syn::FnArg::Receiver(_) => None,
        });
        let takes_values = |names: &std::collections::BTreeSet<String>| names.iter().any(|name| name.starts_with("Fn"));
        let names = of_generics.chain(of_inputs).filter(takes_values).flatten().collect();
        self.tables.look_up(self.sources, function.file, &names, &function.parameters)
    }

    fn method_call(&mut self, call: &syn::ExprMethodCall) -> Bag {
        let receiver = self.value(&call.receiver);
        let name = call.method.to_string();
        if is_start(&name) {
            return Bag::new();
        }
        let mut found = Vec::new();
        let mut answer = Bag::new();
        for ty in &receiver {
            for function in self.tables.find_methods(*ty, &name) {
                found.push(function);
                answer.extend(self.answer(function, Some(*ty)));
            }
        }
        let given = self.given(&call.args, &receiver, &found);
        if found.is_empty() {
            return receiver.union(&given).copied().collect();
        }
        self.calls.extend(found);
        answer
    }

    fn call(&mut self, call: &syn::ExprCall) -> Bag {
        let Expr::Path(path) = &*call.func else {
            let called = self.value(&call.func);
            return self.given(&call.args, &called, &[]).union(&called).copied().collect();
        };
        let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let Some(name) = names.last() else { return Bag::new() };
        if is_start(name) {
            return Bag::new();
        }
        let of = names.len().checked_sub(2).map(|at| names[at].as_str());
        if of.is_none() && self.known.contains_key(name) {
            return self.given(&call.args, &Bag::new(), &[]);
        }
        let is_standard = ["core", "alloc", "std"].contains(&names[0].as_str());
        let types = of.filter(|_| !is_standard).map(|of| self.named(of)).unwrap_or_default();
        let mut found: Vec<(usize, Option<usize>)> = types
            .iter()
            .flat_map(|ty| self.tables.find_methods(*ty, name).into_iter().map(|function| (function, Some(*ty))))
            .collect();
        let is_module = of.is_none_or(|of| of.chars().all(|letter| !letter.is_uppercase()));
        if found.is_empty() && is_module && !is_standard {
            let free = self.tables.find_free(self.sources, self.function.file, name, of);
            found.extend(free.into_iter().map(|function| (function, None)));
        }
        let functions: Vec<usize> = found.iter().map(|(function, _)| *function).collect();
        let given = self.given(&call.args, &Bag::new(), &functions);
        if found.is_empty() {
            // A constructor, or something of the standard library, which holds what it is given.
            let mut bag = if types.is_empty() { self.named(name) } else { types };
            bag.extend(given);
            return bag;
        }
        self.calls.extend(functions);
        found.into_iter().flat_map(|(function, of)| self.answer(function, of)).collect()
    }

    /// Returns the types that a function answers.
    fn answer(&self, function: usize, of: Option<usize>) -> Bag {
        let function = &self.tables.functions[function];
        let syn::ReturnType::Type(_, ty) = &function.signature.output else { return Bag::new() };
        let names = names_of(ty, false);
        let mut bag = self.tables.look_up(self.sources, function.file, &names, &function.parameters);
        if names.contains("Self") {
            bag.extend(of.or(function.of));
        }
        bag
    }

    fn tokens(&mut self, call: &syn::Macro) -> Bag {
        let parser = Punctuated::<Expr, syn::Token![,]>::parse_terminated;
        let Ok(parts) = call.parse_body_with(parser) else { return Bag::new() };
        parts.iter().flat_map(|part| self.value(part)).collect()
    }
}
