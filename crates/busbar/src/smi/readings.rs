//! What is known of a GPU, as `nvidia-smi -q` orders and names it: for people, and in XML. Both are
//! drawn from this one description.

use super::card::{Card, Process};
use super::clock;
use super::fields::Value::{self, Gpu, Memory, Plain, Word};
use super::fields::{self, Field};
use busbar_control::gpu::Number;

/// A part of what is known, which `-d` chooses by its word.
pub struct Section {
    word: &'static str,
    /// What there is in it.
    pub parts: &'static [Part],
}

/// A part of a section.
pub enum Part {
    /// A value.
    Row(Row),
    /// Several under one title.
    Group {
        /// As people read it.
        title: &'static str,
        /// As XML has it.
        element: &'static str,
        /// What there is in it.
        parts: &'static [Part],
    },
    /// The programs on the GPU.
    Processes,
}

/// A value, by two names.
pub struct Row {
    /// As people read it; empty where only XML has it.
    pub label: &'static str,
    /// As XML has it.
    pub element: &'static str,
    source: Source,
}

/// Where a value comes from.
enum Source {
    /// The field of that name, which `--query-gpu` has, too.
    Asked(&'static str),
    /// A field that is nowhere else.
    Own(Field),
}

impl Row {
    /// What is shown of a GPU.
    pub fn value(&self, card: &Card<'_>) -> Option<String> {
        match &self.source {
            Source::Asked(name) => fields::of(card, name),
            Source::Own(field) => field.shown(card, None),
        }
    }
}

const fn section(word: &'static str, parts: &'static [Part]) -> Section {
    Section { word, parts }
}

const fn group(title: &'static str, element: &'static str, parts: &'static [Part]) -> Part {
    Part::Group {
        title,
        element,
        parts,
    }
}

const fn row(label: &'static str, element: &'static str, name: &'static str) -> Part {
    Part::Row(Row {
        label,
        element,
        source: Source::Asked(name),
    })
}

const fn own(label: &'static str, element: &'static str, unit: &'static str, value: Value) -> Part {
    Part::Row(Row {
        label,
        element,
        source: Source::Own(fields::field(&[], unit, value)),
    })
}

/// Product lines, as NVML numbers them.
const BRANDS: &[&str] = &[
    "Unknown",
    "Quadro",
    "Tesla",
    "NVS",
    "Grid",
    "GeForce",
    "Titan",
    "NVIDIA Virtual Applications",
    "NVIDIA Virtual PC",
    "NVIDIA Virtual Compute Server",
    "NVIDIA RTX Virtual Workstation",
    "NVIDIA Cloud Gaming",
    "Quadro RTX",
    "NVIDIA RTX",
    "NVIDIA",
    "GeForce RTX",
    "Titan RTX",
];
/// Architectures, likewise.
const ARCHITECTURES: &[&str] = &[
    "Unknown",
    "Unknown",
    "Kepler",
    "Maxwell",
    "Pascal",
    "Volta",
    "Turing",
    "Ampere",
    "Ada Lovelace",
    "Hopper",
    "Blackwell",
];
/// How a server has a GPU.
const VIRTUAL: &[&str] = &["None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA"];

/// Lanes of a link.
fn lanes(card: &Card<'_>, n: Number) -> Option<String> {
    Some(format!("{}x", card.number(n)?))
}

/// Bytes of BAR1 that nobody uses.
fn bar1_free(card: &Card<'_>) -> Option<String> {
    let all = card.number(Number::Bar1Total)?;
    let free = all.saturating_sub(card.number(Number::Bar1Used)?);
    Some((free >> 20).to_string())
}

/// In nvidia-smi's order. The first has no word that chooses it.
const SECTIONS: &[Section] = &[
    section("", GENERAL),
    section(
        "PERFORMANCE",
        &[row("Performance State", "performance_state", "pstate")],
    ),
    section("MEMORY", MEMORY),
    section(
        "COMPUTE",
        &[row("Compute Mode", "compute_mode", "compute_mode")],
    ),
    section("UTILIZATION", UTILIZATION),
    section("ECC", ECC),
    section("TEMPERATURE", TEMPERATURE),
    section("POWER", POWER),
    section("CLOCK", CLOCK),
    section("PIDS", &[Part::Processes]),
];

const GENERAL: &[Part] = &[
    row("Server", "server", "server"),
    row("Product Name", "product_name", "name"),
    own(
        "Product Brand",
        "product_brand",
        "",
        Word(Number::Brand, BRANDS),
    ),
    own(
        "Product Architecture",
        "product_architecture",
        "",
        Word(Number::Architecture, ARCHITECTURES),
    ),
    row("Display Attached", "display_attached", "display_attached"),
    row("Display Active", "display_active", "display_active"),
    row("Persistence Mode", "persistence_mode", "persistence_mode"),
    row("Addressing Mode", "addressing_mode", "addressing_mode"),
    group(
        "MIG Mode",
        "mig_mode",
        &[
            row("Current", "current_mig", "mig.mode.current"),
            row("Pending", "pending_mig", "mig.mode.pending"),
        ],
    ),
    row("Accounting Mode", "accounting_mode", "accounting.mode"),
    row(
        "Accounting Mode Buffer Size",
        "accounting_mode_buffer_size",
        "accounting.buffer_size",
    ),
    group(
        "Driver Model",
        "driver_model",
        &[
            row("Current", "current_dm", "driver_model.current"),
            row("Pending", "pending_dm", "driver_model.pending"),
        ],
    ),
    row("Serial Number", "serial", "serial"),
    row("GPU UUID", "uuid", "uuid"),
    own("Minor Number", "minor_number", "", Plain(Number::Minor)),
    row("VBIOS Version", "vbios_version", "vbios_version"),
    own(
        "MultiGPU Board",
        "multigpu_board",
        "",
        Word(Number::MultiGpuBoard, &["No", "Yes"]),
    ),
    own(
        "Board ID",
        "board_id",
        "",
        Gpu(|c| Some(format!("0x{:x}", c.number(Number::Board)?))),
    ),
    own(
        "Board Part Number",
        "board_part_number",
        "",
        Gpu(|c| c.said("part")),
    ),
    group(
        "Inforom Version",
        "inforom_version",
        &[
            row("Image Version", "img_version", "inforom.img"),
            row("OEM Object", "oem_object", "inforom.oem"),
            row("ECC Object", "ecc_object", "inforom.ecc"),
            row("Power Management Object", "pwr_object", "inforom.pwr"),
        ],
    ),
    group(
        "GPU Operation Mode",
        "gpu_operation_mode",
        &[
            row("Current", "current_gom", "gom.current"),
            row("Pending", "pending_gom", "gom.pending"),
        ],
    ),
    group(
        "GPU Virtualization Mode",
        "gpu_virtualization_mode",
        &[own(
            "Virtualization Mode",
            "virtualization_mode",
            "",
            Word(Number::Virtualization, VIRTUAL),
        )],
    ),
    row("Driver Version", "driver_version", "driver_version"),
    group("PCI", "pci", PCI),
    row("Fan Speed", "fan_speed", "fan.speed"),
];

const PCI: &[Part] = &[
    row("Bus", "pci_bus", "pci.bus"),
    row("Device", "pci_device", "pci.device"),
    row("Domain", "pci_domain", "pci.domain"),
    own(
        "Base Classcode",
        "pci_base_class",
        "",
        Gpu(|c| Some(format!("0x{:X}", c.number(Number::PciClass)? >> 8))),
    ),
    own(
        "Sub Classcode",
        "pci_sub_class",
        "",
        Gpu(|c| Some(format!("0x{:X}", c.number(Number::PciClass)? & 0xff))),
    ),
    row("Device Id", "pci_device_id", "pci.device_id"),
    row("Bus Id", "pci_bus_id", "pci.bus_id"),
    row("Sub System Id", "pci_sub_system_id", "pci.sub_device_id"),
    group(
        "GPU Link Info",
        "pci_gpu_link_info",
        &[
            group(
                "PCIe Generation",
                "pcie_gen",
                &[
                    row("Max", "max_link_gen", "pcie.link.gen.max"),
                    row("Current", "current_link_gen", "pcie.link.gen.current"),
                    row(
                        "Device Current",
                        "device_current_link_gen",
                        "pcie.link.gen.gpucurrent",
                    ),
                    row("Device Max", "max_device_link_gen", "pcie.link.gen.gpumax"),
                    row("Host Max", "max_host_link_gen", "pcie.link.gen.hostmax"),
                ],
            ),
            group(
                "Link Width",
                "link_widths",
                &[
                    own(
                        "Max",
                        "max_link_width",
                        "",
                        Gpu(|c| lanes(c, Number::PcieMaxWidth)),
                    ),
                    own(
                        "Current",
                        "current_link_width",
                        "",
                        Gpu(|c| lanes(c, Number::PcieWidth)),
                    ),
                ],
            ),
        ],
    ),
    own(
        "Replays Since Reset",
        "replay_counter",
        "",
        Plain(Number::PcieReplays),
    ),
];

const MEMORY: &[Part] = &[
    group(
        "FB Memory Usage",
        "fb_memory_usage",
        &[
            row("Total", "total", "memory.total"),
            row("Reserved", "reserved", "memory.reserved"),
            row("Used", "used", "memory.used"),
            row("Free", "free", "memory.free"),
        ],
    ),
    group(
        "BAR1 Memory Usage",
        "bar1_memory_usage",
        &[
            own("Total", "total", "MiB", Memory(Number::Bar1Total)),
            own("Used", "used", "MiB", Memory(Number::Bar1Used)),
            own("Free", "free", "MiB", Gpu(bar1_free)),
        ],
    ),
];

const UTILIZATION: &[Part] = &[group(
    "Utilization",
    "utilization",
    &[
        row("GPU", "gpu_util", "utilization.gpu"),
        row("Memory", "memory_util", "utilization.memory"),
        row("Encoder", "encoder_util", "utilization.encoder"),
        row("Decoder", "decoder_util", "utilization.decoder"),
        row("JPEG", "jpeg_util", "utilization.jpeg"),
        row("OFA", "ofa_util", "utilization.ofa"),
    ],
)];

const ECC: &[Part] = &[group(
    "ECC Mode",
    "ecc_mode",
    &[
        row("Current", "current_ecc", "ecc.mode.current"),
        row("Pending", "pending_ecc", "ecc.mode.pending"),
    ],
)];

/// With a unit, as nvidia-smi has it here and not in its lists.
const TEMPERATURE: &[Part] = &[group(
    "Temperature",
    "temperature",
    &[
        own(
            "GPU Current Temp",
            "gpu_temp",
            "C",
            Plain(Number::Temperature),
        ),
        own(
            "GPU Shutdown Temp",
            "gpu_temp_max_threshold",
            "C",
            Plain(Number::HeatShutdown),
        ),
        own(
            "GPU Slowdown Temp",
            "gpu_temp_slow_threshold",
            "C",
            Plain(Number::HeatSlowdown),
        ),
        own(
            "GPU Max Operating Temp",
            "gpu_temp_max_gpu_threshold",
            "C",
            Plain(Number::HeatGpu),
        ),
        row("Memory Current Temp", "memory_temp", "temperature.memory"),
        own(
            "Memory Max Operating Temp",
            "gpu_temp_max_mem_threshold",
            "C",
            Plain(Number::HeatMemory),
        ),
    ],
)];

const POWER: &[Part] = &[group(
    "GPU Power Readings",
    "gpu_power_readings",
    &[
        row("", "power_state", "pstate"),
        row(
            "Average Power Draw",
            "average_power_draw",
            "power.draw.average",
        ),
        row(
            "Instantaneous Power Draw",
            "instant_power_draw",
            "power.draw.instant",
        ),
        row(
            "Current Power Limit",
            "current_power_limit",
            "enforced.power.limit",
        ),
        row(
            "Requested Power Limit",
            "requested_power_limit",
            "power.limit",
        ),
        row(
            "Default Power Limit",
            "default_power_limit",
            "power.default_limit",
        ),
        row("Min Power Limit", "min_power_limit", "power.min_limit"),
        row("Max Power Limit", "max_power_limit", "power.max_limit"),
    ],
)];

const CLOCK: &[Part] = &[
    group(
        "Clocks",
        "clocks",
        &[
            row("Graphics", "graphics_clock", "clocks.current.graphics"),
            row("SM", "sm_clock", "clocks.current.sm"),
            row("Memory", "mem_clock", "clocks.current.memory"),
            row("Video", "video_clock", "clocks.current.video"),
        ],
    ),
    group(
        "Applications Clocks",
        "applications_clocks",
        &[
            row("Graphics", "graphics_clock", "clocks.applications.graphics"),
            row("Memory", "mem_clock", "clocks.applications.memory"),
        ],
    ),
    group(
        "Max Clocks",
        "max_clocks",
        &[
            row("Graphics", "graphics_clock", "clocks.max.graphics"),
            row("SM", "sm_clock", "clocks.max.sm"),
            row("Memory", "mem_clock", "clocks.max.memory"),
            own("Video", "video_clock", "MHz", Plain(Number::MaxClockVideo)),
        ],
    ),
];

/// What stands above all GPUs.
pub fn head(cards: &[Card<'_>]) -> [(&'static str, &'static str, Option<String>); 4] {
    let count = cards.first().map_or(0, |c| c.count);
    [
        ("Timestamp", "timestamp", Some(clock::long())),
        (
            "Driver Version",
            "driver_version",
            cards.iter().find_map(Card::driver),
        ),
        (
            "CUDA Version",
            "cuda_version",
            cards.iter().find_map(Card::cuda),
        ),
        ("Attached GPUs", "attached_gpus", Some(count.to_string())),
    ]
}

/// What is known of a program, by both names. Which part it has of a GPU that is cut to pieces,
/// servers do not say.
pub fn process(p: &Process<'_>) -> [(&'static str, &'static str, Option<String>); 6] {
    let memory = p.memory().map(|m| format!("{} MiB", m >> 20));
    [
        ("GPU instance ID", "gpu_instance_id", None),
        ("Compute instance ID", "compute_instance_id", None),
        ("Process ID", "pid", Some(p.session.pid.to_string())),
        ("Type", "type", Some("C".into())),
        ("Name", "process_name", Some(p.name())),
        ("Used GPU Memory", "used_memory", memory),
    ]
}

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
    let words = SECTIONS.iter().map(|s| s.word).filter(|w| !w.is_empty());
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part that shows a field must name one that there is.
    fn every_name_is_a_field(parts: &[Part]) {
        for part in parts {
            match part {
                Part::Group { parts, .. } => every_name_is_a_field(parts),
                Part::Row(Row {
                    source: Source::Asked(name),
                    ..
                }) => assert!(fields::find(false, name).is_some(), "{name}"),
                _ => {}
            }
        }
    }

    #[test]
    fn what_is_shown_is_known() {
        SECTIONS.iter().for_each(|s| every_name_is_a_field(s.parts));
    }
}
