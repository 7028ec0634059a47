//! How GPUs reach each other: `nvidia-smi topo`. What the status says of that, and of links that it
//! does not count, the server's NVML.

use super::card::Card;
use anyhow::{Result, bail};
use busbar_control::gpu::{Arg, Question, Said};
use busbar_control::text::{from_hex, to_hex};
use std::collections::HashMap;

/// Where a server's NVML is asked.
pub type Ask<'a> = &'a dyn Fn(&str, Question) -> Option<Said>;

/// What is to be shown.
#[derive(Debug, PartialEq, Eq)]
pub enum Topology {
    /// How near they are to each other, and to what else.
    Matrix,
    /// Whether they can do all of that between them, by its number among [`LETTERS`].
    Peers(Vec<usize>),
}

/// The letters of `-p2p`, in NVML's order.
const LETTERS: &str = "rwnap";
/// Which of them is NVLink.
const NVLINK: usize = 2;
/// Two GPUs can.
const CAN: u32 = 0;

/// What NVML calls the number of a GPU's links, and of those of them that end at a switch.
const LINKS: u32 = 91;
const LINKS_TO_SWITCH: u32 = 147;
/// Bytes of one of its fields, and where in these is what.
const FIELD: usize = 40;
const FIELD_CODE: usize = 28;
const FIELD_VALUE: usize = 32;
/// Bytes of what it says of a place on the bus, and where in these its numbers are.
const PLACE: usize = 68;
const PLACE_NUMBERS: usize = 16;

/// As many links as a GPU may have, whatever a server says.
const MOST: u64 = 64;

