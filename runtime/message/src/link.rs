//! The sender's end of a protocol.

/// The sender's wishes about order and place (paper section III-A).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Labels {
    /// Requests with the same affinity label profit from the same core; 0 says nothing. A hint.
    pub affinity: u64,
    /// Requests of one activity with the same dependency label are started in the order in which they were made; 0 is free of order.
    pub dependency: u64,
}

/// Takes requests to a resource: the engine's queues, or a fake.
pub trait Port<R>: Send + Sync + 'static {
    /// Queues the request under the current activity. Never waits; a request that cannot be queued is dropped, which answers `Gone`.
    fn send(&self, request: R, labels: Labels);

    /// Runs `work` inside the sender's turn, stamped and charged as a request of this resource that is handled at once; false, and
    /// nothing done, if a request would have to wait. `work` looks at what the resource shows to its neighbours and never waits.
    fn visit(&self, labels: Labels, work: &mut dyn FnMut()) -> bool {
        let _ = (labels, work);
        false
    }
}

/// A handle to a resource by one of its protocols, with the labels that its requests carry.
pub struct Link<R: 'static> {
    port: &'static dyn Port<R>,
    labels: Labels,
}

impl<R> Clone for Link<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Link<R> {}

impl<R> Link<R> {
    /// Makes a link without labels.
    pub fn new(port: &'static dyn Port<R>) -> Link<R> {
        Link { port, labels: Labels::default() }
    }

    /// Returns a link to the same port, whose requests carry these labels.
    pub fn labelled(self, labels: Labels) -> Link<R> {
        Link { labels, ..self }
    }

    /// Returns a number that names the server, for any labels: equal numbers mean one server.
    pub fn server(&self) -> usize {
        core::ptr::from_ref(self.port).cast::<()>().addr()
    }

    /// Does what a request would do without making one; `None` if a request would have to wait. See [`Port::visit`].
    #[inline]
    pub fn visit<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let (mut work, mut answer) = (Some(work), None);
        self.port.visit(self.labels, &mut || answer = work.take().map(|work| work()));
        answer
    }

    /// Sends a request.
    pub fn send(&self, request: R) {
        self.port.send(request, self.labels);
    }
}
