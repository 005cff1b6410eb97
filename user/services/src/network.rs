//! A network service: sends datagrams for its clients, at a rate of its own; each client's fraction of that rate is reserved.

use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use crate::{
    protocol::{Refused, Work},
    service::Server,
};

/// Largest datagram, bytes.
const DATAGRAM_BYTES_MAX: usize = 1400;
/// Bytes that a datagram takes beside its data, about: Ethernet, IP, UDP.
const HEADER_BYTES: u64 = 42;

/// See the module.
pub struct Network {
    socket: UdpSocket,
    bytes_per_s: u64,
    /// The time at which the next datagram may go.
    free: Instant,
}

impl Network {
    /// Makes a service that sends so many bytes a second at most.
    ///
    /// # Errors
    /// The socket's.
    pub fn new(bytes_per_s: u64) -> std::io::Result<Network> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        Ok(Network { socket, bytes_per_s: bytes_per_s.max(1), free: Instant::now() })
    }

    /// Waits until the rate has room, and takes it.
    fn pace(&mut self, bytes: u64) {
        let now = Instant::now();
        std::thread::sleep(self.free.saturating_duration_since(now));
        let takes = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / self.bytes_per_s);
        self.free = self.free.max(now) + takes;
    }
}

impl Server for Network {
    fn work(&mut self, _client: usize, work: &Work) -> Result<(Vec<u8>, u64), Refused> {
        let Work::Send { to, data } = work else { return Err(Refused::WrongService) };
        if data.len() > DATAGRAM_BYTES_MAX {
            return Err(Refused::Invalid(format!("a datagram has {DATAGRAM_BYTES_MAX} bytes at most")));
        }
        let to: SocketAddr = to.parse().map_err(|_| Refused::Invalid(format!("`{to}` is no address with a port")))?;
        let bytes = data.len() as u64 + HEADER_BYTES;
        self.pace(bytes);
        self.socket.send_to(data, to).map_err(|error| Refused::Invalid(error.to_string()))?;
        Ok((Vec::new(), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_go_out_no_faster_than_the_rate() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap().to_string();
        let began = Instant::now();
        let mut network = Network::new(100_000).unwrap();
        for _ in 0..11 {
            let work = Work::Send { to: to.clone(), data: vec![7; 958] };
            assert_eq!(network.work(0, &work), Ok((vec![], 1000)));
        }
        assert!(began.elapsed() >= Duration::from_millis(100));
        let mut data = [0; 2000];
        assert_eq!(receiver.recv(&mut data).unwrap(), 958);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut network = Network::new(0).unwrap();
        let send = |to: &str, bytes| Work::Send { to: to.into(), data: vec![0; bytes] };
        assert!(matches!(network.work(0, &send("nowhere", 1)), Err(Refused::Invalid(_))));
        assert!(matches!(network.work(0, &send("127.0.0.1:9", 1401)), Err(Refused::Invalid(_))));
        assert_eq!(network.work(0, &Work::Draw { number: 0, pixels: 1 }), Err(Refused::WrongService));
    }
}
