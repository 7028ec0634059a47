//! The GPUs of servers, numbered through, and the programs on them.

use super::own::Own;
use crate::table::plain;
use busbar_control::gpu::{Gpu, Link, Number, hyphened_uuid};
use busbar_control::status::{Listed, Session, Status};

/// A GPU.
#[derive(Clone, Copy)]
pub struct Card<'a> {
    /// Its number among those of all servers.
    pub index: usize,
    /// How many there are.
    pub count: usize,
    /// Its server.
    pub server: &'a str,
    /// What that says.
    pub status: &'a Status,
    /// What its driver says of it.
    pub listed: &'a Listed,
    /// What NVML says of it.
    gpu: Option<&'a Gpu>,
    /// What a program has of it, where that is asked.
    own: Option<&'a Own>,
}

/// A program on a GPU.
pub struct Process<'a> {
    /// The GPU.
    pub card: &'a Card<'a>,
    /// What is known of it.
    pub session: &'a Session,
}

/// All GPUs of these servers.
pub fn cards<'a>(up: &[(&'a str, &'a Status)]) -> Vec<Card<'a>> {
    let each = up.iter().flat_map(|&(server, status)| {
        let listed = status.devices.iter().filter(|d| d.device.api == "cuda");
        listed.map(move |listed| (server, status, listed))
    });
    let all: Vec<_> = each.collect();
    let count = all.len();
    let card = |(index, (server, status, listed)): (usize, (&'a str, &'a Status, &'a Listed))| {
        let gpu = status.gpus.gpus.get(&listed.device.uuid);
        Card {
            index,
            count,
            server,
            status,
            listed,
            gpu,
            own: None,
        }
    };
    all.into_iter().enumerate().map(card).collect()
}

/// Of all GPUs those of a program, numbered as it has them.
pub fn of_program<'a>(all: &[Card<'a>], own: &'a [Own]) -> Vec<Card<'a>> {
    let card = |own: &'a Own| {
        let found = all.iter().find(|c| c.is(&own.uuid))?;
        Some((*found, own))
    };
    let found = own.iter().filter_map(card).enumerate();
    let count = own.len();
    let numbered = found.map(|(index, (card, own))| Card {
        index,
        count,
        own: Some(own),
        ..card
    });
    numbered.collect()
}

impl<'a> Card<'a> {
    /// What its vendor calls it.
    pub fn name(&self) -> String {
        plain(&self.listed.device.name)
    }

    /// `GPU-` and five groups.
    pub fn uuid(&self) -> Option<String> {
        hyphened_uuid(&self.listed.device.uuid)
    }

    /// Where it is in its server.
    pub fn bus(&self) -> Option<String> {
        let [domain, bus, device] = self.listed.device.pci?;
        Some(format!("{domain:08X}:{bus:02X}:{device:02X}.0"))
    }

    /// That, or its number where it is not known.
    pub fn place_or_index(&self) -> String {
        self.bus().unwrap_or_else(|| self.index.to_string())
    }

    /// A part of that, in so many digits.
    pub fn place(&self, part: usize, digits: usize) -> Option<String> {
        let number = self.listed.device.pci?[part];
        Some(format!("0x{number:0digits$X}"))
    }

    /// A number of PCI's, in hexadecimal digits.
    pub fn hex(&self, n: Number) -> Option<String> {
        Some(format!("0x{:08X}", self.number(n)?))
    }

    /// A number, where NVML says it.
    pub fn number(&self, n: Number) -> Option<u64> {
        if let Some(own) = self.own.and_then(|own| own.memory.as_ref()) {
            match n {
                Number::MemoryTotal => return Some(own.total),
                Number::MemoryReserved => return Some(own.reserved),
                Number::MemoryUsed => return Some(own.used),
                _ => {}
            }
        }
        self.gpu?.numbers.get(n.name()).copied()
    }

    /// A text, likewise.
    pub fn said(&self, name: &str) -> Option<String> {
        Some(plain(self.gpu?.texts.get(name)?))
    }

    /// The version of its driver, where NVML says it.
    pub fn driver(&self) -> Option<String> {
        let text = plain(&self.status.gpus.driver);
        (!text.is_empty()).then_some(text)
    }

    /// The version of CUDA that its driver is for.
    pub fn cuda(&self) -> Option<String> {
        let version = self.listed.device.cuda;
        (version > 0).then(|| format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// How it reaches another GPU of its server.
    pub fn link(&self, other: &Self) -> Option<&'a Link> {
        self.gpu?.links.get(&other.listed.device.uuid)
    }

    /// All its memory.
    pub fn memory(&self) -> u64 {
        let all = self.number(Number::MemoryTotal);
        all.unwrap_or(self.listed.device.memory)
    }

    /// What nobody uses of that.
    pub fn free(&self) -> Option<u64> {
        if let Some(own) = self.own.and_then(|own| own.memory.as_ref()) {
            return Some(own.free);
        }
        let reserved = self.number(Number::MemoryReserved).unwrap_or(0);
        let taken = self.number(Number::MemoryUsed)?.saturating_add(reserved);
        Some(self.memory().saturating_sub(taken))
    }

    /// Whether a word of `-i` means it: its number, UUID or place.
    pub fn is(&self, word: &str) -> bool {
        let same = |name: Option<String>| name.is_some_and(|n| n.eq_ignore_ascii_case(word));
        word == self.index.to_string() || same(self.uuid()) || same(self.bus())
    }

    /// Its line in a list.
    pub fn line(&self) -> String {
        let uuid = self.uuid().unwrap_or_else(|| "N/A".into());
        format!("GPU {}: {} (UUID: {uuid})\n", self.index, self.name())
    }

    /// The programs that may use it, as far as whoever asks may see them.
    pub fn processes(&self) -> impl Iterator<Item = Process<'_>> {
        let ours =
            |s: &&Session| s.api == "cuda" && s.devices.contains(&self.listed.device.ordinal);
        let all = self.status.sessions.iter().filter(ours);
        all.map(move |session| Process {
            card: self,
            session,
        })
    }
}

impl Process<'_> {
    /// Bytes of the GPU that it has; of one that may use several GPUs, it is not known of which.
    pub fn memory(&self) -> Option<u64> {
        let one = self.session.devices.len() == 1;
        one.then(|| self.session.holding.bytes())
    }

    /// Percent of the last second in which it had the GPU's time, where it takes turns with others.
    pub fn busy(&self) -> Option<u32> {
        let ordinal = self.card.listed.device.ordinal;
        let at = self.session.devices.iter().position(|d| *d == ordinal)?;
        let time = self.session.time.get(at)?.as_ref()?;
        Some(time.second / 10)
    }

    /// The name of what runs, without folder and arguments.
    pub fn command(&self) -> String {
        let first = self.session.program.split(' ').next().unwrap_or_default();
        plain(first.rsplit('/').next().unwrap_or_default())
    }

    /// Something that it says of itself.
    pub fn text(&self, text: &str) -> String {
        plain(text)
    }

    /// Whose it is, and which; without the folder, for there is little room.
    pub fn name(&self) -> String {
        let s = self.session;
        let end = s.program.find(' ').unwrap_or(s.program.len());
        let folder = s.program[..end].rfind('/').map_or(0, |i| i + 1);
        plain(&format!("{}@{} {}", s.user, s.host, &s.program[folder..]))
    }
}
