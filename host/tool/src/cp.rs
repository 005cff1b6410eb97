//! `gyre cp`: files and folders between the host and a tenant, both ways, as `TENANT:PATH`.
//!
//! The tenant's own `tar` packs and unpacks, or busybox; a single file goes without either, by `cat` and `tee`. An archive of a tenant is
//! unpacked as an image is: no link and no name in it leads out of the folder.
//!
//! * [`Side`] says whose a path is; [`Place`] runs programs in the tenant by `POST /exec`, with their streams as frames.
//! * Into a folder that is there a copy goes under its own name, else under the new one. A folder is never replaced by what is copied.
//! * A copy is unpacked in a folder beside its place and moved there when it is whole, so that a copy that breaks off leaves nothing.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
    process::ExitCode,
};

use gyre_contract::session::{self, ExecRequest};

use crate::{
    agent::Agent,
    cli,
    failure::{Context as _, Failure, Result},
    image::{self, root::Root},
    instances::Instances,
    lifeline::Life,
    project::Project,
};

/// Programs that pack and unpack, in the order in which they are tried.
const TARS: &[&[&str]] = &[&["tar"], &["busybox", "tar"], &["/bin/busybox", "tar"]];
/// Exit codes of a program that is not there or cannot run.
const UNKNOWN: [u8; 2] = [126, 127];

/// One side of the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Side {
    Host(PathBuf),
    Tenant { name: String, path: String },
}

impl Side {
    /// Reads an argument. A path that has a slash before its first colon is the host's.
    fn parse(text: &str) -> Self {
        // A tenant of a zone is ZONE:TENANT, so the path begins at the first slash.
        match text.split_once(":/") {
            Some((name, path)) if !name.is_empty() && !name.contains('/') => {
                Self::Tenant { name: name.to_owned(), path: format!("/{path}") }
            }
            _ => Self::Host(PathBuf::from(text)),
        }
    }
}

