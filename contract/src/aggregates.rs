//! The figures of an aggregate of threads, as [`crate::native::AGGREGATE_FIGURES`] writes them.

/// An aggregate now.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Debug,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
    zerocopy::KnownLayout,
)]
#[repr(C)]
pub struct AggregateFigures {
    /// The use of its threads, in the kernel and outside, ns of a core.
    pub used_ns: u64,
    /// Its share.
    pub share: u32,
    /// One of `AGGREGATE_ROUND_ROBIN` to `AGGREGATE_DEADLINES`.
    pub policy: u32,
    /// Threads that stand in it.
    pub threads: u32,
    /// 0.
    pub reserved: u32,
}
