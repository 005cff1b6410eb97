//! PCI functions of this kernel as a zone, which go to the supervisor and come back while it runs.
//!
//! A disk that comes is started at once and has a number of its own; one that no tenant has mounted goes as soon as it has no request. For the card
//! see [`crate::cards`]. The supervisor resets what goes before anybody else has it.
//!
//! May be called: on the resident core, by the agent's tasks. Left out: who decides (the supervisor), and the mounting of disks, which is a
//! tenant's start.

use crate::kernel::Kernel;
use crate::pci::Function;
use alloc::format;
use alloc::string::String;
use gyre_contract::boot::Root;
use gyre_interface::zone_messages::{Keeper, Reason};
use gyre_machine::PciAddress;
use gyre_virtio::pci::is_device;
use gyre_virtio_block::{BLOCK_KIND, SCSI_KIND};
use gyre_virtio_net::DEVICE_KIND;

/// Takes a function into use.
///
/// # Errors
/// [`Reason::NotMine`] if there is none; [`Reason::Needs`] with what it needs, if this kernel cannot use it now.
pub fn join(kernel: &'static Kernel, address: PciAddress) -> Result<(), Reason> {
    let function = gyre_x86_64::join_function(address).map_err(|_| Reason::NotMine)?;
    if is_device(function.id, DEVICE_KIND) {
        return kernel.cards.join(kernel.base, kernel.network, function);
    }
    if !is_device(function.id, BLOCK_KIND) && !is_device(function.id, SCSI_KIND) {
        return Err(needs("this kernel has no driver for it"));
    }
    let disk = kernel.storage.add_disk(kernel.base, address, Function(function));
    let disk = disk.map_err(|error| needs(&format!("its driver says {error:?}")))?;
    log::info!("disk {disk} has come: {address}");
    Ok(())
}

/// Takes a function out of use.
///
/// # Errors
/// [`Reason::Kept`] with who uses it; [`Reason::NotMine`] if this zone never had it.
pub async fn withdraw(kernel: &'static Kernel, address: PciAddress) -> Result<(), Reason> {
    let function = gyre_x86_64::join_function(address).map_err(|_| Reason::NotMine)?;
    if kernel.cards.withdraw(kernel.network, function).await? {
        return Ok(());
    }
    let Some(disk) = kernel.storage.number_of(address) else { return Ok(()) };
    if let Some(tenant) = mounter(kernel, disk) {
        return Err(kept(&format!("the file system of {tenant}")));
    }
    kernel.storage.remove_disk(disk, function).map_err(|_| kept("work under way"))?;
    log::info!("disk {disk} has left: {address}");
    Ok(())
}

/// Returns the tenant whose files are on a disk.
fn mounter(kernel: &Kernel, disk: u16) -> Option<String> {
    let mut tenants = kernel.base.machine.tenants.iter();
    let has = |root: Root| matches!(root, Root::Disk(on) | Root::Volume { disk: on, .. } if on == disk);
    tenants.find(|tenant| has(tenant.root)).map(|tenant| tenant.name.clone())
}

fn kept(words: &str) -> Reason {
    Reason::Kept(Keeper::new(words))
}

fn needs(words: &str) -> Reason {
    Reason::Needs(Keeper::new(words))
}
