//! A program in memory: its file and, if it is linked dynamically, the interpreter that it names.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use elf::{ElfStream, abi, endian::LittleEndian, file::Class, segment::ProgramHeader};

use super::segments;

/// A program that is mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// The first instruction: in the interpreter, if there is one.
    pub entry: u64,
    /// The program's own entry.
    pub program_entry: u64,
    /// The address of its program headers.
    pub headers: u64,
    /// How many there are.
    pub header_count: u64,
    /// The interpreter's address; 0 without one.
    pub base: u64,
}

struct Parsed {
    file: File,
    kind: u16,
    entry: u64,
    headers_offset: u64,
    headers: Vec<ProgramHeader>,
}

/// Finds a program as a shell does: a name with a slash is a path.
///
/// # Errors
/// `NotFound`.
fn find(name: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such program"))
}

/// Maps a program and its interpreter.
///
/// # Errors
/// Linux's; `InvalidData` if it is no program for this processor.
pub fn load(name: &OsStr) -> io::Result<Image> {
    let program = parse(&find(name)?)?;
    let offset = segments::map(&program.file, program.kind, &program.headers)?;
    let program_entry = program.entry.wrapping_add(offset);
    let [entry, base] = match interpreter(&program)? {
        None => [program_entry, 0],
        Some(path) => {
            let interpreter = parse(&path)?;
            let offset = segments::map(&interpreter.file, interpreter.kind, &interpreter.headers)?;
            [interpreter.entry.wrapping_add(offset), offset]
        }
    };
    let headers = headers_address(&program).ok_or_else(|| wrong("its headers are in no segment"))?;
    let header_count = program.headers.len() as u64;
    Ok(Image { entry, program_entry, headers: headers.wrapping_add(offset), header_count, base })
}

fn parse(path: &Path) -> io::Result<Parsed> {
    let parsed = ElfStream::<LittleEndian, _>::open_stream(File::open(path)?);
    let parsed = parsed.map_err(|error| wrong(&format!("is no ELF program: {error}")))?;
    let header = &parsed.ehdr;
    let is_ours = header.class == Class::ELF64 && header.e_machine == abi::EM_X86_64;
    if !is_ours || !matches!(header.e_type, abi::ET_EXEC | abi::ET_DYN) {
        return Err(wrong("is no program for x86-64"));
    }
    let (kind, entry, headers_offset) = (header.e_type, header.e_entry, header.e_phoff);
    Ok(Parsed { file: File::open(path)?, kind, entry, headers_offset, headers: parsed.segments().clone() })
}

fn interpreter(program: &Parsed) -> io::Result<Option<PathBuf>> {
    use std::os::unix::fs::FileExt as _;
    let Some(header) = program.headers.iter().find(|header| header.p_type == abi::PT_INTERP) else {
        return Ok(None);
    };
    let mut path = vec![0; header.p_filesz.min(4096) as usize];
    program.file.read_exact_at(&mut path, header.p_offset)?;
    path.truncate(path.iter().position(|byte| *byte == 0).unwrap_or(path.len()));
    Ok(Some(OsStr::from_bytes(&path).into()))
}

/// The address at which the file's program headers are mapped.
fn headers_address(program: &Parsed) -> Option<u64> {
    let at = program.headers_offset;
    let holds = |header: &&ProgramHeader| {
        header.p_type == abi::PT_LOAD
            && (header.p_offset..header.p_offset.saturating_add(header.p_filesz)).contains(&at)
    };
    let segment = program.headers.iter().find(holds)?;
    Some(segment.p_vaddr.wrapping_add(at - segment.p_offset))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
