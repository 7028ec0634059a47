//! The fields of `--query-gpu` and `--query-compute-apps`, and their lines.

use super::card::{Card, Process};
use super::clock;
use super::not_told::NOT_TOLD;
use anyhow::{Result, bail};
use busbar_control::gpu::Number;

/// What is shown where it is not known.
pub const UNKNOWN: &str = "[N/A]";
const MIB: u64 = 1 << 20;

/// Where a field's value comes from.
#[derive(Clone, Copy)]
pub enum Value {
    /// From the GPU.
    Gpu(fn(&Card<'_>) -> Option<String>),
    /// From the program.
    Process(fn(&Process<'_>) -> Option<String>),
    /// It is a number as NVML says it.
    Plain(Number),
    /// Bytes, of which whole MiB are shown.
    Memory(Number),
    /// Milliwatts.
    Power(Number),
    /// One of these words.
    Word(Number, &'static [&'static str]),
    /// Nobody tells it.
    Nowhere,
}

/// A field.
#[derive(Clone, Copy)]
pub struct Field {
    /// Its names; the first is in the heading.
    pub names: &'static [&'static str],
    /// Its unit, if it has one.
    pub unit: &'static str,
    value: Value,
}

/// A field with these names.
pub const fn field(names: &'static [&'static str], unit: &'static str, value: Value) -> Field {
    Field { names, unit, value }
}

const SWITCH: &[&str] = &["Disabled", "Enabled"];
/// How programs may share a GPU.
pub const MODES: &[&str] = &[
    "Default",
    "Exclusive_Thread",
    "Prohibited",
    "Exclusive_Process",
];

const NOW: Field = field(&["timestamp"], "", Value::Gpu(|_| Some(clock::short())));
const SERVER: Field = field(&["server"], "", Value::Gpu(|c| Some(c.server.into())));
const INDEX: Field = field(&["index"], "", Value::Gpu(|c| Some(c.index.to_string())));

use Value::{Gpu, Memory, Plain, Power, Word};

/// Those of GPUs, as nvidia-smi has them, and `server`.
const GPU: &[Field] = &[
    NOW,
    SERVER,
    INDEX,
    field(&["driver_version"], "", Gpu(|c| c.driver())),
    field(&["count"], "", Gpu(|c| Some(c.count.to_string()))),
    field(&["name", "gpu_name"], "", Gpu(|c| Some(c.name()))),
    field(&["serial", "gpu_serial"], "", Gpu(|c| c.said("serial"))),
    field(&["uuid", "gpu_uuid"], "", Gpu(|c| c.uuid())),
    field(&["pci.bus_id", "gpu_bus_id"], "", Gpu(|c| c.bus())),
    field(&["pci.domain"], "", Gpu(|c| c.place(0, 4))),
    field(&["pci.bus"], "", Gpu(|c| c.place(1, 2))),
    field(&["pci.device"], "", Gpu(|c| c.place(2, 2))),
    field(&["pci.device_id"], "", Gpu(|c| c.hex(Number::PciDeviceId))),
    field(
        &["pci.sub_device_id"],
        "",
        Gpu(|c| c.hex(Number::PciSubsystemId)),
    ),
    field(&["vbios_version"], "", Gpu(|c| c.said("vbios"))),
    field(
        &["inforom.img", "inforom.image"],
        "",
        Gpu(|c| c.said("inforom")),
    ),
    field(
        &["pcie.link.gen.gpucurrent", "pcie.link.gen.current"],
        "",
        Plain(Number::PcieGeneration),
    ),
    field(&["pcie.link.gen.max"], "", Plain(Number::PcieMaxGeneration)),
    field(
        &["pcie.link.gen.gpumax"],
        "",
        Plain(Number::PcieGpuMaxGeneration),
    ),
    field(&["pcie.link.width.current"], "", Plain(Number::PcieWidth)),
    field(&["pcie.link.width.max"], "", Plain(Number::PcieMaxWidth)),
    field(
        &["display_attached", "display_mode"],
        "",
        Word(Number::Display, &["No", "Yes"]),
    ),
    field(&["display_active"], "", Word(Number::DisplayActive, SWITCH)),
    field(&["persistence_mode"], "", Word(Number::Persistence, SWITCH)),
    field(&["fan.speed"], "%", Plain(Number::Fan)),
    field(
        &["pstate"],
        "",
        Gpu(|c| Some(format!("P{}", c.number(Number::PerformanceState)?))),
    ),
    field(
        &["memory.total"],
        "MiB",
        Gpu(|c| Some((c.memory() / MIB).to_string())),
    ),
    field(&["memory.reserved"], "MiB", Memory(Number::MemoryReserved)),
    field(&["memory.used"], "MiB", Memory(Number::MemoryUsed)),
    field(
        &["memory.free"],
        "MiB",
        Gpu(|c| Some((c.free()? / MIB).to_string())),
    ),
    field(&["compute_mode"], "", Word(Number::ComputeMode, MODES)),
    field(
        &["compute_cap"],
        "",
        Gpu(|c| {
            c.listed
                .device
                .compute
                .map(|[major, minor]| format!("{major}.{minor}"))
        }),
    ),
    field(&["utilization.gpu"], "%", Plain(Number::Busy)),
    field(&["utilization.memory"], "%", Plain(Number::MemoryBusy)),
    field(&["utilization.encoder"], "%", Plain(Number::EncoderBusy)),
    field(&["utilization.decoder"], "%", Plain(Number::DecoderBusy)),
    field(&["utilization.jpeg"], "%", Plain(Number::JpegBusy)),
    field(&["utilization.ofa"], "%", Plain(Number::FlowBusy)),
    field(&["ecc.mode.current"], "", Word(Number::Ecc, SWITCH)),
    field(&["ecc.mode.pending"], "", Word(Number::EccPending, SWITCH)),
    field(&["temperature.gpu"], "", Plain(Number::Temperature)),
    field(
        &["power.management"],
        "",
        Word(Number::PowerManagement, SWITCH),
    ),
    field(&["power.draw"], "W", Power(Number::Power)),
    field(&["power.draw.average"], "W", Power(Number::Power)),
    field(&["power.draw.instant"], "W", Power(Number::Power)),
    field(&["power.limit"], "W", Power(Number::PowerLimit)),
    field(
        &["enforced.power.limit"],
        "W",
        Power(Number::PowerEnforcedLimit),
    ),
    field(
        &["power.default_limit"],
        "W",
        Power(Number::PowerDefaultLimit),
    ),
    field(&["power.min_limit"], "W", Power(Number::PowerMinLimit)),
    field(&["power.max_limit"], "W", Power(Number::PowerMaxLimit)),
    field(
        &["clocks.current.graphics", "clocks.gr"],
        "MHz",
        Plain(Number::ClockGraphics),
    ),
    field(
        &["clocks.current.sm", "clocks.sm"],
        "MHz",
        Plain(Number::ClockSm),
    ),
    field(
        &["clocks.current.memory", "clocks.mem"],
        "MHz",
        Plain(Number::ClockMemory),
    ),
    field(
        &["clocks.current.video", "clocks.video"],
        "MHz",
        Plain(Number::ClockVideo),
    ),
    field(
        &["clocks.max.graphics", "clocks.max.gr"],
        "MHz",
        Plain(Number::MaxClockGraphics),
    ),
    field(&["clocks.max.sm"], "MHz", Plain(Number::MaxClockSm)),
    field(
        &["clocks.max.memory", "clocks.max.mem"],
        "MHz",
        Plain(Number::MaxClockMemory),
    ),
    field(&["mig.mode.current"], "", Word(Number::Mig, SWITCH)),
    field(&["mig.mode.pending"], "", Word(Number::MigPending, SWITCH)),
];

/// Those of programs, likewise, and `index`, `session`, `user` and `host`.
const PROCESS: &[Field] = &[
    NOW,
    SERVER,
    INDEX,
    field(&["gpu_name"], "", Gpu(|c| Some(c.name()))),
    field(&["gpu_bus_id"], "", Gpu(|c| c.bus())),
    field(&["gpu_serial"], "", Gpu(|c| c.said("serial"))),
    field(&["gpu_uuid"], "", Gpu(|c| c.uuid())),
    field(
        &["pid"],
        "",
        Value::Process(|p| Some(p.session.pid.to_string())),
    ),
    field(
        &["process_name", "name"],
        "",
        Value::Process(|p| Some(p.text(&p.session.program))),
    ),
    field(
        &["used_gpu_memory", "used_memory"],
        "MiB",
        Value::Process(|p| Some((p.memory()? / MIB).to_string())),
    ),
    field(
        &["session"],
        "",
        Value::Process(|p| Some(p.text(&p.session.session))),
    ),
    field(
        &["user"],
        "",
        Value::Process(|p| Some(p.text(&p.session.user))),
    ),
    field(
        &["host"],
        "",
        Value::Process(|p| Some(p.text(&p.session.host))),
    ),
];

impl Field {
    /// Its value, without the unit.
    pub fn value(&self, card: &Card<'_>, process: Option<&Process<'_>>) -> Option<String> {
        match self.value {
            Gpu(of) => of(card),
            Value::Process(of) => of(process?),
            Plain(n) => Some(card.number(n)?.to_string()),
            Memory(n) => Some((card.number(n)? / MIB).to_string()),
            Power(n) => Some(format!("{:.2}", card.number(n)? as f64 / 1000.0)),
            Word(n, words) => {
                let word = words.get(usize::try_from(card.number(n)?).ok()?)?;
                Some((*word).into())
            }
            Value::Nowhere => None,
        }
    }

