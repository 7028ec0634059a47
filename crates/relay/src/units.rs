//! Durations, rates, interruptions and presets as they are written on the command line.

use std::time::Duration;

use serde::Serialize;

/// What a link does to each direction of the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkSpec {
    /// One-way delay in nanoseconds.
    pub delay_ns: u64,
    /// Bits a second in each direction; `None` means no limit.
    pub rate_bps: Option<u64>,
    /// Each segment's delay varies uniformly by up to this much either way, in nanoseconds.
    pub jitter_ns: u64,
}

/// The links that have a name: name, one-way delay in ns, bits a second, what it stands for.
pub const PRESETS: [(&str, u64, Option<u64>, &str); 5] = [
    (
        "vmxnet3-10g",
        80_000,
        Some(4_750_000_000),
        "10 GbE between two virtual machines",
    ),
    (
        "ethernet-10g",
        25_000,
        Some(9_400_000_000),
        "10 GbE between two hosts",
    ),
    (
        "roce-100g",
        1_660,
        Some(96_000_000_000),
        "100 Gb/s RDMA-class network",
    ),
    (
        "wan-10ms",
        10_000_000,
        Some(1_000_000_000),
        "1 Gb/s at 10 ms one way",
    ),
    (
        "loopback",
        0,
        None,
        "no delay, no limit: what the relay itself costs",
    ),
];

/// Looks a preset up by name.
pub fn preset(name: &str) -> Result<LinkSpec, String> {
    let found = PRESETS.iter().find(|p| p.0 == name);
    let &(_, delay_ns, rate_bps, _) = found.ok_or_else(|| {
        let names: Vec<&str> = PRESETS.iter().map(|p| p.0).collect();
        format!(
            "no preset named {name:?}; the presets are {}",
            names.join(", ")
        )
    })?;
    Ok(LinkSpec {
        delay_ns,
        rate_bps,
        jitter_ns: 0,
    })
}

/// Splits `"80us"` into the number and its unit.
fn split_number(text: &str) -> Result<(f64, String), String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let value: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} does not start with a number"))?;
    Ok((value, unit.trim().to_ascii_lowercase()))
}

/// Parses a duration: `80us`, `1.66us`, `10ms`, `3s`, `500ns`, `2m`. A bare number must be zero.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (value, unit) = split_number(text)?;
    let scale = match unit.as_str() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "" if value == 0.0 => 1.0,
        _ => return Err(format!("{text:?} needs a unit: ns, us, ms, s or m")),
    };
    let ns = value * scale;
    // A day is far beyond any use, and keeps every sum of times within 64 bits.
    if ns > 86_400e9 {
        return Err(format!("{text:?} is longer than a day"));
    }
    Ok(Duration::from_nanos(ns.round() as u64))
}

/// Parses a rate in bits a second: `4.75gbit`, `100mbit`, `9.4g`, or `none` for no limit.
pub fn parse_rate(text: &str) -> Result<Option<u64>, String> {
    if text.trim().eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let (value, unit) = split_number(text)?;
    let scale = match unit.trim_end_matches("bit").trim_end_matches("bps") {
        "" if unit.is_empty() => return Err(format!("{text:?} needs a unit: kbit, mbit or gbit")),
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => {
            return Err(format!(
                "{text:?} is not a rate: write 4.75gbit, 100mbit or none"
            ));
        }
    };
    let bps = value * scale;
    if !(8_000.0..=1e13).contains(&bps) {
        return Err(format!("{text:?} is outside 8 kbit to 10 tbit"));
    }
    Ok(Some(bps.round() as u64))
}

/// An interruption planned for a given time after the relay has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When it begins, counted from the start of the relay.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
}

/// Parses `AT+FOR`, such as `5s+30s`.
pub fn parse_planned(text: &str) -> Result<Planned, String> {
    let (at, lasts) = text
        .split_once('+')
        .ok_or_else(|| format!("{text:?} is not AT+FOR, such as 5s+30s"))?;
    Ok(Planned {
        at: parse_duration(at)?,
        lasts: parse_duration(lasts)?,
    })
}

/// Writes a rate the way [`parse_rate`] reads it.
pub fn show_rate(rate: Option<u64>) -> String {
    match rate {
        None => "no limit".into(),
        Some(bps) if bps >= 1_000_000_000 => format!("{} Gb/s", bps as f64 / 1e9),
        Some(bps) => format!("{} Mb/s", bps as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("80us").unwrap(), Duration::from_micros(80));
        assert_eq!(
            parse_duration("1.66us").unwrap(),
            Duration::from_nanos(1660)
        );
        assert_eq!(parse_duration("0").unwrap(), Duration::ZERO);
        assert_eq!(parse_duration(" 3 s ").unwrap(), Duration::from_secs(3));
        for bad in [
            "",
            "80",
            "us",
            "-3s",
            "3 weeks",
            "1.2.3s",
            "1e9s",
            "99999999s",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(parse_rate("4.75gbit").unwrap(), Some(4_750_000_000));
        assert_eq!(parse_rate("100Mbit").unwrap(), Some(100_000_000));
        assert_eq!(parse_rate("9.4g").unwrap(), Some(9_400_000_000));
        assert_eq!(parse_rate("9600bit").unwrap(), Some(9600));
        assert_eq!(parse_rate("none").unwrap(), None);
        for bad in [
            "",
            "4.75",
            "gbit",
            "0gbit",
            "1tbit/s",
            "999999gbit",
            "4.75 GiB",
        ] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn planned_interruptions() {
        let planned = parse_planned("5s+30s").unwrap();
        assert_eq!(planned.at, Duration::from_secs(5));
        assert_eq!(planned.lasts, Duration::from_secs(30));
        assert!(parse_planned("5s").is_err());
        assert!(parse_planned("5s+").is_err());
    }

    #[test]
    fn presets_are_found_by_name() {
        let link = preset("vmxnet3-10g").unwrap();
        assert_eq!(
            (link.delay_ns, link.rate_bps),
            (80_000, Some(4_750_000_000))
        );
        assert_eq!(preset("loopback").unwrap(), LinkSpec::default());
        assert!(preset("token-ring").unwrap_err().contains("vmxnet3-10g"));
    }
}
