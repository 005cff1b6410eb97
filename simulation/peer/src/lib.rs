//! smoltcp at the other end of a wire: the peer of the network path's tests and of the simulator's runner.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod device;
mod stack;

pub use device::Ends;
pub use smoltcp::{
    iface::{SocketHandle, SocketSet},
    socket, wire,
};
pub use stack::{Endpoint, Stack, endpoint};
