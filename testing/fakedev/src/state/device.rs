//! The devices: how many, what they are, and what memory they have left.

use super::handle::Given;
use super::{mps, neighbours};
use crate::config;
use crate::ffi::*;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The version that the driver says it is.
pub const DRIVER_VERSION: i32 = 13000;

const MAX_DEVICES: u64 = 64;
/// The first device's bus; each further device has the next.
const FIRST_BUS: i32 = 0x10;

static INITIALIZED: AtomicBool = AtomicBool::new(false);
static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| {
    let count = config::number("FAKEDEV_DEVICES")
        .unwrap_or(1)
        .min(MAX_DEVICES);
    let mib = config::number("FAKEDEV_MEMORY_MIB").unwrap_or(4096) as usize;
    (0..count as usize)
        .map(|ordinal| Device::new(ordinal, mib << 20))
        .collect()
});

/// How many multiprocessors a device has.
const PROCESSORS: i32 = 132;
/// How many threads run at a time, on all of them.
pub const THREADS: usize = PROCESSORS as usize * 2048;

/// The attributes that are not worked out, by number. Those of a data-centre device of architecture
/// 90.
#[rustfmt::skip]
const ATTRIBUTES: &[(i32, i32)] = &[
    (1, 1024), (2, 1024), (3, 1024), (4, 64), (5, i32::MAX), (6, 65535), (7, 65535), (8, 49152),
    (9, 65536), (10, 32), (11, i32::MAX), (12, 65536), (13, 1_980_000), (14, 512), (15, 1),
    (17, 0), (18, 0), (19, 1), (20, 0), (21, 131_072), (22, 131_072), (23, 65536),
    (24, 16384), (25, 16384), (26, 16384), (27, 32768), (28, 32768), (29, 2048), (30, 512),
    (31, 1), (32, 1), (34, 0), (35, 0), (36, 3_201_000), (37, 6144), (38, 62_914_560), (39, 2048),
    (40, 3), (41, 1), (42, 32768), (43, 2048), (44, 1), (45, 32768), (46, 32768), (47, 8192),
    (48, 8192), (49, 32768), (50, 0), (51, 32), (52, 32768), (53, 32768), (54, 2046), (55, 32768),
    (56, 131_072), (57, 65536), (58, 16384), (59, 16384), (60, 16384), (61, 32768), (62, 2048),
    (63, 32768), (64, 32768), (65, 2048), (66, 32768), (67, 32768), (68, 2046), (69, 268_435_456),
    (70, 131_072), (71, 65000), (72, 2_097_120), (73, 32768), (74, 32768), (75, 9), (76, 0),
    (77, 32768), (78, 1), (79, 1), (80, 1), (81, 233_472), (82, 65536), (83, 1), (84, 0), (86, 0),
    (87, 2), (88, 0), (89, 1), (90, 1), (91, 1), (92, 1), (93, 1), (94, 1), (95, 1), (96, 1),
    (97, 232_448), (98, 0), (99, 1), (100, 0), (101, 0), (102, 1), (103, 1), (104, 0), (105, 0),
    (106, 32), (107, 0), (108, 0), (109, 134_213_632), (110, 0), (111, 1024), (112, 0), (113, 1),
    (114, 0), (115, 1), (116, 0), (117, 0), (118, 0), (119, 1), (120, 1), (121, 0), (122, 1),
    (123, 1), (124, 0), (125, 0), (126, 4), (127, 1), (128, 0), (129, 0), (130, 0), (131, -1),
    (132, 0), (133, 0), (134, 0), (135, 0), (136, 0), (137, 0), (138, 0), (139, 0x1eef_1b0b),
    (140, 0x0001_1b0b), (141, 1), (142, 1), (143, 0), (144, 1), (145, 1), (146, 0), (147, 0),
];

/// What this process has of each device.
pub fn all_used() -> Vec<usize> {
    DEVICES.iter().map(Device::used).collect()
}

