//! `[cells]`: the memory that an instance keeps for cells (`pool`: whole lots, and not so much that the kernel has none), and the runtimes that
//! may become cells (`runtimes`: hashes of their files; without them all may).

use super::{Problem, check::Checker, part::Part, units};
use gyre_contract::zones::LOT_BYTES;

/// Parts of an instance's memory that cells can have, in percent.
const POOL_PERCENT_MAX: u64 = 75;

/// Returns the bytes of the pool, 0 without one; reports sizes that cannot be.
pub(super) fn pool(checker: &mut Checker, part: &Part) -> u64 {
    let Some(cells) = &part.file.cells else { return 0 };
    let bytes = checker.unit(Some(&cells.pool), 0, units::bytes);
    let most = part.memory_bytes / 100 * POOL_PERCENT_MAX / LOT_BYTES * LOT_BYTES;
    let show = units::show_bytes;
    let span = cells.pool.span();
    if bytes == 0 || !bytes.is_multiple_of(LOT_BYTES) {
        let message = format!("cells have their memory in lots of {}", show(LOT_BYTES));
        let label = format!("expected \"{} MiB\"", (bytes / LOT_BYTES + 1) * LOT_BYTES / (1 << 20));
        checker.wrong(Problem::new(span, message, label));
    } else if bytes > most {
        let message = format!("the pool of cells has {} of {}", show(bytes), show(part.memory_bytes));
        let help = "the kernel, its caches and all other programs need the rest; give the machine more `memory`";
        checker.wrong(Problem::new(span, message, format!("expected {} or less", show(most))).help(help));
    }
    bytes
}

/// Stands for the launcher that the tool builds, until that is built: no file has this hash.
pub const LAUNCHER: [u8; 32] = [0; 32];

/// Returns the hashes of the runtimes that may become cells; reports words that are none.
pub(super) fn runtimes(checker: &mut Checker, part: &Part) -> Vec<[u8; 32]> {
    let named = part.file.cells.iter().flat_map(|cells| &cells.runtimes);
    let mut hashes = vec![];
    for text in named {
        match hash(text.get_ref()) {
            Some(hash) => hashes.push(hash),
            None => {
                let message = format!("`{}` is no hash of a runtime", text.get_ref());
                let help = "`gyre cell list --json` and `sha256sum FILE` say what a runtime's is";
                let label = "expected \"launcher\", or \"sha256:\" and 64 hexadecimal digits";
                checker.wrong(Problem::new(text.span(), message, label).help(help));
            }
        }
    }
    hashes
}

/// Reads `sha256:` and 64 digits, or `launcher`.
fn hash(text: &str) -> Option<[u8; 32]> {
    if text == "launcher" {
        return Some(LAUNCHER);
    }
    let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.is_ascii())?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let digit = |at: usize| pair.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    const REST: &str = "name = \"c\"\nmemory = \"256 MiB\"\n[image.i]\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"i\"\nmemory = \"16 MiB\"\n";

    fn read(cells: &str) -> Result<u64, String> {
        let text = format!("{REST}{cells}");
        let path = std::path::Path::new("machine.toml");
        parse(path, &text).map(|read| read.machine.cells_bytes).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_pool_is_whole_lots_and_leaves_the_kernel_its_memory() {
        assert_eq!(read(""), Ok(0));
        assert_eq!(read("[cells]\npool = \"64 MiB\"\n"), Ok(64 << 20));
        for (bad, reason) in [
            ("3 MiB", "lots of"),
            ("0 MiB", "lots of"),
            ("254 MiB", "the pool of cells has"),
            ("much", "cannot be read"),
        ] {
            let error = read(&format!("[cells]\npool = \"{bad}\"\n")).unwrap_err();
            assert!(error.contains(reason), "{bad}: {error}");
        }
        assert!(super::hash(&format!("sha256:{}", "+1".repeat(32))).is_none());
        assert!(read("[cells]\n").is_err() && read("[cells]\npool = \"2 MiB\"\nsize = 1\n").is_err());
    }
    #[test]
    fn runtimes_are_hashes() {
        let path = std::path::Path::new("machine.toml");
        let of = |list: &str| {
            let text = format!("{REST}[cells]\npool = \"64 MiB\"\nruntimes = [{list}]\n");
            parse(path, &text).map(|read| read.machine.cells_runtimes).map_err(|problem| problem.to_string())
        };
        let mut hash = [0xab; 32];
        hash[31] = 0x0f;
        let digits = format!("{}0F", "ab".repeat(31));
        assert_eq!(of(&format!("\"sha256:{digits}\"")), Ok(vec![hash]));
        assert_eq!(of("\"launcher\""), Ok(vec![super::LAUNCHER]));
        assert_eq!(of(""), Ok(vec![]));
        for bad in ["md5:00", "sha256:", digits.as_str(), "sha256:zz"] {
            assert!(of(&format!("\"{bad}\"")).unwrap_err().contains("is no hash of a runtime"), "{bad}");
        }
    }

    #[test]
    fn a_device_of_cells_is_named_once_and_is_nobody_elses() {
        let read = |devices: &str| {
            let text = format!("{REST}[cells]\npool = \"2 MiB\"\ndevices = {devices}\n");
            let read = parse(std::path::Path::new("machine.toml"), &text);
            read.map(|read| read.machine.cells_devices).map_err(|problem| problem.to_string())
        };
        let named = read("[\"00:1a.0\", \"00:1b.0\"]").unwrap();
        assert_eq!(named.iter().map(ToString::to_string).collect::<Vec<_>>(), ["00:1a.0", "00:1b.0"]);
        for (bad, reason) in [
            ("[\"00:04.0\"]", "the device 00:04.0 is taken"),
            ("[\"00:1f.0\"]", "the device 00:1f.0 is taken"),
            ("[\"00:1a.0\", \"00:1a.0\"]", "given twice"),
            ("[\"disk1\"]", "is not a device"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(reason), "{bad}: {error}");
        }
    }
}
