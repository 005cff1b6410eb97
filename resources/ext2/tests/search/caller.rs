//! A caller that has nodes, opens and pages, and makes requests with them; the requests are in the files of their families.

use super::request::{Family, Manner, Request};
use gyre_ext2::Ext2;
use gyre_interface::files::files::Server;
use gyre_interface::files::*;
use gyre_interface::near;
use gyre_message::{WaitQueue, select, sleep_ns, spawn};
use gyre_object::Page;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Nodes and pages that the caller knows at most; later ones take the places of those found since the start.
const NODES_MAX: usize = 24;
pub const PAGES_MAX: usize = 64;

/// Nodes that it knows from the start, by their paths.
const PATHS: [&[&str]; 8] = [
    &[],
    &["a"],
    &["a", "file"],
    &["a", "b"],
    &["a", "b", "large"],
    &["slow"],
    &["a", "b", "c"],
    &["a", "b", "c", "name1"],
];

#[derive(Default)]
pub struct State {
    nodes: Vec<NodeId>,
    found: usize,
    pub opens: Vec<NodeId>,
    /// Pages that it got to map.
    pub mapped: Vec<(NodeId, u64, Page)>,
    /// Pages that were lent, and what they held then.
    pub lent: Vec<(Page, Vec<u8>)>,
    running: usize,
    wrong: BTreeSet<String>,
}

/// The caller.
pub struct Caller {
    pub fs: &'static Ext2,
    pub near: &'static dyn near::Near,
    pub state: RefCell<State>,
    /// One that ran beside has ended.
    ended: WaitQueue,
}

impl Caller {
    /// Finds the nodes that it knows from the start; the root has the place of one that is not found.
    pub async fn new(fs: &'static Ext2) -> Rc<Caller> {
        let caller = Caller { fs, near: fs, state: RefCell::default(), ended: WaitQueue::new() };
        let root = fs.root().await.expect("a root is known");
        for path in PATHS {
            let mut node = root;
            for part in path {
                let found = fs.lookup(node, part.as_bytes().to_vec()).await;
                node = caller.noted(found).map_or(root, |found| found.node);
            }
            caller.state.borrow_mut().nodes.push(node);
        }
        Rc::new(caller)
    }

    /// Makes a request, and waits for it if it is one of those.
    pub async fn begin(self: &Rc<Self>, request: Request) {
        match request.manner {
            Manner::InTurn => self.make(request).await,
            Manner::Beside => {
                let caller = self.clone();
                self.state.borrow_mut().running += 1;
                spawn(async move {
                    caller.make(request).await;
                    caller.state.borrow_mut().running -= 1;
                    caller.ended.wake_all();
                });
            }
            Manner::Killed(ns) => drop(select(self.make(request), sleep_ns(ns)).await),
        }
    }

    /// Waits for those that run beside, looks whether lent pages are as they were, and gives all back.
    pub async fn end(&self) {
        self.ended.until(|| (self.state.borrow().running == 0).then_some(())).await;
        let mut state = self.state.take();
        for (page, contents) in state.lent.drain(..) {
            assert!(page.as_slice() == contents, "a page that was lent has changed");
        }
        for node in state.opens.drain(..) {
            let closed = self.fs.close(node).await;
            note(&mut state.wrong, &closed);
        }
        self.state.borrow_mut().wrong = state.wrong;
    }

    /// Returns answers that only a disk which is damaged or fails may give.
    pub fn wrong_answers(&self) -> BTreeSet<String> {
        self.state.borrow().wrong.clone()
    }

    pub fn noted<T>(&self, answer: Result<T, FileError>) -> Option<T> {
        note(&mut self.state.borrow_mut().wrong, &answer);
        answer.ok()
    }

    pub fn node(&self, byte: u8) -> NodeId {
        let state = self.state.borrow();
        state.nodes[usize::from(byte) % state.nodes.len()]
    }

    pub fn found(&self, answer: Result<Attributes, FileError>) -> Option<NodeId> {
        let node = self.noted(answer)?.node;
        let state = &mut *self.state.borrow_mut();
        if state.nodes.len() < NODES_MAX {
            state.nodes.push(node);
        } else {
            state.nodes[PATHS.len() + state.found % (NODES_MAX - PATHS.len())] = node;
            state.found += 1;
        }
        Some(node)
    }

    async fn make(&self, request: Request) {
        match request.family {
            Family::Names => self.ask_of_names(request).await,
            Family::Contents => self.ask_of_contents(request).await,
            Family::Memory => self.ask_of_memory(request).await,
            Family::Nodes => self.ask_of_nodes(request).await,
        }
    }
}

/// Notes an answer that only a disk which is damaged or fails may give.
fn note<T>(wrong: &mut BTreeSet<String>, answer: &Result<T, FileError>) {
    if let Err(error @ (FileError::Damaged | FileError::Io | FileError::Gone)) = answer {
        wrong.insert(format!("{error:?}"));
    }
}
