//! `neighbours`: whether all other tenants reach one by the network, or only those that `talks-to` names.
//!
//! The kernel gets addresses, those of the whole machine: a neighbour may be in another zone. So this runs when all instances are made.

use std::collections::BTreeMap;

use super::{
    HostTenant,
    check::Checker,
    raw::{self, At},
};
use gyre_contract::{
    address::Address,
    boot::{Machine, Neighbours, Tenant},
};

/// The kinds of `neighbours`.
#[derive(Clone, Copy)]
enum Kind {
    All,
    Named,
}

const KINDS: &[(&str, Kind)] = &[("all", Kind::All), ("named", Kind::Named)];

/// Sets the neighbours of each tenant, in all instances.
pub(super) fn set(checker: &mut Checker, file: &raw::File, made: &mut [(Machine, Vec<HostTenant>)]) {
    let addresses: BTreeMap<String, Address> =
        made.iter().flat_map(|(machine, _)| &machine.tenants).map(|one| (one.name.clone(), one.address)).collect();
    for (machine, _) in made {
        // The instance's own system tenant looks after the health of the others.
        let system = machine.tenants.first().map(|one| one.address);
        for tenant in machine.tenants.iter_mut().skip(1) {
            let Some(raw) = raw_of(file, tenant) else { continue };
            let kind = raw.neighbours.as_ref().and_then(|text| checker.name(text, "kind of neighbours", KINDS));
            if let Some(Kind::Named) = kind {
                tenant.neighbours = named(file, raw, &addresses, system);
            }
        }
    }
}

fn raw_of<'a>(file: &'a raw::File, tenant: &Tenant) -> Option<&'a raw::Tenant> {
    file.tenant.iter().find(|raw| *raw.name.get_ref() == tenant.name)
}

fn named(
    file: &raw::File,
    own: &raw::Tenant,
    addresses: &BTreeMap<String, Address>,
    system: Option<Address>,
) -> Neighbours {
    let names_it = |other: &&raw::Tenant| other.talks_to.iter().any(|name| name.get_ref() == own.name.get_ref());
    let callers = file.tenant.iter().filter(names_it).map(|other| &other.name);
    let address = |name: &At<String>| addresses.get(name.get_ref()).copied();
    Neighbours::Named {
        calls: own.talks_to.iter().filter_map(address).collect(),
        callers: callers.filter_map(address).chain(system).collect(),
    }
}

#[cfg(test)]
mod tests {
    use gyre_contract::boot::Neighbours;

    fn parsed(keys: &str) -> Result<crate::Description, String> {
        let tenant = |name: &str, more: &str| {
            format!("[[tenant]]\nname = \"{name}\"\nshare = 1\nimage = \"i\"\ncommand = [\"/x\"]\n{more}\n")
        };
        let file = [
            "cores = 1\nmemory = \"256 MiB\"\n[image.i]\npackages = [\"busybox\"]\n".to_owned(),
            tenant("shop", "talks-to = [\"db\"]"),
            tenant("db", keys),
            tenant("other", ""),
        ];
        crate::parse(std::path::Path::new("x.toml"), &file.concat()).map_err(|problems| format!("{problems:?}"))
    }

    #[test]
    fn who_is_closed_knows_its_callers_and_those_it_calls() {
        let machine = parsed("neighbours = \"named\"\ntalks-to = [\"other\"]").unwrap().machine;
        let address = |name: &str| machine.tenants.iter().find(|one| one.name == name).unwrap().address;
        let db = machine.tenants.iter().find(|one| one.name == "db").unwrap();
        let system = machine.tenants[0].address;
        let expected = Neighbours::Named { calls: vec![address("other")], callers: vec![address("shop"), system] };
        assert_eq!(db.neighbours, expected);
        assert!(machine.tenants.iter().all(|one| one.name == "db" || one.neighbours == Neighbours::All));
    }

    #[test]
    fn all_is_the_usual_kind_and_another_word_is_refused() {
        let machine = parsed("neighbours = \"all\"").unwrap().machine;
        assert!(machine.tenants.iter().all(|one| one.neighbours == Neighbours::All));
        assert!(parsed("neighbours = \"none\"").is_err_and(|why| why.contains("kind of neighbours")));
    }
}
