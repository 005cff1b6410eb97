//! A unit behind a host that does commands in memory, and says what a test wants of it.

use crate::{Unit, command};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use gyre_interface::block::block::{Client, serve};
use gyre_interface::block::{BlockError, SECTOR_BYTES};
use gyre_interface::scsi::scsi_host;
use gyre_interface::scsi::{Answer, Command, Direction, HostError, Status};
use gyre_message::direct::{block_on, direct_link};
use gyre_object::{Bytes, Page, SpinLock};

mod answers;
mod start;

pub(crate) const SECTORS: u64 = 128;
/// Changes what the host says of a command, which it has done already.
type Twist = Box<dyn Fn(&Command, usize, &mut Reply) + Send + Sync>;

/// The host's answer; `said` is what the unit has put into the data.
pub(crate) struct Reply {
    pub(crate) status: u8,
    pub(crate) sense: Vec<u8>,
    pub(crate) residual_bytes: usize,
    pub(crate) said: Vec<u8>,
    pub(crate) error: Option<HostError>,
}

/// A host adapter with a disk.
struct Host {
    disk: SpinLock<Vec<u8>>,
    asked: Arc<SpinLock<Vec<u8>>>,
    twist: Twist,
}

impl Host {
    /// A unit's answer to a command: data, or that it knows no such one.
    fn said(&self, command: &Command) -> Option<Vec<u8>> {
        let block = &command.block;
        let at = u32::from_be_bytes(block[2..6].try_into().unwrap()) as usize * SECTOR_BYTES;
        let bytes = usize::from(u16::from_be_bytes([block[7], block[8]])) * SECTOR_BYTES;
        let mut disk = self.disk.lock();
        Some(match block[0] {
            0x00 | 0x35 => vec![],
            0x12 => vec![0; 36],
            0x1a => vec![3, 0, 0, 0],
            0x28 => disk.get(at..at + bytes)?.to_vec(),
            0x2a => {
                let data: Vec<u8> = command.data.iter().flat_map(|view| view.as_slice().to_vec()).collect();
                disk.get_mut(at..at + bytes)?.copy_from_slice(&data);
                vec![]
            }
            0x9e => [&(SECTORS - 1).to_be_bytes()[..], &512_u32.to_be_bytes(), &[0; 20]].concat(),
            _ => return None,
        })
    }
}

impl scsi_host::Server for Host {
    async fn execute(&'static self, command: Command) -> Result<Answer, HostError> {
        let count = self.asked.lock().len();
        self.asked.lock().push(command.block[0]);
        let said = self.said(&command);
        let room = command.data_bytes();
        let mut reply = Reply { status: 0, sense: vec![], residual_bytes: 0, said: vec![], error: None };
        match said {
            Some(said) if command.direction == Direction::FromUnit => {
                reply.residual_bytes = room - said.len().min(room)
            }
            Some(_) => {}
            None => (reply.status, reply.sense) = (2, vec![0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20]),
        }
        reply.said = self.said(&command).unwrap_or_default();
        (self.twist)(&command, count, &mut reply);
        if let Some(error) = reply.error {
            return Err(error);
        }
        let mut rest = reply.said.as_slice();
        for view in command.data.iter().filter(|_| command.direction == Direction::FromUnit) {
            let (page, start) = view.location();
            let part = rest.split_off(..rest.len().min(view.len())).unwrap();
            page.write(start, part);
        }
        let Reply { status, sense, residual_bytes, .. } = reply;
        Ok(Answer { status: Status(status), sense, residual_bytes, data: command.data })
    }
}

pub(crate) struct Rig {
    pub(crate) client: Client,
    /// The codes of the commands that came, in order.
    pub(crate) asked: Arc<SpinLock<Vec<u8>>>,
}

pub(crate) fn rig(twist: impl Fn(&Command, usize, &mut Reply) + Send + Sync + 'static) -> Rig {
    gyre_machine::set_virtual_time(0);
    let asked = Arc::<SpinLock<Vec<u8>>>::default();
    let disk = SpinLock::new(vec![0; SECTORS as usize * SECTOR_BYTES]);
    let host: &'static Host = Box::leak(Box::new(Host { disk, asked: asked.clone(), twist: Box::new(twist) }));
    let link = direct_link(move |request| Box::pin(scsi_host::serve(host, request)));
    let unit: &'static Unit = Box::leak(Box::new(Unit::new(scsi_host::Client::new(link), None)));
    Rig { client: Client::new(direct_link(move |request| Box::pin(serve(unit, request)))), asked }
}

pub(crate) fn page(fill: u8) -> Vec<Bytes> {
    let page = Page::zeroed().unwrap();
    page.write(0, &[fill; 4096]);
    vec![Bytes::new(page, 0, 4096)]
}

/// Sense data of a key in the fixed format.
pub(crate) fn fixed(key: u8, code: u8, qualifier: u8) -> Vec<u8> {
    vec![0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, code, qualifier, 0, 0, 0, 0]
}

#[test]
fn a_unit_is_asked_what_it_is_and_then_read_and_written() {
    let rig = rig(|_, _, _| ());
    block_on(async {
        assert_eq!(rig.client.geometry().await.unwrap().sectors, SECTORS);
        rig.client.write(8, page(7)).await.unwrap();
        rig.client.flush().await.unwrap();
        assert_eq!(rig.client.read(8, page(0)).await.unwrap()[0].as_slice(), [7; 4096]);
        assert_eq!(rig.client.read(SECTORS - 7, page(0)).await.err(), Some(BlockError::OutOfRange));
        assert_eq!(rig.client.read(0, vec![]).await.err(), Some(BlockError::OutOfRange));
        assert_eq!(*rig.asked.lock(), [0x12, 0x00, 0x9e, 0x1a, 0x2a, 0x35, 0x28]);
    });
}

#[test]
fn addresses_beyond_two_tebibytes_use_the_long_commands() {
    assert_eq!(command::read(0x0102_0304, 0x20), [0x28, 0, 1, 2, 3, 4, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0]);
    let long = command::write(0x1_0000_0000, 8);
    assert_eq!(long, [0x8a, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]);
    // The last address of the short form must still have its end in it.
    assert_eq!(command::read(0xffff_fffe, 8)[0], 0x88);
    assert_eq!(command::synchronize(), [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}
