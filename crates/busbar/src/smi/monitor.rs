//! A line a GPU or a program, sample after sample: `nvidia-smi dmon` and `nvidia-smi pmon`.

use super::card::{Card, Process};
use super::clock;
use super::fields::Value::{self, Gpu, Memory, Nowhere, Plain};
use super::fields::{Field, field};
use anyhow::{Result, bail};
use busbar_control::gpu::Number;

/// What is shown where it is not known.
const UNKNOWN: &str = "-";
/// As much of a program's name as there is room for.
const NAME: usize = 15;

/// Columns that a letter of `-s` chooses.
type Group = (char, &'static [Field]);

/// Whole watts.
fn watts(card: &Card<'_>) -> Option<String> {
    Some((card.number(Number::Power)? / 1000).to_string())
}

/// Those of GPUs.
const GPUS: &[Group] = &[
    (
        'p',
        &[
            field(&["pwr"], "W", Gpu(watts)),
            field(&["gtemp"], "C", Plain(Number::Temperature)),
            field(&["mtemp"], "C", Nowhere),
        ],
    ),
    (
        'u',
        &[
            field(&["sm"], "%", Plain(Number::Busy)),
            field(&["mem"], "%", Plain(Number::MemoryBusy)),
            field(&["enc"], "%", Plain(Number::EncoderBusy)),
            field(&["dec"], "%", Plain(Number::DecoderBusy)),
            field(&["jpg"], "%", Plain(Number::JpegBusy)),
            field(&["ofa"], "%", Plain(Number::FlowBusy)),
        ],
    ),
    (
        'c',
        &[
            field(&["mclk"], "MHz", Plain(Number::ClockMemory)),
            field(&["pclk"], "MHz", Plain(Number::ClockSm)),
        ],
    ),
    (
        'v',
        &[
            field(&["pviol"], "%", Nowhere),
            field(&["tviol"], "bool", Nowhere),
        ],
    ),
    (
        'm',
        &[
            field(&["fb"], "MB", Memory(Number::MemoryUsed)),
            field(&["bar1"], "MB", Memory(Number::Bar1Used)),
            field(&["ccpm"], "MB", Nowhere),
        ],
    ),
    (
        'e',
        &[
            field(&["sbecc"], "errs", Nowhere),
            field(&["dbecc"], "errs", Nowhere),
            field(&["pci"], "errs", Plain(Number::PcieReplays)),
        ],
    ),
    (
        't',
        &[
            field(&["rxpci"], "MB/s", Nowhere),
            field(&["txpci"], "MB/s", Nowhere),
        ],
    ),
];

/// Those of programs.
const PROGRAMS: &[Group] = &[
    (
        'u',
        &[
            field(
                &["sm"],
                "%",
                Value::Process(|p| Some(p.busy()?.to_string())),
            ),
            field(&["mem"], "%", Nowhere),
            field(&["enc"], "%", Nowhere),
            field(&["dec"], "%", Nowhere),
            field(&["jpg"], "%", Nowhere),
            field(&["ofa"], "%", Nowhere),
        ],
    ),
    (
        'm',
        &[
            field(
                &["fb"],
                "MB",
                Value::Process(|p| Some((p.memory()? >> 20).to_string())),
            ),
            field(&["ccpm"], "MB", Nowhere),
        ],
    ),
];

/// Which of them are of programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// `dmon`: a line a GPU.
    Gpus,
    /// `pmon`: a line a program.
    Programs,
}

impl What {
    fn groups(self) -> &'static [Group] {
        match self {
            Self::Gpus => GPUS,
            Self::Programs => PROGRAMS,
        }
    }
}

/// What is shown of each sample.
pub struct Monitor {
    what: What,
    columns: Vec<Field>,
    date: bool,
    time: bool,
}

impl Monitor {
    /// The columns of these letters, or the usual ones, in the letters' order, and before them what
    /// the letters of `-o` say of the time.
    pub fn new(what: What, letters: Option<&str>, stamps: &str) -> Result<Self> {
        let groups = what.groups();
        let letters = letters.unwrap_or(match what {
            What::Gpus => "puc",
            What::Programs => "u",
        });
        let mut columns = Vec::new();
        for letter in letters.chars() {
            let Some((_, group)) = groups.iter().find(|g| g.0 == letter) else {
                let all: String = groups.iter().map(|g| g.0).collect();
                bail!("-s: there is no `{letter}` here: say one or several of {all}");
            };
            columns.extend(group.iter().copied());
        }
        if let Some(other) = stamps.chars().find(|c| !"DT".contains(*c)) {
            bail!("-o: there is no `{other}` here: say D for the date, T for the time, or DT");
        }
        Ok(Self {
            what,
            columns,
            date: stamps.contains('D'),
            time: stamps.contains('T'),
        })
    }

