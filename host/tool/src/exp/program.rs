//! C programs of experiments, compiled by the host and put into images: static, so that both kernels run the same bytes.

use std::path::PathBuf;

use crate::{command, failure::Result, project::Project};

/// Compiles `experiments/<source>`; answers the program's path.
///
/// # Errors
/// Without a C compiler, or what it said.
pub fn compile(project: &Project, source: &str) -> Result<PathBuf> {
    let source = project.root.join("experiments").join(source);
    let program = project.cache("programs")?.join(source.file_stem().unwrap_or_default());
    let mut cc = command::program("cc")?;
    cc.args(["-O1", "-static", "-pthread", "-I"]).arg(project.root.join("user/native/include"));
    command::output(cc.arg("-o").arg(&program).arg(source).arg("-lm"))?;
    Ok(program)
}
