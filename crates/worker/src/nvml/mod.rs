//! Readings of this machine's GPUs, asked of NVML in a process of its own.
//!
//! [`serve`] answers each line on stdin with one line on stdout: [`Gpus`] as JSON, or what a
//! function said to a [`Question`]. Between them are lines of what happens, see [`HAPPENING`]. NVML
//! keeps devices open and may hang when one breaks, so the server does not load it, and a worker
//! only to ask what it has itself ([`own`]).
//!
//! [`HAPPENING`]: busbar_control::gpu::HAPPENING

mod events;
mod generated;
mod library;
pub(crate) mod own;

use busbar_control::gpu::{Arg, Gpu, Gpus, Link, Number, Question, Said, plain_uuid};
use busbar_control::text::{from_hex, to_hex};
use library::{Handle, Nvml};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::io::{BufRead, Write};
use std::sync::Arc;

/// How a number is asked for.
#[derive(Clone, Copy)]
enum Ask {
    /// One 32-bit number.
    One,
    /// One 64-bit number.
    Wide,
    /// The 32-bit number of one kind.
    Of(u32),
    /// Two 32-bit numbers, of which the second is the other reading's.
    Two(Number),
}

/// What a function takes at one place of its arguments.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// The device.
    Device,
    /// A number.
    Value,
    /// A pointer to so many bytes.
    Place(usize),
    /// A pointer to a structure whose first word says its version, and in its lower bits its size.
    Versioned,
    /// A pointer to items of that size; another argument says how many, or points to that.
    List(usize, usize),
}

/// What NVML may write behind a place of the client's, at most: a structure of a version that the
/// client does not know the size of.
const ROOM: usize = 64 << 10;

/// The most arguments of a function.
const ARGS: usize = 8;

/// Checks an argument against the function's shape.
fn fits(shape: Shape, args: &[Arg]) -> impl Fn(&Arg) -> bool {
    let word = |b: &[u8]| {
        let first = b.first_chunk().map(|w| u32::from_le_bytes(*w));
        first.map(u64::from)
    };
    let count = match shape {
        Shape::List(_, at) => match args.get(at) {
            Some(Arg::Value(n)) => Some(*n),
            Some(Arg::Bytes(Some(text))) => from_hex(text).and_then(|b| word(&b)),
            _ => None,
        },
        _ => None,
    };
    move |arg| match (shape, arg) {
        (Shape::Device, Arg::Gpu) | (Shape::Value, Arg::Value(_)) => true,
        (Shape::Value | Shape::Device, _) => false,
        (_, Arg::Bytes(None)) => true,
        (_, Arg::Bytes(Some(text))) => {
            let len = text.len() as u64 / 2;
            let wanted = match shape {
                Shape::Place(n) => Some(n as u64),
                Shape::List(n, _) => count.and_then(|c| c.checked_mul(n as u64)),
                _ => from_hex(text).and_then(|b| word(&b)).map(|v| v & 0xff_ffff),
            };
            wanted == Some(len) && len <= ROOM as u64 / 2
        }
        _ => false,
    }
}

type Readings = &'static [(Number, &'static CStr, Ask)];

/// Whether what a function says is only right for whoever has a whole device.
pub fn is_of_the_whole(function: &str) -> bool {
    let mut all = generated::ASKED.iter();
    all.any(|(name, whole, _)| *name == function && *whole)
}

