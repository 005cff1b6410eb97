//! `gyre volume`: what there is, copies of it, and its removal.
//!
//! * A copy is the file system itself, compressed by gzip. One that a machine has is not copied: `save` would catch it between two writes.
//! * `load` reads the copy's first block before anything else, and takes no more bytes than that says. Nothing is left of what is refused.
//! * A volume that is replaced goes once the other one is whole.
//! * `remove` wants a volume that nobody has, as `save` and `load --replace` do.
//! * A copy may be written to standard output, for another host.
//! * `list` shows what a volume takes on the host beside its size: holes take nothing.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};
use gyre_machine_file::units::show_bytes;
use serde::Serialize;

use super::{Record, Volume};
use crate::{
    check::print_json,
    cli,
    failure::{Context as _, Failure, Result},
    machines::{self, info::now_unix_ms},
    project::Project,
    run::kept,
    stop, ui,
};

/// Bytes that a copy is read and written by.
const PART_BYTES: usize = 1 << 16;
/// The superblock of an ext2 file system ends here, bytes.
const HEAD_BYTES: usize = 2048;
/// The largest file system that is loaded, bytes: what a machine file can ask for.
const BYTES_MAX: u64 = 1 << 40;

/// A volume, as `--json` writes it.
#[derive(Serialize)]
struct Shown {
    name: String,
    bytes: u64,
    held_bytes: u64,
    in_use: bool,
    #[serde(flatten)]
    record: Record,
}

