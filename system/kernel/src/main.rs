//! The bootable kernel.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(unsafe_code)]

#[cfg(target_os = "none")]
mod machine {
    gyre_x86_64::entry!(main);

    fn main() -> ! {
        log::info!("command line: {}", gyre_x86_64::command_line());
        let cores = gyre_x86_64::start_cores(|core| {
            log::info!("core {core} is up");
            loop {
                gyre_x86_64::idle();
                gyre_x86_64::take_events();
            }
        });
        log::info!("{cores} cores");
        gyre_x86_64::shut_down(0)
    }
}

/// On a host there is nothing to run.
#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!(
        "this is a kernel: build it with --target x86_64-unknown-none, run it with the gyre tool"
    );
    std::process::exit(2);
}
