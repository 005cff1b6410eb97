//! Programs as scripts: each step stands for some instructions at an address and ends in a trap, as on the machine. They run
//! through the real loop of threads, with real memory, in virtual time.

mod deputy;
mod document;
mod families;
mod futexes;
mod io_figures;
mod message_queues;
mod programs;
mod ptrace;
mod pulse;
mod random;
mod script;
mod segments;
mod semaphores;
mod shortage;
mod signals;
mod sizes;
mod trace;
