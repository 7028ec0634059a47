//! What the API answers with and takes: its own types, so that what travels between servers and
//! clients of Busbar can change without breaking anyone's script. Sizes are in bytes, times in
//! seconds, parts are parts of 1.

use busbar_control::gpu::{Gpu, Number};
use busbar_control::hello::Change;
use busbar_control::share::WHOLE;
use busbar_control::status::{self, Listed, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The server itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Server {
    /// Its release.
    pub version: String,
    /// The machine's name.
    pub host: String,
    /// Where programs reach it.
    pub address: String,
    /// When it was started, in seconds since 1970.
    pub started: u64,
    /// Whether it takes nothing new, because it was told to end.
    pub draining: bool,
    /// What keeps sessions of one tenant from others.
    pub isolation: String,
    /// Its sessions that the caller sees.
    pub sessions: usize,
    /// The most sessions that it takes at a time.
    pub most_sessions: usize,
    /// What its policy has against any session of the caller's.
    pub forbidden: Option<String>,
    /// The version of NVIDIA's driver, if there is one.
    pub driver: Option<String>,
    /// APIs without devices, and why.
    pub missing: Vec<Missing>,
}

/// An API that has no device here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Missing {
    /// The API.
    pub api: String,
    /// Why.
    pub why: String,
}

/// A device that the server offers, as one API reaches it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Device {
    /// Its API and number: `cuda:0`.
    pub id: String,
    /// The API that reaches it: `cuda`, `opencl`.
    pub api: String,
    /// The number that the API knows it by.
    pub ordinal: u32,
    /// `gpu`, or `cpu` where kernels run on the machine's processors.
    pub kind: String,
    /// What its vendor calls it.
    pub name: String,
    /// A name that no other device has; empty where there is none.
    pub uuid: String,
    /// Its memory.
    pub memory: u64,
    /// What of its memory is promised to sessions.
    pub memory_promised: u64,
    /// What of its time is promised to sessions.
    pub share_promised: f64,
    /// How many sessions use it.
    pub sessions: usize,
    /// Who has leased it.
    pub leased_by: Option<String>,
    /// Whether a session of the caller's would get it.
    pub yours: bool,
    /// What its sensors say, where there are some.
    pub telemetry: Option<Telemetry>,
}

/// What a GPU's sensors say. What a GPU does not tell is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Telemetry {
    /// The part of the last moments in which a kernel ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization: Option<f64>,
    /// The part of the last moments in which memory was read or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_utilization: Option<f64>,
    /// Memory that programs use, those outside of Busbar included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<u64>,
    /// Degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<u64>,
    /// Watts drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<f64>,
    /// Watts that may be drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_watts: Option<f64>,
    /// Joules drawn since the driver was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    /// The part of the fan's full speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fan: Option<f64>,
    /// The multiprocessors' clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_hertz: Option<u64>,
}

/// What a session does as the server sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has a connection.
    #[default]
    Connected,
    /// It has lost its connection and is kept for a while.
    Disconnected,
}

/// A session: one process of a program and one API.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Session {
    /// Its public name.
    pub name: String,
    /// Its API.
    pub api: String,
    /// What it does.
    pub state: State,
    /// Its devices.
    pub devices: Vec<String>,
    /// Whose it is; empty where the server asks nobody.
    pub tenant: String,
    /// The name of the token or certificate that it was opened with.
    pub token: String,
    /// The user, as the program's machine says.
    pub user: String,
    /// That machine, as it says.
    pub host: String,
    /// The program, likewise.
    pub program: String,
    /// Its process, likewise.
    pub pid: i32,
    /// Where its connection comes from.
    pub peer: String,
    /// Whether that is encrypted.
    pub encrypted: bool,
    /// When it was opened, in seconds since 1970.
    pub opened: u64,
    /// The lease that it belongs to, as far as that is shown.
    pub lease: Option<String>,
    /// What of its devices' time is promised to it.
    pub share: Option<f64>,
    /// That is others' at the moment: it has done nothing for long.
    pub lent: bool,
    /// Who goes first, the higher.
    pub priority: i32,
    /// Whether its kernels run beside those of its login's other dense sessions.
    pub dense: bool,
    /// Its device memory.
    pub memory: Memory,
    /// What it has had of each device that is had in turns.
    pub time: Vec<Time>,
    /// What its connections have carried, when its worker was asked last.
    pub traffic: Traffic,
    /// Why it does not go on, as far as the server knows.
    pub waits: Option<String>,
}

