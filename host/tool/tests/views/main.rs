//! The views as a person sees them: pages in headless Chromium, `gyre top` in tmux. The machines exist in formulas only.
//!
//! GYRE_PICTURES=FOLDER keeps pictures of the pages.
#![allow(missing_docs)]

mod bills;
mod browser;
mod fake;
mod pages;
mod report;
mod terminal;
mod top;
