//! Requests for what a node has beside names and contents, and for the whole file system.

use super::caller::Caller;
use super::numbers::{attribute, count, number};
use super::request::Request;
use gyre_account::current_activity;
use gyre_interface::files::files::Server as _;
use gyre_interface::files::*;
use gyre_interface::memory::Effort;
use gyre_interface::memory::reclaim::Server as _;

impl Caller {
    pub async fn ask_of_nodes(&self, request: Request) {
        let (fs, node, name) = (self.fs, self.node(request.node), attribute(request.name));
        match request.call {
            0 => drop(self.noted(fs.extended(node, name).await)),
            1..4 => self.set_extended(node, name, request).await,
            4 => drop(self.noted(fs.remove_extended(node, name).await)),
            5 => drop(self.noted(fs.list_extended(node).await)),
            6..8 => drop(self.noted(fs.set_attributes(node, change(request)).await)),
            8..10 => self.open(node).await,
            10 => self.close(request).await,
            11 => drop(self.noted(fs.statistics().await)),
            12..14 => drop(fs.reclaim(current_activity(), number(request.bytes), Effort::Thorough).await),
            14 => drop(self.noted(fs.attributes(node).await)),
            _ => drop(self.near.attributes(node).map(|answer| self.noted(answer))),
        }
    }

    async fn set_extended(&self, node: NodeId, name: Name, request: Request) {
        let demand = [Presence::Any, Presence::Absent, Presence::Present][usize::from(request.extra % 3)];
        let value = vec![request.extra; count(request.bytes)];
        self.noted(self.fs.set_extended(node, name, value, demand).await);
    }

    async fn open(&self, node: NodeId) {
        let opened = match self.near.open(node) {
            Some(answer) => answer,
            None => self.fs.open(node).await,
        };
        if self.noted(opened).is_some() {
            self.state.borrow_mut().opens.push(node);
        }
    }

    async fn close(&self, request: Request) {
        let taken = {
            let opens = &mut self.state.borrow_mut().opens;
            if opens.is_empty() { None } else { Some(opens.swap_remove(usize::from(request.node) % opens.len())) }
        };
        if let Some(node) = taken.filter(|node| !self.near.close(*node)) {
            let closed = self.fs.close(node).await;
            self.noted(closed);
        }
    }
}

fn change(request: Request) -> AttributeChange {
    let some = |bit: u8| (request.extra & bit != 0).then(|| number(request.at));
    AttributeChange {
        mode: some(1).map(|value| value as u16),
        user: some(2).map(|value| value as u32),
        group: some(4).map(|value| value as u32),
        size_bytes: some(8),
        accessed_ns: some(16),
        modified_ns: some(32),
    }
}
