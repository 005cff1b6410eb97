//! Behaviour of the calls as programs see it, through the system call table, on a tenant whose files lie in memory.

mod advice;
mod brought;
mod depth;
mod epoll;
mod files;
mod mappings;
mod passages;
mod pipes;
mod rings;
mod sockets;
mod terminals;
mod walks;
mod world;
