//! A kernel that does nothing but test the platform below it: prints `ok NAME` or `FAILED NAME: why` for each check and ends the
//! machine with 0 if all passed. With `crash=NAME` on the command line it does one forbidden thing instead and must die of it.
//! `tests/boot/platform.sh` runs it on several machines.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod attacks;
#[cfg(target_os = "none")]
mod bench;
#[cfg(target_os = "none")]
mod casts;
#[cfg(target_os = "none")]
mod cores;
#[cfg(target_os = "none")]
mod crash;
#[cfg(target_os = "none")]
mod devices;
#[cfg(target_os = "none")]
mod guest;
#[cfg(target_os = "none")]
mod guest_attacks;
#[cfg(target_os = "none")]
mod guest_machines;
#[cfg(target_os = "none")]
mod guests;
mod image;
#[cfg(target_os = "none")]
mod inside;
#[cfg(target_os = "none")]
mod lines;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod program;
#[cfg(target_os = "none")]
mod suite;
#[cfg(target_os = "none")]
mod supervisor;
#[cfg(target_os = "none")]
mod tables;
#[cfg(target_os = "none")]
mod time;
#[cfg(target_os = "none")]
mod users;
#[cfg(target_os = "none")]
mod walls;
#[cfg(target_os = "none")]
mod watches;
#[cfg(target_os = "none")]
mod zones;

#[cfg(target_os = "none")]
gyre_x86_64::entry!(suite::main, words: ["act", "bench", "crash", "echo", "module_bytes", "module_sum"]);

/// On a host there is nothing to test.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is a kernel: build it with --target x86_64-unknown-none and run tests/boot/platform.sh");
    std::process::exit(2);
}
