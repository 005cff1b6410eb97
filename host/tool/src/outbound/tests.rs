//! The router with sockets of this host for destinations, and a channel for the machine.

use std::{
    net::{TcpListener, UdpSocket},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use gyre_machine_file::{Destination, Outbound, Place};

use super::{
    dns,
    packet::{
        ICMP,
        tests::{FAR, TENANT, datagram, syn},
    },
    *,
};

const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    router: Arc<Router>,
    machine: Receiver<Vec<u8>>,
    far_end: Receiver<Vec<u8>>,
}

fn gateway(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(address::GATEWAY), port)
}

fn rig(connections: usize, rate: Option<u64>) -> Rig {
    let to_host = |protocol| Destination { place: Place::Host, ports: 1..=u16::MAX, protocol };
    let allow = vec![to_host(Protocol::Tcp), to_host(Protocol::Udp)];
    let policy = Outbound { allow, rate_bits_per_second: rate, connections };
    let peers = BTreeMap::from([("db".to_owned(), Ipv4Addr::new(10, 77, 0, 12))]);
    let tenants = BTreeMap::from([(*TENANT.ip(), Arc::new(Tenant::new("web", Some(policy), peers)))]);
    let router = Arc::new(Router::new(tenants, gateway(9)));
    let ((to_machine, machine), (to_far_end, far_end)) = (channel(), channel());
    router.attach(Ends {
        machine: Box::new(move |frame| drop(to_machine.send(frame.to_vec()))),
        far_end: Box::new(move |frame| drop(to_far_end.send(frame.to_vec()))),
    });
    Rig { router, machine, far_end }
}

impl Rig {
    fn send(&self, mut frame: Vec<u8>) -> Handled {
        self.router.from_machine(&mut frame)
    }

    fn next(&self) -> (View, Vec<u8>) {
        let frame = self.machine.recv_timeout(PATIENCE).unwrap();
        (View::of(&frame).unwrap(), frame)
    }

    fn figures(&self) -> Figures {
        self.router.figures().remove(0)
    }
}

#[test]
fn a_connection_goes_on_when_its_destination_has_answered() {
    let rig = rig(4, None);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = gateway(server.local_addr().unwrap().port());
    assert_eq!(rig.send(syn(to)), Handled::Taken, "until then nothing of it is seen");
    let frame = rig.far_end.recv_timeout(PATIENCE).unwrap();
    let view = View::of(&frame).unwrap();
    assert_eq!(view.to, gateway(9));
    assert_eq!(rig.send(syn(to)), Handled::Passed, "its further segments go the same way");
    let mut back = frame.clone();
    view.redirect(&mut back, view.to, view.from);
    rig.router.to_machine(&mut back);
    let back = View::of(&back).unwrap();
    assert_eq!((back.from, back.to), (to, TENANT));
    // the far end's kernel takes the tenant's half, and the destination's is there for it, once
    let key = flows::Key { from: TENANT, to };
    assert!(rig.router.flows().take_held(&key).is_some() && rig.router.flows().take_held(&key).is_none());
    assert_eq!(rig.figures().connections, 1);
}

#[test]
fn a_closed_port_is_refused_and_a_strange_address_prohibited() {
    let rig = rig(4, None);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    rig.send(syn(gateway(closed)));
    let (view, frame) = rig.next();
    assert!(view.resets(&frame));
    rig.send(syn(FAR));
    let (view, _) = rig.next();
    assert_eq!((view.protocol, *view.from.ip()), (ICMP, *gateway(0).ip()));
    let figures = rig.figures();
    assert_eq!((figures.failed, figures.refused, figures.connections), (1, 1, 0));
}

#[test]
fn a_flood_of_connects_is_bounded() {
    let rig = rig(2, None);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let with_port = |source: u16| {
        let mut frame = syn(gateway(port));
        let view = View::of(&frame).unwrap();
        view.redirect(&mut frame, SocketAddrV4::new(*TENANT.ip(), source), view.to);
        frame
    };
    for source in 1..1000 {
        assert_eq!(rig.send(with_port(source)), Handled::Taken);
    }
    let began = Instant::now();
    while rig.figures().connections < 2 && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    let figures = rig.figures();
    assert_eq!((figures.connections, figures.dropped), (2, 997));
}

#[test]
fn datagrams_go_and_come_back() {
    let rig = rig(4, None);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = gateway(server.local_addr().unwrap().port());
    rig.send(datagram(to, b"question"));
    let mut bytes = [0; 100];
    let (count, from) = server.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"question");
    server.send_to(b"answer", from).unwrap();
    let (view, frame) = rig.next();
    assert_eq!((view.from, view.to, view.datagram(&frame)), (to, TENANT, Some(&b"answer"[..])));
    rig.send(datagram(FAR, b"not allowed"));
    assert_eq!(rig.next().0.protocol, ICMP);
    let figures = rig.figures();
    assert_eq!((figures.sent_bytes, figures.received_bytes, figures.refused), (8, 6, 1));
}

#[test]
fn a_rate_drops_datagrams_above_it() {
    let rig = rig(4, Some(8_000));
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = gateway(server.local_addr().unwrap().port());
    let began = Instant::now();
    while rig.figures().dropped == 0 && began.elapsed() < PATIENCE {
        rig.send(datagram(to, &[0; 1000]));
    }
    assert!(rig.figures().dropped > 0 && rig.figures().sent_bytes < 50_000);
}

#[test]
fn names_of_tenants_and_of_this_host_are_answered_and_no_others() {
    let rig = rig(4, None);
    let ask = |name: &str| {
        rig.send(datagram(gateway(53), &dns::tests::question(name, 1)));
        let (view, frame) = rig.next();
        view.datagram(&frame).unwrap().to_vec()
    };
    assert!(ask("db").ends_with(&[10, 77, 0, 12]));
    assert!(ask("host.gyre.internal").ends_with(&address::GATEWAY));
    assert_eq!(ask("secret.example")[3] & 15, 5, "refused: this list has no names");
    assert_eq!(rig.send(datagram(gateway(53), b"nonsense")), Handled::Taken);
    assert_eq!(rig.figures().refused, 1);
}

#[test]
fn what_is_not_on_the_way_out_passes_untouched() {
    let rig = rig(4, None);
    let mut stranger = syn(FAR);
    stranger[29] = 99;
    let before = stranger.clone();
    assert_eq!(rig.router.from_machine(&mut stranger), Handled::Passed);
    assert_eq!(stranger, before);
    assert_eq!(rig.send(syn(SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 12), 80))), Handled::Passed);
    assert_eq!(rig.send(vec![0; 60]), Handled::Passed);
}
