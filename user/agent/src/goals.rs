//! Goals, the broker and the record of changes over HTTP.

use std::{
    io::{self, Write},
    sync::Arc,
};

use gyre_contract::{goals::BrokerWish, promise::Together};

use crate::{http, keeper::Keeper, source::Source};

const JSON: &str = "application/json";

/// `GET /goals`: [`gyre_contract::goals::Shown`].
///
/// # Errors
/// When the client has gone.
pub fn goals(out: &mut impl Write, keeper: &Keeper) -> io::Result<()> {
    send(out, keeper.shown())
}

/// `POST /broker`: a [`BrokerWish`].
///
/// # Errors
/// When the client has gone.
pub fn broker(out: &mut impl Write, body: &[u8], keeper: &Keeper) -> io::Result<()> {
    match serde_json::from_slice::<BrokerWish>(body) {
        Ok(wish) => send(out, keeper.shown().and_then(|_| keeper.wish(&wish))),
        Err(error) => http::refuse(out, "400 Bad Request", &format!("this is no wish for the broker: {error}")),
    }
}

/// `POST /change`: a [`Together`]; answers the change's number.
///
/// # Errors
/// When the client has gone.
pub fn change(out: &mut impl Write, body: &[u8], source: &Arc<dyn Source>) -> io::Result<()> {
    match serde_json::from_slice::<Together>(body) {
        Ok(together) => send(out, source.change(&together)),
        Err(error) => http::refuse(out, "400 Bad Request", &format!("this is no change: {error}")),
    }
}

/// `GET /changes`: the changes that were made, from the number `from` on.
///
/// # Errors
/// When the client has gone.
pub fn changes(out: &mut impl Write, query: &str, source: &Arc<dyn Source>) -> io::Result<()> {
    let from = query.split('&').find_map(|pair| pair.strip_prefix("from=")?.parse().ok()).unwrap_or(0);
    send(out, source.changes(from))
}

fn send(out: &mut impl Write, result: io::Result<impl serde::Serialize>) -> io::Result<()> {
    match result {
        Ok(value) => http::respond(out, "200 OK", JSON, &serde_json::to_vec(&value)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => http::refuse(out, "404 Not Found", &error.to_string()),
        Err(error) => http::refuse(out, "409 Conflict", &error.to_string()),
    }
}
