//! The network path put together: what the assembler makes and wires.

use crate::icmp::Icmp;
use crate::shared::{NetConfig, NetPorts, Shared};
use crate::statistics::NetStatistics;
use crate::tcp_resource::Tcp;
use crate::timer::TcpTimer;
use crate::udp::Udp;
use crate::writer::Writer;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_interface::link::FrameStream;

/// All resources of the path. Lives as long as the instance.
///
/// The assembler makes it, makes a port for each server and gives the clients back with [`Net::connect`], then starts
/// [`Net::read_frames`] and [`Net::keep_time`] as tasks of the infrastructure.
pub struct Net {
    shared: &'static Shared,
    /// Serves `interface::tcp` and `protocols::tcp_input`.
    pub tcp: Tcp,
    /// Serves `interface::udp` and `protocols::udp_input`.
    pub udp: Udp,
    /// Serves `protocols::icmp_input`.
    pub icmp: Icmp,
    /// Serves `protocols::tcp_timer`.
    pub timer: TcpTimer,
    /// Serves `protocols::net_write`.
    pub writer: Writer,
}

impl Net {
    /// Makes the path; nothing runs yet.
    pub fn new(config: NetConfig) -> &'static Net {
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(config)));
        Box::leak(Box::new(Net {
            shared,
            tcp: Tcp::new(shared),
            udp: Udp::new(shared),
            icmp: Icmp::new(shared),
            timer: TcpTimer::new(shared),
            writer: Writer { shared },
        }))
    }

    /// Sets the clients of the path's own resources. Before it nothing is sent or delivered. Only the first call counts.
    pub fn connect(&self, ports: NetPorts) {
        self.shared.ports.set(ports);
    }

    /// Reads frames until the device is gone: a task of the infrastructure at the network device read resource.
    pub async fn read_frames(&'static self, device: &'static impl FrameStream) {
        self.shared.read_frames(device).await;
    }

    /// Tells deadlines for ever: a task of the infrastructure at the TCP timer resource.
    pub async fn keep_time(&'static self) {
        self.timer.keep_time().await;
    }

    /// The figures of all who own an address, and of the activity that pays for what nobody owns (last).
    pub fn statistics(&self) -> Vec<(ActivityId, NetStatistics)> {
        let tenants = self.shared.tenants().chain([self.shared.unowned]);
        tenants.map(|tenant| (tenant.activity, tenant.statistics())).collect()
    }

    /// The figures of one activity's tenant.
    pub fn statistics_of(&self, activity: ActivityId) -> Option<NetStatistics> {
        self.shared.tenant_of(activity).map(|tenant| tenant.statistics())
    }
}
