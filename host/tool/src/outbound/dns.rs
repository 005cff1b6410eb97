//! Questions of DNS about addresses (RFC 1035), answered by names that the host knows. Nothing of another server's answer is passed on.

use std::net::Ipv4Addr;

const HEADER: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;
/// Seconds for which an answer may be kept.
const TTL: u32 = 30;
/// Addresses in one answer: it fits into 512 bytes with the longest name.
const ADDRESSES_MAX: usize = 14;
const NAME_BYTES_MAX: usize = 255;

/// The knowledge of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its addresses.
    Addresses(Vec<Ipv4Addr>),
    /// There is no such name.
    Nothing,
    /// The tenant may not ask for it.
    Refused,
    /// It could not be found out now.
    Failed,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    message: &'a [u8],
    /// The name, in small letters, without the last dot.
    pub name: String,
    kind: u16,
    /// The question ends here.
    end: usize,
}

impl<'a> Question<'a> {
    /// Reads a message; `None` if it is no single question in order.
    pub fn of(message: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
        // a question, of the usual kind, and only one
        if word(2)? & 0xf800 != 0 || word(4)? != 1 {
            return None;
        }
        let (name, at) = name_at(message)?;
        let end = at + 4;
        (word(at + 2)? == CLASS_IN).then_some(Self { message, name, kind: word(at)?, end })
    }

    /// Returns whether its answer depends on what is known of the name.
    pub fn asks_for_address(&self) -> bool {
        matches!(self.kind, TYPE_A | TYPE_AAAA)
    }

    /// Returns the answer.
    pub fn answer(&self, found: &Found) -> Vec<u8> {
        let (code, addresses): (u8, &[Ipv4Addr]) = match found {
            _ if !self.asks_for_address() => (4, &[]),
            Found::Addresses(all) if self.kind == TYPE_A => (0, all),
            // there is the name, and no address of IPv6
            Found::Addresses(_) => (0, &[]),
            Found::Failed => (2, &[]),
            Found::Nothing => (3, &[]),
            Found::Refused => (5, &[]),
        };
        let addresses = addresses.get(..addresses.len().min(ADDRESSES_MAX)).unwrap_or_default();
        let wanted = self.message.get(2).copied().unwrap_or(0) & 1;
        let mut answer = self.message.get(..2).unwrap_or_default().to_vec();
        answer.extend([0x80 | wanted, 0x80 | code, 0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
        answer.extend_from_slice(self.message.get(HEADER..self.end).unwrap_or_default());
        for address in addresses {
            answer.extend([0xc0, HEADER as u8, 0, TYPE_A as u8, 0, CLASS_IN as u8]);
            answer.extend(TTL.to_be_bytes());
            answer.extend([0, 4]);
            answer.extend(address.octets());
        }
        answer
    }
}

/// Returns the name after the header and the place behind it. A question needs no pointers, so there is no loop to fall into.
fn name_at(message: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (vec![], HEADER);
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return (at <= HEADER + NAME_BYTES_MAX).then(|| (labels.join("."), at));
        }
        let label = message.get(at..at + length).filter(|_| length < 64 && at < HEADER + NAME_BYTES_MAX)?;
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let label = std::str::from_utf8(label).ok().filter(|text| text.bytes().all(|byte| is_plain(&byte)))?;
        labels.push(label.to_ascii_lowercase());
        at += length;
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn question(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        name.split('.').for_each(|label| {
            message.push(label.len() as u8);
            message.extend(label.bytes());
        });
        message.push(0);
        message.extend([kind.to_be_bytes(), CLASS_IN.to_be_bytes()].concat());
        message
    }

    #[test]
    fn addresses_are_answered() {
        let message = question("Example.org", TYPE_A);
        let asked = Question::of(&message).unwrap();
        assert_eq!(asked.name, "example.org");
        let answer = asked.answer(&Found::Addresses(vec![Ipv4Addr::new(192, 0, 2, 7)]));
        assert_eq!(answer[..12], [7, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert!(answer.ends_with(&[0, 4, 192, 0, 2, 7]));
        assert_eq!(asked.answer(&Found::Nothing)[3], 0x83);
        assert_eq!(asked.answer(&Found::Refused)[3], 0x85);
        let message = question("example.org", TYPE_AAAA);
        let answer = Question::of(&message).unwrap().answer(&Found::Addresses(vec![Ipv4Addr::new(192, 0, 2, 7)]));
        assert_eq!((answer[3], answer[7]), (0x80, 0), "the name is there, without an address of this kind");
    }

    #[test]
    fn lies_are_no_questions() {
        let good = question("example.org", TYPE_A);
        for length in 0..good.len() {
            assert_eq!(Question::of(&good[..length]), None, "{length}");
        }
        let mut answer = good.clone();
        answer[2] |= 0x80;
        assert_eq!(Question::of(&answer), None, "an answer");
        let mut pointer = good.clone();
        pointer[12] = 0xc0;
        assert_eq!(Question::of(&pointer), None, "a pointer to itself");
        assert_eq!(Question::of(&question(&"a.".repeat(140), TYPE_A)), None, "longer than a name may be");
    }

    #[test]
    fn an_answer_is_never_longer_than_old_resolvers_take() {
        let message = question(&["abcdefghi"; 25].join("."), TYPE_A);
        let many = Found::Addresses(vec![Ipv4Addr::UNSPECIFIED; 1000]);
        assert!(Question::of(&message).unwrap().answer(&many).len() <= 512);
    }
}
