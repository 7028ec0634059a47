//! What a server knows of its GPUs beyond what the forwarded APIs say: the readings that monitoring
//! tools ask for. They travel as JSON in the status document, by name, so that servers and clients
//! of different releases can differ in what they know.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A number that a GPU has. Unknown ones are absent from documents, never zero.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Number { $($(#[$doc])* $name,)* }

        impl Number {
            /// Each number with its name in documents, in the order of the enumeration.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, $text),)*];

            /// The name in documents.
            pub fn name(self) -> &'static str {
                Self::ALL[self as usize].1
            }
        }
    };
}

numbers! {
    /// All memory, in bytes, the driver's own share included.
    MemoryTotal = "memory_total",
    /// Bytes that the driver keeps for itself.
    MemoryReserved = "memory_reserved",
    /// Bytes that programs use.
    MemoryUsed = "memory_used",
    /// Percent of the last moments in which a kernel ran.
    Busy = "busy",
    /// Percent of the last moments in which memory was read or written.
    MemoryBusy = "memory_busy",
    /// Degrees Celsius.
    Temperature = "temperature",
    /// Milliwatts drawn.
    Power = "power",
    /// Millijoules drawn since the driver was loaded.
    Energy = "energy",
    /// Percent of the fan's full speed.
    Fan = "fan",
    /// Performance state: 0 is the fastest.
    PerformanceState = "performance_state",
    /// MHz.
    ClockGraphics = "clock_graphics",
    /// MHz.
    ClockSm = "clock_sm",
    /// MHz.
    ClockMemory = "clock_memory",
    /// MHz.
    ClockVideo = "clock_video",
    /// MHz.
    MaxClockGraphics = "max_clock_graphics",
    /// MHz.
    MaxClockSm = "max_clock_sm",
    /// MHz.
    MaxClockMemory = "max_clock_memory",
    /// MHz.
    MaxClockVideo = "max_clock_video",
    /// Generation of the PCIe link now.
    PcieGeneration = "pcie_generation",
    /// Lanes of the PCIe link now.
    PcieWidth = "pcie_width",
    /// MB/s of each lane of the PCIe link now.
    PcieSpeed = "pcie_speed",
    /// Highest generation that device and slot can do.
    PcieMaxGeneration = "pcie_max_generation",
    /// Most lanes that device and slot can do.
    PcieMaxWidth = "pcie_max_width",
    /// Fastest speed that the device can do, as NVML numbers speeds.
    PcieMaxSpeed = "pcie_max_speed",
    /// PCI device and vendor.
    PciDeviceId = "pci_device_id",
    /// PCI subsystem.
    PciSubsystemId = "pci_subsystem_id",
    /// Milliwatts.
    PowerLimit = "power_limit",
    /// Milliwatts.
    PowerDefaultLimit = "power_default_limit",
    /// Milliwatts, when every limiter counts.
    PowerEnforcedLimit = "power_enforced_limit",
    /// Milliwatts.
    PowerMinLimit = "power_min_limit",
    /// Milliwatts.
    PowerMaxLimit = "power_max_limit",
    /// Number in `/dev/nvidiaN`.
    Minor = "minor",
    /// Product line.
    Brand = "brand",
    /// Board.
    Board = "board",
    /// Architecture, as NVML numbers them.
    Architecture = "architecture",
    /// CUDA cores.
    Cores = "cores",
    /// Bits of the memory bus.
    MemoryBusWidth = "memory_bus_width",
    /// Bytes of the BAR1 aperture.
    Bar1Total = "bar1_total",
    /// Bytes of it in use.
    Bar1Used = "bar1_used",
    /// 0 is the default mode.
    ComputeMode = "compute_mode",
    /// 1 is on.
    Persistence = "persistence",
    /// 1 is on.
    Ecc = "ecc",
    /// What it will be after a restart.
    EccPending = "ecc_pending",
    /// 1 is on.
    Mig = "mig",
    /// What it will be after a restart.
    MigPending = "mig_pending",
    /// How many parts a GPU can be cut into.
    MaxMigDevices = "max_mig_devices",
    /// Highest generation that the device can do.
    PcieGpuMaxGeneration = "pcie_gpu_max_generation",
    /// How often something was sent again over PCIe.
    PcieReplays = "pcie_replays",
    /// What the device is attached by, as NVML numbers buses.
    BusType = "bus_type",
    /// PCI base class, and the class in it as the low byte.
    PciClass = "pci_class",
    /// Number of the module on its board.
    Module = "module",
    /// 1 is a board with several GPUs.
    MultiGpuBoard = "multi_gpu_board",
    /// How many fans the device has.
    Fans = "fans",
    /// 1 is a display attached.
    Display = "display",
    /// 1 is a display in use.
    DisplayActive = "display_active",
    /// 1 is on.
    PowerManagement = "power_management",
    /// Where power comes from, as NVML numbers sources.
    PowerSource = "power_source",
    /// How the server has the device, as NVML numbers modes: its own, or passed through to it.
    Virtualization = "virtualization",
    /// Why clocks are as they are, in bits as NVML numbers reasons.
    ClockReasons = "clock_reasons",
    /// The reasons that the device knows.
    ClockReasonsKnown = "clock_reasons_known",
    /// 1 is on.
    AutoBoost = "auto_boost",
    /// 1 is on.
    AutoBoostDefault = "auto_boost_default",
    /// Percent of the period.
    EncoderBusy = "encoder_busy",
    /// Microseconds.
    EncoderPeriod = "encoder_period",
    /// Percent of the period.
    DecoderBusy = "decoder_busy",
    /// Microseconds.
    DecoderPeriod = "decoder_period",
    /// Percent of the period.
    JpegBusy = "jpeg_busy",
    /// Microseconds.
    JpegPeriod = "jpeg_period",
    /// Percent of the period in which optical flow was sought.
    FlowBusy = "flow_busy",
    /// Microseconds.
    FlowPeriod = "flow_period",
    /// Degrees Celsius at which the device turns itself off.
    HeatShutdown = "heat_shutdown",
    /// Degrees Celsius at which the device slows itself down.
    HeatSlowdown = "heat_slowdown",
    /// Degrees Celsius of the memory at which the device may slow down.
    HeatMemory = "heat_memory",
    /// Degrees Celsius of the processor at which the device may slow down.
    HeatGpu = "heat_gpu",
    /// 1 is on when nothing says otherwise.
    EccDefault = "ecc_default",
    /// Checksum of what the board says of itself.
    InforomChecksum = "inforom_checksum",
}

