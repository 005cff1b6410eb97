//! Futexes: waiting for a word of memory to change.
