//! A frame service: draws its clients' frames into a screen in memory, each client in a part of its own. It stands for a graphical user
//! interface: what counts is that each client's frames are drawn in the time that was promised to it.

use crate::{
    protocol::{Refused, Work},
    service::Server,
};

/// Largest frame, pixels.
const PIXELS_MAX: u32 = 1 << 20;

/// See the module.
#[derive(Default)]
pub struct Frames {
    /// The clients' parts of the screen.
    parts: Vec<Vec<u32>>,
}

/// The colour of a pixel: three waves, so that each frame is another picture and its sum can be checked.
#[must_use]
pub fn pixel(number: u64, at: u32) -> u32 {
    let x = at.wrapping_add(number as u32).wrapping_mul(0x9e37_79b9);
    (x ^ x >> 15).wrapping_mul(0x85eb_ca6b) >> 8
}

impl Server for Frames {
    fn work(&mut self, client: usize, work: &Work) -> Result<(Vec<u8>, u64), Refused> {
        let Work::Draw { number, pixels } = *work else { return Err(Refused::WrongService) };
        if pixels > PIXELS_MAX {
            return Err(Refused::Invalid(format!("a frame has {PIXELS_MAX} pixels at most")));
        }
        self.parts.resize_with(self.parts.len().max(client + 1), Vec::new);
        let part = &mut self.parts[client];
        part.clear();
        part.extend((0..pixels).map(|at| pixel(number, at)));
        let sum = part.iter().fold(0u64, |sum, pixel| sum.wrapping_add((*pixel).into()));
        Ok((sum.to_le_bytes().to_vec(), u64::from(pixels) * 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_the_picture_of_its_number() {
        let mut frames = Frames::default();
        let mut draw = |client, number| frames.work(client, &Work::Draw { number, pixels: 1000 }).unwrap().0;
        let one = draw(0, 1);
        assert_ne!(one, draw(1, 2));
        assert_eq!(one, draw(2, 1));
        let sum = (0..1000).fold(0u64, |sum, at| sum + u64::from(pixel(1, at)));
        assert_eq!(one, sum.to_le_bytes());
        assert!(frames.work(0, &Work::Draw { number: 0, pixels: PIXELS_MAX + 1 }).is_err());
    }
}