/// A question that the server's NVML is to answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// The function's name.
    pub function: String,
    /// UUID of the GPU it is about; empty for none.
    pub gpu: String,
    /// Its arguments in order.
    pub args: Vec<Arg>,
}

/// An argument of a function, as it goes in or comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arg {
    /// The GPU.
    Gpu,
    /// A number.
    Value(u64),
    /// What is where a pointer points, in hexadecimal digits; absent for a null pointer.
    Bytes(Option<String>),
}

/// What the function said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// What it returned.
    pub code: u32,
    /// What is behind its pointers now, in their order; of null nothing.
    pub bytes: Vec<String>,
}

/// Something that happened to a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Greater than that of all that happened before, to any GPU of the server.
    pub number: u64,
    /// What it is, as NVML numbers types.
    pub kind: u64,
    /// What NVML says of it: the number of an Xid.
    pub data: u64,
    /// Which part of the GPU it is of, as NVML numbers parts.
    pub gpu_instance: u32,
    /// Which part of that part.
    pub compute_instance: u32,
}

/// What a line of the process that reads NVML begins with which is no answer: behind it stands a
/// [`Happening`].
pub const HAPPENING: &str = "event ";

/// An event, before it has its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// The GPU's UUID.
    pub gpu: String,
    /// The event.
    pub event: Event,
}

