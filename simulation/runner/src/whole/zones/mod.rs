//! Two instances that are linked: tenants of one speak TCP with tenants of the other over shared memory (`gyre_zone_link`).
//!
//! ```text
//!   zone 0: tenants, tcp, net -- zone_link gate -- ZoneLink == shared memory == ZoneLink -- zone_link gate -- net, tcp, tenants: zone 1
//!                                                    bells: late, or lost
//! ```
//! * [`machine`]: an instance of its own with a card that nobody answers. [`bell`]: interrupts between instances. [`traffic`]: the tenants'
//!   exchanges, every byte of which both sides know. [`channels`]: channels between them.
//! * [`world`]: the runs of a seed: bells that are lost and late, a link that goes and comes back, a zone that is killed in the middle.
//! * [`rate`]: how much of the host's time 64 KiB take, beside the loopback of one instance.

mod bell;
mod channels;
mod machine;
pub mod rate;
mod traffic;
mod world;

pub use world::{Outcome, run};
