//! `/metrics`, as OpenMetrics text, which Prometheus reads.

use crate::api::{Device, Waiting};
use crate::app::Seen;
use crate::backend::Row;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The document's type.
pub(crate) const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// A number with its labels.
type Sample<'a> = (Labels<'a>, f64);

#[derive(Debug)]
struct Reading(Arc<Seen>);

struct Page<'a, 'e>(&'a mut DescriptorEncoder<'e>);

impl Page<'_, '_> {
    /// A metric and its samples; one without samples is left out.
    fn metric(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        samples: &[Sample<'_>],
    ) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let counts = matches!(kind, MetricType::Counter);
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in samples {
            let mut one = metric.encode_family(labels)?;
            match counts {
                true => one.encode_counter::<NoLabelSet, f64, f64>(value, None)?,
                false => one.encode_gauge(value)?,
            }
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, samples: &[Sample<'_>]) -> fmt::Result {
        self.metric(MetricType::Gauge, name, help, samples)
    }

    fn counter(&mut self, name: &str, help: &str, samples: &[Sample<'_>]) -> fmt::Result {
        self.metric(MetricType::Counter, name, help, samples)
    }
}

/// What a metric is called, what it means, and where its number is.
type Of<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

fn known(n: u64) -> Option<f64> {
    Some(n as f64)
}

const DEVICE_GAUGES: &[Of<Device>] = &[
    ("busbar_device_memory_bytes", "Memory of a device", |d| {
        known(d.memory)
    }),
    (
        "busbar_device_memory_promised_bytes",
        "Memory of a device that is promised to sessions",
        |d| known(d.memory_promised),
    ),
    (
        "busbar_device_share_promised_ratio",
        "Part of a device's time that is promised to sessions",
        |d| Some(d.share_promised),
    ),
    (
        "busbar_device_sessions",
        "Sessions that use a device",
        |d| known(d.sessions as u64),
    ),
    (
        "busbar_device_leased",
        "Whether a device is leased (1) or not (0)",
        |d| known(d.leased_by.is_some().into()),
    ),
    (
        "busbar_device_utilization_ratio",
        "Part of the last moments in which a kernel ran",
        |d| d.telemetry?.utilization,
    ),
    (
        "busbar_device_memory_utilization_ratio",
        "Part of the last moments in which device memory was read or written",
        |d| d.telemetry?.memory_utilization,
    ),
    (
        "busbar_device_memory_used_bytes",
        "Memory that programs use, those outside of Busbar included",
        |d| d.telemetry?.memory_used.map(|n| n as f64),
    ),
    (
        "busbar_device_temperature_celsius",
        "Temperature of a device",
        |d| d.telemetry?.temperature_celsius.map(|n| n as f64),
    ),
    (
        "busbar_device_power_watts",
        "Power that a device draws",
        |d| d.telemetry?.power_watts,
    ),
    (
        "busbar_device_power_limit_watts",
        "Power that a device may draw",
        |d| d.telemetry?.power_limit_watts,
    ),
    (
        "busbar_device_fan_ratio",
        "Part of the fan's full speed",
        |d| d.telemetry?.fan,
    ),
    (
        "busbar_device_clock_hertz",
        "Clock of a device's multiprocessors",
        |d| d.telemetry?.clock_hertz.map(|n| n as f64),
    ),
];

const ROW_COUNTERS: &[Of<Row>] = &[
    ("busbar_sessions_opened", "Sessions that were opened", |r| {
        known(r.opened)
    }),
    ("busbar_sessions_ended", "Sessions that have ended", |r| {
        known(r.ended)
    }),
    (
        "busbar_session_resumes",
        "Times that a session went on over another connection",
        |r| known(r.resumed),
    ),
    (
        "busbar_records",
        "Records that workers have executed: calls, launches, copies",
        |r| known(r.traffic.records),
    ),
    (
        "busbar_round_trips",
        "Records whose answer a program waited for",
        |r| known(r.traffic.round_trips),
    ),
    (
        "busbar_received_bytes",
        "Bytes that sessions' connections brought",
        |r| known(r.traffic.bytes_in),
    ),
    (
        "busbar_sent_bytes",
        "Bytes that went out over sessions' connections",
        |r| known(r.traffic.bytes_out),
    ),
];

fn of_device(d: &Device) -> Labels<'_> {
    vec![("device", &d.id)]
}

fn of_row(r: &Row) -> Labels<'_> {
    vec![("tenant", &r.tenant), ("api", &r.api)]
}

/// A sample of each that has the number.
fn each<'a, T>(
    all: &'a [T],
    labels: impl Fn(&'a T) -> Labels<'a>,
    number: impl Fn(&'a T) -> Option<f64>,
) -> Vec<Sample<'a>> {
    let samples = all.iter().filter_map(|t| Some((labels(t), number(t)?)));
    samples.collect()
}

fn sessions(rows: &[Row]) -> Vec<Sample<'_>> {
    let of = |r| {
        let state = |name, n: u64| {
            let labels = [of_row(r), vec![("state", name)]].concat();
            (labels, n as f64)
        };
        [
            state("connected", r.connected),
            state("disconnected", r.disconnected),
        ]
    };
    rows.iter().flat_map(of).collect()
}