/// How one GPU reaches another, as NVML numbers it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Where in the machine their ways meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ancestor: Option<u32>,
    /// Whether they can read, write, use NVLink, do atomics and use PCIe between them.
    pub p2p: Vec<Option<u32>>,
}

/// What is known of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// Numbers by [`Number::name`].
    pub numbers: BTreeMap<String, u64>,
    /// `serial`, `vbios`, `part`, `inforom`.
    pub texts: BTreeMap<String, String>,
    /// Other GPUs of the machine, by UUID.
    pub links: BTreeMap<String, Link>,
    /// What happened to it of late, the oldest first, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

impl Gpu {
    /// Bytes of memory that nobody has; `None` where that is not known.
    pub fn free(&self) -> Option<u64> {
        let number = |n: Number| self.numbers.get(n.name()).copied();
        let used = number(Number::MemoryUsed)? + number(Number::MemoryReserved).unwrap_or(0);
        Some(number(Number::MemoryTotal)?.saturating_sub(used))
    }

    /// Leaves of the memory a part that somebody has, of which so much is used.
    pub fn only(&mut self, part: u64, used: u64) {
        let mut set = |n: Number, bytes: u64| {
            if let Some(v) = self.numbers.get_mut(n.name()) {
                *v = bytes;
            }
        };
        set(Number::MemoryTotal, part);
        set(Number::MemoryReserved, 0);
        set(Number::MemoryUsed, used.min(part));
    }
}

/// What is known of a machine's GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpus {
    /// The NVIDIA driver's version; empty when unknown.
    pub driver: String,
    /// NVML's version; empty when unknown.
    pub nvml: String,
    /// Why there are no readings; empty when there are.
    pub missing: String,
    /// By UUID: 32 hexadecimal digits in lower case.
    pub gpus: BTreeMap<String, Gpu>,
}

/// The 32 hexadecimal digits of a UUID as NVML writes it (`GPU-xxxxxxxx-xxxx-...`), in lower case;
/// nothing when it is none.
pub fn plain_uuid(text: &str) -> Option<String> {
    let body = text.strip_prefix("GPU-").unwrap_or(text);
    let digits: String = body.chars().filter(|c| *c != '-').collect();
    let whole = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then(|| digits.to_ascii_lowercase())
}

/// A UUID of 32 digits as NVML writes it.
pub fn hyphened_uuid(digits: &str) -> Option<String> {
    let u = plain_uuid(digits)?;
    let groups = [&u[..8], &u[8..12], &u[12..16], &u[16..20], &u[20..]];
    Some(format!("GPU-{}", groups.join("-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_differ() {
        let mut names: Vec<_> = Number::ALL.iter().map(|(_, n)| *n).collect();
        for (i, (number, _)) in Number::ALL.iter().enumerate() {
            assert_eq!(*number as usize, i);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Number::ALL.len());
    }

    #[test]
    fn documents_of_other_releases_are_read() {
        let old: Gpus = serde_json::from_str("{}").unwrap();
        assert_eq!(old, Gpus::default());
        let new = r#"{"driver":"1","later":[],"gpus":{"ab":{"numbers":{"busy":3,"later":4}}}}"#;
        let new: Gpus = serde_json::from_str(new).unwrap();
        assert_eq!(new.gpus["ab"].numbers["busy"], 3);
    }

    #[test]
    fn uuids_in_both_spellings() {
        let hex = "62757362617200000000000000000a01";
        let long = "GPU-62757362-6172-0000-0000-000000000A01";
        assert_eq!(plain_uuid(long).as_deref(), Some(hex));
        assert_eq!(plain_uuid(hex).as_deref(), Some(hex));
        assert_eq!(plain_uuid("GPU-1"), None);
        assert_eq!(hyphened_uuid(hex), Some(long.replace('A', "a")));
        assert_eq!(hyphened_uuid(""), None);
        assert_eq!(plain_uuid("MIG-62757362-6172-0000-0000-000000000A01"), None);
    }
}
