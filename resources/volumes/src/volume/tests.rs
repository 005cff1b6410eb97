use super::*;
use crate::table::checksum;
use alloc::boxed::Box;
use gyre_message::direct::{block_on, direct_link};
use gyre_object::SpinLock;

/// A disk in memory.
struct Disk(SpinLock<Vec<u8>>);

impl block::Server for Disk {
    async fn geometry(&'static self) -> Result<Geometry, BlockError> {
        Ok(Geometry { sectors: (self.0.lock().len() / SECTOR_BYTES) as u64, read_only: false })
    }
    async fn read(&'static self, first_sector: u64, into: Vec<Bytes>) -> Result<Vec<Bytes>, BlockError> {
        let mut at = first_sector as usize * SECTOR_BYTES;
        for view in &into {
            let (page, start) = view.location();
            let data = self.0.lock();
            page.write(start, data.get(at..at + view.len()).ok_or(BlockError::OutOfRange)?);
            at += view.len();
        }
        Ok(into)
    }
    async fn write(&'static self, first_sector: u64, from: Vec<Bytes>) -> Result<(), BlockError> {
        let mut at = first_sector as usize * SECTOR_BYTES;
        for view in &from {
            let mut data = self.0.lock();
            data.get_mut(at..at + view.len()).ok_or(BlockError::OutOfRange)?.copy_from_slice(view.as_slice());
            at += view.len();
        }
        Ok(())
    }
    async fn flush(&'static self) -> Result<(), BlockError> {
        Ok(())
    }
}

/// Returns a disk of `sectors` with partitions (first, last).
fn partitioned(sectors: usize, partitions: &[(u64, u64)]) -> Vec<u8> {
    let mut disk = vec![0; sectors * SECTOR_BYTES];
    let mut entries = vec![0; 128 * 128];
    for (entry, (first, last)) in entries.chunks_mut(128).zip(partitions) {
        entry[..16].fill(1);
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
    }
    let mut header = [0; SECTOR_BYTES];
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[72..80].copy_from_slice(&2_u64.to_le_bytes());
    header[80..84].copy_from_slice(&128_u32.to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    header[88..92].copy_from_slice(&checksum(&[&entries]).to_le_bytes());
    let sum = checksum(&[&header[..92]]);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    disk[SECTOR_BYTES..2 * SECTOR_BYTES].copy_from_slice(&header);
    disk[2 * SECTOR_BYTES..34 * SECTOR_BYTES].copy_from_slice(&entries);
    disk
}

static REPORTED: AtomicU64 = AtomicU64::new(0);

fn client(disk: Vec<u8>) -> block::Client {
    let disk: &'static Disk = Box::leak(Box::new(Disk(SpinLock::new(disk))));
    block::Client::new(direct_link(move |request| Box::pin(block::serve(disk, request))))
}

fn open(disk: Vec<u8>, number: u16) -> Result<&'static Volume, VolumeError> {
    block_on(async move {
        Volume::open(client(disk), number, &|bytes| _ = REPORTED.fetch_add(bytes, Ordering::Relaxed)).await
    })
    .map(|volume| &*Box::leak(Box::new(volume)))
}

fn view(fill: u8, sectors: usize) -> Vec<Bytes> {
    let page = Page::zeroed().unwrap();
    page.write(0, &vec![fill; sectors * SECTOR_BYTES]);
    vec![Bytes::new(page, 0, sectors * SECTOR_BYTES)]
}

#[test]
fn the_checksum_is_the_usual_one() {
    assert_eq!(checksum(&[b"1234", b"56789"]), 0xcbf4_3926);
}

#[test]
fn a_volume_is_a_window_of_its_disk() {
    let volume = open(partitioned(300, &[(40, 99), (100, 299)]), 2).unwrap();
    block_on(async move {
        use gyre_interface::block::block::Server;
        assert_eq!(volume.geometry().await.unwrap().sectors, 200);
        volume.write(199, view(7, 1)).await.unwrap();
        assert_eq!(volume.write(199, view(7, 2)).await, Err(BlockError::OutOfRange));
        assert!(matches!(volume.read(u64::MAX, view(0, 1)).await, Err(BlockError::OutOfRange)));
        assert_eq!(volume.read(199, view(0, 1)).await.unwrap()[0].as_slice(), [7; SECTOR_BYTES]);
        assert_eq!(volume.disk.read(299, view(0, 1)).await.unwrap()[0].as_slice(), [7; SECTOR_BYTES]);
        assert_eq!(volume.statistics(), VolumeStatistics { read_bytes: 512, written_bytes: 512, reads: 1, writes: 1 });
        assert!(REPORTED.load(Ordering::Relaxed) >= 1024, "the scheduler is told");
    });
}

#[test]
fn tables_that_make_no_sense_are_refused() {
    let error = |disk, number| open(disk, number).map(|_| ()).unwrap_err();
    assert_eq!(error(vec![0; 100 * SECTOR_BYTES], 1), VolumeError::NoTable);
    assert_eq!(error(partitioned(300, &[(40, 99)]), 2), VolumeError::Missing);
    assert_eq!(error(partitioned(300, &[(40, 99)]), 0), VolumeError::Missing);
    assert_eq!(error(partitioned(300, &[(40, 99)]), 200), VolumeError::Missing);
    for wrong in [(40, 300), (99, 40), (2, 50), (40, u64::MAX)] {
        assert_eq!(error(partitioned(300, &[wrong]), 1), VolumeError::Damaged, "{wrong:?}");
    }
    let sound = partitioned(300, &[(40, 99)]);
    for at in (512..512 + 92).chain(1024..1024 + 48) {
        let mut disk = sound.clone();
        disk[at] ^= 0x40;
        assert!(open(disk, 1).is_err(), "byte {at}");
    }
}

#[test]
fn entries_at_the_end_of_all_sectors_are_refused() {
    for first in [u64::MAX, u64::MAX - 1, u64::MAX - 31] {
        let mut header = partitioned(300, &[(40, 99)]).split_off(SECTOR_BYTES);
        header[16..20].fill(0);
        header[72..80].copy_from_slice(&first.to_le_bytes());
        let sum = checksum(&[&header[..92]]);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(Table::parse(&header, u64::MAX), Err(VolumeError::Damaged)), "{first:x}");
    }
}