/// What NVML functions say about a device in one number or two, as long as the driver runs. Asked
/// once: some of it takes long.
#[rustfmt::skip]
const FIXED: Readings = &[
    (Number::MaxClockGraphics, c"nvmlDeviceGetMaxClockInfo", Ask::Of(0)),
    (Number::MaxClockSm, c"nvmlDeviceGetMaxClockInfo", Ask::Of(1)),
    (Number::MaxClockMemory, c"nvmlDeviceGetMaxClockInfo", Ask::Of(2)),
    (Number::MaxClockVideo, c"nvmlDeviceGetMaxClockInfo", Ask::Of(3)),
    (Number::PcieMaxGeneration, c"nvmlDeviceGetMaxPcieLinkGeneration", Ask::One),
    (Number::PcieMaxWidth, c"nvmlDeviceGetMaxPcieLinkWidth", Ask::One),
    (Number::PcieMaxSpeed, c"nvmlDeviceGetPcieLinkMaxSpeed", Ask::One),
    (Number::PowerDefaultLimit, c"nvmlDeviceGetPowerManagementDefaultLimit", Ask::One),
    (Number::PowerMinLimit, c"nvmlDeviceGetPowerManagementLimitConstraints",
        Ask::Two(Number::PowerMaxLimit)),
    (Number::Minor, c"nvmlDeviceGetMinorNumber", Ask::One),
    (Number::Brand, c"nvmlDeviceGetBrand", Ask::One),
    (Number::Board, c"nvmlDeviceGetBoardId", Ask::One),
    (Number::Architecture, c"nvmlDeviceGetArchitecture", Ask::One),
    (Number::Cores, c"nvmlDeviceGetNumGpuCores", Ask::One),
    (Number::MemoryBusWidth, c"nvmlDeviceGetMemoryBusWidth", Ask::One),
    (Number::MaxMigDevices, c"nvmlDeviceGetMaxMigDeviceCount", Ask::One),
    (Number::PcieGpuMaxGeneration, c"nvmlDeviceGetGpuMaxPcieLinkGeneration", Ask::One),
    (Number::BusType, c"nvmlDeviceGetBusType", Ask::One),
    (Number::Module, c"nvmlDeviceGetModuleId", Ask::One),
    (Number::MultiGpuBoard, c"nvmlDeviceGetMultiGpuBoard", Ask::One),
    (Number::Fans, c"nvmlDeviceGetNumFans", Ask::One),
    (Number::Virtualization, c"nvmlDeviceGetVirtualizationMode", Ask::One),
    (Number::ClockReasonsKnown, c"nvmlDeviceGetSupportedClocksThrottleReasons", Ask::Wide),
    (Number::HeatShutdown, c"nvmlDeviceGetTemperatureThreshold", Ask::Of(0)),
    (Number::HeatSlowdown, c"nvmlDeviceGetTemperatureThreshold", Ask::Of(1)),
    (Number::HeatMemory, c"nvmlDeviceGetTemperatureThreshold", Ask::Of(2)),
    (Number::HeatGpu, c"nvmlDeviceGetTemperatureThreshold", Ask::Of(3)),
    (Number::EccDefault, c"nvmlDeviceGetDefaultEccMode", Ask::One),
    (Number::InforomChecksum, c"nvmlDeviceGetInforomConfigurationChecksum", Ask::One),
];

