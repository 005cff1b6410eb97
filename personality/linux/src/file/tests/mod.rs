//! Behaviour of the calls as programs see it, through the system call table, on a tenant whose files lie in memory.

mod advice;
mod depth;
mod epoll;
mod fetched;
mod figures;
mod files;
mod given_up;
mod losses;
mod mappings;
mod passages;
mod pieces;
mod pipes;
mod remains;
mod residency;
mod rings;
mod sockets;
mod terminals;
mod walks;
mod world;
