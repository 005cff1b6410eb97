//! Starting programs: ELF files, scripts, the initial stack.