    /// Its value with the unit.
    pub fn shown(&self, card: &Card<'_>, process: Option<&Process<'_>>) -> Option<String> {
        let value = self.value(card, process)?;
        Some([value.as_str(), self.unit].join(" ").trim_end().into())
    }
}

fn all(processes: bool) -> impl Iterator<Item = Field> {
    let (known, others): (_, &[_]) = match processes {
        true => (PROCESS, &[]),
        false => (GPU, NOT_TOLD),
    };
    let others = others
        .iter()
        .map(|(names, unit)| field(names, unit, Value::Nowhere));
    known.iter().copied().chain(others)
}

/// That of a name.
pub fn find(processes: bool, name: &str) -> Option<Field> {
    all(processes).find(|f| f.names.contains(&name))
}

/// The value of a GPU's field with its unit.
pub fn of(card: &Card<'_>, name: &str) -> Option<String> {
    let field = find(false, name)?;
    field.shown(card, None)
}

/// What there is to ask for, a field a line.
pub fn help(processes: bool) -> String {
    let line = |f: Field| f.names.join(", ") + "\n";
    all(processes).map(line).collect()
}

/// Lines of values with commas between.
pub struct Csv {
    fields: Vec<Field>,
    heading: bool,
    units: bool,
}

impl Csv {
    /// Those of some fields, in a format such as `csv,noheader,nounits`.
    pub fn new(processes: bool, names: &str, format: &str) -> Result<Self> {
        let mut csv = Self {
            fields: Vec::new(),
            heading: true,
            units: true,
        };
        for word in format.split(',').map(str::trim) {
            match word {
                "csv" => {}
                "noheader" => csv.heading = false,
                "nounits" => csv.units = false,
                other => bail!("--format: `{other}`: say csv, and with it noheader or nounits"),
            }
        }
        for name in names.split(',').map(str::trim) {
            let Some(field) = find(processes, name) else {
                let what = if processes { "compute-apps" } else { "gpu" };
                bail!(
                    "there is no field `{name}` here: `busbar smi --help-query-{what}` lists those \
                     that there are"
                );
            };
            csv.fields.push(field);
        }
        Ok(csv)
    }

    /// The line above all others, if there is to be one.
    pub fn heading(&self) -> Option<String> {
        let title = |f: &Field| match f.unit {
            "" => f.names[0].to_string(),
            unit => format!("{} [{unit}]", f.names[0]),
        };
        let titles: Vec<_> = self.fields.iter().map(title).collect();
        self.heading.then(|| titles.join(", ") + "\n")
    }

    /// The line of a GPU, or of a program on it.
    pub fn line(&self, card: &Card<'_>, process: Option<&Process<'_>>) -> String {
        let value = |f: &Field| {
            let value = match self.units {
                true => f.shown(card, process),
                false => f.value(card, process),
            };
            value.unwrap_or_else(|| UNKNOWN.into())
        };
        let values: Vec<_> = self.fields.iter().map(value).collect();
        values.join(", ") + "\n"
    }
}
