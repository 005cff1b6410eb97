//! The agent: runs in the machine as the system tenant and tells the host, over HTTP/1.1, what the machine does.
//!
//! ```text
//! GET  /metrics            Prometheus text
//! GET  /snapshot           everything, as JSON
//! GET  /bill               the bill, as JSON
//! GET  /events             server-sent events: a snapshot now and each second
//! POST /exec               {"tenant": ..., "argv": [...], "env": [...]}, then 101 and frames (gyre_contract::session)
//! POST /set              a change of the machine (gyre_contract::native::Change), as JSON
//! GET  /cells            the cells in time (gyre_contract::cells::View), as JSON
//! POST /cells            a list of tenants and their cells to be, as JSON: all or none
//! GET  /seats            cells that own cores and memory (gyre_contract::seats::Seats), as JSON; GET /seats/log?from=N their log
//! POST /seats            has one give parts back (gyre_contract::seats::Revoke), as JSON; answers when it has, or is ended;
//!                        POST /seats/offer lets one have cores again (gyre_contract::seats::Offer)
//! POST /change           several as one (gyre_contract::promise::Together), as JSON: all or none; GET /changes?from=N what was made
//! GET  /goals            goals, measures and the broker's last window (gyre_contract::goals::Shown), as JSON
//! POST /broker           what is wanted of the broker (gyre_contract::goals::BrokerWish), as JSON
//! POST /health           checks of tenants (gyre_contract::health), as JSON, in place of those before
//! POST /end              ends the machine in order; the body is the programs' grace time, ms
//! GET  /zones              the zones (gyre_contract::zones::Zones), as JSON
//! POST /zones/module?number=N&whole=BYTES&offset=BYTE   a piece of the boot module of a zone that is to come
//! POST /zones/wish         parts of this zone for another one (gyre_contract::zones::Wish)
//! GET  /zones/log          their changes; ?from=N begins with that one
//! GET  /zones/NAME/console what a zone's kernel prints; ?follow=1 waits for more
//! POST /zones              a list of changes (gyre_contract::zones::Command), as JSON: all or none
//! GET  /logs/TENANT        what the tenant wrote; ?follow=1 waits for more
//! GET  /trace/TENANT       the calls of a process (?process=PID), batches as JSON, until the client goes or it ends
//! POST /console/TENANT     types the body on the tenant's console; answers the bytes taken
//! GET  /output             what all tenants write, as JSON, until the client goes
//! ```
//! Each request shows the key of the run (`Authorization: Bearer KEY`): tenants reach this port too.
//! Threads and blocking sockets: a dozen connections at most, and nothing to port. `--linux` takes the figures
//! from Linux's control groups, so that the agent is compared outside the machine.
#![forbid(unsafe_code)]

mod cells;
mod door;
mod events;
mod exec;
mod goals;
pub mod health;
mod http;
pub mod keeper;
pub mod key;
mod logs;
pub mod metrics;
mod output;
mod seats;
pub mod server;
pub mod source;
mod trace;
mod zone_metrics;
mod zones;
