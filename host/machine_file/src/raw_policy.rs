//! How `[policy.RESOURCE]` is read: its own keys, and the parameters of every policy of the list.

use std::{fmt, sync::OnceLock};

use gyre_schedulers::POLICIES;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::raw::Policy;

/// Keys that are no parameters.
pub(super) const OWN_KEYS: [&str; 7] = ["policy", "inner", "metric", "batch", "cores", "priority", "queue-depth"];

/// Returns all keys, for the message that one is unknown.
fn keys() -> &'static [&'static str] {
    static KEYS: OnceLock<Vec<&str>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let parameters = POLICIES.iter().flat_map(|listed| listed.parameters);
        let mut keys: Vec<&str> = OWN_KEYS.into_iter().chain(parameters.map(|parameter| parameter.name)).collect();
        let mut seen = std::collections::BTreeSet::new();
        keys.retain(|key| seen.insert(*key));
        keys
    })
}

/// A key that is known.
struct Key(&'static str);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = keys().iter().find(|key| **key == name);
        known.map(|key| Key(key)).ok_or_else(|| de::Error::unknown_field(&name, keys()))
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Policy;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a table of a resource's scheduler")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Policy, A::Error> {
        let mut read = Policy::default();
        while let Some(Key(key)) = map.next_key()? {
            match key {
                "policy" => read.policy = Some(map.next_value()?),
                "inner" => read.inner = Some(map.next_value()?),
                "metric" => read.metric = Some(map.next_value()?),
                "batch" => read.batch = Some(map.next_value()?),
                "cores" => read.cores = Some(map.next_value()?),
                "priority" => read.priority = Some(map.next_value()?),
                "queue-depth" => read.queue_depth = Some(map.next_value()?),
                parameter => drop(read.parameters.insert(parameter.to_owned(), map.next_value()?)),
            }
        }
        Ok(read)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_parameter_of_a_policy_has_the_name_of_another_key() {
        let mut parameters = POLICIES.iter().flat_map(|listed| listed.parameters);
        assert!(parameters.all(|parameter| !OWN_KEYS.contains(&parameter.name)));
    }
}
