//! Native calls (`user/native/include/gyre.h`); those of the system tenant must be refused.

use crate::kinds::{
    Argument::*,
    Call,
    Kind::{Flow, Mapping, Stream},
    call,
};

/// Native calls.
pub const CALLS: &[Call] = &[
    call(0x1000, "gyre_snapshot", &[Buffer, Length]),
    call(0x1001, "gyre_spawn", &[Buffer, Length]),
    call(0x1002, "gyre_wait", &[Pid]),
    call(0x1003, "gyre_log", &[Count, Offset, Buffer, Length]),
    call(0x1004, "gyre_terminate", &[Pid, Signal]),
    call(0x1005, "gyre_set", &[Buffer, Length]),
    call(0x1006, "gyre_end", &[Number]),
    call(0x1010, "gyre_figures", &[Pid, Buffer, Length]),
    call(0x1011, "gyre_figures_map", &[Pid]).gives(Mapping),
    call(0x1020, "gyre_flow", &[AnyFd, Either(&[Count, Number]), Number]).gives(Flow),
    call(0x1021, "gyre_flow_source", &[Fd(Flow), AnyFd, Offset, Length, Offset]),
    call(0x1022, "gyre_flow_close", &[Fd(Flow), OneOf(&[0, 1, 2])]),
    call(0x1023, "gyre_stream", &[Buffer]).gives_pair(0, [Stream, Stream]),
    call(0x1024, "gyre_stream_write", &[Fd(Stream), Buffer, Length]),
    call(0x1025, "gyre_stream_read", &[Fd(Stream), Buffer, Buffer]),
    call(0x1036, "gyre_pulse_tick", &[Either(&[Count, Number])]),
    call(0x1038, "gyre_context_restore", &[Buffer, OneOf(&[0, 1, 2])]),
    call(0x1033, "gyre_cells", &[Buffer, Length, Buffer, Length]),
    call(0x1028, "gyre_checkpoint", &[OneOf(&[u64::MAX, 0, 1, 2]), Path, Count]),
    call(0x1029, "gyre_evict", &[OneOf(&[u64::MAX, 0, 1, 2]), Path, Count]),
];
