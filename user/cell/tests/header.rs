//! The header for C says what the crate says.

use std::mem::offset_of;

use gyre_cell_abi::card::{CardFacts, CardRequest};
use gyre_cell_abi::device::{DEVICE_CLOSE, DEVICE_OPEN, DeviceFacts, DeviceRequest};
use gyre_cell_abi::{ASK, CallLine, CellPage, CellRequest, ENTER, KICK_VECTOR, asks, exit, flag, state};

/// Compiles a C program with the header that returns 0 if all of it is so.
#[test]
fn layouts_and_numbers_are_those_of_the_crate() {
    let numbers = [
        ("GYRE_CELL_ENTER", ENTER),
        ("GYRE_CELL_ASK", ASK),
        ("GYRE_CELL_DEVICE_OPEN", DEVICE_OPEN),
        ("GYRE_CELL_DEVICE_CLOSE", DEVICE_CLOSE),
        ("GYRE_CELL_PRIVILEGED", flag::PRIVILEGED.into()),
        ("GYRE_CELL_PLAIN", flag::PLAIN.into()),
        ("GYRE_CELL_IDLE", exit::IDLE),
        ("GYRE_CELL_BELL", exit::BELL),
        ("GYRE_CELL_MORE", exit::MORE),
        ("GYRE_CELL_GIVE", exit::GIVE),
        ("GYRE_CELL_LEAVE", exit::LEAVE),
        ("GYRE_CELL_EXIT", exit::EXIT),
        ("GYRE_CELL_FAULT", exit::FAULT),
        ("GYRE_CELL_START", exit::START),
        ("GYRE_CELL_KICK", exit::KICK),
        ("GYRE_CELL_FLUSH", exit::FLUSH),
        ("GYRE_CELL_GIVE_CORE", exit::GIVE_CORE),
        ("GYRE_CELL_GET_CORE", exit::GET_CORE),
        ("GYRE_CELL_KICK_VECTOR", KICK_VECTOR.into()),
        ("GYRE_CELL_GIVE_BACK", asks::GIVE_BACK.into()),
        ("GYRE_CELL_SIGNAL", asks::SIGNAL.into()),
        ("GYRE_CELL_END", asks::END.into()),
        ("GYRE_CELL_OFFER", asks::OFFER.into()),
        ("GYRE_CELL_FREE", state::FREE.into()),
        ("GYRE_CELL_ASKED", state::ASKED.into()),
        ("GYRE_CELL_TAKEN", state::TAKEN.into()),
        ("GYRE_CELL_ANSWERED", state::ANSWERED.into()),
        ("GYRE_CELL_GIVEN_UP", state::GIVEN_UP.into()),
    ];
    let places = [
        ("request, lines", offset_of!(CellRequest, lines)),
        ("request, memory_bytes", offset_of!(CellRequest, memory_bytes)),
        ("request, page", offset_of!(CellRequest, page)),
        ("page, window", offset_of!(CellPage, window)),
        ("page, root", offset_of!(CellPage, root)),
        ("page, asks", offset_of!(CellPage, asks)),
        ("page, signals", offset_of!(CellPage, signals)),
        ("page, tsc_hz", offset_of!(CellPage, tsc_hz)),
        ("page, lot_list", offset_of!(CellPage, lot_list)),
        ("page, exits", offset_of!(CellPage, exits)),
        ("page, free", offset_of!(CellPage, free)),
        ("page, wanted_lots", offset_of!(CellPage, wanted_lots)),
        ("page, wanted_cores", offset_of!(CellPage, wanted_cores)),
        ("page, wanted_until", offset_of!(CellPage, wanted_until)),
        ("page, held", offset_of!(CellPage, held)),
        ("page, offered_cores", offset_of!(CellPage, offered_cores)),
        ("device_request, entries", offset_of!(DeviceRequest, entries)),
        ("device_request, descriptors", offset_of!(DeviceRequest, descriptors)),
        ("device_request, used", offset_of!(DeviceRequest, used)),
        ("device_facts, request_bytes_max", offset_of!(DeviceFacts, request_bytes_max)),
        ("card_request, entries", offset_of!(CardRequest, entries)),
        ("card_request, receive", offset_of!(CardRequest, receive)),
        ("card_request, send", offset_of!(CardRequest, send)),
        ("card_facts, frame_bytes_max", offset_of!(CardFacts, frame_bytes_max)),
        ("line, arguments", offset_of!(CallLine, arguments)),
        ("line, result", offset_of!(CallLine, result)),
    ];
    let numbers = numbers.map(|(name, value)| format!("_Static_assert({name} == {value}, \"\");\n"));
    let places = places.map(|(name, value)| {
        format!("_Static_assert(__builtin_offsetof(struct gyre_cell_{name}) == {value}, \"{name}\");\n")
    });
    let text = format!("#include \"gyre_cell.h\"\n{}{}", numbers.concat(), places.concat());
    let source = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.c");
    std::fs::write(&source, text).unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let mut compiler = std::process::Command::new("gcc");
    compiler.args(["-Wall", "-Werror", "-fsyntax-only", include]).arg(&source);
    let output = compiler.output().expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
