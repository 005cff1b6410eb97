//! The part of the system call table that works on descriptors and names.

crate::system_calls! {}
