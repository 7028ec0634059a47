//! The metrics, read as strictly as OpenMetrics is defined: by a parser that shares nothing with
//! what writes them.

mod common;

use common::{get, port};
use std::collections::{BTreeMap, BTreeSet};

/// What a page says.
#[derive(Debug, Default)]
struct Page {
    /// Types by name.
    kinds: BTreeMap<String, String>,
    /// Values by name and labels.
    samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

/// The labels of a sample, and what is behind them.
fn labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut all = BTreeMap::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"").expect("a label");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("the value ends") {
                (i, '"') => break i,
                (_, '\\') => value.push(match chars.next().expect("an escape").1 {
                    'n' => '\n',
                    c @ ('"' | '\\') => c,
                    c => panic!("an escape of {c}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(
            all.insert(name.to_string(), value).is_none(),
            "{name} twice"
        );
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return (all, rest.strip_prefix('}').expect("an end of labels")),
        }
    }
}

fn parse(text: &str) -> Page {
    let text = text.strip_suffix("# EOF\n").expect("an end");
    let mut page = Page::default();
    let mut family = String::new();
    let (mut helped, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, said) = help.split_once(' ').expect("a name and a text");
            assert!(
                helped.insert(name.to_string()) && !said.is_empty(),
                "{line}"
            );
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a type");
            assert!(helped.contains(name), "{line}: no help");
            assert!(seen.insert(name.to_string()), "{line}: twice");
            family = name.into();
            page.kinds.insert(name.into(), kind.into());
        } else {
            let end = line.find(['{', ' ']).expect("a sample");
            let (name, rest) = line.split_at(end);
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(plain), "{line}");
            let wanted = match page.kinds[&family].as_str() {
                "counter" => format!("{family}_total"),
                _ => family.clone(),
            };
            assert_eq!(name, wanted, "{line}: not of its family");
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) if !rest.starts_with('}') => labels(rest),
                Some(rest) => (BTreeMap::new(), &rest[1..]),
                None => (BTreeMap::new(), rest),
            };
            let value = value.strip_prefix(' ').expect("a blank");
            let value: f64 = value.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            let key = (name.to_string(), labels);
            assert!(page.samples.insert(key, value).is_none(), "{line}: twice");
        }
    }
    page
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let (at, _) = port(false);
    let said = get(at, "/metrics");
    let kind = said.header("content-type").unwrap_or_default();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"));
    let page = parse(&said.body);
    let one = |name: &str, labels: &[(&str, &str)]| {
        let own = labels.iter().map(|(n, v)| (n.to_string(), v.to_string()));
        let key = (name.to_string(), own.collect());
        *page
            .samples
            .get(&key)
            .unwrap_or_else(|| panic!("no {key:?}: {}", said.body))
    };
    // A name that tries to be more than a name.
    let tenant = ("tenant", "la\"b\\\n{x=\"1\"}");
    let row = [tenant, ("api", "cuda")];
    assert_eq!(one("busbar_sessions_opened_total", &row), 3.0);
    assert_eq!(one("busbar_records_total", &row), (1u64 << 60) as f64);
    assert_eq!(one("busbar_session_memory_bytes", &row), 8192.0);
    let state = [tenant, ("api", "cuda"), ("state", "disconnected")];
    assert_eq!(one("busbar_sessions", &state), 1.0);
    let device = [("device", "cuda:0")];
    assert_eq!(
        one("busbar_device_memory_bytes", &device),
        f64::from(1 << 30)
    );
    assert_eq!(one("busbar_device_sessions", &device), 2.0);
    assert!(one("busbar_device_temperature_celsius", &device) > 0.0);
    assert!(one("busbar_device_energy_joules_total", &device) > 0.0);
    let lab = [("tenant", "lab")];
    assert_eq!(one("busbar_leases", &lab), 1.0);
    assert_eq!(one("busbar_waiting", &lab), 1.0);
    assert!(one("busbar_waiting_seconds", &lab) > 1e9, "since 1970");
    let both = [tenant, ("device", "cuda:0")];
    assert_eq!(one("busbar_device_time_seconds_total", &both), 1.5);
    assert_eq!(one("busbar_refusals_total", &[("code", "token")]), 2.0);
    for name in page.kinds.keys() {
        assert!(name.starts_with("busbar_"), "{name}");
    }
}

/// The names of metrics that a text has.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let words = text.split(word).filter(|w| w.starts_with("busbar_"));
    words.map(String::from).collect()
}

#[test]
fn the_board_the_alerts_and_the_page_name_what_there_is() {
    let docs = |name: &str| {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let (at, known) = port(false);
    known.edit(|o| o.status.sessions[0].share = Some(1));
    let page = parse(&get(at, "/metrics").body);
    let there: BTreeSet<_> = page.samples.keys().map(|(name, _)| name.clone()).collect();
    let board = docs("metrics/grafana.json");
    serde_json::from_str::<serde_json::Value>(&board).expect("JSON");
    for text in [&board, &docs("metrics/alerts.yml")] {
        let used = named(text);
        assert!(used.len() > 3);
        for name in used {
            assert!(there.contains(&name), "there is no {name}");
        }
    }
    assert_eq!(
        named(&docs("metrics.md")),
        there,
        "docs/metrics.md has them all"
    );
}
