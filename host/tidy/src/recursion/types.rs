//! The declarations: types with their fields, traits, functions. A type is known by the names in it alone:
//! `Option<Arc<Epoll>>` is `Epoll`.
//!
//! Protocol of use: [`Tables::new`] reads all sources in two passes. It declares all types first, then the functions
//! with the types that they belong to. [`super::body`] asks the tables by name.
//!
//! * A name is looked up from a file. If the file imports it, only its origin counts; otherwise the nearest wins: the
//!   file itself, files below or above it, its folder, its crate, all.
//! * Methods of a trait lead to those of all its implementors, since a call through `dyn` may reach each.
//! * `owned` leaves out references and `Weak`: dropping a value drops only what it owns. Recursion of drops is found
//!   by that.
//!
//! Left out: tests, code for other systems, and types that a macro makes.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use syn::visit::{self, Visit};

/// Types that a value may hold, by number.
pub type Bag = BTreeSet<usize>;
/// Names in a type, not looked up yet.
pub type Names = BTreeSet<String>;

/// Names that mean the standard library's, if a file does not say otherwise.
const PRELUDE: &[&str] =
    &["Box", "Clone", "Default", "Drop", "Fn", "FnMut", "FnOnce", "Iterator", "Option", "Result", "String", "Vec"];

/// A struct, enum, union, trait or alias.
#[derive(Default)]
pub struct Type {
    pub name: String,
    pub file: usize,
    pub line: usize,
    /// Fields, and payloads of variants, by name or place.
    pub fields: BTreeMap<String, Names>,
    /// The types that it owns: dropping it may drop these.
    pub owned: Names,
    /// The type to which it can be dereferenced, or of which it is another name.
    pub leads_to: Names,
    /// Names of its parameters.
    pub parameters: HashMap<String, Names>,
    /// For a trait: who implements it.
    pub implementors: Vec<usize>,
    /// Traits that it implements.
    pub traits: Vec<usize>,
}

/// A function with a body.
pub struct Function<'a> {
    pub name: String,
    pub file: usize,
    pub line: usize,
    /// The type or trait that it is a method of.
    pub of: Option<usize>,
    /// The trait that asks for it, by name.
    pub of_trait: Option<String>,
    pub signature: &'a syn::Signature,
    pub block: &'a syn::Block,
    /// Names that stand for others here: type parameters and `Self`.
    pub parameters: HashMap<String, Names>,
}

/// Everything that is declared.
#[derive(Default)]
pub struct Tables<'a> {
    pub types: Vec<Type>,
    pub functions: Vec<Function<'a>>,
    /// For each file, the origins of the names that it uses: the path, without the name itself.
    imports: Vec<HashMap<String, Vec<String>>>,
    pub statics: HashMap<String, Vec<(usize, Names)>>,
    by_name: HashMap<String, Vec<usize>>,
    methods: HashMap<(usize, String), Vec<usize>>,
    free: HashMap<String, Vec<usize>>,
}

/// Returns the names in a type. A type that is only referred to is left out if ownership is asked.
pub fn names_of(ty: &syn::Type, owned_only: bool) -> Names {
    let mut names = NamesIn { names: Names::new(), owned_only };
    names.visit_type(ty);
    names.names
}

struct NamesIn {
    names: Names,
    owned_only: bool,
}

