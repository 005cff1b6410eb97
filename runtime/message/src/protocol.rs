//! One declaration per protocol.

/// Declares a protocol: its requests, the trait of those who serve it, the client of those who ask, and the dispatcher.
///
/// Variants have the names of the methods. Arguments and answers are owned values; an answer is a `Result` whose error is
/// made from [`crate::Gone`].
///
/// With `near TRAIT` a server may also show a part of itself that answers at once or not at all: its clients look at that through
/// `Client::visit`, which spends their turn as a message handled inline would.
#[macro_export]
macro_rules! protocol {
    ($(#[$meta:meta])* pub mod $name:ident $(near $near:path)? {
        $($(#[$method_meta:meta])* async fn $method:ident($($arg:ident: $type:ty),* $(,)?) -> $answer:ty;)*
    }) => {
        $(#[$meta])*
        pub mod $name {
            #[allow(unused_imports)]
            use super::*;

            /// The requests of this protocol, each with the token of its reply.
            #[allow(non_camel_case_types)]
            pub enum Request {
                $(
                    $(#[$method_meta])*
                    #[allow(missing_docs)]
                    $method { $($arg: $type,)* reply: $crate::Reply<$answer> },
                )*
            }

            /// Serves this protocol. Handlers start in queue order and may wait; state is shared, so it is locked or belongs to a home core.
            pub trait Server: Sync + 'static {
                $(
                    $(#[$method_meta])*
                    fn $method(&'static self, $($arg: $type),*) -> impl core::future::Future<Output = $answer>;
                )*
            }

            /// Asks a server of this protocol.
            #[derive(Clone, Copy)]
            pub struct Client($crate::Link<Request>, $(Option<&'static dyn $near>)?);

            impl Client {
                /// Makes a client that sends through `link`.
                pub fn new(link: $crate::Link<Request>) -> Client {
                    Client(link, $({ let none: Option<&'static dyn $near> = None; none })?)
                }

                /// Returns a client of the same server, whose requests carry these labels.
                pub fn labelled(self, labels: $crate::Labels) -> Client {
                    Client(self.0.labelled(labels), $({ let near: Option<&'static dyn $near> = self.1; near })?)
                }

                $(
                    /// Returns a client of the same server, which may look at this part of the server.
                    pub fn with_near(self, near: &'static dyn $near) -> Client {
                        Client(self.0, Some(near))
                    }

                    /// Looks at the server without a message; `None` if it shows nothing or a message would have to wait.
                    #[inline]
                    pub fn visit<T>(&self, look: impl FnOnce(&'static dyn $near) -> T) -> Option<T> {
                        let near = self.1?;
                        self.0.visit(move || look(near))
                    }
                )?

                /// Returns a number that names the server, for any labels: equal numbers mean one server.
                pub fn server(&self) -> usize {
                    self.0.server()
                }

                $(
                    $(#[$method_meta])*
                    pub fn $method(&self, $($arg: $type),*) -> $crate::Call<$answer> {
                        let (reply, call) = $crate::reply_pair();
                        self.0.send(Request::$method { $($arg,)* reply });
                        call
                    }
                )*
            }

            /// Handles one request: runs the server's method and sends its answer, [`crate::Gone`] if that is given up.
            pub async fn serve<S: Server>(server: &'static S, request: Request) {
                match request {
                    $(Request::$method { $($arg,)* reply } => $crate::keep(reply, server.$method($($arg),*)).await,)*
                }
            }

            /// The names of the requests.
            pub const NAMES: &[&str] = &[$(stringify!($method)),*];

            /// Returns the name of a request.
            pub fn name_of(request: &Request) -> &'static str {
                match request {
                    $(Request::$method { .. } => stringify!($method),)*
                }
            }
        }
    };
}
