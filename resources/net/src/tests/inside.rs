//! Segments of an attacker, with numbers inside the window of a live connection.

use super::hostile::{Dice, segment, syn};
use super::rig::*;
use super::streams::{accept, at};
use crate::tcp::Seq;
use crate::wire::tcp::{Flags, Header, Options};
use crate::wire::{Sum, put};
use gyre_interface::tcp::{Socket, SocketAddress};
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use gyre_object::Bytes;
use proptest::prelude::*;
use std::vec::Vec;

/// The peer's end: its address and port, the other end, the number of its next byte, and ours.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub from: SocketAddress,
    pub to: SocketAddress,
    pub next: Seq,
    pub ours: Seq,
}

/// Returns the TCP headers that we have sent to a port since the last look.
async fn answers(rig: Rig, port: u16) -> Vec<Header> {
    sleep_ns(2 * MS).await;
    let ours = |frame: &&Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 6;
    let headers = rig.sent().iter().filter(ours).map(|frame| Header::read(&frame[34..]).unwrap().0).collect::<Vec<_>>();
    headers.into_iter().filter(|header| header.destination_port == port).collect()
}

impl End {
    pub(super) fn header(&self, flags: Flags) -> Header {
        Header {
            source_port: self.from.port,
            destination_port: self.to.port,
            sequence: self.next,
            acknowledgment: self.ours,
            flags,
            window: 60_000,
            options: Options { timestamps: Some((2, 0)), ..Options::default() },
        }
    }

    pub(super) async fn open(rig: Rig, listener: &Socket, port: u16, first: u32) -> (End, Socket) {
        rig.wire.inject(&syn(PEER_IP, port, first));
        let answer = answers(rig, port).await.pop().expect("an answer to the SYN");
        let (from, to) = (at(PEER_IP, port), at(GOLD_IP, 80));
        let end = End { from, to, next: Seq(first) + 1, ours: answer.sequence + 1 };
        rig.wire.inject(&end.segment(&end.header(Flags::ACK), b""));
        (end, accept(rig, listener).await)
    }

    /// Returns a segment to the other end.
    pub(super) fn segment(&self, header: &Header, payload: &[u8]) -> Vec<u8> {
        segment(self.from.address, self.to.address, header, payload)
    }

    /// Returns a segment of which each field may be at one of its ends.
    pub(super) fn hostile<D: Dice>(&self, dice: &mut D) -> Vec<u8> {
        let around = |dice: &mut D, at: Seq| match dice.next() % 6 {
            0 => at,
            1 => at + dice.next() as u32 % 3,
            2 => at + dice.next() as u32 % 70_000,
            3 => at - dice.next() as u32 % 3000,
            4 => at + (1 << 31) - dice.next() as u32 % 2,
            _ => Seq(dice.next() as u32),
        };
        let number = |dice: &mut D| [0, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX][dice.next() as usize % 6];
        let mut flags = Flags::from_bits_truncate(dice.next() as u8);
        flags.set(Flags::ACK, !dice.next().is_multiple_of(8));
        // resets in the right place only end the connection sooner
        flags.set(Flags::RST, dice.next().is_multiple_of(16));
        let mut options = Options::default();
        if !dice.next().is_multiple_of(4) {
            options.timestamps = Some((number(dice), number(dice)));
        }
        if dice.next().is_multiple_of(4) {
            (options.segment_bytes_max, options.window_scale) = (Some(number(dice) as u16), Some(number(dice) as u8));
        }
        options.sack_count = dice.next() as usize % 4;
        for block in &mut options.sack {
            *block = (around(dice, self.ours), around(dice, self.ours));
        }
        let header = Header {
            sequence: around(dice, self.next),
            acknowledgment: around(dice, self.ours),
            window: number(dice) as u16,
            options,
            ..self.header(flags)
        };
        let payload: Vec<u8> = (0..dice.next() % 1200).map(|byte| byte as u8).collect();
        let mut frame = self.segment(&header, &payload);
        if dice.next().is_multiple_of(4) {
            // the urgent pointer, and options that are longer than they say
            put(&mut frame, 34 + 18, &(number(dice) as u16).to_be_bytes());
            put(&mut frame, 34 + 20, &[[2, 3, 4, 5, 8, 254][dice.next() as usize % 6], dice.next() as u8]);
            put(&mut frame, 34 + 16, &[0; 2]);
            let mut sum = Sum::pseudo(self.from.address, self.to.address, 6, frame.len() - 34);
            sum.add(&frame[34..]);
            put(&mut frame, 34 + 16, &sum.finish());
        }
        frame
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn segments_inside_the_window_harm_nothing_but_their_connection(seed: u64, first: u32, count in 20usize..300) {
        let rig = Rig::new(Faults { seed, ..CLEAN });
        block_on(async {
            rig.start();
            rig.introduce_peer();
            act_as(GOLD);
            let listener = rig.tcp.listen(at(GOLD_IP, 80), 16, false).await.unwrap();
            let (mut end, socket) = End::open(rig, &listener, 4000, first).await;
            let mut dice = Faults { seed, ..CLEAN };
            for _ in 0..count {
                rig.wire.inject(&end.hostile(&mut dice));
                match dice.next() % 6 {
                    0 => _ = rig.tcp.send(socket.id, vec![Bytes::copy_from(&[7; 3000]).unwrap()]).await,
                    1 => _ = rig.tcp.receive(socket.id, 10_000).await,
                    2 => sleep_ns(dice.next() % (300 * MS)).await,
                    _ => {}
                }
                // what it may acknowledge, and what is expected of it, moves on
                for header in answers(rig, 4000).await {
                    (end.next, end.ours) = (header.acknowledgment, header.sequence + 1400);
                }
            }
            let (_, other) = End::open(rig, &listener, 4001, first.wrapping_add(9)).await;
            prop_assert!(rig.tcp.status(other.id).await.is_ok());
            prop_assert!(rig.net.statistics_of(GOLD).unwrap().sockets <= 3);
            rig.tcp.close(socket.id).await.unwrap();
            Ok(())
        })?;
    }
}
