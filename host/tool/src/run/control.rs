//! The control socket of `gyre run`: what only the program that holds the machine's network can do for other commands.
//!
//! A request is a line of JSON, its answer another: `null`, or why it was not done.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use gyre_contract::address::Address;
use gyre_machine_file::Forward;
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Context as _, Failure, Result},
    forward::{self, Open},
    namespace::Namespace,
    wire::Counters,
};

const FILE: &str = "control.sock";

/// A wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A tenant is about to come: all its ports are opened, or none.
    Open {
        /// Its name.
        tenant: String,
        /// Its address.
        address: Address,
        /// Its ports as a machine file has them.
        ports: Vec<String>,
    },
    /// A tenant that is there has other ports from now on: all of them, or it keeps those that it has.
    Publish {
        /// Its name.
        tenant: String,
        /// Its ports as a machine file has them.
        ports: Vec<String>,
    },
    /// A tenant has gone: its ports are closed.
    Close {
        /// Its name.
        tenant: String,
    },
}

/// The ports of one tenant.
struct Published {
    address: Address,
    open: Vec<(Forward, Open)>,
}

/// The ports of the host that lead to tenants.
#[derive(Default)]
pub struct Ports(Mutex<BTreeMap<String, Published>>);

impl Ports {
    /// Opens all ports of a tenant that is about to come, or none. A tool that was killed may have opened some for it before: those go.
    ///
    /// # Errors
    /// When one is taken.
    pub fn open(&self, namespace: &Namespace, tenant: &str, address: Address, ports: &[Forward]) -> Result<()> {
        self.close(tenant);
        let open = open_all(namespace, (tenant, address), ports.iter())?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant.to_owned(), Published { address, open });
        Ok(())
    }

    /// Opens the ports that a tenant has not, then closes those that it is to have no more. Connections that are under way go on.
    ///
    /// # Errors
    /// When one is taken, or there is no such tenant: nothing has changed then.
    fn publish(&self, namespace: &Namespace, tenant: &str, ports: &[Forward]) -> Result<()> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.get_mut(tenant).ok_or_else(|| Failure::new(format!("there is no tenant `{tenant}`")))?;
        let is_new = |port: &&Forward| !own.open.iter().any(|(had, _)| had == *port);
        let fresh = open_all(namespace, (tenant, own.address), ports.iter().filter(is_new))?;
        own.open.retain(|(had, _)| ports.contains(had));
        own.open.extend(fresh);
        Ok(())
    }

    fn close(&self, tenant: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }
}

/// Opens ports that lead to a tenant with an address.
fn open_all<'a>(
    namespace: &Namespace,
    (tenant, address): (&str, Address),
    ports: impl Iterator<Item = &'a Forward>,
) -> Result<Vec<(Forward, Open)>> {
    let to = |port: &Forward| SocketAddr::from((Ipv4Addr::from(address), port.guest));
    ports.map(|port| Ok((*port, forward::port(namespace, port, to(port), tenant)?))).collect()
}

/// Serves the socket until the tool ends.
///
/// # Errors
/// When it cannot be made.
pub fn serve(folder: &Path, namespace: Namespace, ports: Arc<Ports>, counters: Arc<Counters>) -> Result<()> {
    let path = folder.join(FILE);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).context(|| format!("cannot make the socket {}", path.display()))?;
    let run = move || {
        for client in listener.incoming() {
            // A client that goes is its own loss.
            let _ = client.map(|client| answer(&client, &namespace, &ports, &counters));
        }
    };
    std::thread::Builder::new().name("control".into()).spawn(run).context(|| "cannot start a thread".into())?;
    Ok(())
}

fn answer(mut client: &UnixStream, namespace: &Namespace, ports: &Ports, counters: &Counters) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line)?;
    let done = match serde_json::from_str(&line) {
        Ok(request) => carry_out(request, namespace, ports, counters).map_err(|failure| failure.report.to_string()),
        Err(error) => Err(error.to_string()),
    };
    writeln!(client, "{}", serde_json::to_string(&done.err())?)
}

fn carry_out(request: Request, namespace: &Namespace, ports: &Ports, counters: &Counters) -> Result<()> {
    match request {
        Request::Open { tenant, address, ports: texts } => {
            ports.open(namespace, &tenant, address, &forwards(&texts)?)?;
            counters.rename(address, &tenant);
        }
        Request::Publish { tenant, ports: texts } => ports.publish(namespace, &tenant, &forwards(&texts)?)?,
        Request::Close { tenant } => ports.close(&tenant),
    }
    Ok(())
}

fn forwards(texts: &[String]) -> Result<Vec<Forward>> {
    let read = |text: &String| Forward::parse(text).ok_or_else(|| Failure::new(format!("`{text}` is no port")));
    texts.iter().map(read).collect()
}

/// Asks the `gyre run` of a machine.
///
/// # Errors
/// When it does not answer, or cannot do it.
pub fn ask(folder: &Path, request: &Request) -> Result<()> {
    let cannot = || "the machine's gyre run does not answer".to_owned();
    let mut stream = UnixStream::connect(folder.join(FILE)).context(cannot)?;
    let line = serde_json::to_string(request).context(|| "cannot write JSON".into())?;
    writeln!(stream, "{line}").context(cannot)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).context(cannot)?;
    match serde_json::from_str::<Option<String>>(&answer).context(cannot)? {
        None => Ok(()),
        Some(why) => Err(Failure::new(why)),
    }
}
