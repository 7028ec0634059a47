//! All that is known of GPUs, a value a line: `nvidia-smi -q`.

use super::card::Card;
use super::clock;
use super::fields;
use std::fmt::Write;

/// The column of the colons.
const COLON: usize = 42;

/// A part of what is known, which `-d` chooses by its word; values by their fields.
pub struct Section {
    word: &'static str,
    title: &'static str,
    rows: &'static [(&'static str, &'static str)],
}

const fn section(
    word: &'static str,
    title: &'static str,
    rows: &'static [(&'static str, &'static str)],
) -> Section {
    Section { word, title, rows }
}

/// The section of those that are on a GPU.
const PIDS: &str = "PIDS";

/// In nvidia-smi's order. The first has no title, and no word that chooses it.
const SECTIONS: &[Section] = &[
    section(
        "",
        "",
        &[
            ("Server", "server"),
            ("Product Name", "name"),
            ("Display Mode", "display_attached"),
            ("Display Active", "display_active"),
            ("Persistence Mode", "persistence_mode"),
            ("Serial Number", "serial"),
            ("GPU UUID", "uuid"),
            ("VBIOS Version", "vbios_version"),
            ("Driver Version", "driver_version"),
            ("Fan Speed", "fan.speed"),
        ],
    ),
    section("PERFORMANCE", "", &[("Performance State", "pstate")]),
    section(
        "MEMORY",
        "FB Memory Usage",
        &[
            ("Total", "memory.total"),
            ("Reserved", "memory.reserved"),
            ("Used", "memory.used"),
            ("Free", "memory.free"),
        ],
    ),
    section("COMPUTE", "", &[("Compute Mode", "compute_mode")]),
    section(
        "UTILIZATION",
        "Utilization",
        &[
            ("GPU", "utilization.gpu"),
            ("Memory", "utilization.memory"),
            ("Encoder", "utilization.encoder"),
            ("Decoder", "utilization.decoder"),
        ],
    ),
    section(
        "ECC",
        "ECC Mode",
        &[
            ("Current", "ecc.mode.current"),
            ("Pending", "ecc.mode.pending"),
        ],
    ),
    section(
        "TEMPERATURE",
        "Temperature",
        &[("GPU Current Temp", "temperature.gpu")],
    ),
    section(
        "POWER",
        "GPU Power Readings",
        &[
            ("Power Draw", "power.draw"),
            ("Current Power Limit", "power.limit"),
            ("Default Power Limit", "power.default_limit"),
            ("Min Power Limit", "power.min_limit"),
            ("Max Power Limit", "power.max_limit"),
        ],
    ),
    section(
        "CLOCK",
        "Clocks",
        &[
            ("Graphics", "clocks.current.graphics"),
            ("SM", "clocks.current.sm"),
            ("Memory", "clocks.current.memory"),
            ("Video", "clocks.current.video"),
        ],
    ),
    section(
        "CLOCK",
        "Max Clocks",
        &[
            ("Graphics", "clocks.max.graphics"),
            ("SM", "clocks.max.sm"),
            ("Memory", "clocks.max.memory"),
        ],
    ),
    section(PIDS, "Processes", &[]),
];

/// The sections that `-d` names with commas, or all; else the word that names none.
pub fn sections(words: Option<&str>) -> Result<Vec<&'static Section>, String> {
    let Some(words) = words else {
        return Ok(SECTIONS.iter().collect());
    };
    let words: Vec<_> = words.split(',').map(|w| w.trim().to_uppercase()).collect();
    let known = |w: &String| !w.is_empty() && SECTIONS.iter().any(|s| s.word == w);
    if let Some(none) = words.iter().find(|w| !known(w)) {
        return Err(none.clone());
    }
    let chosen = |s: &&Section| words.iter().any(|w| w == s.word);
    Ok(SECTIONS.iter().filter(chosen).collect())
}

/// The words of `-d`.
pub fn words() -> String {
    let mut words: Vec<_> = SECTIONS.iter().map(|s| s.word).collect();
    words.dedup();
    words.retain(|w| !w.is_empty());
    words.join(", ")
}

fn row(out: &mut String, indent: usize, label: &str, value: &str) {
    let label = format!("{:indent$}{label}", "");
    let _ = writeln!(out, "{label:<COLON$}: {value}");
}

/// These sections of some GPUs.
pub fn drawn(cards: &[Card<'_>], sections: &[&Section]) -> String {
    let mut out = String::from("\n==============NVSMI LOG==============\n\n");
    row(&mut out, 0, "Timestamp", &clock::long());
    let count = cards.first().map_or(0, |c| c.count);
    row(&mut out, 0, "Attached GPUs", &count.to_string());
    for card in cards {
        let place = card.bus().unwrap_or_else(|| card.index.to_string());
        let _ = writeln!(out, "GPU {place}");
        for s in sections {
            if s.word == PIDS {
                processes(&mut out, card);
                continue;
            }
            let mut indent = 4;
            if !s.title.is_empty() {
                let _ = writeln!(out, "    {}", s.title);
                indent = 8;
            }
            for (label, field) in s.rows {
                let value = fields::of(card, field);
                // With one's unit, as nvidia-smi has it here and not in its lists.
                let heat = if *field == "temperature.gpu" {
                    " C"
                } else {
                    ""
                };
                let value = value.map_or("N/A".into(), |v| v + heat);
                row(&mut out, indent, label, &value);
            }
        }
        out.push('\n');
    }
    out
}

fn processes(out: &mut String, card: &Card<'_>) {
    let all: Vec<_> = card.processes().collect();
    if all.is_empty() {
        row(out, 4, "Processes", "None");
        return;
    }
    let _ = writeln!(out, "    Processes");
    for p in all {
        row(out, 8, "Process ID", &p.session.pid.to_string());
        row(out, 12, "Type", "C");
        row(out, 12, "Name", &p.name());
        let memory = p.memory().map(|m| format!("{} MiB", m >> 20));
        row(
            out,
            12,
            "Used GPU Memory",
            &memory.unwrap_or_else(|| "N/A".into()),
        );
    }
}
