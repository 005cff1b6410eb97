//! Requests for contents of files.

use super::caller::Caller;
use super::numbers::{count, number};
use super::request::Request;
use crate::support::views_of;
use gyre_interface::files::files::Server as _;
use gyre_interface::files::*;

impl Caller {
    pub async fn ask_of_contents(&self, request: Request) {
        let (fs, node, at) = (self.fs, self.node(request.node), number(request.at));
        let bytes = number(request.bytes);
        let data = || views_of(&vec![request.extra; count(request.bytes)]);
        match request.call {
            0..2 => drop(self.noted(fs.read(node, at, bytes as usize).await)),
            2 => drop(self.noted(fs.read_random(node, at, bytes as usize).await)),
            3..5 => drop(self.noted(fs.write(node, at, data()).await)),
            5 => drop(self.noted(fs.append(node, data()).await)),
            6 => drop(self.noted(fs.read_direct(node, at, request.views()).await)),
            7 => drop(self.noted(fs.write_direct(node, at, request.views()).await)),
            8 => drop(self.noted(fs.allocate(node, at, bytes).await)),
            9 => drop(self.noted(fs.punch(node, at, bytes).await)),
            10 => drop(self.noted(fs.seek(node, at, Sought::Data).await)),
            11 => drop(self.noted(fs.seek(node, at, Sought::Hole).await)),
            12..14 => self.cut(node, at).await,
            14 => drop(self.noted(fs.write_back(node, at, bytes).await)),
            _ => drop(self.noted(fs.write_out(node).await)),
        }
    }

    async fn cut(&self, node: NodeId, size: u64) {
        let change = AttributeChange { size_bytes: Some(size), ..AttributeChange::default() };
        self.noted(self.fs.set_attributes(node, change).await);
    }
}
