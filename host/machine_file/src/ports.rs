//! `ports`: what of the host leads to a tenant: `[ADDRESS:]HOST:GUEST[/udp]`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Range,
};

use super::{
    Problem,
    check::Checker,
    raw::{self, At},
};

/// One port forward: what comes to a port of the host reaches the tenant's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The host's address that is listened on.
    pub address: IpAddr,
    /// Port on the host.
    pub host: u16,
    /// Port of the tenant.
    pub guest: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// Protocols that are forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

impl Protocol {
    /// Returns its name, as files and programs write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl Forward {
    /// Returns address and port of the host.
    #[must_use]
    pub fn from(&self) -> SocketAddr {
        (self.address, self.host).into()
    }

    /// Reads a forward.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (text, protocol) = match text.rsplit_once('/') {
            None => (text, Protocol::Tcp),
            Some((rest, "tcp")) => (rest, Protocol::Tcp),
            Some((rest, "udp")) => (rest, Protocol::Udp),
            Some(_) => return None,
        };
        let (from, guest) = text.rsplit_once(':')?;
        let (address, host) = match from.rsplit_once(':') {
            None => (Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), from),
            Some((address, host)) => (address_of(address), host),
        };
        let number = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        Some(Self { address: address?, host: number(host)?, guest: number(guest)?, protocol })
    }

    /// Returns whether two cannot be listened on at once. An address of all takes those of its own kind.
    fn collides(&self, other: &Self) -> bool {
        let same_kind = self.address.is_ipv4() == other.address.is_ipv4();
        let one_of_all = self.address.is_unspecified() || other.address.is_unspecified();
        let meets = self.address == other.address || same_kind && one_of_all;
        meets && (self.host, self.protocol) == (other.host, other.protocol)
    }
}

/// Writes it as the file has it, without the usual address.
impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(Ipv4Addr::LOCALHOST) => write!(f, "{}:{}", self.host, self.guest)?,
            _ => write!(f, "{}:{}", self.from(), self.guest)?,
        }
        f.write_str(if self.protocol == Protocol::Udp { "/udp" } else { "" })
    }
}

/// Reads an address; those of IPv6 stand in brackets.
fn address_of(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[') {
        Some(rest) => Some(IpAddr::V6(rest.strip_suffix(']')?.parse().ok()?)),
        None => Some(IpAddr::V4(text.trim().parse().ok()?)),
    }
}

/// Reads a forward of the file.
pub(super) fn read(checker: &mut Checker, text: &At<String>) -> Option<Forward> {
    let forward = Forward::parse(text.get_ref());
    if forward.is_none() {
        let message = format!("`{}` is not a port forward", text.get_ref());
        let problem = Problem::new(text.span(), message, "expected \"HOST:GUEST\", such as \"8081:80\"");
        checker.wrong(problem.help("also \"0.0.0.0:80:80\" or \"[::]:443:443\" for others, and \"53:53/udp\""));
    }
    forward
}

/// Reports ports of the host that are forwarded twice.
pub(super) fn differ(checker: &mut Checker, all: &[raw::Tenant]) {
    let mut seen: Vec<(Forward, Range<usize>, &str)> = vec![];
    for (tenant, text) in all.iter().flat_map(|tenant| tenant.ports.iter().map(move |text| (tenant, text))) {
        let Some(forward) = Forward::parse(text.get_ref()) else {
            continue;
        };
        if let Some((_, span, name)) = seen.iter().find(|(other, ..)| other.collides(&forward)) {
            let message = format!("port {} of the host is forwarded twice", forward.host);
            let problem = Problem::new(text.span(), message, "the second");
            checker.wrong(problem.and(span.clone(), format!("the first, to {name}")));
        }
        seen.push((forward, text.span(), tenant.name.get_ref()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        Forward::parse(text).map(|one| one.to_string())
    }

    #[test]
    fn forwards_have_addresses_and_protocols() {
        for text in ["8081:80", "0.0.0.0:80:80", "[::]:443:443", "53:53/udp", "[::1]:5:6/udp"] {
            assert_eq!(shown(text).as_deref(), Some(text));
        }
        assert_eq!(shown("127.0.0.1:8081:80/tcp").as_deref(), Some("8081:80"));
        for wrong in ["80", "0:80", "80:0", "x:80:80", "::1:80:80", "[::1:80:80", "1:2/sctp", "1.2.3:1:2", "65536:1"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn addresses_of_all_take_those_of_their_kind() {
        let collide = |a: &str, b: &str| Forward::parse(a).unwrap().collides(&Forward::parse(b).unwrap());
        assert!(collide("80:1", "0.0.0.0:80:2") && collide("[::]:80:1", "[::1]:80:2"));
        assert!(!collide("80:1", "80:1/udp") && !collide("0.0.0.0:80:1", "[::]:80:1") && !collide("80:1", "81:1"));
    }
}
