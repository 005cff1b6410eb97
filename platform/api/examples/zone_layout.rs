//! Prints the layout of the page that a zone shares with its supervisor, one field a line: name, place in bytes, length in bytes. Tests make
//! such a page from it, and look into one. Before the fields come the page's magic number, its version, and the bit of the bell's event.

use gyre_platform::zone_page::{ZONE_PAGE_MAGIC, ZONE_PAGE_VERSION, ZoneConsole};
use gyre_platform::{CoreBox, Events, ZoneLife, ZonePage, ZonePlan};
use std::mem::offset_of;

macro_rules! fields {
    ($of:ident in $part:ident: $($field:ident),*) => {$(
        print_field(
            concat!(stringify!($part), ".", stringify!($field)),
            offset_of!(ZonePage, $part) + offset_of!($of, $field),
            length(|part: &$of| &part.$field),
        );
    )*};
}

/// The length of a field's type, of which no value is needed.
fn length<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

fn print_field(name: &str, place: usize, bytes: usize) {
    println!("{name} {place} {bytes}");
}

fn main() {
    print_field("magic", ZONE_PAGE_MAGIC as usize, 8);
    print_field("version", ZONE_PAGE_VERSION as usize, 4);
    print_field("bell", Events::BELL.trailing_zeros() as usize, 0);
    print_field("page", 0, size_of::<ZonePage>());
    print_field("cores", offset_of!(ZonePage, cores), size_of::<CoreBox>());
    fields!(ZonePlan in plan: magic, version, number, name, core_ids, core_count, memory_count, memory, module, devices, device_count);
    fields!(ZonePlan in plan: supervisor_core, local_apic, ecam, ecam_last_bus, protection, cycles_per_ms, timer_rate, wall_clock_base_ns);
    fields!(ZonePlan in plan: begun_cycle, entropy, parking_root, parking_entry, registers);
    fields!(CoreBox in cores: state, hardware_id, root, stack, entry, argument, since_cycle);
    fields!(ZoneLife in life: state, code, beats, beat_cycle, stood_cycle, asked_to_end, trace_count, trace, words_count, words);
    fields!(ZoneConsole in console: bytes, printed);
}
