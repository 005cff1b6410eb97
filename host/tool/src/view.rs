//! What a machine does, live: sampled once a second, shown in the terminal and on a page.

pub mod page;
pub mod sample;
pub mod sampler;
pub mod terminal;

pub use sample::Sample;
pub use sampler::Sampler;
