//! Many pages that enter or leave the view of one viewer.

use gyre_machine::Viewing;
use gyre_object::Page;

/// Enters all pages into the view.
pub(crate) fn enter_all<'a>(pages: impl Iterator<Item = &'a Page>, viewing: &mut Viewing) {
    pass_all(pages, viewing, |page, viewing| page.enter(viewing));
}

/// Takes all pages out of the view.
pub(crate) fn leave_all<'a>(pages: impl Iterator<Item = &'a Page>, viewing: &mut Viewing) {
    pass_all(pages, viewing, |page, viewing| {
        if !page.leave_last() {
            page.leave(viewing);
        }
    });
}

/// Passes pages on; those of one payer are counted together.
#[inline(always)]
fn pass_all<'a>(pages: impl Iterator<Item = &'a Page>, viewing: &mut Viewing, other: impl Fn(&Page, &mut Viewing)) {
    let (mut like, mut alike) = (viewing.like(), 0);
    for page in pages {
        if page.pass_like(like) {
            alike = usize::saturating_add(alike, 1);
        } else {
            viewing.note(alike);
            other(page, viewing);
            (like, alike) = (viewing.like(), 0);
        }
    }
    viewing.note(alike);
}
