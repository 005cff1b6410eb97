//! A virtual processor as QEMU sees it, for one that says nothing itself: where it is, and through which functions it came there.

use super::monitor::Monitor;

/// Frames that are followed outwards at most.
const FRAMES_MAX: usize = 32;
/// Kernel addresses begin here.
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// The registers that tell what a processor does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Registers {
    instruction: u64,
    frame: u64,
    flags: u64,
    level: u64,
    is_halted: bool,
}

impl Registers {
    /// Those in the text of `info registers`.
    fn of(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut words = text.split_ascii_whitespace();
            words.find_map(|word| u64::from_str_radix(word.strip_prefix(name)?.strip_prefix('=')?, 16).ok())
        };
        // A processor that is not in long mode shows registers of 32 bits.
        Some(Self {
            instruction: value("RIP").or_else(|| value("EIP"))?,
            frame: value("RBP").or_else(|| value("EBP"))?,
            flags: value("RFL").or_else(|| value("EFL"))?,
            level: value("CPL")?,
            is_halted: value("HLT")? != 0,
        })
    }

    fn words(&self) -> String {
        let does = if self.is_halted { "is halted" } else { "runs" };
        let interrupts = if self.flags >> 9 & 1 == 1 { "on" } else { "off" };
        format!("{does}, level {}, interrupts {interrupts}, at {:#018x}", self.level, self.instruction)
    }
}

/// Says what a processor does, with the places it would return to as lines of a trace.
pub fn told(monitor: &Monitor, processor: usize) -> String {
    let registers = monitor.say(processor, "info registers").map(|text| Registers::of(&text));
    let registers = match registers {
        Ok(Some(registers)) => registers,
        Ok(None) => return format!("core {processor} says nothing, and QEMU tells no registers\n"),
        Err(failure) => return format!("core {processor} says nothing: {}\n", failure.report),
    };
    let head = format!("core {processor} says nothing; as QEMU sees it, it {}\n", registers.words());
    let trace = places(monitor, processor, &registers).into_iter().enumerate();
    trace.fold(head, |text, (depth, place)| format!("{text}  trace: {depth} {place:#018x}\n"))
}

/// Returns the instruction in hand and the return addresses above it, innermost first. A program's stack is not followed.
fn places(monitor: &Monitor, processor: usize, registers: &Registers) -> Vec<u64> {
    let (mut places, mut frame) = (vec![registers.instruction], registers.frame);
    while places.len() < FRAMES_MAX && registers.instruction >= KERNEL && frame >= KERNEL {
        let words = monitor.say(processor, &format!("x/2gx {frame:#x}")).map(|text| words_of(&text));
        let [outer, place] = words.unwrap_or_default()[..] else { break };
        places.push(place);
        if outer <= frame {
            break;
        }
        frame = outer;
    }
    places
}

/// Returns the words in the text of `x/2gx`: `ffffffff80100000: 0x0000000000000001 0x0000000000000002`.
fn words_of(text: &str) -> Vec<u64> {
    let words = text.split_ascii_whitespace().filter_map(|word| word.strip_prefix("0x"));
    words.filter_map(|word| u64::from_str_radix(word, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\r\nCPU#1\r\nRAX=0000000000000000 RBX=00000000000000aa\r\nRSI=1 RDI=2 RBP=ffffffff80200010 RSP=ffffffff80200000\r\n\
        RIP=ffffffff80104d5a RFL=00000046 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=0\r\n";

    #[test]
    fn a_processor_is_told_in_words() {
        let registers = Registers::of(TEXT).unwrap();
        assert_eq!(registers.frame, 0xffff_ffff_8020_0010);
        assert_eq!(registers.words(), "runs, level 0, interrupts off, at 0xffffffff80104d5a");
        let halted = Registers { is_halted: true, flags: 0x246, ..registers };
        assert_eq!(halted.words(), "is halted, level 0, interrupts on, at 0xffffffff80104d5a");
        let reset = "EBP=00000000\r\nEIP=0000fff0 EFL=00000002 [-------] CPL=0 II=0 A20=1 SMM=0 HLT=0\r\n";
        assert_eq!(Registers::of(reset).unwrap().words(), "runs, level 0, interrupts off, at 0x000000000000fff0");
        assert_eq!(Registers::of("unknown command"), None);
    }

    #[test]
    fn words_of_memory_are_read_without_their_address() {
        assert_eq!(
            words_of("ffffffff80200010: 0x00000000000000ff 0xffffffff80104d5a\r\n"),
            [0xff, 0xffff_ffff_8010_4d5a]
        );
        assert_eq!(words_of("Cannot access memory\r\n"), [] as [u64; 0]);
    }

    #[test]
    fn a_qemu_that_is_gone_is_told_too() {
        let (monitor, qemus) = Monitor::pair().unwrap();
        drop(qemus);
        assert!(told(&monitor, 1).starts_with("core 1 says nothing: "));
    }
}
