//! Many pages that one viewer comes to show, or shows no longer.

use gyre_machine::Viewing;
use gyre_object::Page;

/// The viewer comes to show them.
pub(crate) fn enter_all<'a>(pages: impl Iterator<Item = &'a Page>, viewing: &mut Viewing) {
    pass_all(pages, viewing, |page, viewing| page.enter(viewing));
}

/// The viewer shows them no longer.
pub(crate) fn leave_all<'a>(pages: impl Iterator<Item = &'a Page>, viewing: &mut Viewing) {
    pass_all(pages, viewing, |page, viewing| {
        if !page.leave_last() {
            page.leave(viewing);
        }
    });
}

/// Those of one payer go on alike.
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
