//! The network cards of this instance: the one that it has from its start, and those that come and leave while it runs.
//!
//! ```text
//!   (new) --join--> in use --withdraw--> away --join--> in use
//! ```
//! One is in use at a time. Leaving: no frame is handed to it any more, it sends what it has, its driver stops, its interrupt is masked (the
//! line stays its own), and it reaches memory no more; the supervisor resets it before anybody else has it. Sockets stay: there is no way to
//! other machines until a card comes, be it another one. A zone that begins without a card is in the state in which the last one has left.
//!
//! May be called: on the resident core, by the agent's tasks, one at a time. Left out: an instance whose frames the supervisor's card carries.

use crate::base::Base;
use crate::pci::Function;
use alloc::vec::Vec;
use gyre_assembly::network::{CardId, Network, add_card};
use gyre_contract::boot::Way;
use gyre_device::LinkDevice;
use gyre_interface::zone_messages::{Keeper, Reason};
use gyre_machine::{DeviceError, PciAddress};
use gyre_message::sleep_ns;
use gyre_object::SpinLock;
use gyre_virtio_net::VirtioNet;
use gyre_x86_64::PciDevice;

/// The entry of a card's interrupts.
const ENTRY: u16 = 0;
/// A card has so long to send what it was given, in so many looks, ns.
const DRAIN_LOOK_NS: u64 = 1_000_000;
const DRAIN_LOOKS: u32 = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InUse,
    Away,
}

/// A card that is or was here.
#[derive(Clone, Copy)]
struct Card {
    address: PciAddress,
    device: &'static VirtioNet,
    id: CardId,
    state: State,
}

/// All of them.
#[derive(Default)]
pub struct Cards(SpinLock<Vec<Card>>);

fn needs(words: &str) -> Reason {
    Reason::Needs(Keeper::new(words))
}

fn failed(error: DeviceError) -> Reason {
    needs(&alloc::format!("its driver says {error:?}"))
}

impl Cards {
    /// Makes the list with the card that the path was made with.
    pub fn begun_with(address: PciAddress, device: &'static VirtioNet) -> Cards {
        Cards(SpinLock::new(alloc::vec![Card { address, device, id: CardId::FIRST, state: State::InUse }]))
    }

    fn at(&self, address: PciAddress) -> Option<Card> {
        self.0.lock().iter().find(|card| card.address == address).copied()
    }

    fn note(&self, card: Card) {
        let mut cards = self.0.lock();
        match cards.iter_mut().find(|known| known.address == card.address) {
            Some(known) => *known = card,
            None => cards.push(card),
        }
    }

    /// Takes a card into use.
    ///
    /// # Errors
    /// [`Reason::Needs`] with what it lacks; the card is not in use then.
    pub fn join(&self, base: &Base, network: Option<Network>, function: &'static PciDevice) -> Result<(), Reason> {
        if base.machine.link.way == Way::Supervisor {
            return Err(needs("its frames go by the supervisor's card"));
        }
        let network = network.ok_or_else(|| needs("its network did not start; a restart"))?;
        if self.0.lock().iter().any(|card| card.state == State::InUse) {
            return Err(needs("it has a card already"));
        }
        let card = match self.at(function.address) {
            Some(card) => bring_back(card, function).map(|()| card).map_err(failed),
            None => add(base, &network, function),
        }?;
        network.net.connect_card(card.id).map_err(|_| needs("the network has another card"))?;
        self.note(Card { state: State::InUse, ..card });
        log::info!("the network card at {} has come", card.address);
        Ok(())
    }

    /// Takes a card out of use. Answers false if there is none at the address.
    ///
    /// # Errors
    /// [`Reason::Kept`] if it does not send what it has; it is in use then as before.
    pub async fn withdraw(&self, network: Option<Network>, function: &'static PciDevice) -> Result<bool, Reason> {
        let (Some(network), Some(card)) = (network, self.at(function.address)) else { return Ok(false) };
        if card.state == State::Away {
            return Ok(true);
        }
        network.net.disconnect_card();
        if !has_drained(card.device).await {
            // No other card can be in use.
            let _ = network.net.connect_card(card.id);
            return Err(Reason::Kept(Keeper::new("frames that it does not send")));
        }
        put_away(card, function);
        self.note(Card { state: State::Away, ..card });
        log::info!("the network card at {} has left", card.address);
        Ok(true)
    }
}

async fn has_drained(device: &VirtioNet) -> bool {
    for _ in 0..DRAIN_LOOKS {
        if device.has_sent_all() {
            return true;
        }
        sleep_ns(DRAIN_LOOK_NS).await;
    }
    false
}

fn put_away(card: Card, function: &PciDevice) {
    if let Err(error) = card.device.go_away() {
        // The supervisor finds it too, and gives it to nobody.
        log::error!("the network card at {} does not reset: {error:?}", card.address);
    }
    let line = card.device.interrupt();
    gyre_x86_64::rest_interrupt(function, ENTRY, line.core, line.line);
    function.disable_bus_master();
}

fn bring_back(card: Card, function: &PciDevice) -> Result<(), DeviceError> {
    let line = card.device.interrupt();
    function.enable_memory();
    function.enable_bus_master();
    gyre_x86_64::attach_interrupt(function, ENTRY, line.core)?;
    card.device.come_back().inspect_err(|_| {
        gyre_x86_64::rest_interrupt(function, ENTRY, line.core, line.line);
        function.disable_bus_master();
    })
}

/// Starts a card that was never here.
fn add(base: &Base, network: &Network, function: &'static PciDevice) -> Result<Card, Reason> {
    let device = crate::network::open(Function(function)).map_err(failed)?;
    let device: &'static VirtioNet = alloc::boxed::Box::leak(alloc::boxed::Box::new(device));
    let card = |id| Card { address: function.address, device, id, state: State::Away };
    if device.properties().mtu_bytes < network.net.card_properties().mtu_bytes {
        put_away(card(CardId::FIRST), function);
        return Err(needs("its packets are smaller than the last card's"));
    }
    let id = add_card(base.engine, network.net, device).map_err(|_| {
        put_away(card(CardId::FIRST), function);
        needs("it has had too many cards; a restart")
    })?;
    Ok(card(id))
}