fn times(rows: &[Row], ms: impl Fn(&crate::backend::Had) -> u64) -> Vec<Sample<'_>> {
    let mut all = Vec::new();
    for r in rows {
        for (device, had) in &r.time {
            let labels = vec![("tenant", r.tenant.as_str()), ("device", device.as_str())];
            all.push((labels, ms(had) as f64 / 1000.0));
        }
    }
    all
}

/// A number for each tenant.
fn tenants<'a>(
    each: impl Iterator<Item = (&'a str, f64)>,
    sum: fn(f64, f64) -> f64,
) -> Vec<Sample<'a>> {
    let mut all = BTreeMap::<&str, f64>::new();
    for (tenant, n) in each {
        let so_far = all.entry(tenant).or_default();
        *so_far = sum(*so_far, n);
    }
    let labelled = all.into_iter().map(|(t, n)| (vec![("tenant", t)], n));
    labelled.collect()
}

/// Who has leases, and who waits for some.
fn line(s: &Seen, page: &mut Page<'_, '_>) -> fmt::Result {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |d| d.as_secs());
    let leases = s.leases.iter().map(|l| (&*l.tenant, 1.0));
    page.gauge("busbar_leases", "Leases", &tenants(leases, |a, b| a + b))?;
    let waiting = s.waiting.iter().map(|w| (&*w.tenant, 1.0));
    let help = "Programs that stand in line for devices";
    page.gauge("busbar_waiting", help, &tenants(waiting, |a, b| a + b))?;
    let long = |w: &Waiting| now.saturating_sub(w.since) as f64;
    let longest = s.waiting.iter().map(|w| (&*w.tenant, long(w)));
    let help = "How long the one waits that has waited longest";
    page.gauge("busbar_waiting_seconds", help, &tenants(longest, f64::max))
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (s, mut page) = (&*self.0, Page(&mut encoder));
        let server = &s.server;
        let none = |n: f64| [(Vec::new(), n)];
        let version = [(vec![("version", server.version.as_str())], 1.0)];
        page.gauge("busbar_build_info", "The server's release", &version)?;
        let started = none(server.started as f64);
        let help = "When the server was started, in seconds since 1970";
        page.gauge("busbar_start_time_seconds", help, &started)?;
        let draining = none(f64::from(u8::from(server.draining)));
        let help = "Whether the server takes nothing new (1)";
        page.gauge("busbar_draining", help, &draining)?;
        let most = none(server.most_sessions as f64);
        let help = "The most sessions that the server takes";
        page.gauge("busbar_sessions_limit", help, &most)?;
        page.gauge("busbar_sessions", "Sessions", &sessions(&s.rows))?;
        let memory = each(&s.rows, of_row, |r| known(r.memory));
        let help = "Device memory that sessions use";
        page.gauge("busbar_session_memory_bytes", help, &memory)?;
        for (name, help, number) in ROW_COUNTERS {
            page.counter(name, help, &each(&s.rows, of_row, number))?;
        }
        let help = "Time of a device that a tenant's sessions had, where there are turns";
        page.counter(
            "busbar_device_time_seconds",
            help,
            &times(&s.rows, |h| h.used_ms),
        )?;
        let help = "Time that a tenant's sessions waited for their turn";
        page.counter(
            "busbar_turn_wait_seconds",
            help,
            &times(&s.rows, |h| h.waited_ms),
        )?;
        let shares = each(
            &s.sessions,
            |s| vec![("tenant", &s.tenant), ("session", &s.name)],
            |s| s.share,
        );
        let help = "Part of its devices' time that is promised to a session, if any is";
        page.gauge("busbar_session_share_ratio", help, &shares)?;
        line(s, &mut page)?;
        let info = each(
            &s.devices,
            |d| vec![("device", &d.id), ("name", &d.name), ("uuid", &d.uuid)],
            |_| Some(1.0),
        );
        page.gauge("busbar_device_info", "Devices", &info)?;
        for (name, help, number) in DEVICE_GAUGES {
            page.gauge(name, help, &each(&s.devices, of_device, number))?;
        }
        let energy = each(&s.devices, of_device, |d| d.telemetry?.energy_joules);
        let help = "Energy that a device has drawn since its driver was loaded";
        page.counter("busbar_device_energy_joules", help, &energy)?;
        let refused: Vec<_> = s.refusals.iter().collect();
        let refused = each(&refused, |r| vec![("code", r.0)], |r| known(*r.1));
        page.counter("busbar_refusals", "Clients that were refused", &refused)
    }
}

/// The document.
pub(crate) fn page(seen: Arc<Seen>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Reading(seen)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(out)
}
