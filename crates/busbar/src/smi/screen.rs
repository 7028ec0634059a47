//! The table that nvidia-smi shows without arguments: one for the GPUs of each server, one for all
//! programs.

use super::card::{Card, Process};
use super::clock;
use super::fields::{MODES, of};
use busbar_control::gpu::Number;
use busbar_control::status::Status;
use std::fmt::Write;

/// Columns between the outer lines, and between all.
const WIDE: usize = 89;
const COLUMNS: [usize; 3] = [41, 24, 22];
/// What is shown where it is not known.
const UNKNOWN: &str = "N/A";

/// As much of a text as there is room for.
fn short(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.into();
    }
    let kept: String = text.chars().take(room - 3).collect();
    kept + "..."
}

/// A line between rows, of one mark.
fn line(mark: char) -> String {
    let part = |n: &usize| mark.to_string().repeat(*n);
    let parts: Vec<_> = COLUMNS.iter().map(part).collect();
    let edge = edge(mark);
    format!("{edge}{}{edge}\n", parts.join("+"))
}

fn edge(mark: char) -> char {
    if mark == '=' { '|' } else { '+' }
}

/// One over the whole width.
fn rule(mark: char) -> String {
    let edge = edge(mark);
    format!("{edge}{}{edge}\n", mark.to_string().repeat(WIDE))
}

fn row(cells: [String; 3]) -> String {
    format!("|{}|\n", cells.join("|"))
}

