//! The cells in time, for the system tenant.

use std::io;

use gyre_contract::{
    cells::{Answer, Request},
    native,
};

use crate::call;

/// Room for an answer: the most cells on the most cores.
const ANSWER_BYTES: usize = 64 << 10;

/// Changes cells, all of the request or nothing, and tells how all are; an empty request changes nothing.
///
/// # Errors
/// The kernel's error; see [`native::CELLS`]. A refusal is an answer.
pub fn cells(request: &Request) -> io::Result<Answer> {
    let request = postcard::to_allocvec(request)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let bytes = call::with_both(native::CELLS, &request, &mut answer)?;
    let encoded = answer.get(..bytes).unwrap_or_default();
    postcard::from_bytes(encoded).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_knows_no_cells() {
        assert_eq!(cells(&Request::new()).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
