//! Words in which calls are described: what an argument is, what a call gives.
//!
//! Protocol of use: a table lists a [`Call`] by [`call`] with a number, a name and the kinds of its arguments, and
//! adds by `gives` or `gives_pair` what it makes. The maker ([`super::values`]) turns kinds into numbers; slots keep
//! what was made for later calls.
//!
//! * Kinds up to `Special` are descriptors; the order of [`Kind`] says so, and [`Kind::DESCRIPTORS`] counts them.
//! * A structure is a list of [`Field`]s, each with its bytes and kind.
//! * A call that ends or cripples its maker is made in a child.
//!
//! All is data: nothing here makes a call.

/// Something that calls make and that later calls use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// The end of a pipe that is read.
    PipeOut,
    /// The end of a pipe that is written.
    PipeIn,
    /// A connected local socket.
    Local,
    /// An Internet socket.
    Net,
    /// A socket that listens.
    Listener,
    /// A counter of events.
    Event,
    /// A timer that is a descriptor.
    TimerFile,
    /// A set of descriptors to wait for.
    Epoll,
    /// Tells of changed names (inotify).
    Inotify,
    /// Signals as a descriptor.
    SignalFile,
    /// A terminal.
    Terminal,
    /// A ring of requests.
    Ring,
    /// A flow.
    Flow,
    /// A native stream.
    Stream,
    /// A message queue by name.
    Queue,
    /// A file of /proc or /dev.
    Special,
    /// The number of a timer.
    Timer,
    /// A context of asynchronous I/O.
    Context,
    /// A shared memory segment.
    Segment,
    /// A set of semaphores.
    Semaphores,
    /// A message queue by number.
    Messages,
    /// An address of a mapping.
    Mapping,
    /// A watch of [`Kind::Inotify`].
    Watch,
    /// A child.
    Child,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = Kind::Child as usize + 1;
    /// How many of these are descriptors: the first ones.
    pub const DESCRIPTORS: usize = Kind::Special as usize + 1;
}

/// The kind of an argument, or of a field of a structure.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// A descriptor of a kind.
    Fd(Kind),
    /// A descriptor of any kind.
    AnyFd,
    /// A descriptor that this process made: closing it leaves what was there at first.
    Loose,
    /// Something else that a call made.
    Made(Kind),
    /// A descriptor that names are relative to.
    At,
    /// A name of a file, as an address of its text.
    Path,
    /// A short text.
    Text,
    /// Memory with something in it.
    Buffer,
    /// A page in the playground.
    Page,
    /// A length in bytes.
    Length,
    /// A place in a file.
    Offset,
    /// A small count.
    Count,
    /// The length of a chain.
    Depth,
    /// Any number.
    Number,
    /// One number.
    Fixed(u64),
    /// One of these, seldom another number.
    OneOf(&'static [u64]),
    /// Some of these together, seldom with bits that mean nothing.
    Flags(&'static [u64]),
    /// One of these arguments.
    Either(&'static [Argument]),
    /// The address of a structure.
    In(&'static [Field]),
    /// The address of several of them in a row.
    Row(&'static [Field]),
    /// The address of addresses of structures.
    Pointers(&'static [Field]),
    /// The address of a socket's name.
    Name,
    /// Seconds of a time.
    Seconds,
    /// Nanoseconds or microseconds of a time.
    Fraction,
    /// A signal.
    Signal,
    /// A set of signals.
    Mask,
    /// The handler of a signal.
    Handler,
    /// The function by which a handler returns.
    Restorer,
    /// A process or a thread.
    Pid,
    /// A user or group.
    Owner,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its length: 1, 2, 4 or 8 bytes.
    pub bytes: u64,
    /// Its contents.
    pub is: Argument,
}

/// Returns a field of 8 bytes.
pub const fn long(is: Argument) -> Field {
    Field { bytes: 8, is }
}

/// Returns a field of 4 bytes.
pub const fn int(is: Argument) -> Field {
    Field { bytes: 4, is }
}

/// Returns a field of 2 bytes.
pub const fn short(is: Argument) -> Field {
    Field { bytes: 2, is }
}

/// Returns a field of a byte.
pub const fn byte(is: Argument) -> Field {
    Field { bytes: 1, is }
}

/// The result of a call that later calls may use.
#[derive(Clone, Copy, Debug)]
pub enum Gives {
    /// Nothing.
    Nothing,
    /// Its answer.
    Answer(Kind),
    /// Two descriptors, at the address in the argument of this index.
    Pair(usize, [Kind; 2]),
    /// A number of so many bytes, at the address in the argument of this index.
    Word(usize, usize, Kind),
}

/// The place in which a call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the thread whose turn it is.
    Here,
    /// In a child that ends afterwards: the call ends or cripples who makes it.
    Child,
}

/// A call, as data.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: u64,
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// Its result.
    pub gives: Gives,
    /// The place in which it is made.
    pub place: Place,
}

impl Call {
    /// The answer is of a kind.
    pub const fn gives(self, kind: Kind) -> Call {
        Call { gives: Gives::Answer(kind), ..self }
    }

    /// Two descriptors lie at an argument's address.
    pub const fn gives_pair(self, argument: usize, kinds: [Kind; 2]) -> Call {
        Call { gives: Gives::Pair(argument, kinds), ..self }
    }

    /// A number of `bytes` bytes lies at an argument's address.
    pub const fn gives_word(self, argument: usize, bytes: usize, kind: Kind) -> Call {
        Call { gives: Gives::Word(argument, bytes, kind), ..self }
    }

    /// Ends or cripples who makes it.
    pub const fn in_child(self) -> Call {
        Call { place: Place::Child, ..self }
    }
}

/// Returns a call that gives nothing.
pub const fn call(number: u64, name: &'static str, arguments: &'static [Argument]) -> Call {
    Call { number, name, arguments, gives: Gives::Nothing, place: Place::Here }
}