/// A session's device memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Memory {
    /// What it used when its worker was asked last.
    pub used: u64,
    /// The most that it may have, if there is a most.
    pub most: Option<u64>,
    /// Whether that is promised to it.
    pub promised: bool,
}

/// What a session has had of a device's time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Time {
    /// The device.
    pub device: String,
    /// Of the last second.
    pub last_second: f64,
    /// Of the last minute.
    pub last_minute: f64,
    /// In all, in seconds.
    pub used: f64,
    /// How long it has waited for its turn in all, in seconds.
    pub waited: f64,
}

/// Devices that are reserved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Lease {
    /// Its name, as far as that is shown.
    pub name: String,
    /// Who holds it.
    pub holder: String,
    /// Whose it is; empty where the server asks nobody.
    pub tenant: String,
    /// What is reserved, by ordinal.
    pub devices: Vec<u32>,
    /// What of each of these.
    pub part: Part,
    /// How many sessions it has.
    pub sessions: usize,
    /// When it ends if it has no session then, in seconds since 1970; absent where it lasts as long
    /// as the command that has it.
    pub ends: Option<u64>,
}

/// What is reserved of each device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Part {
    /// All of it.
    pub whole: bool,
    /// Else this much of its memory, promised.
    pub memory: Option<u64>,
    /// And this much of its time.
    pub share: Option<f64>,
}

/// Somebody who stands in line for devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Waiting {
    /// The name of the lease to be, as far as that is shown.
    pub name: String,
    /// Who waits.
    pub holder: String,
    /// Whose it is; empty where the server asks nobody.
    pub tenant: String,
    /// The place in line, from 1, among all who stand there.
    pub place: usize,
    /// Who goes first, the higher.
    pub priority: i32,
    /// Since when it waits, in seconds since 1970.
    pub since: u64,
    /// How many devices are wanted of this server.
    pub wanted: usize,
    /// What of each.
    pub part: Part,
    /// The devices that will do, by ordinal.
    pub devices: Vec<u32>,
    /// Those that it could have at the moment; nobody behind it gets them.
    pub offered: Vec<u32>,
    /// Some of those who stand before it and want some of the same devices.
    pub ahead: Vec<String>,
    /// Some of those who have these.
    pub holders: Vec<String>,
    /// Why it waits, for people to read.
    pub waits: String,
}

/// What a tenant has, and may have by the server's policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Quota {
    /// The tenant; empty where the server asks nobody.
    pub tenant: String,
    /// Whether the policy shows it what all tenants do.
    pub admin: bool,
    /// Sessions at a time.
    pub sessions: Used,
    /// Devices that its leases hold.
    pub leases: Used,
    /// Device memory that its sessions use together; the most is that of one session.
    pub memory: Used,
    /// The most of a device's time that one session is promised.
    pub share: Option<f64>,
    /// The highest priority of a session.
    pub priority: Option<i32>,
    /// Sessions and leases that it may open in a minute.
    pub opens: Option<u64>,
    /// The APIs that it may use; absent for all.
    pub apis: Option<Vec<String>>,
    /// The devices that it sees, by ordinal; absent for all.
    pub devices: Option<Vec<u32>>,
}

/// Something of which there may be a most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Used {
    /// What there is.
    pub used: u64,
    /// What there may be; absent for any number.
    pub most: Option<u64>,
}

/// The last day, a number for each step; `null` where nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct History {
    /// The time from one number to the next.
    pub step: u64,
    /// When each number was so, in seconds since 1970.
    pub times: Vec<u64>,
    /// The devices that the caller sees.
    pub devices: Vec<Past>,
}

/// The last day of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Past {
    /// The device.
    pub device: String,
    /// The part of the time in which a kernel ran.
    pub utilization: Vec<Option<f32>>,
    /// The part of its memory that was used.
    pub memory: Vec<Option<f32>>,
    /// How many sessions used it.
    pub sessions: Vec<Option<f32>>,
}

/// What a session's connections have carried since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Traffic {
    /// Records that were executed: calls, launches, copies.
    pub records: u64,
    /// Those that the program waited for.
    pub round_trips: u64,
    /// Bytes that came.
    pub received: u64,
    /// Bytes that went out.
    pub sent: u64,
}

/// What is to change of a session; what is not said stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Patch {
    /// What of its devices' time is promised to it; 0 for nothing.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: Option<f64>,
    /// Who goes first, the higher.
    pub priority: Option<i32>,
    /// The device memory that is promised to it; 0 for nothing.
    pub memory: Option<u64>,
}

