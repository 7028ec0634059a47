//! A fabric, for people.

use super::judge::{Finding, Seen};
use super::probe::Measured;
use super::ring::Ring;
use crate::table::{Column, Mood, Table};
use busbar_control::fabric::{Device, Net, Port};
use busbar_control::size;

/// What is said of something that a machine does not tell.
const UNTOLD: &str = "not readable";

/// Everything.
pub fn text(machines: &[Seen], pairs: &[Measured], rings: &[Ring], findings: &[Finding]) -> String {
    let mut parts = vec![devices(machines)];
    if !pairs.is_empty() {
        parts.push(between(pairs));
    }
    if !rings.is_empty() {
        parts.push(around(rings));
    }
    let mut last = String::new();
    for f in findings {
        let word = if f.fails { "FAIL" } else { "note" };
        last += &format!("{word}  {}: {}\n      {}\n", f.at, f.what, f.todo);
    }
    if findings.is_empty() {
        last = "nothing is wrong\n".into();
    }
    parts.push(last);
    parts.join("\n")
}

fn devices(machines: &[Seen]) -> String {
    let mut table = Table::new(&[
        Column::text("MACHINE"),
        Column::text("PORT"),
        Column::text("STATE"),
        Column::number("GBIT/S"),
        Column::text("DRIVER"),
        Column::text("FIRMWARE"),
        Column::text("NET"),
        Column::number("MTU"),
        Column::text("GIDS"),
        Column::text("PFC"),
        Column::text("ECN"),
        Column::text("DSCP"),
        Column::number("VFS"),
        Column::number("MEMLOCK"),
    ]);
    for m in machines {
        let mut any = false;
        for d in &m.machine.devices {
            for p in &d.ports {
                any = true;
                let mood = match &*p.state {
                    "ACTIVE" => Mood::Good,
                    _ => Mood::Bad,
                };
                table.row(row(m, d, p), mood);
            }
        }
        if !any {
            let what = if m.error.is_some() {
                "unknown"
            } else {
                "no RDMA device"
            };
            let mood = if m.here { Mood::Plain } else { Mood::Bad };
            table.row([m.name.clone(), what.into()], mood);
        }
    }
    table.text()
}

fn row(m: &Seen, d: &Device, p: &Port) -> Vec<String> {
    let or_dash = |s: &Option<String>| s.clone().unwrap_or("-".into());
    let none = Net::default();
    let net = p.net.as_ref().unwrap_or(&none);
    let set = |s: &Option<String>| match s.as_deref() {
        None => UNTOLD.into(),
        Some("") => "off".into(),
        Some(on) => on.to_string(),
    };
    let kinds = |kind: &str| {
        let of = p.gids.iter().filter(|g| g.kind.ends_with(kind));
        let all: Vec<_> = of.map(|g| g.index.to_string()).collect();
        (!all.is_empty()).then(|| format!("{kind}: {}", all.join(" ")))
    };
    let gids: Vec<_> = [kinds("v1"), kinds("v2")].into_iter().flatten().collect();
    let mark = match &m.sight.port {
        Some((device, port, _)) if *device == d.name && *port == p.number => "*",
        _ => "",
    };
    vec![
        m.name.clone(),
        format!("{}:{}{mark}", d.name, p.number),
        format!("{} {}", p.state, p.physical),
        p.rate.map_or("-".into(), |r| r.to_string()),
        match (&d.driver, &d.version) {
            (Some(driver), Some(version)) => format!("{driver} {version}"),
            (driver, _) => or_dash(driver),
        },
        or_dash(&d.firmware),
        if net.name.is_empty() {
            "-".into()
        } else {
            net.name.clone()
        },
        net.mtu.map_or("-".into(), |m| m.to_string()),
        if gids.is_empty() {
            p.gids.len().to_string()
        } else {
            gids.join(", ")
        },
        set(&net.pfc),
        set(&net.ecn),
        set(&net.dscp),
        d.functions
            .map_or("-".into(), |[now, most]| format!("{now}/{most}")),
        m.sight.memlock.map_or("unlimited".into(), size::show),
    ]
}

/// A number that may not be known.
fn or(n: Option<f64>, show: fn(f64) -> String) -> String {
    n.map_or("-".into(), show)
}

fn rate(gbps: Option<f64>) -> String {
    or(gbps, |n| format!("{n:.2}"))
}

/// Hundredths of the line rate.
fn share(rate: Option<f64>, line: Option<f64>) -> String {
    let of_line = rate.zip(line).map(|(r, l)| 100.0 * r / l);
    or(of_line, |n| format!("{n:.0}"))
}

fn between(pairs: &[Measured]) -> String {
    let mut table = Table::new(&[
        Column::text("FROM"),
        Column::text("TO"),
        Column::number("PACKET"),
        Column::number("LINE GBIT/S"),
        Column::number("WRITE GBIT/S"),
        Column::number("%"),
        Column::number("READ GBIT/S"),
        Column::number("%"),
        Column::number("LATENCY"),
        Column::number("P99"),
    ]);
    for p in pairs {
        let us: fn(f64) -> String = |n| format!("{n:.1} us");
        let row = [
            p.from.clone(),
            p.to.clone(),
            p.mtu.map_or("-".into(), |m| m.to_string()),
            or(p.line_gbps, |n| n.to_string()),
            rate(p.write_gbps),
            share(p.write_gbps, p.line_gbps),
            rate(p.read_gbps),
            share(p.read_gbps, p.line_gbps),
            or(p.latency_us, us),
            or(p.latency_p99_us, us),
        ];
        let mood = if p.why_not.is_some() {
            Mood::Bad
        } else {
            Mood::Plain
        };
        table.row(row, mood);
    }
    table.text()
}

fn around(rings: &[Ring]) -> String {
    let mut table = Table::new(&[
        Column::text("NCCL OVER"),
        Column::number("GPUS"),
        Column::text("NET"),
        Column::number("SIZE"),
        Column::number("TIME"),
        Column::number("BUS GBIT/S"),
        Column::number("LINE GBIT/S"),
        Column::number("%"),
    ]);
    for r in rings {
        let net = match r.network.as_str() {
            "" => "-",
            net => net,
        };
        let row = [
            r.names(),
            r.servers.len().to_string(),
            net.into(),
            size::show(r.bytes),
            or(r.time_us, |us| format!("{us:.0} us")),
            rate(r.bus_gbps),
            or(r.line_gbps, |n| n.to_string()),
            share(r.bus_gbps, r.line_gbps),
        ];
        let mood = match (&r.why_not, &r.refused) {
            (Some(_), _) => Mood::Bad,
            (_, Some(_)) => Mood::Taken,
            _ => Mood::Plain,
        };
        table.row(row, mood);
    }
    table.text()
}
