//! The file.

use crate::policy::{Policy, Rules};
use busbar_control::{share, size, time};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// The longest name of a tenant, as in a token or a certificate.
const MOST_NAME: usize = 64;
/// The word for no limit.
const UNLIMITED: &str = "unlimited";

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// In words.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.what
        )
    }
}

impl std::error::Error for Mistake {}

/// Something with a limit, or with none.
enum Limit<T> {
    To(T),
    Unlimited,
}

impl<T> Limit<T> {
    fn most(self) -> Option<T> {
        match self {
            Self::To(t) => Some(t),
            Self::Unlimited => None,
        }
    }
}

/// What a limit may be.
trait Limited<'de>: Sized {
    const WHAT: &'static str;
    fn text(_: &str) -> Option<Self> {
        None
    }
    fn number(_: i64) -> Option<Self> {
        None
    }
    fn part(_: f64) -> Option<Self> {
        None
    }
    fn list<A: serde::de::SeqAccess<'de>>(_: A) -> Result<Option<Self>, A::Error> {
        Ok(None)
    }
}

impl Limited<'_> for u64 {
    const WHAT: &'static str = "a number from 0 on, or \"unlimited\"";
    fn number(n: i64) -> Option<Self> {
        n.try_into().ok()
    }
}

fn all<'de, T: Deserialize<'de>, A: serde::de::SeqAccess<'de>>(
    mut list: A,
) -> Result<Option<Vec<T>>, A::Error> {
    let mut out = Vec::new();
    while let Some(one) = list.next_element()? {
        out.push(one);
    }
    Ok(Some(out))
}

impl<'de> Limited<'de> for Vec<u32> {
    const WHAT: &'static str = "a list of GPUs by number, [0, 2], or \"unlimited\"";
    fn list<A: serde::de::SeqAccess<'de>>(list: A) -> Result<Option<Self>, A::Error> {
        all(list)
    }
}

/// Bytes.
struct Memory(u64);

impl Limited<'_> for Memory {
    const WHAT: &'static str = "an amount of memory, \"16GiB\", or \"unlimited\"";
    fn text(text: &str) -> Option<Self> {
        size::parse(text).ok().map(Self)
    }
}

/// A share of a device's time.
struct Share(u32);

impl Limited<'_> for Share {
    const WHAT: &'static str = "a share of a device's time, 0.25, or \"unlimited\"";
    fn part(part: f64) -> Option<Self> {
        share::of(part).map(Self)
    }
    fn number(n: i64) -> Option<Self> {
        share::of(n as f64).map(Self)
    }
}

impl Limited<'_> for Duration {
    const WHAT: &'static str = "a time, \"10m\", or \"unlimited\"";
    fn text(text: &str) -> Option<Self> {
        time::parse(text).ok().filter(|t| !t.is_zero())
    }
}

impl Limited<'_> for i32 {
    const WHAT: &'static str = "a number, or \"unlimited\"";
    fn number(n: i64) -> Option<Self> {
        n.try_into().ok()
    }
}

/// An API, by its name.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Api {
    Cuda,
    Opencl,
}

impl<'de> Limited<'de> for Vec<Api> {
    const WHAT: &'static str = "a list of APIs, [\"cuda\", \"opencl\"], or \"unlimited\"";
    fn list<A: serde::de::SeqAccess<'de>>(list: A) -> Result<Option<Self>, A::Error> {
        all(list)
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Limited<'de>> Visitor<'de> for Reader<T> {
    type Value = Limit<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<Self::Value, E> {
        let wrong = || E::invalid_value(serde::de::Unexpected::Signed(n), &self);
        T::number(n).map(Limit::To).ok_or_else(wrong)
    }

    fn visit_f64<E: Error>(self, part: f64) -> Result<Self::Value, E> {
        let wrong = || E::invalid_value(serde::de::Unexpected::Float(part), &self);
        T::part(part).map(Limit::To).ok_or_else(wrong)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            UNLIMITED => Ok(Limit::Unlimited),
            _ => T::text(text)
                .map(Limit::To)
                .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        let wrong = || A::Error::invalid_type(serde::de::Unexpected::Seq, &self);
        T::list(list)?.map(Limit::To).ok_or_else(wrong)
    }
}

impl<'de, T: Limited<'de>> Deserialize<'de> for Limit<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader(PhantomData))
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    admin: Option<bool>,
    api: Option<Limit<Vec<Api>>>,
    devices: Option<Limit<Vec<u32>>>,
    cpu: Option<bool>,
    sessions: Option<Limit<u64>>,
    leases: Option<Limit<u64>>,
    memory: Option<Limit<Memory>>,
    opens_per_minute: Option<Limit<u64>>,
    share: Option<Limit<Share>>,
    priority: Option<Limit<i32>>,
    idle_timeout: Option<Limit<Duration>>,
    swap_idle: Option<Limit<Duration>>,
    links: Option<bool>,
    dense: Option<bool>,
    rdma_device: Option<String>,
}

