//! One message to several zones, from the rings of all ([`gyre_line::cast`]): in all of them before anybody is interrupted.

use super::instances::{Held, Machine};
use alloc::vec::Vec;
use gyre_line::{Full, Message, Sender, Target, cast};
use gyre_object::LockGuard;
use gyre_x86_64::Instance;

impl Machine {
    /// Sends a message to these zones, or to none.
    ///
    /// # Errors
    /// [`Full`] if one of them has no room, or no instance.
    pub(super) fn cast_to(&self, zones: &[usize], message: &Message) -> Result<(), Full> {
        let all = self.held.iter().enumerate().filter(|(place, _)| zones.contains(place));
        // In the order of places: two casts never wait for each other.
        let mut held: Vec<LockGuard<'_, Held>> = all.map(|(_, held)| held.lock()).collect();
        let instances: Vec<&Instance> = held.iter().filter_map(|held| held.instance.as_ref()).collect();
        if instances.len() != zones.len() {
            return Err(Full);
        }
        let pairs = instances.iter().zip(&held);
        let mut targets: Vec<Target<'_>> = pairs.map(|(instance, held)| target(instance, held.sent)).collect();
        cast(message, &mut targets, |at| instances.get(at).into_iter().for_each(|instance| instance.ring()))?;
        let sent: Vec<u32> = targets.iter().map(|target| target.sender.position()).collect();
        held.iter_mut().zip(sent).for_each(|(held, sent)| held.sent = sent);
        Ok(())
    }
}

/// Returns a zone as one of the receivers.
fn target(instance: &Instance, sent: u32) -> Target<'_> {
    let page = instance.page();
    // A zone's kernel does not poll its ring: it is interrupted, whatever its page says.
    page.zone_bell.leave();
    Target { sender: Sender::at(&page.to_zone.0, sent), bell: &page.zone_bell }
}
