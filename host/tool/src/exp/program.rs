//! C programs of experiments, compiled by the host and put into images: static, so that both kernels run the same bytes.

use std::path::PathBuf;

use crate::{command, failure::Result, project::Project};

/// Compiles `experiments/<source>`; answers where the program is.
///
/// # Errors
/// Without a C compiler, or what it said.
pub fn compile(project: &Project, source: &str) -> Result<PathBuf> {
    let source = project.root.join("experiments").join(source);
    let program = project.cache("programs")?.join(source.file_stem().unwrap_or_default());
    let mut cc = command::program("cc")?;
    command::output(cc.args(["-O1", "-static", "-pthread", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}
