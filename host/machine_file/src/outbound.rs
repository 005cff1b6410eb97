//! `outbound` and `talks-to`: the destinations beyond the machine that a tenant reaches, and the tenants that it knows by name.
//!
//! A destination is `PLACE:PORTS[/udp]`. A place is an address, a network such as `10.0.0.0/8`, a name, or `host`; ports are a
//! number, a range such as `8000-8100`, or `*`.

use std::{net::Ipv4Addr, ops::RangeInclusive};

use super::{
    Problem, Protocol,
    check::Checker,
    raw::{self, At},
    suggest, units,
};

/// Connections that a tenant may have at once if its file does not say, as many flows of datagrams.
const CONNECTIONS: i64 = 256;
const CONNECTIONS_MAX: i64 = 4096;
/// Destinations of a tenant.
const DESTINATIONS_MAX: usize = 256;
/// The longest name, bytes (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// The way out of one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// Destinations that it reaches.
    pub allow: Vec<Destination>,
    /// Bits per second in each direction; `None` is as fast as the link goes.
    pub rate_bits_per_second: Option<u64>,
    /// Connections at once, and flows of datagrams.
    pub connections: usize,
}

/// A destination that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its place.
    pub place: Place,
    /// Which ports.
    pub ports: RangeInclusive<u16>,
    /// The protocol.
    pub protocol: Protocol,
}

/// The place of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All but loopback, link-local, group and reserved addresses.
    Anywhere,
    /// A network: its first address and the bits of its prefix.
    Network(Ipv4Addr, u8),
    /// The addresses of a name, as the host resolves it.
    Name(String),
    /// The programs of this host that listen on its loopback address.
    Host,
}

impl Destination {
    /// Reads a destination.
    ///
    /// # Errors
    /// A sentence about what is wrong with it.
    fn parse(text: &str) -> Result<Self, String> {
        let (rest, protocol) = match text.rsplit_once('/') {
            Some((rest, "udp")) => (rest, Protocol::Udp),
            Some((rest, "tcp")) => (rest, Protocol::Tcp),
            _ => (text, Protocol::Tcp),
        };
        let (place, ports) = rest.rsplit_once(':').ok_or("it names no port; `:*` is all of them")?;
        Ok(Self { place: place_of(place)?, ports: ports_of(ports)?, protocol })
    }
}

fn place_of(text: &str) -> Result<Place, String> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    match address.parse::<Ipv4Addr>() {
        Ok(address) => network_of(address, bits),
        Err(_) if bits.is_some() => Err(format!("`{text}` is no network")),
        Err(_) if text == "host" => Ok(Place::Host),
        Err(_) if is_name(text) => Ok(Place::Name(text.to_ascii_lowercase())),
        Err(_) => Err(format!("`{text}` is neither an IPv4 address, a network, a name nor `host`")),
    }
}

fn network_of(address: Ipv4Addr, bits: Option<&str>) -> Result<Place, String> {
    let bits = bits.map_or(Some(32), |bits| bits.parse::<u8>().ok()).filter(|bits| *bits <= 32);
    let bits = bits.ok_or("the bits of a network's prefix are 0 to 32")?;
    if mask(address, bits) != address {
        return Err(format!("the network with {bits} bits is {}/{bits}", mask(address, bits)));
    }
    match address.is_loopback() {
        true => Err("this host's loopback is called `host`, such as \"host:5432\"".into()),
        false => Ok(Place::Network(address, bits)),
    }
}

/// Returns the first address of the network that an address is in.
fn mask(address: Ipv4Addr, bits: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0))
}

/// Returns whether an address is in a network.
#[must_use]
pub fn contains(network: Ipv4Addr, bits: u8, address: Ipv4Addr) -> bool {
    mask(address, bits) == mask(network, bits)
}

/// Returns whether a text is a name of DNS (RFC 1123 section 2.1). One of digits alone is a bad address.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(good) && !label.starts_with('-') && !label.ends_with('-')
    };
    let has_letter = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    text.len() <= NAME_BYTES_MAX && has_letter && text.split('.').all(is_label)
}

fn ports_of(text: &str) -> Result<RangeInclusive<u16>, String> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let range = match text.split_once('-') {
        _ if text == "*" => Some(1..=u16::MAX),
        Some((first, last)) => number(first).zip(number(last)).map(|(first, last)| first..=last),
        None => number(text).map(|port| port..=port),
    };
    range
        .filter(|range| !range.is_empty())
        .ok_or_else(|| format!("`{text}` is no port, no range of ports, and not `*`"))
}

/// Returns every destination but those that nobody means.
fn anywhere() -> Vec<Destination> {
    let all = |protocol| Destination { place: Place::Anywhere, ports: 1..=u16::MAX, protocol };
    vec![all(Protocol::Tcp), all(Protocol::Udp)]
}

