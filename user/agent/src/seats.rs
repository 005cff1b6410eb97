//! Cells that own cores and memory, over HTTP: `GET /seats`, `GET /seats/log`, `POST /seats`, `/seats/offer` and `/seats/pool`.
//!
//! * `POST` takes `gyre_contract::seats::Revoke` and answers when the parts are back, or the cell is ended; a refusal answers 409.
//! * `POST /seats/offer` takes `gyre_contract::seats::Offer` and answers when the cores are taken, or the time is over.
//! * `POST /seats/pool` takes the bytes that are to be kept for cells, and answers how many are.

use std::{
    io::{self, Write},
    sync::Arc,
};

use gyre_contract::seats::Refusal;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    http::{self, Request},
    source::Source,
};

const JSON: &str = "application/json";

/// Answers a request below `/seats`.
///
/// # Errors
/// When the client has gone.
pub fn answer(request: &Request, out: &mut impl Write, source: &Arc<dyn Source>) -> io::Result<()> {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/seats") => send(out, source.seats()),
        ("GET", "/seats/log") => match from(&request.query) {
            Some(from) => send(out, source.seat_log(from)),
            None => http::refuse(out, "400 Bad Request", "`from` must be a number"),
        },
        ("POST", "/seats") => order(out, &request.body, |order| source.revoke(order)),
        ("POST", "/seats/offer") => order(out, &request.body, |order| source.offer(order)),
        ("POST", "/seats/pool") => match serde_json::from_slice(&request.body) {
            Ok(bytes) => send(out, source.pool(bytes)),
            Err(error) => http::refuse(out, "400 Bad Request", &format!("this is no number of bytes: {error}")),
        },
        _ => http::refuse(
            out,
            "404 Not Found",
            "there is: GET /seats and /seats/log; POST /seats, /seats/offer and /seats/pool",
        ),
    }
}

/// The number of `from=N`, 0 without it.
fn from(query: &str) -> Option<u64> {
    query.split('&').find_map(|word| word.strip_prefix("from=")).map_or(Some(0), |word| word.parse().ok())
}

fn order<Order: DeserializeOwned, Done: Serialize>(
    out: &mut impl Write,
    body: &[u8],
    give: impl FnOnce(&Order) -> io::Result<Result<Done, Refusal>>,
) -> io::Result<()> {
    let order = match serde_json::from_slice(body) {
        Ok(order) => order,
        Err(error) => return http::refuse(out, "400 Bad Request", &format!("this is no order to a cell: {error}")),
    };
    match give(&order) {
        Ok(Err(refusal)) => http::respond(out, "409 Conflict", JSON, &serde_json::to_vec(&refusal)?),
        Ok(Ok(done)) => http::respond(out, "200 OK", JSON, &serde_json::to_vec(&done)?),
        Err(error) => refuse(out, &error),
    }
}

fn send(out: &mut impl Write, result: io::Result<impl serde::Serialize>) -> io::Result<()> {
    match result {
        Ok(value) => http::respond(out, "200 OK", JSON, &serde_json::to_vec(&value)?),
        Err(error) => refuse(out, &error),
    }
}

fn refuse(out: &mut impl Write, error: &io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::Unsupported => {
            http::refuse(out, "501 Not Implemented", "this machine keeps no memory for cells (`[cells] pool`)")
        }
        io::ErrorKind::InvalidInput => http::refuse(out, "400 Bad Request", "the pool is kept in whole lots of 2 MiB"),
        _ => http::refuse(out, "500 Internal Server Error", &format!("cells: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_begins_where_the_query_says() {
        assert_eq!([from(""), from("from=7"), from("a=1&from=8"), from("from=x")], [Some(0), Some(7), Some(8), None]);
    }
}
