//! The fractions of a service: who has how much of it. Their sum is never more than the whole.
//!
//! A tenant is one client, however many channels it has. It keeps its fraction while it has one channel at least.

use crate::protocol::{Join, Line, Refused, WHOLE};

struct Client {
    line: Line,
    channels: u32,
}

/// See the module.
#[derive(Default)]
pub struct Fractions {
    clients: Vec<Option<Client>>,
}

impl Fractions {
    /// A channel of a tenant joins; answers the client's number, which others use again once it is gone.
    ///
    /// # Errors
    /// [`Refused::Full`], [`Refused::Invalid`] for a fraction of nothing.
    pub fn join(&mut self, tenant: &str, wish: &Join) -> Result<usize, Refused> {
        if !(1..=WHOLE).contains(&wish.fraction) {
            return Err(Refused::Invalid(format!("a fraction is 1 to {WHOLE} thousandths")));
        }
        if let Some(at) = self.number(tenant) {
            let client = self.clients[at].as_mut().ok_or(Refused::NoClient)?;
            client.channels += 1;
            return Ok(at);
        }
        let free = WHOLE - self.sum();
        if wish.fraction > free {
            return Err(Refused::Full(free));
        }
        let line = Line {
            client: tenant.to_owned(),
            fraction: wish.fraction,
            goal_per_ks: wish.goal_per_ks,
            response_ns: wish.response_ns,
            ..Line::default()
        };
        let at = self.clients.iter().position(Option::is_none).unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        self.clients[at] = Some(Client { line, channels: 1 });
        Ok(at)
    }

    /// A channel of a client is gone; answers whether it was the last.
    pub fn leave(&mut self, number: usize) -> bool {
        let Some(client) = self.clients.get_mut(number).and_then(Option::as_mut) else { return false };
        client.channels -= 1;
        let is_last = client.channels == 0;
        if is_last {
            self.clients[number] = None;
        }
        is_last
    }

    /// Changes fractions, all of them or none.
    ///
    /// # Errors
    /// [`Refused::NoClient`], [`Refused::Full`] with what would be free for the first that does not fit, [`Refused::Invalid`].
    pub fn set(&mut self, wishes: &[(String, u32)]) -> Result<(), Refused> {
        let mut after: Vec<u32> =
            self.clients.iter().map(|one| one.as_ref().map_or(0, |one| one.line.fraction)).collect();
        for (tenant, fraction) in wishes {
            let at = self.number(tenant).ok_or(Refused::NoClient)?;
            if !(1..=WHOLE).contains(fraction) {
                return Err(Refused::Invalid(format!("a fraction is 1 to {WHOLE} thousandths")));
            }
            after[at] = *fraction;
        }
        let sum: u32 = after.iter().sum();
        if sum > WHOLE {
            let last = wishes.last().map_or(0, |(_, fraction)| *fraction);
            return Err(Refused::Full((WHOLE + last).saturating_sub(sum)));
        }
        let clients = self.clients.iter_mut().zip(after);
        clients.for_each(|(client, fraction)| client.iter_mut().for_each(|client| client.line.fraction = fraction));
        Ok(())
    }

    /// Notes an answer.
    pub fn note(&mut self, number: usize, response_ns: u64, used: u64) {
        if let Some(client) = self.clients.get_mut(number).and_then(Option::as_mut) {
            let line = &mut client.line;
            line.done += 1;
            line.used = line.used.saturating_add(used);
            line.late += u64::from(line.response_ns > 0 && response_ns > line.response_ns);
        }
    }

    /// Returns a client.
    #[must_use]
    pub fn line(&self, number: usize) -> Option<&Line> {
        self.clients.get(number)?.as_ref().map(|client| &client.line)
    }

    /// Returns all clients.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.clients.iter().flatten().map(|client| client.line.clone()).collect()
    }

    /// Returns the numbers of all clients.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..self.clients.len()).filter(|&at| self.clients[at].is_some())
    }

    fn number(&self, tenant: &str) -> Option<usize> {
        self.clients.iter().position(|one| one.as_ref().is_some_and(|one| one.line.client == tenant))
    }

    fn sum(&self) -> u32 {
        self.clients.iter().flatten().map(|client| client.line.fraction).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(fraction: u32) -> Join {
        Join { fraction, ..Join::default() }
    }

    #[test]
    fn nobody_gets_more_than_is_left() {
        let mut all = Fractions::default();
        assert_eq!(all.join("a", &join(600)), Ok(0));
        assert_eq!(all.join("b", &join(500)), Err(Refused::Full(400)));
        assert_eq!(all.join("b", &join(400)), Ok(1));
        assert!(matches!(all.join("c", &join(0)), Err(Refused::Invalid(_))));
    }

    #[test]
    fn a_tenant_is_one_client_until_its_last_channel_is_gone() {
        let mut all = Fractions::default();
        assert_eq!((all.join("a", &join(600)), all.join("a", &join(900))), (Ok(0), Ok(0)));
        assert!(!all.leave(0) && all.join("b", &join(500)).is_err());
        assert!(all.leave(0) && all.join("b", &join(500)) == Ok(0));
        assert!(!all.leave(7));
    }

    #[test]
    fn a_change_is_made_whole_or_not_at_all() {
        let mut all = Fractions::default();
        let wish = |a: u32, b: u32| vec![("a".to_owned(), a), ("b".to_owned(), b)];
        all.join("a", &join(500)).unwrap();
        all.join("b", &join(500)).unwrap();
        assert_eq!(all.set(&wish(800, 201)), Err(Refused::Full(200)));
        assert_eq!(all.set(&[("x".into(), 1)]), Err(Refused::NoClient));
        assert_eq!(all.lines().iter().map(|line| line.fraction).collect::<Vec<_>>(), [500, 500]);
        assert_eq!(all.set(&wish(800, 200)), Ok(()));
        assert_eq!(all.lines().iter().map(|line| line.fraction).collect::<Vec<_>>(), [800, 200]);
    }
}