/// Reads the way out of a tenant; `None` if it has none.
pub(super) fn read(checker: &mut Checker, raw: Option<&At<raw::Outbound>>) -> Option<Outbound> {
    let raw = raw?;
    let with = |allow| Outbound { allow, rate_bits_per_second: None, connections: CONNECTIONS as usize };
    match raw.get_ref() {
        raw::Outbound::Switch(false) => None,
        raw::Outbound::Switch(true) => Some(with(anywhere())),
        raw::Outbound::List(list) => Some(with(destinations(checker, raw, list))),
        raw::Outbound::Table { allow, rate, connections } => {
            let allow = allow.as_ref().map_or_else(anywhere, |list| destinations(checker, raw, list));
            let rate = rate.as_ref().and_then(|rate| self::rate(checker, raw, rate));
            let connections = connections.map(|number| At::new(raw.span(), number));
            let what = "`connections` of the way out";
            let connections = checker.number(connections.as_ref(), what, 1, CONNECTIONS_MAX, CONNECTIONS);
            Some(Outbound { rate_bits_per_second: rate, connections: connections as usize, ..with(allow) })
        }
    }
}

fn rate(checker: &mut Checker, raw: &At<raw::Outbound>, text: &str) -> Option<u64> {
    let wrong = |expected| Problem::new(raw.span(), format!("the rate `{text}` cannot be read"), expected);
    units::bits_per_second(text).map_err(|expected| checker.wrong(wrong(expected))).ok()
}

fn destinations(checker: &mut Checker, raw: &At<raw::Outbound>, list: &[String]) -> Vec<Destination> {
    if list.is_empty() || list.len() > DESTINATIONS_MAX {
        let message = format!("a way out has 1 to {DESTINATIONS_MAX} destinations, not {}", list.len());
        checker
            .wrong(Problem::new(raw.span(), message, "expected a list of destinations").help("`false` is no way out"));
    }
    let mut read = |text: &String| match Destination::parse(text) {
        Ok(destination) => Some(destination),
        Err(why) => {
            let problem = Problem::new(raw.span(), format!("`{text}` is not a destination"), why);
            checker.wrong(
                problem.help("such as \"10.0.0.0/8:443\", \"example.org:443\", \"192.0.2.7:53/udp\" or \"host:5432\""),
            );
            None
        }
    };
    list.iter().filter_map(&mut read).collect()
}

/// Reads the tenants that one knows by name.
pub(super) fn peers(checker: &mut Checker, raw: &raw::Tenant, all: &[raw::Tenant]) -> Vec<String> {
    for peer in &raw.talks_to {
        let name = peer.get_ref();
        if name == raw.name.get_ref() {
            checker.wrong(Problem::new(
                peer.span(),
                format!("`{name}` cannot talk to itself by `talks-to`"),
                "its own name",
            ));
        } else if !all.iter().any(|other| other.name.get_ref() == name) {
            let help = suggest::help(name, all.iter().map(|other| other.name.get_ref().as_str()));
            checker.wrong(
                Problem::new(peer.span(), format!("there is no tenant `{name}`"), "expected a tenant").help(help),
            );
        }
    }
    raw.talks_to.iter().map(|peer| peer.get_ref().clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Destination {
        Destination::parse(text).unwrap()
    }

    #[test]
    fn destinations_are_read() {
        let net = parsed("10.0.0.0/8:443");
        assert_eq!((net.place, net.ports), (Place::Network(Ipv4Addr::new(10, 0, 0, 0), 8), 443..=443));
        let name = parsed("Example.org:8000-8100/udp");
        assert_eq!(
            (name.place, name.ports, name.protocol),
            (Place::Name("example.org".into()), 8000..=8100, Protocol::Udp)
        );
        assert_eq!(parsed("192.0.2.7:*").ports, 1..=u16::MAX);
        assert_eq!(parsed("host:5432").place, Place::Host);
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (text, why) in [
            ("example.org", "no port"),
            ("10.0.0.1/8:443", "10.0.0.0/8"),
            ("10.0.0.0/33:443", "0 to 32"),
            ("127.0.0.1:80", "host:5432"),
            ("256.1.1.1:80", "neither"),
            ("*.example.org:443", "neither"),
            ("a b:1", "neither"),
            ("example.org:0", "no port"),
            ("example.org:9-8", "no port"),
            ("example.org/8:1", "no network"),
        ] {
            let answer = Destination::parse(text).unwrap_err();
            assert!(answer.contains(why), "{text}: {answer}");
        }
    }

    #[test]
    fn networks_contain_their_addresses() {
        let ten = Ipv4Addr::new(10, 0, 0, 0);
        assert!(contains(ten, 8, Ipv4Addr::new(10, 255, 1, 1)) && !contains(ten, 8, Ipv4Addr::new(11, 0, 0, 1)));
        assert!(contains(Ipv4Addr::UNSPECIFIED, 0, Ipv4Addr::new(8, 8, 8, 8)));
    }
}
