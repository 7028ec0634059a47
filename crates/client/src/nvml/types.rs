//! Structures of `nvml.h`, field for field.

use std::ffi::c_char;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub free: u64,
    /// Bytes.
    pub used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryV2 {
    /// Size and version.
    pub version: u32,
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub reserved: u64,
    /// Bytes.
    pub free: u64,
    /// Bytes.
    pub used: u64,
}

/// `nvmlBAR1Memory_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Bar1Memory {
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub free: u64,
    /// Bytes.
    pub used: u64,
}

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Utilization {
    /// Percent.
    pub gpu: u32,
    /// Percent.
    pub memory: u32,
}

/// `nvmlTemperature_v1_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Temperature {
    /// Size and version.
    pub version: u32,
    /// Which sensor.
    pub sensor: u32,
    /// Degrees Celsius.
    pub temperature: i32,
}

/// The start that the first two forms of `nvmlPciInfo_t` share; what follows in the second is
/// reserved.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PciInfoOld {
    /// Place, as text.
    pub bus_id: [c_char; 16],
    /// Place.
    pub domain: u32,
    /// Place.
    pub bus: u32,
    /// Place.
    pub device: u32,
    /// Device and vendor.
    pub device_id: u32,
    /// Subsystem.
    pub subsystem_id: u32,
}

/// `nvmlPciInfo_t`, the third form.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PciInfo {
    /// The older forms.
    pub old: PciInfoOld,
    /// Place, as text with a longer domain.
    pub bus_id: [c_char; 32],
}

/// `nvmlGpuFabricInfo_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct FabricInfo {
    /// Which cluster.
    pub cluster: [u8; 16],
    /// How registering went.
    pub status: u32,
    /// Which clique.
    pub clique: u32,
    /// 0: there is no fabric.
    pub state: u8,
    /// What pads the state, spelt out because some bindings read all of it as the state.
    pub pad: [u8; 3],
}

/// `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct FabricInfoV2 {
    /// Size and version.
    pub version: u32,
    /// Which cluster.
    pub cluster: [u8; 16],
    /// How registering went.
    pub status: u32,
    /// Which clique.
    pub clique: u32,
    /// 0: there is no fabric.
    pub state: u8,
    /// What pads the state, spelt out because some bindings read all of it as the state.
    pub pad: [u8; 3],
    /// What is wrong.
    pub health: u32,
}

/// `nvmlGpuFabricInfo_v3_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct FabricInfoV3 {
    /// The second form.
    pub v2: FabricInfoV2,
    /// Whether anything is wrong.
    pub summary: u8,
}

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FieldValue {
    /// Which field.
    pub field: u32,
    /// Of what part.
    pub scope: u32,
    /// Microseconds since 1970.
    pub timestamp: i64,
    /// Microseconds that asking took.
    pub latency: i64,
    /// The value's type.
    pub kind: u32,
    /// How it went.
    pub status: u32,
    /// The value.
    pub value: u64,
}

/// `nvmlUUID_v1_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Uuid {
    /// Size and version.
    pub version: u32,
    /// 1: text; 2: bytes.
    pub kind: u32,
    /// Text with its NUL, or 16 bytes.
    pub value: [u8; 41],
}

/// The version word of a structure.
pub const fn version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

// What programs compiled against `nvml.h` expect.
const _: () = {
    assert!(size_of::<Memory>() == 24 && size_of::<MemoryV2>() == 40);
    assert!(size_of::<PciInfoOld>() == 36 && size_of::<PciInfo>() == 68);
    assert!(size_of::<FabricInfo>() == 28);
    assert!(size_of::<FabricInfoV2>() == 36 && size_of::<FabricInfoV3>() == 40);
    assert!(size_of::<FieldValue>() == 40);
    assert!(size_of::<Uuid>() == 52 && size_of::<Temperature>() == 12);
};