/// What went wrong (RFC 9457).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`: `code` says which problem it is.
    pub r#type: String,
    /// What the status means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong, and what to do.
    pub detail: String,
    /// The kind of problem, for programs.
    pub code: String,
}

fn thousandths(n: u32) -> f64 {
    f64::from(n) / f64::from(WHOLE)
}

fn id(api: &str, ordinal: u32) -> String {
    format!("{api}:{ordinal}")
}

impl Telemetry {
    fn of(gpu: &Gpu) -> Self {
        let n = |n: Number| gpu.numbers.get(n.name()).copied();
        let scaled = |number, by: f64| n(number).map(|v| v as f64 / by);
        Self {
            utilization: scaled(Number::Busy, 100.0),
            memory_utilization: scaled(Number::MemoryBusy, 100.0),
            memory_used: n(Number::MemoryUsed),
            temperature_celsius: n(Number::Temperature),
            power_watts: scaled(Number::Power, 1000.0),
            power_limit_watts: scaled(Number::PowerEnforcedLimit, 1000.0),
            energy_joules: scaled(Number::Energy, 1000.0),
            fan: scaled(Number::Fan, 100.0),
            clock_hertz: n(Number::ClockSm).map(|mhz| mhz * 1_000_000),
        }
    }
}

/// The devices of a status document.
pub(crate) fn devices(s: &Status) -> Vec<Device> {
    let of = |l: &Listed| {
        let d = &l.device;
        let gpu = (d.api == "cuda").then(|| s.gpus.gpus.get(&d.uuid));
        Device {
            id: id(&d.api, d.ordinal),
            api: d.api.clone(),
            ordinal: d.ordinal,
            kind: d.kind.clone(),
            name: d.name.clone(),
            uuid: d.uuid.clone(),
            memory: d.memory,
            memory_promised: l.promised,
            share_promised: thousandths(l.promised_share),
            sessions: l.used_by,
            leased_by: l.lease.clone(),
            yours: l.yours,
            telemetry: gpu.flatten().map(Telemetry::of),
        }
    };
    s.devices.iter().map(of).collect()
}

/// Why a session does not go on.
fn waits(s: &status::Session) -> Option<String> {
    if !s.connected {
        return Some("for its program to connect again".into());
    }
    let turn = |t: &status::Time| t.waits.then_some("for its turn on a shared device");
    s.time.iter().flatten().find_map(turn).map(Into::into)
}

/// The sessions of a status document.
pub(crate) fn sessions(s: &Status) -> Vec<Session> {
    s.sessions.iter().map(session).collect()
}

fn session(s: &status::Session) -> Session {
    let time = s.devices.iter().zip(&s.time).filter_map(|(device, t)| {
        let t = t.as_ref()?;
        Some(Time {
            device: id(&s.api, *device),
            last_second: thousandths(t.second),
            last_minute: thousandths(t.minute),
            used: t.used_ms as f64 / 1000.0,
            waited: t.waited_ms as f64 / 1000.0,
        })
    });
    Session {
        name: s.session.clone(),
        api: s.api.clone(),
        state: match s.connected {
            true => State::Connected,
            false => State::Disconnected,
        },
        devices: s.devices.iter().map(|d| id(&s.api, *d)).collect(),
        tenant: s.tenant.clone(),
        token: s.token.clone(),
        user: s.user.clone(),
        host: s.host.clone(),
        program: s.program.clone(),
        pid: s.pid,
        peer: s.peer.clone(),
        encrypted: s.encrypted,
        opened: s.opened,
        lease: s.lease.clone(),
        share: s.share.map(thousandths),
        lent: s.lent,
        priority: s.priority,
        dense: s.dense,
        memory: Memory {
            used: s.holding.bytes(),
            most: s.memory_limit,
            promised: s.promised,
        },
        time: time.collect(),
        traffic: Traffic {
            records: s.holding.traffic.records,
            round_trips: s.holding.traffic.round_trips,
            received: s.holding.traffic.bytes_in,
            sent: s.holding.traffic.bytes_out,
        },
        waits: waits(s),
    }
}

fn part(whole: bool, memory: u64, share: u32) -> Part {
    Part {
        whole,
        memory: Some(memory).filter(|n| *n > 0),
        share: Some(share).filter(|n| *n > 0).map(thousandths),
    }
}