/// One simulated device.
pub struct Device {
    ordinal: usize,
    memory: usize,
    /// More bytes in use than that end the process: for a test of who must not have them.
    most: usize,
    used: AtomicUsize,
    /// The handle of its primary context, once there is one.
    pub primary: Given,
    /// The handle of the pool that it came with, once that is asked for.
    pub default_pool: Given,
    /// The handle of the pool that allocations without one come from; 0 for the default pool.
    pub pool: AtomicUsize,
}

impl Device {
    fn new(ordinal: usize, memory: usize) -> Device {
        Device {
            ordinal,
            memory,
            most: config::number("FAKEDEV_MOST_MIB").map_or(usize::MAX, |mib| (mib as usize) << 20),
            used: AtomicUsize::new(0),
            primary: Given::new(),
            default_pool: Given::new(),
            pool: AtomicUsize::new(0),
        }
    }

    /// All its memory, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// The bytes that nobody has.
    pub fn free(&self) -> usize {
        let others = neighbours::has(self.ordinal);
        self.memory.saturating_sub(self.used() + others)
    }

    /// Takes bytes, if that many are free.
    pub fn charge(&self, bytes: usize) -> Res {
        let taken = neighbours::alone(all_used, |others| {
            let all = self.memory.saturating_sub(others(self.ordinal));
            let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= all);
            self.used
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
        });
        if let Ok(used) = taken
            && used + bytes > self.most
        {
            eprintln!("fakedev: {} bytes in use of {}", used + bytes, self.most);
            std::process::abort();
        }
        taken.map(drop).map_err(|_| OUT_OF_MEMORY)
    }

    /// Gives bytes back.
    pub fn refund(&self, bytes: usize) {
        neighbours::alone(all_used, |_| self.used.fetch_sub(bytes, Ordering::AcqRel));
    }

    /// Its UUID: no two machines have the same, though all else of them is alike.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"busbar-fakedev\0\0";
        uuid[14] = config::number("FAKEDEV_MACHINE").unwrap_or(0) as u8;
        uuid[15] = self.ordinal as u8;
        uuid
    }

    /// Its PCI domain, bus and device.
    pub fn pci(&self) -> [i32; 3] {
        [0, FIRST_BUS + self.ordinal as i32, 0]
    }

    /// Its PCI address as text.
    pub fn bus_id(&self) -> String {
        let [domain, bus, device] = self.pci();
        format!("{domain:04X}:{bus:02X}:{device:02X}.0")
    }

    /// An attribute.
    pub fn attribute(&self, which: i32) -> R<i32> {
        match which {
            16 => Ok(mps::part(PROCESSORS)),
            33 => Ok(self.pci()[1]),
            // The board's group: each device is a board of its own.
            85 => Ok(self.ordinal as i32),
            _ => {
                let found = ATTRIBUTES.iter().find(|(number, _)| *number == which);
                found.map(|(_, value)| *value).ok_or(INVALID_VALUE)
            }
        }
    }
}

/// Lets the driver be used.
pub fn initialize() {
    INITIALIZED.store(true, Ordering::Release);
}

/// As all were at first, but for `cuInit`.
pub fn reset() {
    for device in &*DEVICES {
        device.used.store(0, Ordering::Release);
        device.pool.store(0, Ordering::Release);
        device.primary.forget();
        device.default_pool.forget();
    }
}

/// Fails before `cuInit`.
pub fn initialized() -> Res {
    if INITIALIZED.load(Ordering::Acquire) {
        Ok(())
    } else {
        Err(NOT_INITIALIZED)
    }
}

/// How many devices there are.
pub fn count() -> usize {
    DEVICES.len()
}

/// A device by its index, which is in range.
pub fn get(index: usize) -> &'static Device {
    &DEVICES[index]
}

/// The index of a device handle.
pub fn by_ordinal(device: CUdevice) -> R<usize> {
    initialized()?;
    let index = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
    if index < count() {
        Ok(index)
    } else {
        Err(INVALID_DEVICE)
    }
}
