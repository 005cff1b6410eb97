//! The x86-64 machine, made safe.
#![no_std]