impl<'a> Visit<'a> for NamesIn {
    fn visit_path(&mut self, path: &'a syn::Path) {
        if is_standard(path.segments.first()) {
            // The names in it are not ours; what it is made of may be.
            path.segments.iter().for_each(|segment| self.visit_path_arguments(&segment.arguments));
        } else {
            visit::visit_path(self, path);
        }
    }
    fn visit_path_segment(&mut self, segment: &'a syn::PathSegment) {
        let name = segment.ident.to_string();
        let only_refers = ["Weak", "PhantomData", "AtomicPtr"].contains(&name.as_str());
        if !(self.owned_only && only_refers) {
            self.names.insert(name);
            visit::visit_path_segment(self, segment);
        }
    }
    fn visit_type_reference(&mut self, reference: &'a syn::TypeReference) {
        if !self.owned_only {
            visit::visit_type_reference(self, reference);
        }
    }
    fn visit_type_ptr(&mut self, pointer: &'a syn::TypePtr) {
        if !self.owned_only {
            visit::visit_type_ptr(self, pointer);
        }
    }
    fn visit_expr(&mut self, _length: &'a syn::Expr) {}
    fn visit_type_bare_fn(&mut self, _function: &'a syn::TypeBareFn) {}
}

/// True for what comes from the standard library.
fn is_standard(first: Option<&syn::PathSegment>) -> bool {
    first.is_some_and(|first| ["core", "alloc", "std"].iter().any(|name| first.ident == name))
}

/// Type parameters and what they must be.
fn parameters(generics: &syn::Generics) -> HashMap<String, Names> {
    let mut found: HashMap<String, Names> = HashMap::new();
    let bounds = |bounds: &syn::punctuated::Punctuated<syn::TypeParamBound, syn::Token![+]>| {
        let mut names = NamesIn { names: Names::new(), owned_only: false };
        bounds.iter().for_each(|bound| names.visit_type_param_bound(bound));
        names.names
    };
    for parameter in generics.type_params() {
        found.entry(parameter.ident.to_string()).or_default().extend(bounds(&parameter.bounds));
    }
    for predicate in generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        if let syn::WherePredicate::Type(predicate) = predicate {
            for name in names_of(&predicate.bounded_ty, false) {
                found.entry(name).or_default().extend(bounds(&predicate.bounds));
            }
        }
    }
    found
}

/// True for what is compiled in tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let text = list.tokens.to_string();
        list.path.is_ident("cfg") && (text == "test" || text == "loom" || text.contains("not (target_os"))
    })
}

impl<'a> Tables<'a> {
    /// Reads all declarations.
    pub fn new(sources: &'a [Source]) -> Tables<'a> {
        let mut tables = Tables::default();
        for (file, source) in sources.iter().enumerate() {
            tables.imports.push(imports(&source.syntax.items));
            tables.declare(file, &source.syntax.items);
        }
        for (number, ty) in tables.types.iter().enumerate() {
            tables.by_name.entry(ty.name.clone()).or_default().push(number);
        }
        for (file, source) in sources.iter().enumerate() {
            tables.define(sources, file, &source.syntax.items);
        }
        tables
    }

    fn declare(&mut self, file: usize, items: &'a [syn::Item]) {
        let mut rest: Vec<&syn::Item> = items.iter().collect();
        while let Some(item) = rest.pop() {
            match item {
                syn::Item::Struct(item) if !is_test(&item.attrs) => {
                    let ty = self.add_type(file, &item.ident, &item.generics);
                    ty.take_fields("", &item.fields);
                }
                syn::Item::Enum(item) if !is_test(&item.attrs) => {
                    let ty = self.add_type(file, &item.ident, &item.generics);
                    item.variants
                        .iter()
                        .for_each(|variant| ty.take_fields(&variant.ident.to_string(), &variant.fields));
                }
                syn::Item::Trait(item) => _ = self.add_type(file, &item.ident, &item.generics),
                syn::Item::Type(item) => {
                    let ty = self.add_type(file, &item.ident, &item.generics);
                    ty.leads_to = names_of(&item.ty, false);
                    ty.owned = names_of(&item.ty, true);
                }
                syn::Item::Static(item) => self.add_static(file, &item.ident, &item.ty),
                syn::Item::Const(item) => self.add_static(file, &item.ident, &item.ty),
                syn::Item::Mod(item) if !is_test(&item.attrs) => {
                    rest.extend(item.content.iter().flat_map(|content| &content.1))
                }
                _ => {}
            }
        }
    }

    fn add_static(&mut self, file: usize, name: &syn::Ident, ty: &syn::Type) {
        self.statics.entry(name.to_string()).or_default().push((file, names_of(ty, false)));
    }

    fn add_type(&mut self, file: usize, name: &syn::Ident, generics: &syn::Generics) -> &mut Type {
        let line = name.span().start().line;
        self.types.push(Type {
            name: name.to_string(),
            file,
            line,
            parameters: parameters(generics),
            ..Type::default()
        });
        let last = self.types.len() - 1;
        &mut self.types[last]
    }

    fn define(&mut self, sources: &[Source], file: usize, items: &'a [syn::Item]) {
        let mut rest: Vec<&syn::Item> = items.iter().collect();
        while let Some(item) = rest.pop() {
            match item {
                syn::Item::Fn(item) if !is_test(&item.attrs) => {
                    self.add_function(file, None, None, &item.sig, &item.block, &HashMap::new());
                }
                syn::Item::Impl(item) if !is_test(&item.attrs) => self.define_impl(sources, file, item),
                syn::Item::Trait(item) => {
                    let of = self
                        .find(sources, file, &item.ident.to_string())
                        .into_iter()
                        .find(|ty| self.types[*ty].file == file);
                    for member in &item.items {
                        if let syn::TraitItem::Fn(member) = member
                            && let Some(block) = &member.default
                        {
                            self.add_function(file, of, None, &member.sig, block, &HashMap::new());
                        }
                    }
                }
                syn::Item::Mod(item) if !is_test(&item.attrs) => {
                    rest.extend(item.content.iter().flat_map(|content| &content.1))
                }
                _ => {}
            }
        }
    }

    fn define_impl(&mut self, sources: &[Source], file: usize, item: &'a syn::ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else { return };
        let Some(name) = path.path.segments.last().map(|segment| segment.ident.to_string()) else { return };
        let Some(of) = self.find(sources, file, &name).into_iter().next() else { return };
        let trait_name =
            item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last()).map(|last| last.ident.to_string());
        for of_trait in trait_name.iter().flat_map(|name| self.find(sources, file, name)).collect::<Vec<_>>() {
            self.types[of_trait].implementors.push(of);
            self.types[of].traits.push(of_trait);
        }
        let mut names = parameters(&item.generics);
        names.insert("Self".into(), Names::from([name]));
        for member in &item.items {
            match member {
                syn::ImplItem::Fn(member) if !is_test(&member.attrs) => {
                    self.add_function(file, Some(of), trait_name.clone(), &member.sig, &member.block, &names);
                }
                syn::ImplItem::Type(member) if trait_name.as_deref() == Some("Deref") => {
                    self.types[of].leads_to.extend(names_of(&member.ty, false));
                }
                _ => {}
            }
        }
    }