const LEGEND: &str = "
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes \
  (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within \
  a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
";

const PEERS_LEGEND: &str = "
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  U    = Unknown
";

impl Topology {
    /// That of letters of `-p2p`.
    pub fn peers(letters: &str) -> Result<Self> {
        let at = |letter: char| LETTERS.chars().position(|c| c == letter);
        let kinds: Option<Vec<_>> = letters.chars().map(at).collect();
        match kinds.filter(|k| !k.is_empty()) {
            Some(kinds) => Ok(Self::Peers(kinds)),
            None => bail!(
                "-p2p: there is no `{letters}` here: say r (read), w (write), n (NVLink), a \
                 (atomics) or p (PCIe)"
            ),
        }
    }

    /// It, of some GPUs.
    pub fn drawn(&self, cards: &[Card<'_>], ask: Ask<'_>) -> String {
        match self {
            Self::Matrix => matrix(cards, ask),
            Self::Peers(kinds) => peers(cards, kinds),
        }
    }
}

/// The line of GPUs above all others, which terminals show underlined.
fn heading(start: &str, cards: &[Card<'_>], rest: &str) -> String {
    let line = anstyle::Style::new().underline();
    let names: Vec<_> = cards.iter().map(|c| format!("GPU{}\t", c.index)).collect();
    format!("{start}{line}{}{rest}{line:#}\n", names.concat())
}

fn matrix(cards: &[Card<'_>], ask: Ask<'_>) -> String {
    let mut links = Links {
        ask,
        all: HashMap::new(),
    };
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
    let processors = online.map_or("N/A".into(), |t| t.trim().to_string());
    let mut out = heading("\t", cards, "CPU Affinity\tNUMA Affinity\tGPU NUMA ID");
    for a in cards {
        out += &format!("GPU{}\t", a.index);
        for b in cards {
            out += &links.between(a, b);
            out.push('\t');
        }
        // Over a network all processors and all memory are as near.
        out += &format!("{processors}\tN/A\t\tN/A\n");
    }
    out + LEGEND
}

/// The links of GPUs by their UUIDs, as far as they were asked for.
struct Links<'a> {
    ask: Ask<'a>,
    all: HashMap<String, Option<Ends>>,
}

/// Where a GPU's links end.
#[derive(Clone)]
enum Ends {
    /// So many at a switch, from which they get to all GPUs.
    Switch(u64),
    /// Each at one of these places.
    Places(Vec<[u32; 3]>),
}

impl Links<'_> {
    /// What is between two GPUs.
    fn between(&mut self, a: &Card<'_>, b: &Card<'_>) -> String {
        if a.index == b.index {
            return " X ".into();
        }
        if a.server != b.server {
            return "SYS".into();
        }
        let Some(link) = a.link(b) else {
            return "N/A".into();
        };
        if link.p2p.get(NVLINK).copied().flatten() == Some(CAN) {
            let number = self.number(a, b);
            return format!("NV{}", number.map_or("#".into(), |n| n.to_string()));
        }
        // Where their ways meet, as NVML numbers levels.
        let meet = match link.ancestor {
            Some(0 | 10) => "PIX",
            Some(20) => "PXB",
            Some(30) => "PHB",
            Some(40) => "NODE",
            Some(50) => "SYS",
            _ => "N/A",
        };
        meet.into()
    }

    /// How many links two GPUs have between them.
    fn number(&mut self, a: &Card<'_>, b: &Card<'_>) -> Option<u64> {
        match (self.ends(a)?, self.ends(b)?) {
            (Ends::Switch(a), Ends::Switch(b)) => Some(a.min(b)),
            (Ends::Places(places), _) => {
                let place = b.listed.device.pci?;
                let n = places.iter().filter(|p| **p == place).count() as u64;
                (n > 0).then_some(n)
            }
            _ => None,
        }
    }

    fn ends(&mut self, card: &Card<'_>) -> Option<Ends> {
        let uuid = card.listed.device.uuid.clone();
        let ask = self.ask;
        self.all
            .entry(uuid)
            .or_insert_with(|| ends(card, ask))
            .clone()
    }
}

/// What NVML says of a GPU's links.
fn ends(card: &Card<'_>, ask: Ask<'_>) -> Option<Ends> {
    let ask = |function: &str, arg: u32, bytes: &[u8]| {
        let question = Question {
            function: function.into(),
            gpu: card.listed.device.uuid.clone(),
            args: vec![
                Arg::Gpu,
                Arg::Value(arg.into()),
                Arg::Bytes(Some(to_hex(bytes))),
            ],
        };
        let said = ask(card.server, question)?;
        let bytes = from_hex(said.bytes.first()?)?;
        (said.code == 0).then_some(bytes)
    };
    let number = |bytes: &[u8], at: usize| {
        let part = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(part.try_into().ok()?))
    };
    let mut fields = [0; 2 * FIELD];
    for (field, id) in fields.chunks_mut(FIELD).zip([LINKS, LINKS_TO_SWITCH]) {
        field[..4].copy_from_slice(&id.to_le_bytes());
    }
    let said = ask("nvmlDeviceGetFieldValues", 2, &fields)?;
    let count = |field: usize| {
        let known = number(&said, field * FIELD + FIELD_CODE)? == 0;
        let value = number(&said, field * FIELD + FIELD_VALUE)?;
        known.then_some(u64::from(value))
    };
    match count(1) {
        Some(n) if n > 0 => return Some(Ends::Switch(n)),
        _ => {}
    }
    let place = |link| {
        let said = ask("nvmlDeviceGetNvLinkRemotePciInfo_v2", link, &[0; PLACE])?;
        let part = |i: usize| number(&said, PLACE_NUMBERS + 4 * i);
        Some([part(0)?, part(1)?, part(2)?])
    };
    let links = 0..count(0)?.min(MOST) as u32;
    Some(Ends::Places(links.filter_map(place).collect()))
}

fn peers(cards: &[Card<'_>], kinds: &[usize]) -> String {
    let status = |a: &Card<'_>, b: &Card<'_>| {
        if a.index == b.index {
            return "X";
        }
        if a.server != b.server {
            return "NS";
        }
        let said = |kind: &usize| a.link(b)?.p2p.get(*kind).copied().flatten();
        let mut all = kinds.iter().map(said);
        // What two GPUs cannot do says more than what they can.
        match all.find(|said| *said != Some(CAN)) {
            None => "OK",
            Some(Some(1)) => "CNS",
            Some(Some(2)) => "GNS",
            Some(Some(3)) => "TNS",
            // Turned off by whoever runs the server, or not there.
            Some(Some(4 | 5)) => "NS",
            Some(_) => "U",
        }
    };
    let mut out = heading(" \t", cards, "");
    for a in cards {
        let each = cards.iter().map(|b| format!("{}\t", status(a, b)));
        out += &format!(" GPU{}\t{}\n", a.index, each.collect::<String>());
    }
    out + PEERS_LEGEND
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smi::card::cards;
    use busbar_control::status::Status;
    use serde_json::json;
    use std::cell::Cell;

    /// Three GPUs of a server: the first two have links that the status does not count.
    fn status() -> Status {
        let uuid = |n: u32| format!("{n:032x}");
        let device = |n: u32| {
            let place = [0, 24 + n, 0];
            json!({ "api": "cuda", "ordinal": n, "uuid": uuid(n), "pci": place })
        };
        let link = |ancestor: u32, nvlink: u32| {
            let p2p = [0, 4, nvlink, 1, 2];
            json!({ "ancestor": ancestor, "p2p": p2p })
        };
        let links = |to: [(u32, serde_json::Value); 2]| {
            let [a, b] = to.map(|(n, link)| (uuid(n), link));
            json!({ "links": { a.0: a.1, b.0: b.1 } })
        };
        let document = json!({
            "devices": [device(0), device(1), device(2)],
            "gpus": { "gpus": {
                uuid(0): links([(1, link(50, 0)), (2, link(10, 5))]),
                uuid(1): links([(0, link(50, 0)), (2, link(40, 5))]),
                uuid(2): links([(0, link(10, 5)), (1, link(77, 5))]),
            } },
        });
        serde_json::from_value(document).unwrap()
    }

    /// An answer to the question for fields: so many links, and so many at a switch.
    fn fields(links: u32, to_switch: Option<u32>) -> Option<Said> {
        let mut bytes = [0; 2 * FIELD];
        bytes[FIELD_VALUE..][..4].copy_from_slice(&links.to_le_bytes());
        let second = &mut bytes[FIELD..];
        second[FIELD_VALUE..][..4].copy_from_slice(&to_switch.unwrap_or(9).to_le_bytes());
        second[FIELD_CODE] = if to_switch.is_some() { 0 } else { 3 };
        let bytes = vec![to_hex(&bytes)];
        Some(Said { code: 0, bytes })
    }

    fn rows(ask: Ask<'_>) -> Vec<String> {
        let status = status();
        let text = Topology::Matrix.drawn(&cards(&[("a", &status)]), ask);
        let row = |l: &str| l.split('\t').skip(1).take(3).collect::<Vec<_>>().join(",");
        text.lines().skip(1).take(3).map(row).collect()
    }

    #[test]
    fn links_are_counted_by_where_they_end() {
        let asked = Cell::new(0);
        let by_place = |_: &str, q: Question| {
            asked.set(asked.get() + 1);
            let [_, Arg::Value(n), _] = q.args[..] else {
                panic!("{q:?}");
            };
            if q.function == "nvmlDeviceGetFieldValues" {
                return fields(6, None);
            }
            // Four of the first one's are at the second, one is elsewhere, and one is not there.
            let mut bytes = [0; PLACE];
            bytes[PLACE_NUMBERS + 4] = if n < 4 { 25 } else { 99 };
            let code = u32::from(n == 5);
            let bytes = vec![to_hex(&bytes)];
            Some(Said { code, bytes })
        };
        assert_eq!(
            rows(&by_place),
            [" X ,NV4,PIX", "NV#, X ,NODE", "PIX,N/A, X "]
        );
        // Each of the two once, however often it is needed.
        assert_eq!(asked.get(), 2 * 7);
        let last = format!("{:032x}", 1);
        let by_switch =
            |_: &str, q: Question| fields(18, Some(if q.gpu == last { 12 } else { 18 }));
        assert_eq!(rows(&by_switch)[0], " X ,NV12,PIX");
        assert_eq!(rows(&|_, _| None)[0], " X ,NV#,PIX");
    }

    #[test]
    fn what_two_gpus_cannot_do_is_said() {
        let status = status();
        let up = [("a", &status), ("b", &status)];
        let row = |letters: &str| {
            let text = Topology::peers(letters)
                .unwrap()
                .drawn(&cards(&up), &|_, _| None);
            text.lines().nth(1).unwrap().to_string()
        };
        assert_eq!(row("r"), " GPU0\tX\tOK\tOK\tNS\tNS\tNS\t");
        assert_eq!(row("n"), " GPU0\tX\tOK\tNS\tNS\tNS\tNS\t");
        assert_eq!(row("a"), " GPU0\tX\tCNS\tCNS\tNS\tNS\tNS\t");
        assert_eq!(row("p"), " GPU0\tX\tGNS\tGNS\tNS\tNS\tNS\t");
        assert_eq!(row("rw"), row("w"));
    }
}
