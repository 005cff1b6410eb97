//! Programs of tenants that stay: another command, environment or directory, and what follows a program's end.
//!
//! The difference is that of the two files; what the kernel gets is complete, with what the image says ([`changes`]). A program that is another
//! one starts again, unless its owner has stopped it: then it does when it is started.

use gyre_contract::{
    boot::{Program, Restart, Tenant},
    monitor::{Snapshot, State},
    native::Change,
};
use gyre_machine_file::{Description, HostTenant};

use super::{Item, customers};

/// Programs that differ.
#[derive(Default)]
pub struct Difference {
    pub(super) items: Vec<Item>,
    /// Names of tenants whose program or policy is another one.
    names: Vec<String>,
    /// Names of those whose program starts again.
    pub again: Vec<String>,
}

impl Difference {
    /// Notes tenants that begin anew: they get their programs with their disks.
    pub fn renew<'a>(&mut self, tenants: impl Iterator<Item = &'a str>) {
        for name in tenants {
            self.again.retain(|other| other != name);
            if !self.names.iter().any(|other| other == name) {
                self.names.push(name.to_owned());
            }
        }
    }

    /// Returns true if the programs are as they were.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Compares the programs of those who stay.
pub fn difference(before: &Description, wanted: &Description, snapshot: &Snapshot) -> Difference {
    let mut found = Difference::default();
    for (tenant, _) in customers(wanted) {
        let Some((old, _)) = customers(before).find(|(old, _)| old.name == tenant.name) else { continue };
        let items = items(old, tenant);
        let now = snapshot.activities.iter().find(|one| one.name == tenant.name);
        let runs = now.is_some_and(|now| now.state != State::Stopped);
        found.again.extend((runs && old.program != tenant.program).then(|| tenant.name.clone()));
        found.names.extend((!items.is_empty()).then(|| tenant.name.clone()));
        found.items.extend(items);
    }
    found
}

/// Returns the changes of a difference; the description has the programs that its images name.
pub fn changes(difference: &Difference, complete: &Description) -> Vec<Change> {
    let all = customers(complete).filter(|(tenant, _)| difference.names.contains(&tenant.name));
    all.filter_map(|(tenant, _)| {
        let program = Box::new(tenant.program.clone()?);
        Some(Change::Program { name: tenant.name.clone(), program, restart: tenant.restart })
    })
    .collect()
}

/// Says why a program cannot be put in the place of another one while the machine runs: one of both is none. An OCI image names one.
pub fn refusal(before: Described, wanted: Described) -> Option<&'static str> {
    (names_one(before) != names_one(wanted)).then_some("a command where there was none, or none any more")
}

/// A tenant of a description.
pub type Described<'a> = (&'a Description, &'a Tenant, &'a HostTenant);

fn names_one((all, tenant, host): Described) -> bool {
    let is_oci = all.images.get(&host.image).is_some_and(gyre_machine_file::Image::is_oci);
    is_oci || tenant.program.as_ref().is_some_and(|program| !program.argv.is_empty())
}

fn items(old: &Tenant, tenant: &Tenant) -> Vec<Item> {
    let (none, mut items) = (Program::default(), vec![]);
    let [was, will] = [old, tenant].map(|one| one.program.as_ref().unwrap_or(&none));
    let user = |program: &Program| program.user.user.to_string();
    for (key, now, wanted) in [
        ("command", was.argv.join(" "), will.argv.join(" ")),
        ("environment", was.environment.join(" "), will.environment.join(" ")),
        ("directory", was.directory.clone(), will.directory.clone()),
        ("user", user(was), user(will)),
        ("restart", words(old.restart).into(), words(tenant.restart).into()),
    ] {
        let shown = |text: String| if text.is_empty() { "that of the image".to_owned() } else { text };
        if now != wanted {
            items.push(Item { tenant: tenant.name.clone(), key, now: shown(now), wanted: shown(wanted) });
        }
    }
    items
}

fn words(restart: Restart) -> &'static str {
    match restart {
        Restart::Never => "never",
        Restart::OnFailure => "on-failure",
        Restart::Always => "always",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gyre_contract::monitor::Activity;

    use super::*;

    fn file(words: &str) -> Description {
        let text = format!("[image.a]\n[[tenant]]\nname = \"gold\"\nshare = 1\nimage = \"a\"\n{words}\n");
        gyre_machine_file::parse(Path::new("m.toml"), &text).unwrap()
    }

    fn snapshot(state: State) -> Snapshot {
        let activities = vec![Activity { name: "gold".into(), state, ..Activity::default() }];
        Snapshot { activities, ..Snapshot::default() }
    }

    #[test]
    fn another_program_starts_again_unless_it_is_stopped() {
        let before = file("command = [\"/bin/a\", \"1\"]");
        let wanted = file("command = [\"/bin/b\"]\nenvironment = { A = \"x\" }");
        let found = difference(&before, &wanted, &snapshot(State::Running));
        let shown: Vec<_> =
            found.items.iter().map(|item| (item.key, item.now.as_str(), item.wanted.as_str())).collect();
        assert_eq!(shown, [("command", "/bin/a 1", "/bin/b"), ("environment", "that of the image", "A=x")]);
        assert_eq!(found.again, ["gold"]);
        let all = changes(&found, &wanted);
        assert!(matches!(&all[..], [Change::Program { name, program, restart: Restart::Never }]
            if name == "gold" && program.argv == ["/bin/b"]));
        assert!(difference(&before, &wanted, &snapshot(State::Stopped)).again.is_empty());
        assert!(difference(&wanted, &wanted, &snapshot(State::Running)).items.is_empty());
    }

    #[test]
    fn another_policy_changes_while_the_program_runs() {
        let [before, wanted] =
            ["", "restart = \"always\""].map(|more| file(&format!("command = [\"/bin/a\"]\n{more}")));
        let found = difference(&before, &wanted, &snapshot(State::Running));
        assert!(found.again.is_empty() && found.items[0].wanted == "always");
        assert!(matches!(&changes(&found, &wanted)[..], [Change::Program { restart: Restart::Always, .. }]));
    }

    #[test]
    fn a_program_where_there_was_none_needs_a_new_run() {
        let [none, one] = [file(""), file("command = [\"/bin/a\"]")];
        let says = |old: &Description, all: &Description| {
            let [(was, was_host), (is, is_host)] = [old, all].map(|all| customers(all).next().unwrap());
            refusal((old, was, was_host), (all, is, is_host))
        };
        assert!(says(&none, &one).is_some() && says(&one, &none).is_some());
        assert_eq!((says(&one, &one), says(&none, &none)), (None, None));
    }
}