/// Runs `gyre cp FROM TO`.
///
/// # Errors
/// When both are on one side, something is not there, or the tenant has no program to do it.
pub fn cp(arguments: &cli::Cp) -> Result<ExitCode> {
    let project = Project::find()?;
    let place = |name: &str| -> Result<Place> {
        let instances = Instances::find(&project, arguments.select.machine.as_deref())?;
        let (agent, tenant) = instances.of_tenant(name)?;
        Ok(Place { agent, tenant, life: instances.life_of(name) })
    };
    match (Side::parse(&arguments.from), Side::parse(&arguments.to)) {
        (Side::Host(from), Side::Tenant { name, path }) => place(&name)?.put(&from, &path)?,
        (Side::Tenant { name, path }, Side::Host(to)) => place(&name)?.take(&path, &to)?,
        _ => {
            let help = "one of them is TENANT:/PATH, the other one a path of the host";
            return Err(Failure::with_help("one side must be a tenant's, and the other one the host's", help));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A tenant of a running machine.
struct Place {
    agent: Agent,
    /// That of its zone.
    life: Option<Life>,
    tenant: String,
}

impl Place {
    /// Copies from the host to a path; into it if that is a folder.
    fn put(&self, from: &Path, to: &str) -> Result<()> {
        let data = std::fs::metadata(from).context(|| format!("cannot read {}", from.display()))?;
        let is_into = to.ends_with('/') || self.is_folder(to)?;
        let own_name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (folder, name) = if is_into { (to.to_owned(), own_name) } else { split(to)? };
        let pack = |out: &mut dyn Write| -> io::Result<()> {
            let mut archive = tar::Builder::new(out);
            archive.follow_symlinks(false);
            match data.is_dir() {
                true => archive.append_dir_all(&name, from)?,
                false => archive.append_file(&name, &mut File::open(from)?)?,
            }
            archive.finish()
        };
        let done = self.with_tar(&["-x", "-f", "-", "-C", &folder], pack, &mut io::sink())?;
        if done || data.is_dir() {
            return if done { Ok(()) } else { Err(self.no_tar()) };
        }
        let path = format!("{}/{name}", folder.trim_end_matches('/'));
        let copy = |out: &mut dyn Write| io::copy(&mut File::open(from)?, out).map(drop);
        self.run(&["tee", &path], copy, &mut io::sink())?.well("tee")
    }

    /// Copies a path to the host; into a folder that is there.
    fn take(&self, from: &str, to: &Path) -> Result<()> {
        let (folder, name) = split(from)?;
        let into = if to.is_dir() { to.to_owned() } else { to.parent().map(Path::to_owned).unwrap_or_default() };
        let into = if into.as_os_str().is_empty() { PathBuf::from(".") } else { into };
        let new_name = if to.is_dir() { None } else { to.file_name().map(|name| name.to_owned()) };
        let scratch = tempfile::tempdir_in(&into).context(|| format!("cannot write to {}", into.display()))?;
        let packed = scratch.path().join("archive");
        let mut file = File::create(&packed).context(|| format!("cannot write {}", packed.display()))?;
        if self.with_tar(&["-c", "-f", "-", "-C", &folder, &name], |_| Ok(()), &mut file)? {
            let tree = Root::make(&scratch.path().join("tree"))?;
            let archive = File::open(&packed).context(|| format!("cannot read {}", packed.display()))?;
            image::unpack_archive(archive, &tree)?;
        } else {
            let tree = Root::make(&scratch.path().join("tree"))?;
            let mut plain = File::create(tree.path().join(&name)).context(|| format!("cannot write {name}"))?;
            self.run(&["cat", from], |_| Ok(()), &mut plain)?.well("cat")?;
        }
        let taken = scratch.path().join("tree").join(&name);
        place_at(&taken, &into.join(new_name.unwrap_or_else(|| name.into())))
    }

    fn is_folder(&self, path: &str) -> Result<bool> {
        for test in [&["test", "-d", path][..], &["busybox", "test", "-d", path]] {
            let ended = self.run(test, |_| Ok(()), &mut io::sink())?;
            if !UNKNOWN.contains(&ended.code) {
                return Ok(ended.code == 0);
            }
        }
        Ok(false)
    }

    /// Runs the first `tar` that the tenant has; says whether it has one.
    fn with_tar(
        &self,
        words: &[&str],
        input: impl Fn(&mut dyn Write) -> io::Result<()>,
        output: &mut dyn Write,
    ) -> Result<bool> {
        for tar in TARS {
            let ended = self.run(&[tar, words].concat(), &input, output)?;
            if !UNKNOWN.contains(&ended.code) {
                ended.well("tar")?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn no_tar(&self) -> Failure {
        let help = "put tar or busybox into its image, or copy single files";
        Failure::with_help(format!("tenant `{}` has no tar, which folders need", self.tenant), help)
    }

    /// Runs a program in the tenant to its end.
    fn run(
        &self,
        argv: &[&str],
        input: impl Fn(&mut dyn Write) -> io::Result<()>,
        output: &mut dyn Write,
    ) -> Result<Ended> {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        let request = ExecRequest { tenant: self.tenant.clone(), argv, ..ExecRequest::default() };
        let body = serde_json::to_string(&request).context(|| "cannot write JSON".into())?;
        let (mut frames, line) = self.agent.upgrade("/exec", &body, self.life.clone())?;
        let cut = || "the machine closed the connection".to_owned();
        let mut writer = Frames(frames.get_ref().try_clone().context(cut)?);
        // Programs that are copied to say nothing before their input ends, so input goes first.
        let given = input(&mut writer).and_then(|()| writer.end());
        let mut errors = vec![];
        loop {
            let mut header = [0; session::HEADER_BYTES];
            line.heard(frames.read_exact(&mut header).map(|()| header.len()))?;
            let (kind, length) =
                session::parse(header).ok_or_else(|| Failure::new("the agent sent an impossible frame"))?;
            let mut bytes = vec![0; length];
            line.heard(frames.read_exact(&mut bytes).map(|()| length))?;
            match kind {
                session::STDOUT => output.write_all(&bytes).context(|| "cannot write what was copied".into())?,
                session::STDERR => errors.extend(bytes),
                session::EXIT => {
                    let code = bytes.last().copied().unwrap_or(255);
                    let errors = String::from_utf8_lossy(&errors).trim().to_owned();
                    return if code == 0 {
                        given.context(cut).map(|()| Ended { code, errors })
                    } else {
                        Ok(Ended { code, errors })
                    };
                }
                session::FAILED => return self.not_started(&String::from_utf8_lossy(&bytes)),
                _ => {}
            }
        }
    }

    /// A program that is not there is an answer, a tenant that is not there a failure.
    fn not_started(&self, why: &str) -> Result<Ended> {
        match why.contains("(os error ") {
            true => Ok(Ended { code: UNKNOWN[1], errors: why.to_owned() }),
            false => Err(Failure::new(why.to_owned())),
        }
    }
}

/// How a program in a tenant ended.
struct Ended {
    code: u8,
    errors: String,
}

impl Ended {
    /// Makes a failure of an exit code.
    fn well(self, program: &str) -> Result<()> {
        match self.code {
            0 => Ok(()),
            code => Err(Failure::with_help(format!("{program} in the tenant ended with code {code}"), self.errors)),
        }
    }
}

/// Standard input of a program in a tenant.
struct Frames(std::os::unix::net::UnixStream);

impl Frames {
    fn end(&mut self) -> io::Result<()> {
        self.0.write_all(&session::header(session::STDIN, 0))
    }
}

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = bytes.get(..bytes.len().min(session::FRAME_BYTES_MAX)).unwrap_or(bytes);
        if part.is_empty() {
            // An empty frame would be the end.
            return Ok(0);
        }
        self.0.write_all(&[&session::header(session::STDIN, part.len())[..], part].concat())?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Splits a path of a tenant into its folder and its last name.
fn split(path: &str) -> Result<(String, String)> {
    let plain = Path::new(path);
    let name = plain.file_name().map(|name| name.to_string_lossy().into_owned());
    let climbs = plain.components().any(|part| part == Component::ParentDir);
    let name = name.filter(|_| !climbs).ok_or_else(|| {
        Failure::with_help(
            format!("`{path}` is not the path of a file or a folder"),
            "name it without `..`, and not the root",
        )
    })?;
    let folder = plain.parent().map_or_else(|| "/".to_owned(), |folder| folder.display().to_string());
    Ok((folder, name))
}

/// Moves what was taken to its place, over a file that is there, never over a folder.
fn place_at(taken: &Path, to: &Path) -> Result<()> {
    if to.is_dir() {
        let help = "remove it, or name another place";
        return Err(Failure::with_help(format!("the folder {} is there already", to.display()), help));
    }
    std::fs::rename(taken, to).context(|| format!("cannot write {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_before_the_first_colon_with_a_slash() {
        let tenant = |name: &str, path: &str| Side::Tenant { name: name.into(), path: path.into() };
        assert_eq!(Side::parse("gold:/etc/passwd"), tenant("gold", "/etc/passwd"));
        assert_eq!(Side::parse("zone:gold:/x"), tenant("zone:gold", "/x"));
        assert_eq!(Side::parse("./a:/b"), Side::Host("./a:/b".into()));
        assert_eq!(Side::parse("file"), Side::Host("file".into()));
    }

    #[test]
    fn paths_of_tenants_are_plain() {
        assert_eq!(split("/srv/www").unwrap(), ("/srv".into(), "www".into()));
        assert_eq!(split("/x").unwrap(), ("/".into(), "x".into()));
        assert!(split("/").is_err() && split("/a/../b").is_err());
    }
}