/// All of it.
pub fn drawn(up: &[(&str, &Status)], cards: &[Card<'_>]) -> String {
    let mut out = clock::long() + "\n";
    for (server, _) in up {
        let theirs: Vec<_> = cards.iter().filter(|c| c.server == *server).collect();
        if !theirs.is_empty() {
            out += &machine(server, &theirs);
        }
    }
    out.push('\n');
    out += &rule('-');
    out += &format!("| {:<88}|\n", "Processes:");
    out += "|  GPU   GI   CI              PID   Type   Process name                        \
            GPU Memory |\n";
    out += "|        ID   ID                                                               \
            Usage      |\n";
    out += &rule('=');
    let all: Vec<_> = cards.iter().flat_map(Card::processes).collect();
    out.extend(all.iter().map(process));
    if all.is_empty() {
        out += &format!("| {:<88}|\n", " No running processes found");
    }
    out + &rule('-')
}

/// A server's GPUs.
fn machine(server: &str, cards: &[&Card<'_>]) -> String {
    let driver = cards.iter().find_map(|c| c.driver());
    let driver = format!("Driver Version: {}", driver.as_deref().unwrap_or(UNKNOWN));
    let version = cards.iter().find_map(|c| c.cuda());
    let version = format!("CUDA Version: {}", version.as_deref().unwrap_or(UNKNOWN));
    let mut out = rule('-');
    let server = short(server, 32);
    let _ = writeln!(out, "| {server:<34}{driver:<31}{version:<23}|");
    out += &line('-');
    out += "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | \
            Volatile Uncorr. ECC |\n";
    out += "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | \
            GPU-Util  Compute M. |\n";
    out += "|                                         |                        | \
            \x20             MIG M. |\n";
    out += &line('=');
    for card in cards {
        out += &gpu(card);
        out += &line('-');
    }
    out
}

/// A GPU's three lines.
fn gpu(card: &Card<'_>) -> String {
    let number = |n: Number, unit: &str| {
        let value = card.number(n);
        value.map_or(UNKNOWN.into(), |v| format!("{v}{unit}"))
    };
    let switch = |n: Number| match card.number(n) {
        Some(0) => "Off",
        Some(_) => "On",
        None => UNKNOWN,
    };
    let watts = |n: Number| {
        let value = card.number(n);
        value.map_or(UNKNOWN.into(), |mw| format!("{:.0}W", mw as f64 / 1000.0))
    };
    let name = short(&card.name(), 27);
    let persists = switch(Number::Persistence);
    let first = format!("{:>4}  {name:<27} {persists:>5}  ", card.index);
    let second = format!(
        " {:>3}{:>6}{:>6}{:>16} / {:>5} ",
        number(Number::Fan, "%"),
        number(Number::Temperature, "C"),
        of(card, "pstate").unwrap_or_else(|| UNKNOWN.into()),
        watts(Number::Power),
        watts(Number::PowerLimit),
    );
    let bus = card.bus().unwrap_or_else(|| UNKNOWN.into());
    let place = format!("{bus:>19} {:>3} ", switch(Number::DisplayActive));
    let used = card.number(Number::MemoryUsed);
    let used = used.map_or(UNKNOWN.into(), |b| format!("{}MiB", b >> 20));
    let memory = format!("{used:>11} / {:>9} ", format!("{}MiB", card.memory() >> 20));
    // How many errors there were the server does not say.
    let ecc = match card.number(Number::Ecc) {
        Some(0) => "Off",
        _ => UNKNOWN,
    };
    let mode = card.number(Number::ComputeMode).map(|n| n as usize);
    let mode = match mode.and_then(|n| MODES.get(n)) {
        Some(m) => m.replace("Exclusive_", "E. "),
        None => UNKNOWN.into(),
    };
    let busy = format!("{:>8} {mode:>12} ", number(Number::Busy, "%"));
    let mig = match card.number(Number::Mig) {
        Some(0) => "Disabled",
        Some(_) => "Enabled",
        None => UNKNOWN,
    };
    let blank = |n: usize| " ".repeat(n);
    let rows = [
        [first, place, format!("{ecc:>21} ")],
        [second, memory, busy],
        [blank(COLUMNS[0]), blank(COLUMNS[1]), format!("{mig:>21} ")],
    ];
    rows.map(row).concat()
}

/// A program's line. What it has in a GPU that is cut to pieces, servers do not say.
fn process(p: &Process<'_>) -> String {
    let memory = p.memory().map(|b| format!("{}MiB", b >> 20));
    format!(
        "|{:>5}   N/A  N/A {:>16}      C   {:<34} {:>11} |\n",
        p.card.index,
        p.session.pid,
        short(&p.name(), 34),
        memory.unwrap_or_else(|| UNKNOWN.into()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smi::card::cards;
    use serde_json::json;

    #[test]
    fn programs_are_shown_on_the_gpus_that_they_may_use() {
        let device = |n: u32, name: &str| {
            json!({ "api": "cuda", "ordinal": n, "name": name, "memory": 150_754_820_096_u64,
                    "uuid": format!("{n:032x}"), "cuda": 13010, "pci": [0, 24 + n, 0] })
        };
        let numbers = json!({ "memory_total": 150_754_820_096_u64, "memory_used": 1_073_741_824,
                              "busy": 97, "temperature": 41, "power": 412_600,
                              "power_limit": 700_000, "performance_state": 0, "persistence": 1,
                              "display_active": 0, "compute_mode": 3, "mig": 0, "ecc": 1 });
        let of = |session: &str, devices: &[u32], program: &str| {
            json!({ "session": session, "api": "cuda", "devices": devices, "user": "ann",
                    "host": "laptop", "pid": 4711, "program": program,
                    "memory": { "device": { "pieces": 1, "bytes": 3_145_728, "most": 1 } } })
        };
        let other = json!({ "api": "opencl", "devices": [0], "session": "c", "program": "cl" });
        let document = json!({
            "devices": [device(0, "NVIDIA H200"),
                        device(1, "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
                        { "api": "opencl", "ordinal": 0, "name": "cpu" }],
            "gpus": { "driver": "580.82.07",
                      "gpus": { format!("{:032x}", 0): { "numbers": numbers } } },
            "sessions": [of("a", &[0], "/usr/bin/python\u{1b}[2J a/b"),
                         of("b", &[0, 1], "a program with a long name"), other],
        });
        let status: Status = serde_json::from_value(document).unwrap();
        let up = [("gpu-host:7400", &status)];
        let text = drawn(&up, &cards(&up));
        let (_, table) = text.split_once('\n').unwrap();
        let wanted = "\
+-----------------------------------------------------------------------------------------+
| gpu-host:7400                     Driver Version: 580.82.07      CUDA Version: 13.1     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H200                    On  |   00000000:18:00.0 Off |                  N/A |
| N/A   41C    P0            413W /  700W |    1024MiB / 143771MiB |     97%   E. Process |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA RTX PRO 6000 Blac...   N/A  |   00000000:19:00.0 N/A |                  N/A |
| N/A   N/A   N/A             N/A /   N/A |        N/A / 143771MiB |     N/A          N/A |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A             4711      C   ann@laptop python [2J a/b                 3MiB |
|    0   N/A  N/A             4711      C   ann@laptop a program with a lon...         N/A |
|    1   N/A  N/A             4711      C   ann@laptop a program with a lon...         N/A |
+-----------------------------------------------------------------------------------------+
";
        assert_eq!(table, wanted, "\n{table}");
    }
}