/// The leases of a status document, of a server that was started then.
pub(crate) fn leases(s: &Status, started: u64) -> Vec<Lease> {
    let of = |l: &status::Lease| Lease {
        name: l.lease.clone(),
        holder: l.holder.clone(),
        tenant: l.tenant.clone(),
        devices: l.devices.clone(),
        part: part(l.whole, l.memory, l.share),
        sessions: l.sessions,
        ends: l.until.map(|t| started + t),
    };
    s.leases.iter().map(of).collect()
}

/// Why somebody stands in line.
fn stands(w: &status::Waiting) -> String {
    let named = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let why = [named("behind", &w.ahead), named("held by", &w.holders)];
    let why: Vec<_> = why.into_iter().flatten().collect();
    match (w.offer.len() >= w.wanted, why.is_empty()) {
        (true, _) => "for devices of other servers: it can have what it wants of this one".into(),
        (_, true) => "for devices that are on offer to others".into(),
        _ => why.join("; "),
    }
}

/// The line of a status document.
pub(crate) fn waiting(s: &Status) -> Vec<Waiting> {
    let of = |w: &status::Waiting| Waiting {
        name: w.lease.clone(),
        holder: w.holder.clone(),
        tenant: w.tenant.clone(),
        place: w.place,
        priority: w.priority,
        since: w.since / 1000,
        wanted: w.wanted,
        part: part(w.whole, w.memory, w.share),
        devices: w.devices.clone(),
        offered: w.offer.clone(),
        ahead: w.ahead.clone(),
        holders: w.holders.clone(),
        waits: stands(w),
    };
    s.waiting.iter().map(of).collect()
}

/// The APIs without devices.
pub(crate) fn missing(s: &Status) -> Vec<Missing> {
    let of = |(api, why): &(String, String)| Missing {
        api: api.clone(),
        why: why.clone(),
    };
    s.missing.iter().map(of).collect()
}

/// Fills in what quotas do not know: the memory that a tenant's sessions use.
pub(crate) fn with_memory(mut quotas: Vec<Quota>, s: &Status) -> Vec<Quota> {
    let mut used = BTreeMap::<&str, u64>::new();
    for session in &s.sessions {
        *used.entry(&session.tenant).or_default() += session.holding.bytes();
    }
    for q in &mut quotas {
        q.memory.used = used.get(q.tenant.as_str()).copied().unwrap_or_default();
    }
    quotas
}

impl Patch {
    /// As the server is asked; an error is a sentence.
    pub(crate) fn change(self) -> Result<Change, String> {
        let share = match self.share {
            None => None,
            Some(0.0) => Some(0),
            Some(part) => Some(busbar_control::share::of(part).ok_or_else(|| {
                format!("a share of {part} makes no sense: say a part of 1, or 0 for none")
            })?),
        };
        if self == Self::default() {
            return Err("say what is to change: share, priority or memory".into());
        }
        Ok(Change {
            share,
            priority: self.priority,
            memory: self.memory,
            path: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_that_makes_sense() {
        let patch = |text: &str| serde_json::from_str::<Patch>(text);
        let change = |text| patch(text).expect("JSON").change();
        let c = change(r#"{"share":0.25,"priority":-1,"memory":7}"#).expect("good");
        assert_eq!(
            (c.share, c.priority, c.memory),
            (Some(250), Some(-1), Some(7))
        );
        assert_eq!(change(r#"{"share":0}"#).expect("good").share, Some(0));
        for bad in [
            "{}",
            r#"{"share":1.5}"#,
            r#"{"share":-0.5}"#,
            r#"{"share":1e-9}"#,
        ] {
            assert!(change(bad).is_err(), "{bad}");
        }
        for bad in [r#"{"shares":1}"#, r#"{"memory":-1}"#, r#"{"share":"x"}"#] {
            assert!(patch(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn readings_have_the_units_that_their_names_say() {
        let numbers = [
            (Number::Busy, 50),
            (Number::Power, 700_500),
            (Number::ClockSm, 1980),
        ];
        let mut gpu = Gpu::default();
        for (number, value) in numbers {
            gpu.numbers.insert(number.name().into(), value);
        }
        let t = Telemetry::of(&gpu);
        assert_eq!((t.utilization, t.power_watts), (Some(0.5), Some(700.5)));
        assert_eq!(t.clock_hertz, Some(1_980_000_000));
        let json = serde_json::to_value(t).expect("JSON");
        assert_eq!(json.get("fan"), None, "what is not known is absent");
    }
}