    /// What stands before the columns: the time, as far as it is wanted, and the GPU.
    fn start(&self, date: &str, time: &str, gpu: &str) -> String {
        let stamps = [(self.date, date), (self.time, time)];
        let stamps = stamps.iter().filter(|s| s.0);
        let stamps: String = stamps.map(|s| format!(" {:<11}", s.1)).collect();
        format!("{stamps}{gpu:>5} ")
    }

    /// The two lines above all others: names and units.
    pub fn heading(&self) -> String {
        let line = |start: String, process: [&str; 3], of: fn(&Field) -> &str| {
            let each = self.columns.iter().map(|f| format!("{:>6} ", of(f)));
            let columns = each.collect::<String>();
            let [pid, kind, name] = process;
            let line = match self.what {
                What::Gpus => start + &columns,
                What::Programs => format!("{start}{pid:>11} {kind:>6} {columns}   {name} "),
            };
            line.replacen(' ', "#", 1) + "\n"
        };
        let names = self.start("Date", "Time", "gpu");
        let units = self.start("YYYYMMDD", "HH:MM:SS", "Idx");
        let names = line(names, ["pid", "type", "command"], |f| f.names[0]);
        names + &line(units, ["#", "C/G", "name"], |f| f.unit)
    }

    /// A sample.
    pub fn lines(&self, cards: &[Card<'_>]) -> Vec<String> {
        let (date, time) = clock::stamps();
        let of = |c: &Card<'_>| {
            let start = self.start(&date, &time, &c.index.to_string());
            if self.what == What::Gpus {
                return vec![format!("{start}{}\n", self.values(c, None))];
            }
            let line = |p: Option<&Process<'_>>| {
                let pid = p.map_or(UNKNOWN.into(), |p| p.session.pid.to_string());
                let kind = p.map_or(UNKNOWN, |_| "C");
                let name = p.map_or(UNKNOWN.into(), Process::command);
                let name: String = name.chars().take(NAME).collect();
                let values = self.values(c, p);
                format!("{start}{pid:>10} {kind:>5} {values}   {name:<NAME$}\n")
            };
            let lines: Vec<_> = c.processes().map(|p| line(Some(&p))).collect();
            match lines.is_empty() {
                // A GPU without programs has a line, too.
                true => vec![line(None)],
                false => lines,
            }
        };
        cards.iter().flat_map(of).collect()
    }

    fn values(&self, card: &Card<'_>, process: Option<&Process<'_>>) -> String {
        let value = |f: &Field| {
            let value = f.value(card, process);
            format!("{:>6} ", value.as_deref().unwrap_or(UNKNOWN))
        };
        self.columns.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smi::card::cards;
    use busbar_control::status::Status;
    use serde_json::json;

    fn heading(what: What, letters: Option<&str>, stamps: &str) -> String {
        Monitor::new(what, letters, stamps).unwrap().heading()
    }

    #[test]
    fn headings_are_as_nvidias() {
        assert_eq!(
            heading(What::Gpus, None, ""),
            "\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n\
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz \n"
        );
        assert_eq!(
            heading(What::Gpus, Some("met"), "TD"),
            "\
#Date        Time         gpu     fb   bar1   ccpm  sbecc  dbecc    pci  rxpci  txpci \n\
#YYYYMMDD    HH:MM:SS     Idx     MB     MB     MB   errs   errs   errs   MB/s   MB/s \n"
        );
        assert_eq!(
            heading(What::Programs, Some("um"), ""),
            "\
# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command \n\
# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name \n"
        );
    }

    #[test]
    fn programs_have_lines_and_so_have_gpus_without() {
        let device = |n: u32| json!({ "api": "cuda", "ordinal": n, "uuid": format!("{n:032x}") });
        let document = json!({
            "devices": [device(0), device(1)],
            "sessions": [
                { "session": "a", "api": "cuda", "devices": [0], "pid": 1312,
                  "time": [{ "second": 247 }], "program": "/opt/a-program-with-a-long-name -x /y",
                  "memory": { "device": { "pieces": 1, "bytes": 101_711_872, "most": 1 } } },
            ],
        });
        let status: Status = serde_json::from_value(document).unwrap();
        let monitor = Monitor::new(What::Programs, Some("um"), "").unwrap();
        assert_eq!(
            monitor.lines(&cards(&[("a", &status)])).concat(),
            "    0       1312     C     24      -      -      -      -      -     97      -    \
             a-program-with-\n    \
             1          -     -      -      -      -      -      -      -      -      -    \
             -              \n"
        );
    }
}