/// The same of what changes.
#[rustfmt::skip]
const LIVE: Readings = &[
    (Number::Busy, c"nvmlDeviceGetUtilizationRates", Ask::Two(Number::MemoryBusy)),
    (Number::Temperature, c"nvmlDeviceGetTemperature", Ask::Of(0)),
    (Number::Power, c"nvmlDeviceGetPowerUsage", Ask::One),
    (Number::Energy, c"nvmlDeviceGetTotalEnergyConsumption", Ask::Wide),
    (Number::Fan, c"nvmlDeviceGetFanSpeed", Ask::One),
    (Number::PerformanceState, c"nvmlDeviceGetPerformanceState", Ask::One),
    (Number::ClockGraphics, c"nvmlDeviceGetClockInfo", Ask::Of(0)),
    (Number::ClockSm, c"nvmlDeviceGetClockInfo", Ask::Of(1)),
    (Number::ClockMemory, c"nvmlDeviceGetClockInfo", Ask::Of(2)),
    (Number::ClockVideo, c"nvmlDeviceGetClockInfo", Ask::Of(3)),
    (Number::PcieGeneration, c"nvmlDeviceGetCurrPcieLinkGeneration", Ask::One),
    (Number::PcieWidth, c"nvmlDeviceGetCurrPcieLinkWidth", Ask::One),
    (Number::PcieSpeed, c"nvmlDeviceGetPcieSpeed", Ask::One),
    (Number::PowerLimit, c"nvmlDeviceGetPowerManagementLimit", Ask::One),
    (Number::PowerEnforcedLimit, c"nvmlDeviceGetEnforcedPowerLimit", Ask::One),
    (Number::ComputeMode, c"nvmlDeviceGetComputeMode", Ask::One),
    (Number::Persistence, c"nvmlDeviceGetPersistenceMode", Ask::One),
    (Number::Ecc, c"nvmlDeviceGetEccMode", Ask::Two(Number::EccPending)),
    (Number::Mig, c"nvmlDeviceGetMigMode", Ask::Two(Number::MigPending)),
    (Number::PcieReplays, c"nvmlDeviceGetPcieReplayCounter", Ask::One),
    (Number::Display, c"nvmlDeviceGetDisplayMode", Ask::One),
    (Number::DisplayActive, c"nvmlDeviceGetDisplayActive", Ask::One),
    (Number::PowerManagement, c"nvmlDeviceGetPowerManagementMode", Ask::One),
    (Number::PowerSource, c"nvmlDeviceGetPowerSource", Ask::One),
    (Number::ClockReasons, c"nvmlDeviceGetCurrentClocksThrottleReasons", Ask::Wide),
    (Number::AutoBoost, c"nvmlDeviceGetAutoBoostedClocksEnabled",
        Ask::Two(Number::AutoBoostDefault)),
    (Number::EncoderBusy, c"nvmlDeviceGetEncoderUtilization", Ask::Two(Number::EncoderPeriod)),
    (Number::DecoderBusy, c"nvmlDeviceGetDecoderUtilization", Ask::Two(Number::DecoderPeriod)),
    (Number::JpegBusy, c"nvmlDeviceGetJpgUtilization", Ask::Two(Number::JpegPeriod)),
    (Number::FlowBusy, c"nvmlDeviceGetOfaUtilization", Ask::Two(Number::FlowPeriod)),
];

/// The version word of the second form of NVML's memory structure: its size and a 2.
const MEMORY_V2: u64 = 40 | 2 << 24;

/// The version word of NVML's longer PCI structure.
const PCI_EXT: u32 = 64 | 1 << 24;

/// A device that both NVML and the server know.
struct Known {
    uuid: String,
    handle: Handle,
    numbers: BTreeMap<String, u64>,
    texts: BTreeMap<String, String>,
    links: BTreeMap<String, Link>,
}

