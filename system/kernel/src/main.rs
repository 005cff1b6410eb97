//! The bootable kernel: [`gyre_kernel`], entered from the boot loader.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

#[cfg(target_os = "none")]
gyre_x86_64::entry!(main);

#[cfg(target_os = "none")]
fn main() -> ! {
    gyre_kernel::boot::boot()
}

/// On a host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is a kernel: build it with --target x86_64-unknown-none, run it with the gyre tool");
    std::process::exit(2);
}
