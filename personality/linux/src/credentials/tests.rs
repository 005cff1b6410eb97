//! The rules of capabilities(7), as tests/linux/privileges.c checks them on Linux.

use super::*;

fn of(capabilities: &[Capability]) -> CapabilitySet {
    CapabilitySet::of_bits(capabilities.iter().map(|capability| 1 << *capability as u8).sum())
}

fn users(real: u32, effective: u32, saved: u32) -> Users {
    Users { real, effective, saved }
}

#[test]
fn what_is_given_up_never_comes_back() {
    let less = CapabilitySet::ALL.without(of(&[Capability::DacOverride]));
    let wanted = Wanted { effective: less, permitted: less, inheritable: CapabilitySet::EMPTY };
    let has = Capabilities::ROOT.changed(wanted).unwrap();
    assert!(!has.effective.has(Capability::DacOverride) && has.effective.has(Capability::Chown));
    let all = Wanted { permitted: CapabilitySet::ALL, ..wanted };
    assert_eq!(has.changed(all), Err(Errno::EPERM));
    let back = Wanted { effective: CapabilitySet::ALL, ..wanted };
    assert_eq!(has.changed(back), Err(Errno::EPERM), "what counts is permitted");
}

#[test]
fn permitted_ones_may_rest_and_be_raised_again() {
    let resting =
        Wanted { effective: CapabilitySet::EMPTY, permitted: CapabilitySet::ALL, inheritable: CapabilitySet::EMPTY };
    let has = Capabilities::ROOT.changed(resting).unwrap();
    assert_eq!(has.effective, CapabilitySet::EMPTY);
    assert!(has.changed(Wanted { effective: CapabilitySet::ALL, ..resting }).is_ok());
}

#[test]
fn leaving_user_0_leaves_capabilities_unless_they_are_kept() {
    let left = Capabilities::ROOT.users_changed(users(0, 0, 0), users(5, 5, 5));
    assert_eq!((left.permitted, left.effective), (CapabilitySet::EMPTY, CapabilitySet::EMPTY));
    let kept = Capabilities::ROOT.keeping(true).unwrap().users_changed(users(0, 0, 0), users(5, 5, 5));
    assert_eq!((kept.permitted, kept.effective), (CapabilitySet::ALL, CapabilitySet::EMPTY));
    let acts = Capabilities::ROOT.users_changed(users(0, 0, 0), users(0, 5, 0));
    assert_eq!((acts.permitted, acts.effective), (CapabilitySet::ALL, CapabilitySet::EMPTY));
    assert_eq!(acts.users_changed(users(0, 5, 0), users(0, 0, 0)).effective, CapabilitySet::ALL);
}

#[test]
fn execve_gives_root_what_is_bounded_and_others_what_is_ambient() {
    let bounded = Capabilities::ROOT.bounded(of(&[Capability::Kill])).unwrap();
    let root = Execution { users: users(0, 0, 0), changes_identity: false, gains_nothing: false };
    assert!(!bounded.executed(root).permitted.has(Capability::Kill));
    assert!(bounded.executed(root).effective.has(Capability::Chown));
    let user = Execution { users: users(5, 5, 5), ..root };
    assert_eq!(Capabilities::USER.executed(user).permitted, CapabilitySet::EMPTY);
    let dropped =
        Wanted { effective: CapabilitySet::EMPTY, permitted: CapabilitySet::EMPTY, inheritable: CapabilitySet::EMPTY };
    let nothing = Capabilities::ROOT.changed(dropped).unwrap();
    assert_eq!(nothing.executed(root).effective, CapabilitySet::ALL, "root gets all back by execve");
    let stays = nothing.executed(Execution { gains_nothing: true, ..root });
    assert_eq!(stays.effective, CapabilitySet::EMPTY, "but not with PR_SET_NO_NEW_PRIVS");
    let secured = nothing_for_root(nothing).executed(root);
    assert_eq!(secured.effective, CapabilitySet::EMPTY, "nor with SECBIT_NOROOT");
}

fn nothing_for_root(has: Capabilities) -> Capabilities {
    Capabilities { secure: SecureBits::NO_ROOT, ..has }
}

#[test]
fn secure_bits_need_a_capability_and_keep_their_locks() {
    let bits = |bits: SecureBits| u64::from(bits.bits());
    let locked = Capabilities::ROOT.secured(bits(SecureBits::NO_ROOT | SecureBits::NO_ROOT_LOCKED)).unwrap();
    assert_eq!(locked.secured(0), Err(Errno::EPERM));
    assert_eq!(locked.secured(bits(SecureBits::NO_ROOT_LOCKED)), Err(Errno::EPERM));
    assert_eq!(Capabilities::ROOT.secured(1 << 8), Err(Errno::EPERM));
    assert_eq!(Capabilities::USER.secured(1), Err(Errno::EPERM));
}

#[test]
fn ambient_ones_are_permitted_and_inheritable() {
    let kill = of(&[Capability::Kill]);
    assert_eq!(Capabilities::ROOT.with_ambient(kill), Err(Errno::EPERM));
    let wanted = Wanted { effective: CapabilitySet::ALL, permitted: CapabilitySet::ALL, inheritable: kill };
    let ambient = Capabilities::ROOT.changed(wanted).unwrap().with_ambient(kill).unwrap();
    let user = Execution { users: users(5, 5, 5), changes_identity: false, gains_nothing: false };
    assert_eq!(ambient.executed(user).effective, kill);
    assert_eq!(ambient.executed(Execution { changes_identity: true, ..user }).effective, CapabilitySet::EMPTY);
}

#[test]
fn the_user_of_files_is_seen_by_file_systems_only() {
    let mut who = Credentials::default();
    assert_eq!(who.set_user_of_files(7), 0);
    assert_eq!((who.user_effective, who.user_of_files), (0, 7));
    assert!(!who.has(Capability::DacOverride) && who.has(Capability::Kill));
    assert_eq!(who.set_user_of_files(0), 7);
    assert!(who.has(Capability::DacOverride));
    let mut ordinary = Credentials::of_user(5, 5);
    assert_eq!((ordinary.set_user_of_files(0), ordinary.user_of_files), (5, 5));
}
