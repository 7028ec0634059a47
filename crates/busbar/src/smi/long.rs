//! All that is known of GPUs, a value a line: `nvidia-smi -q`.

use super::card::Card;
use super::readings::{Part, Section, head, process};
use std::fmt::Write;

/// The column of the colons.
const COLON: usize = 55;

fn row(out: &mut String, indent: usize, label: &str, value: Option<&str>) {
    let label = format!("{:indent$}{label}", "");
    let _ = writeln!(out, "{label:<COLON$}: {}", value.unwrap_or("N/A"));
}

/// These sections of some GPUs.
pub fn drawn(cards: &[Card<'_>], sections: &[&Section]) -> String {
    let mut out = String::from("\n==============NVSMI LOG==============\n\n");
    for (label, element, value) in head(cards) {
        // What is of the GPUs stands apart from what is of the machine.
        if element == "attached_gpus" {
            out.push('\n');
        }
        row(&mut out, 0, label, value.as_deref());
    }
    for card in cards {
        let _ = writeln!(out, "GPU {}", card.place_or_index());
        for s in sections {
            parts(&mut out, card, 4, s.parts);
        }
        out.push('\n');
    }
    out
}

fn parts(out: &mut String, card: &Card<'_>, indent: usize, all: &[Part]) {
    for part in all {
        match part {
            Part::Row(r) if r.label.is_empty() => {}
            Part::Row(r) => row(out, indent, r.label, r.value(card).as_deref()),
            Part::Group {
                title, parts: all, ..
            } => {
                let _ = writeln!(out, "{:indent$}{title}", "");
                parts(out, card, indent + 4, all);
            }
            Part::Processes => processes(out, card, indent),
        }
    }
}

fn processes(out: &mut String, card: &Card<'_>, indent: usize) {
    let all: Vec<_> = card.processes().collect();
    if all.is_empty() {
        row(out, indent, "Processes", Some("None"));
        return;
    }
    let _ = writeln!(out, "{:indent$}Processes", "");
    for p in all {
        let mut indent = indent + 4;
        for (label, element, value) in process(&p) {
            row(out, indent, label, value.as_deref());
            // What is said of a process stands under its number.
            if element == "pid" {
                indent += 4;
            }
        }
    }
}
