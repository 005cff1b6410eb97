//! Changes of a running machine, as its owner or the broker asks for them.
//!
//! A new variant stands at the end: their numbers are those of the encoding.

use alloc::{boxed::Box, string::String};

use serde::{Deserialize, Serialize};

use crate::{
    boot::{Program, Restart, Tenant},
    bounds::Floor,
    cells::Cell,
    goals::Goal,
    policy::Policy,
    promise::Promise,
};

/// Argument of [`SET`](crate::native::SET); `None` leaves a value as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// A tenant's share and limits.
    Tenant {
        /// Its name.
        name: String,
        /// Weight among its siblings.
        share: Option<u32>,
        /// Memory in bytes.
        memory_bytes: Option<u64>,
        /// Memory of each process in bytes; `u64::MAX` takes the limit away.
        process_memory_bytes: Option<u64>,
        /// Processes and threads.
        processes: Option<u32>,
        /// How low the limits may be.
        #[serde(default)]
        floor: Floor,
    },
    /// Share and limit of a group of tenants.
    Group {
        /// Its name.
        name: String,
        /// Weight among its siblings.
        share: Option<u32>,
        /// Memory of all its tenants in bytes; `u64::MAX` takes the limit away.
        memory_bytes: Option<u64>,
        /// How low the limit may be.
        #[serde(default)]
        floor: Floor,
    },
    /// A resource's scheduler and cores.
    Resource {
        /// Its name; `cpu` for the CPU's own policy and the cores of programs.
        name: String,
        /// Its policy.
        policy: Option<Policy>,
        /// Messages handled per decision.
        batch: Option<u16>,
        /// Cores, a bit each.
        cores: Option<u64>,
        /// Weight of its queues among those of the same tenant.
        weight: Option<u32>,
        /// Their priority, for policies that look at it: 0 goes first.
        priority: Option<u8>,
    },
    /// The life of a tenant's program.
    Life {
        /// The tenant's name.
        name: String,
        /// Its future.
        life: Life,
    },
    /// A tenant's promise at a resource.
    Promise(Promise),
    /// A tenant's goal.
    Goal {
        /// The tenant's name.
        tenant: String,
        /// Its goal; `None` takes the present one away.
        goal: Option<Goal>,
    },
    /// A tenant comes, to the first vacant place.
    Add {
        /// Its description. Root and address are the place's; its entitlements are empty, for they come as promises in the same change.
        tenant: Box<Tenant>,
    },
    /// A tenant goes: its programs end, its file systems are written back, its name is free. Its place and its bill stay its own.
    Remove {
        /// Its name.
        name: String,
        /// The time that its programs have to end by themselves, ms, at most [`END_GRACE_MS_MAX`](crate::native::END_GRACE_MS_MAX).
        grace_ms: u64,
    },
    /// The delay that a tenant's overload controller keeps, at listeners and for flows.
    Overload {
        /// The tenant's name; it has a controller.
        tenant: String,
        /// The delay, ns: see [`crate::bounds::OVERLOAD_DELAYS_NS`].
        delay_ns: u64,
    },
    /// A tenant's cell in time. The cells of a change are admitted as one table, with those that stay.
    Cell {
        /// The tenant's name; it is no part of a group.
        tenant: String,
        /// Its cell; `None`: it is no cell from now on.
        cell: Option<Cell>,
    },
    /// Another program of a tenant, from its next start on, and the deed that follows its end. The tenant has a program already.
    Program {
        /// The tenant's name.
        name: String,
        /// The program.
        program: Box<Program>,
        /// The deed that follows its end.
        restart: Restart,
    },
}

/// The future of a tenant's program. Its files and its network stay, unless it goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// It runs; nothing is done if it does.
    Start,
    /// All of the tenant's processes end, and stay so. They have a grace time of so many ms, at most [`END_GRACE_MS_MAX`](crate::native::END_GRACE_MS_MAX).
    Stop {
        /// The grace time, ms.
        grace_ms: u64,
    },
    /// As stop, then start.
    Restart {
        /// The grace time, ms.
        grace_ms: u64,
    },
    /// All of the tenant's processes end, and its file systems are written back and given up. Once its state is
    /// [`Away`](crate::monitor::State::Away), nobody but the owner touches its disks.
    Away {
        /// The grace time, ms.
        grace_ms: u64,
    },
    /// After that: its file systems are read anew, and its program starts, unless the owner had stopped it before.
    Back,
}