/// Runs `gyre volume`.
///
/// # Errors
/// When a volume is not there, is in use, or cannot be read or written.
pub fn volume(arguments: &cli::Volume) -> Result<ExitCode> {
    let project = Project::find()?;
    match &arguments.command {
        cli::VolumeCommand::List { json } => list(&project, *json)?,
        cli::VolumeCommand::Save { name, file } => save(&project, name, file)?,
        cli::VolumeCommand::Load { name, file, replace } => {
            load(&project, name, file, if *replace { Present::GivesWay } else { Present::Stays })?;
        }
        cli::VolumeCommand::Remove { names } => names.iter().try_for_each(|name| remove(&project, name))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(project: &Project, json: bool) -> Result<()> {
    let all = Volume::all(project)?;
    let shown = all.iter().map(|volume| Shown {
        name: volume.name.clone(),
        bytes: volume.bytes(),
        held_bytes: volume.held_bytes(),
        in_use: volume.is_taken(),
        record: volume.record(),
    });
    let shown: Vec<Shown> = shown.collect();
    if json {
        return print_json(&shown);
    }
    if shown.is_empty() {
        ui::say("there are no volumes; a [[tenant.volume]] of a machine file makes one");
        return Ok(());
    }
    let mut rows = vec![["volume", "size", "on the host", "in use", "by", "made"].map(str::to_owned).to_vec()];
    rows.extend(shown.iter().map(row));
    println!("{}", ui::table(&rows));
    Ok(())
}

fn row(one: &Shown) -> Vec<String> {
    let by = match (&one.record.machine, &one.record.tenant) {
        (Some(machine), Some(tenant)) => format!("{tenant} of {machine}"),
        _ => String::new(),
    };
    let ago = now_unix_ms().saturating_sub(one.record.made_unix_ms);
    let made = format!("{} ago", ui::age(Duration::from_millis(u64::try_from(ago).unwrap_or(0))));
    let in_use = if one.in_use { "yes" } else { "no" }.to_owned();
    vec![one.name.clone(), show_bytes(one.bytes), show_bytes(one.held_bytes), in_use, by, made]
}

fn save(project: &Project, name: &str, file: &Path) -> Result<()> {
    let taken = Volume::named(project, name)?.take(project)?;
    kept::whole_alone(&taken.volume.path)?;
    let cannot = || format!("cannot write {}", file.display());
    let mut from = File::open(&taken.volume.path).context(|| format!("cannot read {}", taken.volume.path.display()))?;
    if file.as_os_str() == "-" {
        return pack(&mut from, io::stdout().lock()).context(cannot);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = tempfile::NamedTempFile::new_in(folder).context(cannot)?;
    pack(&mut from, BufWriter::new(unfinished.as_file())).context(cannot)?;
    stop::check()?;
    let bytes = unfinished.as_file().metadata().map_or(0, |data| data.len());
    unfinished.persist(file).map_err(|error| Failure::new(format!("{}: {}", cannot(), error.error)))?;
    ui::say(&format!("saved {name} to {} ({})", file.display(), show_bytes(bytes)));
    Ok(())
}

fn pack(from: &mut File, to: impl Write) -> io::Result<()> {
    let mut packed = GzEncoder::new(to, Compression::fast());
    io::copy(from, &mut packed)?;
    packed.finish()?.flush()
}

/// The fate of a volume in whose place another one is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Present {
    /// It stays, and nothing is loaded.
    Stays,
    /// It goes once the other one is whole.
    GivesWay,
}

pub(super) fn load(project: &Project, name: &str, file: &Path, present: Present) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || name.starts_with(['.', '-']) || !name.chars().all(good) {
        return Err(Failure::with_help(
            format!("a volume cannot be named `{name}`"),
            "expected 1 to 64 of letters, digits, - and _, or dots within",
        ));
    }
    let volume = Volume::named(project, name)?;
    let taken = match (volume.exists(), present) {
        (false, _) => None,
        (true, Present::GivesWay) => Some(volume.take(project)?),
        (true, Present::Stays) => {
            let help = format!("gyre volume load --replace {name} discards what it holds");
            return Err(Failure::with_help(format!("there is a volume `{name}` already"), help));
        }
    };
    let folder = volume.path.parent().unwrap_or(Path::new("."));
    let cannot = || format!("cannot write to {}", folder.display());
    let unfinished = tempfile::NamedTempFile::new_in(folder).context(cannot)?;
    unpack(file, unfinished.as_file())?;
    kept::whole_alone(unfinished.path())?;
    unfinished.persist(&volume.path).map_err(|error| Failure::new(format!("{}: {}", cannot(), error.error)))?;
    volume.note(&Record { made_unix_ms: now_unix_ms(), from: Some(file.to_owned()), ..Record::default() })?;
    drop(taken);
    ui::say(&format!("loaded {name} from {} ({})", file.display(), show_bytes(volume.bytes())));
    Ok(())
}

/// Unpacks a copy; holes stay holes.
fn unpack(file: &Path, mut to: &File) -> Result<()> {
    let not_a_copy = |why: &str| {
        let help = "expected a file that gyre volume save wrote";
        Failure::with_help(format!("{} is no copy of a volume: {why}", file.display()), help)
    };
    let from = File::open(file).context(|| format!("cannot read {}", file.display()))?;
    let mut from = GzDecoder::new(BufReader::new(from));
    let mut head = [0; HEAD_BYTES];
    from.read_exact(&mut head).map_err(|_| not_a_copy("it is not compressed by gzip, or too short"))?;
    let bytes = bytes_of(&head).ok_or_else(|| not_a_copy("it holds no ext2 file system"))?;
    let cannot = || format!("cannot load {}", file.display());
    to.set_len(bytes).context(cannot)?;
    to.write_all(&head).context(cannot)?;
    let mut at = HEAD_BYTES as u64;
    let mut part = vec![0; PART_BYTES];
    loop {
        stop::check()?;
        let count = from.read(&mut part).map_err(|error| not_a_copy(&format!("it is damaged ({error})")))?;
        let read = part.get(..count).unwrap_or_default();
        if read.is_empty() {
            break;
        }
        if at.saturating_add(count as u64) > bytes {
            return Err(not_a_copy("it holds more than its first block says"));
        }
        if read.iter().any(|byte| *byte != 0) {
            to.seek(SeekFrom::Start(at)).and_then(|_| to.write_all(read)).context(cannot)?;
        }
        at += count as u64;
    }
    if at == bytes { Ok(()) } else { Err(not_a_copy("it is cut short")) }
}

/// Returns the size that a superblock says: blocks at byte 4 of it, their size at 24, the magic at 56.
fn bytes_of(head: &[u8; HEAD_BYTES]) -> Option<u64> {
    let word = |at: usize| head.get(1024 + at..1028 + at)?.try_into().ok().map(u32::from_le_bytes);
    let (blocks, bits, magic) = (word(4)?, word(24)?, word(56)? & 0xffff);
    let bytes = u64::from(blocks).checked_mul(1024u64.checked_shl(bits).filter(|_| bits <= 6)?)?;
    (magic == 0xef53 && (1..=BYTES_MAX).contains(&bytes)).then_some(bytes)
}

fn remove(project: &Project, name: &str) -> Result<()> {
    let taken = Volume::named(project, name)?.take(project)?;
    // A machine that begins meanwhile finds it taken, and then makes it anew.
    let wanted_by = machines::all(project)?
        .into_iter()
        .filter(|known| known.runs())
        .find(|known| known.info.tenants.iter().any(|tenant| tenant.volumes.iter().any(|(other, _)| other == name)));
    if let Some(known) = wanted_by {
        return Err(Failure::new(format!("the volume `{name}` belongs to machine {}, which runs", known.info.name)));
    }
    let held = show_bytes(taken.volume.held_bytes());
    std::fs::remove_file(&taken.volume.path).context(|| format!("cannot remove the volume {name}"))?;
    let _ = std::fs::remove_file(taken.volume.record_path());
    ui::say(&format!("removed {name} ({held})"));
    Ok(())
}
