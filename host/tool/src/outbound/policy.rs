//! The destinations of a tenant's packets.

use std::net::{Ipv4Addr, SocketAddrV4};

use gyre_contract::address;
use gyre_machine_file::{Outbound, Place, Protocol, outbound::contains};

/// Returns whether an address is on no way out unless a network names it: loopback, link-local (where clouds keep keys), groups,
/// reserved ones, and the machine's own network.
pub fn is_special(address: Ipv4Addr) -> bool {
    let own = contains(Ipv4Addr::from(address::GATEWAY), address::PREFIX_BITS, address);
    own || is_never(address) || address.is_link_local() || address.octets()[0] >= 240
}

/// Returns whether no list reaches an address.
fn is_never(address: Ipv4Addr) -> bool {
    address.is_loopback() || address.octets()[0] == 0 || address.is_multicast() || address.is_broadcast()
}

/// Returns where a packet to `to` is to be sent, if it may be; `resolve` says which addresses a name has.
pub fn target(
    policy: &Outbound,
    to: SocketAddrV4,
    protocol: Protocol,
    resolve: impl Fn(&str) -> Vec<Ipv4Addr>,
) -> Option<SocketAddrV4> {
    let is_host = *to.ip() == Ipv4Addr::from(address::GATEWAY);
    let may = |place: &Place| match place {
        Place::Host => is_host,
        _ if is_host => false,
        Place::Anywhere => !is_special(*to.ip()),
        Place::Network(network, bits) => contains(*network, *bits, *to.ip()) && !is_never(*to.ip()),
        Place::Name(name) => !is_special(*to.ip()) && resolve(name).contains(to.ip()),
    };
    let fits = policy.allow.iter().filter(|one| one.protocol == protocol && one.ports.contains(&to.port()));
    let to_there = if is_host { SocketAddrV4::new(Ipv4Addr::LOCALHOST, to.port()) } else { to };
    fits.map(|one| &one.place).any(may).then_some(to_there)
}

/// Returns whether a tenant may ask for a name: any, unless its list has names only.
pub fn may_ask(policy: &Outbound, name: &str) -> bool {
    policy.allow.iter().any(|one| match &one.place {
        Place::Anywhere | Place::Network(..) => true,
        Place::Name(allowed) => allowed == name,
        Place::Host => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(toml: &str) -> Outbound {
        let text = format!(
            "cores = 1\nmemory = \"256 MiB\"\n[image.i]\npackages = [\"busybox\"]\n[[tenant]]\nname = \"t\"\nshare = 1\nimage = \"i\"\n\
             command = [\"/bin/true\"]\noutbound = {toml}\n"
        );
        let read = gyre_machine_file::parse(std::path::Path::new("t.toml"), &text).unwrap();
        read.tenants[0].outbound.clone().unwrap()
    }

    fn to(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    #[test]
    fn all_is_not_what_nobody_means() {
        let all = policy("true");
        let may = |text: &str| target(&all, to(text), Protocol::Tcp, |_| vec![]).is_some();
        assert!(may("192.0.2.7:443") && may("10.1.2.3:80"));
        for no in [
            "127.0.0.1:80",
            "169.254.169.254:80",
            "224.0.0.1:80",
            "255.255.255.255:1",
            "0.0.0.0:1",
            "10.77.0.12:80",
            "10.77.0.1:80",
        ] {
            assert!(!may(no), "{no}");
        }
    }

    #[test]
    fn a_list_is_a_list() {
        let some = policy("[\"10.0.0.0/8:443\", \"example.org:80\", \"host:5432\", \"192.0.2.53:53/udp\"]");
        let resolve = |name: &str| {
            if name == "example.org" { vec![Ipv4Addr::new(192, 0, 2, 80), Ipv4Addr::LOCALHOST] } else { vec![] }
        };
        let may = |text: &str, protocol| target(&some, to(text), protocol, resolve);
        assert_eq!(may("10.1.2.3:443", Protocol::Tcp), Some(to("10.1.2.3:443")));
        assert_eq!(may("10.1.2.3:80", Protocol::Tcp), None);
        assert_eq!(may("10.1.2.3:443", Protocol::Udp), None);
        assert_eq!(may("192.0.2.80:80", Protocol::Tcp), Some(to("192.0.2.80:80")));
        assert_eq!(may("127.0.0.1:80", Protocol::Tcp), None, "a name that lies about its address");
        assert_eq!(may("10.77.0.1:5432", Protocol::Tcp), Some(to("127.0.0.1:5432")));
        assert_eq!(may("10.77.0.1:22", Protocol::Tcp), None);
        assert_eq!(may("192.0.2.53:53", Protocol::Udp), Some(to("192.0.2.53:53")));
    }

    #[test]
    fn names_are_no_way_out_for_a_list_of_names() {
        let names = policy("[\"example.org:443\"]");
        assert!(may_ask(&names, "example.org") && !may_ask(&names, "secret.evil.example"));
        assert!(may_ask(&policy("[\"10.0.0.0/8:443\"]"), "any.example"));
    }
}
