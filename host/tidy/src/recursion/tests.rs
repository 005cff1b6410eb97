//! Small kernels with rings in them.

use super::source::Source;
use super::*;

fn faults_of(text: &str) -> Vec<String> {
    faults_in(&[Source::new(Path::new("interface/src/lib.rs"), 0, text).unwrap()])
}

#[test]
fn a_function_that_calls_itself_is_found_directly_and_through_others() {
    assert_eq!(faults_of("fn a() { b() } fn b() { c() } fn c() {}"), Vec::<String>::new());
    assert_eq!(faults_of("fn a() { a() }").len(), 1);
    let said = faults_of("fn a() { if true { b() } } fn b() { loop { c() } } fn c() { a() }");
    assert!(
        said.len() == 1 && said[0].contains("a (") && said[0].contains("b (") && said[0].contains("c ("),
        "{said:?}"
    );
}

#[test]
fn methods_are_told_apart_by_the_type_of_their_receiver() {
    let fine = "struct In; impl In { fn len(&self) -> usize { 1 } } struct Out { parts: Vec<In> }
        impl Out { fn len(&self) -> usize { self.parts.iter().map(|part| part.len()).sum() } }";
    assert_eq!(faults_of(fine), Vec::<String>::new());
    let ring = "struct Node { next: Option<Weak<Node>> } impl Node { fn len(&self) -> usize { self.next.upgrade().map_or(0, |next| next.len()) } }";
    assert_eq!(faults_of(ring).len(), 1);
}

#[test]
fn calls_through_a_trait_reach_who_implements_it() {
    let text =
        "trait Told { fn changed(&self); } struct Source { told: Vec<Weak<dyn Told>> } struct List { source: Source }
        impl Source { fn set(&self) { for one in &self.told { one.changed() } } }
        impl Told for List { fn changed(&self) { self.source.set() } }";
    assert_eq!(faults_of(text).len(), 1);
}

#[test]
fn a_type_that_owns_itself_is_found_and_one_that_refers_to_itself_is_not() {
    assert_eq!(faults_of("struct List { next: Option<Box<List>> }").len(), 1);
    assert_eq!(faults_of("struct A { b: Arc<B> } enum B { Of(Vec<A>) }").len(), 1);
    assert_eq!(
        faults_of("struct Tree { parent: Weak<Tree> } struct View<'a> { of: &'a View<'a> }"),
        Vec::<String>::new()
    );
}

#[test]
fn a_note_with_a_bound_excuses_and_one_without_a_ring_is_a_fault() {
    let noted = "/// Doc.\n// recursion: at most 4, because there are four levels\n#[inline]\nfn a() { a() }";
    assert_eq!(faults_of(noted), Vec::<String>::new());
    assert_eq!(faults_of("// recursion: it is fine\nfn a() { a() }").len(), 1);
    assert_eq!(faults_of("// recursion: at most 4, because so\nfn a() {}").len(), 1);
}

#[test]
fn work_that_is_given_to_a_task_is_no_call() {
    assert_eq!(faults_of("async fn run() { spawn(run()) }"), Vec::<String>::new());
}
