//! Finds the messages that no process can ever receive: those in sockets that only sockets in flight hold.
//!
//! Called with the table's lock held, under which files come and go. A file that only messages hold then has no other
//! holder until the lock is free, because there is nothing that it could be taken from.

use super::{Message, Table, unix_peer_of};
use crate::file::open_file::OpenFile;
use crate::file::socket::unix::UnixPeer;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A local socket in flight.
struct Node {
    /// The address of its peer, which is its name here.
    peer: usize,
    /// Whether a process can receive from it.
    reach: Reach,
}

/// Whether a socket can be reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Only messages hold it, as far as is known.
    InFlight,
    /// A descriptor, or a message that can be received, holds it.
    Live,
}

fn address(end: &Arc<UnixPeer>) -> usize {
    Arc::as_ptr(end) as usize
}

/// Returns the sockets in flight, in the order of their names.
fn nodes(table: &Table) -> Vec<Node> {
    let files = table.messages.values().flat_map(|message| &message.files);
    let mut files: Vec<(usize, &Arc<OpenFile>)> =
        files.filter_map(|file| Some((address(unix_peer_of(file)?), file))).collect();
    files.sort_unstable_by_key(|(peer, _)| *peer);
    let same = files.chunk_by(|one, other| one.0 == other.0);
    same.filter_map(|group| {
        let (peer, file) = group.first()?;
        let reach = if Arc::strong_count(file) == group.len() { Reach::InFlight } else { Reach::Live };
        Some(Node { peer: *peer, reach })
    })
    .collect()
}

/// Returns messages by the socket that they can be received from, in that order. A message to a connection that waits
/// to be accepted is received from its listener.
fn by_receiver(table: &Table) -> Vec<(usize, u64, &Message)> {
    let place = |message: &Message| message.to.upgrade().map_or(0, |end| end.receiver());
    let mut found: Vec<_> = table.messages.iter().map(|(number, message)| (place(message), *number, message)).collect();
    found.sort_unstable_by_key(|(receiver, number, _)| (*receiver, *number));
    found
}

/// Returns the numbers of the messages that no process can receive.
pub(super) fn lost(table: &Table) -> Vec<u64> {
    if table.sockets == 0 {
        return Vec::new();
    }
    let mut nodes = nodes(table);
    let messages = by_receiver(table);
    let find = |nodes: &[Node], name: usize| nodes.binary_search_by_key(&name, |node| node.peer);
    // A message to a socket that is not in flight itself can be received.
    let mut reached: Vec<usize> = Vec::new();
    let reach = |nodes: &mut Vec<Node>, reached: &mut Vec<usize>, message: &Message| {
        for end in message.files.iter().filter_map(|file| unix_peer_of(file)) {
            if let Ok(at) = find(nodes, address(end))
                && let Some(node) = nodes.get_mut(at).filter(|node| node.reach == Reach::InFlight)
            {
                node.reach = Reach::Live;
                reached.push(at);
            }
        }
    };
    reached.extend((0..nodes.len()).filter(|at| nodes.get(*at).is_some_and(|node| node.reach == Reach::Live)));
    for (receiver, _, message) in &messages {
        if find(&nodes, *receiver).is_err() {
            reach(&mut nodes, &mut reached, message);
        }
    }
    while let Some(at) = reached.pop() {
        let Some(name) = nodes.get(at).map(|node| node.peer) else { continue };
        let first = messages.partition_point(|(receiver, ..)| *receiver < name);
        for (_, _, message) in messages.iter().skip(first).take_while(|(receiver, ..)| *receiver == name) {
            reach(&mut nodes, &mut reached, message);
        }
    }
    let is_lost = |receiver: usize| {
        find(&nodes, receiver).ok().and_then(|at| nodes.get(at)).is_some_and(|node| node.reach == Reach::InFlight)
    };
    messages.iter().filter(|(receiver, ..)| is_lost(*receiver)).map(|(_, number, _)| *number).collect()
}
