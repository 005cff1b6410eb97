//! Requests for names.

use super::caller::Caller;
use super::numbers::{count, name, number};
use super::request::Request;
use gyre_interface::files::files::Server as _;
use gyre_interface::files::*;

impl Caller {
    pub async fn ask_of_names(&self, request: Request) {
        let (fs, node, name) = (self.fs, self.node(request.node), name(request.name));
        match request.call {
            0 => drop(self.found(fs.lookup(node, name).await)),
            1 => drop(self.noted(fs.read_directory(node, number(request.at), number(request.bytes) as usize).await)),
            2 => drop(self.near.lookup(node, &name).map(|answer| self.found(answer))),
            3 => drop(self.noted(fs.read_link(node).await)),
            4..7 => drop(self.found(fs.create(node, name, new_node(request)).await)),
            7 => self.make_nameless(node, new_node(request)).await,
            8 => drop(self.noted(fs.unlink(node, name).await)),
            9 => drop(self.noted(fs.remove_directory(node, name).await)),
            _ => self.ask_of_two_names(request, node, name).await,
        }
    }

    async fn ask_of_two_names(&self, request: Request, node: NodeId, from: Name) {
        let (other, to) = (self.node(request.other_node), name(request.other_name));
        let mode = [RenameMode::Replace, RenameMode::Keep, RenameMode::Exchange][usize::from(request.extra % 3)];
        match request.call {
            10..12 => drop(self.noted(self.fs.link(node, other, to).await)),
            _ => drop(self.noted(self.fs.rename(node, from, other, to, mode).await)),
        }
    }

    async fn make_nameless(&self, directory: NodeId, new: NewNode) {
        if let Some(node) = self.found(self.fs.create_nameless(directory, new).await) {
            self.state.borrow_mut().opens.push(node);
        }
    }
}

fn new_node(request: Request) -> NewNode {
    let kinds = [
        NodeKind::File,
        NodeKind::Directory,
        NodeKind::SymbolicLink,
        NodeKind::CharacterDevice,
        NodeKind::BlockDevice,
        NodeKind::Pipe,
        NodeKind::Socket,
    ];
    let kind = kinds[usize::from(request.extra) % kinds.len()];
    let target = if kind == NodeKind::SymbolicLink { vec![b't'; count(request.bytes)] } else { Vec::new() };
    NewNode { kind, mode: 0o755, user: 7, group: u32::MAX, target, device: number(request.at) }
}
