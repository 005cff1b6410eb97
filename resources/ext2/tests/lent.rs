//! Pages that were lent stay as they are, whatever becomes of the file; a mapped page goes on being the file's.

use crate::support::*;
use gyre_ext2::Ext2;
use gyre_interface::files::files::{Client, Server};
use gyre_interface::files::*;
use gyre_interface::near::{NEAR_BYTES_MAX, NEAR_PAGES_MAX, Near};
use gyre_message::direct::block_on;
use gyre_object::Page;

const PAGE: usize = 4096;
const FILE_BYTES: usize = 24 * PAGE;

/// Pages of a file that somebody has, and what they held when he got them.
struct Loan {
    pages: Vec<Page>,
    contents: Vec<Vec<u8>>,
}

fn contents(page: &Page) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    page.read(0, &mut bytes);
    bytes
}

fn lend(fs: &'static Ext2, node: NodeId, first: usize) -> Option<Loan> {
    let mut pages = [const { None }; NEAR_PAGES_MAX];
    Near::lend(fs, node, (first * PAGE) as u64, 3 * PAGE, &mut pages)?.ok()?;
    let pages: Vec<Page> = pages.into_iter().flatten().collect();
    let contents = pages.iter().map(contents).collect();
    Some(Loan { pages, contents })
}

async fn new_file(client: &Client) -> NodeId {
    let new = NewNode { kind: NodeKind::File, mode: 0o644, user: 1, group: 1, target: Vec::new(), device: 0 };
    client.create(client.root().await.unwrap(), b"f".to_vec(), new).await.unwrap().node
}

fn overwrite(fs: &'static Ext2, node: NodeId, offset: usize, data: &[u8]) -> bool {
    let mut fill = |pages: &[Option<Page>], start: usize, count: usize| {
        let (mut from, mut at) = (&data[..count], start);
        while !from.is_empty() {
            let taken = pages[at / PAGE].as_ref().unwrap().write(at % PAGE, from);
            (from, at) = (&from[taken..], at + taken);
        }
        true
    };
    Near::overwrite(fs, node, offset as u64, data.len(), &mut fill).is_some()
}

/// One random step; `model` is what the file holds.
async fn step(random: &mut Random, fs: &'static Ext2, client: &Client, node: NodeId, model: &mut Vec<u8>) {
    let (offset, value) = (random.below(FILE_BYTES - 1), random.below(256) as u8);
    let data = vec![value; 1 + random.below((FILE_BYTES - offset).min(NEAR_BYTES_MAX))];
    let end = offset + data.len();
    match random.below(8) {
        0 => {
            for size in [offset, FILE_BYTES] {
                let change = AttributeChange { size_bytes: Some(size as u64), ..AttributeChange::default() };
                client.set_attributes(node, change).await.unwrap();
                model.resize(size, 0);
            }
        }
        1 => {
            client.punch(node, offset as u64, data.len() as u64).await.unwrap();
            model[offset..end].fill(0);
        }
        2 => client.sync(node).await.unwrap(),
        3 => {
            let (at, data) = (offset.min(FILE_BYTES - 1024) & !511, vec![value; 1024]);
            write_direct(client, node, at, &data, random).await;
            model[at..at + data.len()].copy_from_slice(&data);
        }
        4..=5 if overwrite(fs, node, offset, &data) => model[offset..end].copy_from_slice(&data),
        _ => {
            client.write(node, offset as u64, views_of(&data)).await.unwrap();
            model[offset..end].copy_from_slice(&data);
        }
    }
}

#[test]
fn lent_pages_stay_as_they_are_whoever_writes() {
    for seed in 1..=3 {
        block_on(async {
            let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
            let node = new_file(&client).await;
            let mut model: Vec<u8> = (0..FILE_BYTES).map(|at| (at / 37) as u8).collect();
            client.write(node, 0, views_of(&model)).await.unwrap();
            let (mut random, mut loans, mut lent) = (Random(seed), Vec::<Loan>::new(), 0);
            for number in 0..300 {
                if random.below(3) == 0 {
                    let first = random.below(20);
                    // As a program does: what is absent comes first.
                    drop(Server::read(fs, node, (first * PAGE) as u64, 3 * PAGE).await.unwrap());
                    let loan = lend(fs, node, first);
                    lent += u32::from(loan.is_some());
                    loans.extend(loan);
                }
                step(&mut random, fs, &client, node, &mut model).await;
                let is_same = |loan: &Loan| loan.pages.iter().map(contents).eq(loan.contents.iter().cloned());
                assert!(loans.iter().all(is_same), "seed {seed}, step {number}");
                if loans.len() > 4 {
                    loans.swap_remove(random.below(5));
                }
                let read = read_all(&client, node).await.unwrap();
                let wrong = read.iter().zip(&model).position(|(read, wanted)| read != wanted);
                assert_eq!((read.len(), wrong), (model.len(), None), "seed {seed}, step {number}");
            }
            assert!(lent > 60, "seed {seed}: {lent}");
        });
    }
}

#[test]
fn what_is_written_shows_in_a_mapping_and_not_in_what_was_lent_before() {
    block_on(async {
        let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let node = new_file(&client).await;
        client.write(node, 0, views_of(&[1; 4 * PAGE])).await.unwrap();
        let loan = lend(fs, node, 0).expect("nobody else has them");
        let mapped = Server::page(fs, node, 1, Pattern::Usual).await.unwrap();
        assert!(!mapped.same(&loan.pages[1]), "a program may write it");
        assert!(lend(fs, node, 1).is_none(), "so it cannot be lent");
        mapped.write(0, &[2; 10]);
        client.write(node, PAGE as u64 + 10, views_of(&[3; 10])).await.unwrap();
        assert!(overwrite(fs, node, PAGE + 20, &[4; 10]));
        let read = read_all(&client, node).await.unwrap();
        assert_eq!(read[PAGE..PAGE + 30], contents(&mapped)[..30], "the mapping is the file");
        assert_eq!((read[PAGE], read[PAGE + 10], read[PAGE + 20]), (2, 3, 4));
        assert!(loan.pages.iter().all(|page| contents(page) == [1; PAGE]));
        drop(mapped);
        assert!(lend(fs, node, 1).is_some(), "no program has it any more");
    });
}

#[test]
fn a_page_that_was_given_back_is_written_in_its_place() {
    block_on(async {
        let (_, fs, client) = mount(make_image(8 * 1024, &["-b", "4096"])).await;
        let node = new_file(&client).await;
        client.write(node, 0, views_of(&[1; 4 * PAGE])).await.unwrap();
        let place = lend(fs, node, 0).unwrap().pages[0].pa();
        assert!(overwrite(fs, node, 0, &[5; 100]));
        assert_eq!(lend(fs, node, 0).unwrap().pages[0].pa(), place, "nothing was copied");
        let loan = lend(fs, node, 0).unwrap();
        assert!(overwrite(fs, node, 0, &[6; 100]));
        let other = lend(fs, node, 0).unwrap();
        assert!(other.pages[0].pa() != place && other.contents[0][0] == 6 && contents(&loan.pages[0])[0] == 5);
    });
}