/// Answers each line on stdin until there are no more.
pub fn serve(library: Option<&str>) {
    let driver = driver_version();
    let nvml = Nvml::load(library).map(Arc::new);
    let base = match &nvml {
        Ok(n) => Gpus {
            nvml: n.text(c"nvmlSystemGetNVMLVersion"),
            // Where the kernel's file does not show, as in some containers, NVML still knows.
            driver: driver.unwrap_or_else(|| n.text(c"nvmlSystemGetDriverVersion")),
            ..Gpus::default()
        },
        Err(why) => Gpus {
            driver: driver.unwrap_or_default(),
            missing: why.clone(),
            ..Gpus::default()
        },
    };
    let known = nvml.as_ref().map(|n| n.devices()).unwrap_or_default();
    if let Ok(nvml) = &nvml {
        events::watch(nvml, known.iter().map(|k| (k.uuid.clone(), k.handle)));
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let text = match serde_json::from_str::<Question>(&line) {
            Ok(ask) => {
                let said = nvml.as_ref().ok().and_then(|n| n.answer(&known, &ask));
                serde_json::to_string(&said)
            }
            Err(_) => {
                let mut answer = base.clone();
                if let Ok(n) = &nvml {
                    answer.gpus = known.iter().map(|k| (k.uuid.clone(), n.now(k))).collect();
                }
                serde_json::to_string(&answer)
            }
        };
        let text = text.unwrap_or_default();
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

fn put(numbers: &mut BTreeMap<String, u64>, n: Number, v: u64) {
    numbers.insert(n.name().to_string(), v);
}

/// The driver's version as the kernel module says it.
fn driver_version() -> Option<String> {
    version_in(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

/// The first word of the first line that looks like a driver's version (`580.82.07`): the words
/// before it differ between kinds of kernel modules.
fn version_in(text: &str) -> Option<String> {
    let version = |w: &&str| {
        let parts: Vec<_> = w.split('.').collect();
        let digits = |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit());
        (2..=4).contains(&parts.len()) && parts.iter().all(|p| digits(p))
    };
    let mut words = text.lines().next()?.split_whitespace();
    words.find(version).map(str::to_string)
}

impl Nvml {
    fn text(&self, name: &CStr) -> String {
        type Get = unsafe extern "C" fn(*mut c_char, u32) -> u32;
        // SAFETY: the buffer is as long as said.
        text(|p, n| self.find::<Get>(name).map(|f| unsafe { f(p, n) }))
    }

    fn device_text(&self, name: &CStr, d: Handle) -> String {
        type Get = unsafe extern "C" fn(Handle, *mut c_char, u32) -> u32;
        // SAFETY: the handle is NVML's own and the buffer is as long as said.
        text(|p, n| self.find::<Get>(name).map(|f| unsafe { f(d, p, n) }))
    }

    fn devices(&self) -> Vec<Known> {
        type Count = unsafe extern "C" fn(*mut u32) -> u32;
        type ByIndex = unsafe extern "C" fn(u32, *mut Handle) -> u32;
        let (Some(count), Some(by_index)) = (
            self.find::<Count>(c"nvmlDeviceGetCount_v2"),
            self.find::<ByIndex>(c"nvmlDeviceGetHandleByIndex_v2"),
        ) else {
            return Vec::new();
        };
        let mut n = 0;
        // SAFETY: a pointer to a live number.
        unsafe { count(&mut n) };
        let one = |i: u32| {
            let mut handle = std::ptr::null_mut();
            // SAFETY: a pointer to a live handle.
            (unsafe { by_index(i, &mut handle) } == 0).then_some(())?;
            let uuid = plain_uuid(&self.device_text(c"nvmlDeviceGetUUID", handle))?;
            let texts = [
                ("serial", c"nvmlDeviceGetSerial"),
                ("vbios", c"nvmlDeviceGetVbiosVersion"),
                ("part", c"nvmlDeviceGetBoardPartNumber"),
                ("inforom", c"nvmlDeviceGetInforomImageVersion"),
            ];
            let texts = texts
                .iter()
                .map(|(k, f)| (k.to_string(), self.device_text(f, handle)))
                .filter(|(_, v)| !v.is_empty())
                .collect();
            let mut numbers = self.read(FIXED, handle);
            self.pci(handle, &mut |n, v| put(&mut numbers, n, v));
            let links = BTreeMap::new();
            Some(Known {
                uuid,
                handle,
                numbers,
                texts,
                links,
            })
        };
        let mut known: Vec<_> = (0..n).filter_map(one).collect();
        let all: Vec<_> = known.iter().map(|k| (k.uuid.clone(), k.handle)).collect();
        for k in &mut known {
            let others = all.iter().filter(|(u, _)| *u != k.uuid);
            k.links = others
                .map(|(u, h)| (u.clone(), self.link(k.handle, *h)))
                .collect();
        }
        known
    }

    /// What a function says to a client; nothing to a question that is none of those in the table.
    fn answer(&self, known: &[Known], ask: &Question) -> Option<Said> {
        type Any = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> u32;
        const FUNCTION_NOT_FOUND: u32 = 13;
        let (.., shapes) = generated::ASKED.iter().find(|a| a.0 == ask.function)?;
        let mut given = shapes.iter().zip(&ask.args);
        let fit = given.all(|(shape, arg)| fits(*shape, &ask.args)(arg));
        if !fit || shapes.len() != ask.args.len() || shapes.len() > ARGS {
            return None;
        }
        let device = known.iter().find(|k| k.uuid == ask.gpu);
        // Each place has room behind it.
        let mut places = Vec::new();
        for text in ask.args.iter().filter_map(|a| match a {
            Arg::Bytes(Some(text)) => Some(text),
            _ => None,
        }) {
            let mut bytes = from_hex(text)?;
            let len = bytes.len();
            bytes.resize(len + ROOM, 0);
            places.push((bytes, len));
        }
        let mut each = places.iter_mut();
        let mut a = [0u64; ARGS];
        for (a, arg) in a.iter_mut().zip(&ask.args) {
            *a = match arg {
                Arg::Gpu => device?.handle as u64,
                Arg::Value(n) => *n,
                Arg::Bytes(None) => 0,
                Arg::Bytes(Some(_)) => each.next()?.0.as_mut_ptr() as u64,
            };
        }
        let name = std::ffi::CString::new(ask.function.as_str()).ok()?;
        let code = self
            .find::<Any>(&name)
            // SAFETY: the arguments are of the shapes that `nvml.h` gives the function, integers
            // and pointers all; it ignores what is beyond its own. Places are as long as it is
            // told, with room behind them for any structure of NVML's.
            .map_or(FUNCTION_NOT_FOUND, |f| unsafe {
                f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7])
            });
        let bytes = places.iter().map(|(b, n)| to_hex(&b[..*n])).collect();
        Some(Said { code, bytes })
    }

    fn link(&self, a: Handle, b: Handle) -> Link {
        type Ancestor = unsafe extern "C" fn(Handle, Handle, *mut u32) -> u32;
        type P2p = unsafe extern "C" fn(Handle, Handle, u32, *mut u32) -> u32;
        let mut value = 0;
        let ancestor = self
            .find::<Ancestor>(c"nvmlDeviceGetTopologyCommonAncestor")
            // SAFETY: NVML's own handles and a pointer to a live number.
            .filter(|f| unsafe { f(a, b, &mut value) } == 0)
            .map(|_| value);
        let p2p = self.find::<P2p>(c"nvmlDeviceGetP2PStatus");
        let status = |kind| {
            let mut value = 0;
            // SAFETY: as above.
            p2p.filter(|f| unsafe { f(a, b, kind, &mut value) } == 0)
                .map(|_| value)
        };
        Link {
            ancestor,
            p2p: (0..5).map(status).collect(),
        }
    }

    fn read(&self, readings: Readings, d: Handle) -> BTreeMap<String, u64> {
        let mut numbers = BTreeMap::new();
        for (number, name, ask) in readings {
            let Some((a, b)) = self.ask(name, *ask, d) else {
                continue;
            };
            put(&mut numbers, *number, a);
            if let Ask::Two(second) = ask {
                put(&mut numbers, *second, b);
            }
        }
        numbers
    }

    fn now(&self, k: &Known) -> Gpu {
        let mut numbers = k.numbers.clone();
        numbers.extend(self.read(LIVE, k.handle));
        self.memory(k.handle, &mut |n, v| put(&mut numbers, n, v));
        Gpu {
            numbers,
            texts: k.texts.clone(),
            links: k.links.clone(),
            ..Gpu::default()
        }
    }

    fn ask(&self, name: &CStr, ask: Ask, d: Handle) -> Option<(u64, u64)> {
        type One = unsafe extern "C" fn(Handle, *mut u32) -> u32;
        type Wide = unsafe extern "C" fn(Handle, *mut u64) -> u32;
        type Of = unsafe extern "C" fn(Handle, u32, *mut u32) -> u32;
        type Two = unsafe extern "C" fn(Handle, *mut u32, *mut u32) -> u32;
        let (mut a, mut b, mut wide) = ([0u32; 2], 0u32, 0u64);
        // SAFETY: NVML's own handle and pointers to live numbers of the sizes that `nvml.h` says;
        // what `Two` stands for takes two pointers, except utilization, which fills a pair.
        let rc = unsafe {
            match ask {
                Ask::Two(Number::MemoryBusy) | Ask::One => {
                    self.find::<One>(name)?(d, a.as_mut_ptr())
                }
                Ask::Wide => self.find::<Wide>(name)?(d, &mut wide),
                Ask::Of(kind) => self.find::<Of>(name)?(d, kind, a.as_mut_ptr()),
                Ask::Two(_) => self.find::<Two>(name)?(d, a.as_mut_ptr(), &mut b),
            }
        };
        (rc == 0).then_some(match ask {
            Ask::Wide => (wide, 0),
            Ask::Two(Number::MemoryBusy) => (a[0].into(), a[1].into()),
            _ => (a[0].into(), b.into()),
        })
    }

    fn memory(&self, d: Handle, put: &mut impl FnMut(Number, u64)) {
        type Get = unsafe extern "C" fn(Handle, *mut u64) -> u32;
        // Version, total, reserved, free, used; without the first two, total, free, used.
        let mut v2 = [MEMORY_V2, 0, 0, 0, 0];
        let get = self.find::<Get>(c"nvmlDeviceGetMemoryInfo_v2");
        // SAFETY: NVML's own handle and a structure of the size that its version says.
        if get.is_some_and(|f| unsafe { f(d, v2.as_mut_ptr()) } == 0) {
            put(Number::MemoryTotal, v2[1]);
            put(Number::MemoryReserved, v2[2]);
            put(Number::MemoryUsed, v2[4]);
        } else if let Some(f) = self.find::<Get>(c"nvmlDeviceGetMemoryInfo") {
            let mut v1 = [0; 3];
            // SAFETY: as above; the first form is three numbers.
            if unsafe { f(d, v1.as_mut_ptr()) } == 0 {
                put(Number::MemoryTotal, v1[0]);
                put(Number::MemoryUsed, v1[2]);
            }
        }
        let mut bar1 = [0; 3];
        let get = self.find::<Get>(c"nvmlDeviceGetBAR1MemoryInfo");
        // SAFETY: as above; three numbers, total, free, used.
        if get.is_some_and(|f| unsafe { f(d, bar1.as_mut_ptr()) } == 0) {
            put(Number::Bar1Total, bar1[0]);
            put(Number::Bar1Used, bar1[2]);
        }
    }

    fn pci(&self, d: Handle, put: &mut impl FnMut(Number, u64)) {
        type Get = unsafe extern "C" fn(Handle, *mut u32) -> u32;
        // A text of 16 bytes, domain, bus, device, device's and subsystem's id, a text of 32 bytes.
        let mut info = [0u32; 17];
        let get = self.find::<Get>(c"nvmlDeviceGetPciInfo_v3");
        // SAFETY: NVML's own handle and a structure of the size that `nvml.h` says.
        if get.is_some_and(|f| unsafe { f(d, info.as_mut_ptr()) } == 0) {
            put(Number::PciDeviceId, info[7].into());
            put(Number::PciSubsystemId, info[8].into());
        }
        // Version, place in three numbers, the two ids, base class, class in that, a text.
        let mut more = [0u32; 16];
        more[0] = PCI_EXT;
        let get = self.find::<Get>(c"nvmlDeviceGetPciInfoExt");
        // SAFETY: as above; a structure of the size that its version says.
        if get.is_some_and(|f| unsafe { f(d, more.as_mut_ptr()) } == 0) {
            put(Number::PciClass, (more[6] << 8 | more[7]).into());
        }
    }
}

fn text(f: impl FnOnce(*mut c_char, u32) -> Option<u32>) -> String {
    let mut buf = [0 as c_char; 128];
    match f(buf.as_mut_ptr(), buf.len() as u32 - 1) {
        // SAFETY: the last byte stays zero.
        Some(0) => unsafe { CStr::from_ptr(buf.as_ptr()) }
            .to_string_lossy()
            .into_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn the_drivers_version_stands_among_other_words() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release \
                    Build  (dvs-builder@host)  Wed Aug 27\nGCC version:  gcc version 11.4.0\n";
        assert_eq!(version_in(open).as_deref(), Some("580.82.07"));
        let old = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2\n";
        assert_eq!(version_in(old).as_deref(), Some("470.256.02"));
        assert_eq!(version_in("GCC version"), None);
        assert_eq!(version_in(""), None);
    }
}