    fn add_function(
        &mut self,
        file: usize,
        of: Option<usize>,
        of_trait: Option<String>,
        signature: &'a syn::Signature,
        block: &'a syn::Block,
        outer: &HashMap<String, Names>,
    ) {
        let mut names = outer.clone();
        names.extend(parameters(&signature.generics));
        let name = signature.ident.to_string();
        let line = signature.ident.span().start().line;
        let number = self.functions.len();
        match of {
            Some(of) => self.methods.entry((of, name.clone())).or_default().push(number),
            None => self.free.entry(name.clone()).or_default().push(number),
        }
        self.functions.push(Function { name, file, line, of, of_trait, signature, block, parameters: names });
    }

    /// Returns the types of a name, seen from a file: those nearest to it.
    pub fn find(&self, sources: &[Source], file: usize, name: &str) -> Vec<usize> {
        let mut all = self.by_name.get(name).cloned().unwrap_or_default();
        if PRELUDE.contains(&name) && !self.imports[file].contains_key(name) {
            all.retain(|ty| self.types[*ty].file == file);
        }
        self.keep_imported(sources, file, name, &mut all, |ty| self.types[ty].file);
        nearest(sources, file, &all, |ty| self.types[ty].file)
    }

    /// Of things with one name, keeps those that a file can mean by it: if the file names an origin, those from there.
    fn keep_imported(
        &self,
        sources: &[Source],
        file: usize,
        name: &str,
        all: &mut Vec<usize>,
        file_of: impl Fn(usize) -> usize,
    ) {
        if all.iter().any(|thing| file_of(*thing) == file) {
            return;
        }
        let Some(first) = self.imports[file].get(name).and_then(|path| path.first()) else { return };
        match first.as_str() {
            "core" | "alloc" | "std" => all.clear(),
            "crate" | "self" | "super" => all.retain(|thing| sources[file_of(*thing)].krate == sources[file].krate),
            other => {
                let folder = other.strip_prefix("gyre_").unwrap_or(other);
                let lies_there = |thing: &usize| {
                    let path = &sources[file_of(*thing)].path;
                    let platform = folder == "machine" && path.starts_with("platform");
                    platform || path.components().any(|part| part.as_os_str() == folder)
                };
                if all.iter().any(lies_there) {
                    all.retain(lies_there);
                }
            }
        }
    }