impl Entry {
    /// Over what is said of all.
    fn over(self, others: &Rules) -> Rules {
        fn or<T: Clone>(said: Option<Limit<T>>, others: &Option<T>) -> Option<T> {
            said.map_or_else(|| others.clone(), Limit::most)
        }
        let name = |a: &Api| match a {
            Api::Cuda => "cuda".to_string(),
            Api::Opencl => "opencl".to_string(),
        };
        let apis = self
            .api
            .map(|l| l.most().map(|all| all.iter().map(name).collect()));
        Rules {
            admin: self.admin.unwrap_or(others.admin),
            apis: apis.unwrap_or_else(|| others.apis.clone()),
            devices: or(self.devices, &others.devices),
            cpu: self.cpu.unwrap_or(others.cpu),
            sessions: or(self.sessions, &others.sessions),
            leases: or(self.leases, &others.leases),
            memory: self
                .memory
                .map_or(others.memory, |l| l.most().map(|Memory(n)| n)),
            share: self
                .share
                .map_or(others.share, |l| l.most().map(|Share(n)| n)),
            priority: or(self.priority, &others.priority),
            idle: or(self.idle_timeout, &others.idle),
            swap_idle: or(self.swap_idle, &others.swap_idle),
            opens: or(self.opens_per_minute, &others.opens),
            links: self.links.unwrap_or(others.links),
            dense: self.dense.unwrap_or(others.dense),
            rdma_device: self.rdma_device.or_else(|| others.rdma_device.clone()),
        }
    }
}

/// The name of a tenant.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let plain = !name.is_empty() && name.len() <= MOST_NAME;
        if plain && !name.contains(char::is_control) {
            return Ok(Self(name));
        }
        Err(D::Error::custom("no tenant can have this name"))
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    default: Entry,
    tenant: BTreeMap<Name, Entry>,
}

/// Reads what a file says.
pub fn parse(text: &str) -> Result<Policy, Mistake> {
    let file: File = toml::from_str(text).map_err(|e| mistake(text, &e))?;
    let others = file.default.over(&Rules::default());
    let named = file.tenant.into_iter();
    let tenants = named.map(|(name, e)| (name.0, e.over(&others))).collect();
    Ok(Policy::new(others, tenants))
}

fn mistake(text: &str, e: &toml::de::Error) -> Mistake {
    let before = e
        .span()
        .and_then(|s| text.get(..s.start))
        .unwrap_or_default();
    let in_line = before.rsplit('\n').next().unwrap_or_default();
    let what = e.message().trim().replace('\n', ", ");
    Mistake {
        line: before.matches('\n').count() + 1,
        column: in_line.chars().count() + 1,
        what: what
            .replace("unknown field", "there is no key")
            .replace("unknown variant", "there is no API")
            .replace(", expected one of", ": choose from")
            .replace(", expected `", ": choose from `"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_has_a_place_and_says_what_to_write() {
        let cases = [
            ("[default]\nsessions = -1", (2, 12), "a number from 0 on"),
            ("[default]\nsessions = \"many\"", (2, 12), "\"unlimited\""),
            ("[default]\n  sessions = [1]", (2, 14), "a number from 0 on"),
            (
                "[tenant.a]\nsesions = 1",
                (2, 1),
                "there is no key `sesions`: choose from `admin`",
            ),
            (
                "[tenants.a]\nsessions = 1",
                (1, 2),
                "there is no key `tenants`: choose from `default`",
            ),
            (
                "[tenant.a]\n\napi = [\"cuda\", \"vulkan\"]",
                (3, 16),
                "there is no API `vulkan`",
            ),
            ("[tenant.a]\ndevices = [0, -1]", (2, 15), "-1"),
            ("[tenant.a]\ndevices = 3", (2, 11), "a list of GPUs"),
            ("[tenant.a]\ncpu = \"no\"", (2, 7), "expected a boolean"),
            ("[tenant.a]\nmemory = 16", (2, 10), "\"16GiB\""),
            (
                "[tenant.a]\nmemory = \"16\"",
                (2, 10),
                "an amount of memory",
            ),
            ("[tenant.a]\nshare = 1.5", (2, 9), "0.25"),
            ("[tenant.a]\nshare = \"much\"", (2, 9), "0.25"),
            ("[tenant.a]\npriority = 0.5", (2, 12), "a number"),
            ("[tenant.a]\nidle_timeout = 600", (2, 16), "\"10m\""),
            ("[tenant.a]\nidle_timeout = \"0s\"", (2, 16), "\"10m\""),
            ("[tenant.a]\nsessions = 0.5", (2, 12), "a number"),
            (
                "[tenant.\"\"]\ncpu = true",
                (1, 9),
                "no tenant can have this name",
            ),
            ("[tenant.a\ncpu = true", (1, 10), "]"),
            ("# ä\n[tenant.a] [", (2, 12), ""),
            ("[tenant.a]\n[tenant.a]", (2, 9), "duplicate"),
        ];
        for (text, place, words) in cases {
            let e = parse(text).expect_err(text);
            assert!(e.what.contains(words), "{text}: {e}");
            assert_eq!((e.line, e.column), place, "{text}: {e}");
            assert_eq!(e.to_string().lines().count(), 1, "{e}");
        }
    }
}