    /// Returns the free functions of a name, seen from a file; `module` is the name before theirs.
    pub fn find_free(&self, sources: &[Source], file: usize, name: &str, module: Option<&str>) -> Vec<usize> {
        let mut all = self.free.get(name).cloned().unwrap_or_default();
        let file_of = |function: usize| self.functions[function].file;
        match module.filter(|module| !["self", "super", "crate"].contains(module)) {
            None => self.keep_imported(sources, file, name, &mut all, file_of),
            Some(module) => {
                let folder = module.strip_prefix("gyre_").unwrap_or(module);
                let lies_there = |number: &usize| {
                    let path = sources[file_of(*number)].path.with_extension("");
                    path.components().any(|part| part.as_os_str() == folder)
                        || folder == "machine" && path.starts_with("platform")
                };
                all.retain(lies_there);
            }
        }
        nearest(sources, file, &all, file_of)
    }

    /// Returns the methods of a name of a type: its own, else those of its traits; for a trait those of its implementers.
    pub fn find_methods(&self, ty: usize, name: &str) -> Vec<usize> {
        let all = |ty: usize| self.methods.get(&(ty, name.to_owned())).map_or(&[][..], Vec::as_slice);
        let (own, of_traits): (Vec<usize>, Vec<usize>) =
            all(ty).iter().partition(|function| self.functions[**function].of_trait.is_none());
        let mut found = if own.is_empty() { of_traits } else { own };
        if found.is_empty() {
            found.extend(self.types[ty].traits.iter().flat_map(|ty| all(*ty)));
        }
        let asked = Some(&self.types[ty].name);
        let of_this = |function: &&usize| self.functions[**function].of_trait.as_ref() == asked;
        found.extend(self.types[ty].implementors.iter().flat_map(|ty| all(*ty).iter().filter(of_this)));
        found
    }

    /// Looks names up from a file; those that stand for others are replaced by these.
    pub fn look_up(&self, sources: &[Source], file: usize, names: &Names, stand_for: &HashMap<String, Names>) -> Bag {
        let mut bag = Bag::new();
        for name in names {
            let single = Names::from([name.clone()]);
            for name in stand_for.get(name).unwrap_or(&single) {
                for ty in self.find(sources, file, name) {
                    bag.insert(ty);
                    let further = &self.types[ty];
                    let further = further.leads_to.iter().flat_map(|name| self.find(sources, further.file, name));
                    bag.extend(further);
                }
            }
        }
        bag
    }
}

impl Type {
    fn take_fields(&mut self, variant: &str, fields: &syn::Fields) {
        for (place, field) in fields.iter().enumerate() {
            let name = field.ident.as_ref().map_or(place.to_string(), ToString::to_string);
            let names = names_of(&field.ty, false);
            self.owned.extend(names_of(&field.ty, true));
            if !variant.is_empty() {
                self.fields.entry(variant.to_owned()).or_default().extend(names.clone());
            }
            self.fields.entry(name).or_default().extend(names);
        }
    }
}

/// Returns the origins of the names that a file uses.
fn imports(items: &[syn::Item]) -> HashMap<String, Vec<String>> {
    let mut found = HashMap::new();
    let uses = items.iter().filter_map(|item| if let syn::Item::Use(item) = item { Some(&item.tree) } else { None });
    let mut rest: Vec<(Vec<String>, &syn::UseTree)> = uses.map(|tree| (Vec::new(), tree)).collect();
    while let Some((mut path, tree)) = rest.pop() {
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.to_string());
                rest.push((path, &step.tree));
            }
            syn::UseTree::Name(name) => _ = found.insert(name.ident.to_string(), path),
            syn::UseTree::Rename(name) => _ = found.insert(name.rename.to_string(), path),
            syn::UseTree::Group(group) => rest.extend(group.items.iter().map(|tree| (path.clone(), tree))),
            syn::UseTree::Glob(_) => {}
        }
    }
    found
}

/// Of several things of a name those in the file itself, else in files below or above it, else in its crate, else all.
fn nearest(sources: &[Source], file: usize, all: &[usize], file_of: impl Fn(usize) -> usize) -> Vec<usize> {
    let near = |thing: usize| {
        let (here, there) = (&sources[file], &sources[file_of(thing)]);
        let stem = |source: &Source| source.path.with_extension("");
        if file_of(thing) == file {
            0
        } else if stem(there).starts_with(stem(here)) || stem(here).starts_with(stem(there)) {
            1
        } else if there.path.parent() == here.path.parent() {
            2
        } else {
            3 + usize::from(here.krate != there.krate)
        }
    };
    let Some(best) = all.iter().map(|thing| near(*thing)).min() else { return Vec::new() };
    all.iter().copied().filter(|thing| near(*thing) == best).collect()
}
