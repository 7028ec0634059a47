//! `libnvidia-ml.so.1`: NVML's C symbols, each of which calls the client's code.
//!
//! Every function that `nvml.h` of CUDA 11 to 13 declares is exported, because programs look up
//! what they need one by one and some do not check what they find. [`unsupported`] lists those that
//! have nothing to offer here.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]
// Functions of the API keep their C names.
#![allow(non_snake_case)]

mod unsupported;

use busbar_client::nvml::types::*;
use busbar_client::nvml::{Device, Return, device, system};
use busbar_control::gpu::Number;
use std::ffi::{c_char, c_void};

/// Exports functions under one or more names.
macro_rules! export {
    ($(fn [$($name:ident)*] $args:tt = $call:expr;)*) => { $(
        $( export!(@ $name $args $call); )*
    )* };
    (@ $name:ident ($($arg:ident: $t:ty),*) $call:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $t),*) -> Return {
            // SAFETY: passed on to the caller, who keeps to the API.
            #[allow(unused_unsafe)]
            unsafe { $call }
        }
    };
}

/// Exports functions that give one 32-bit number of a device.
macro_rules! numbers {
    ($($name:ident = $how:ident($number:ident);)*) => {
        export! { $(
            fn [$name](d: Device, out: *mut u32) = device::$how(d, Number::$number, out);
        )* }
    };
}

/// A sentence for a return code.
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(rc: Return) -> *const c_char {
    system::error_string(rc)
}

#[rustfmt::skip]
export! {
    fn [nvmlInit nvmlInit_v2]() = system::init(0);
    fn [nvmlInitWithFlags](flags: u32) = system::init(flags);
    fn [nvmlShutdown]() = system::shutdown();
    fn [nvmlInternalGetExportTable](table: *mut *const c_void, _id: *const c_void) =
        system::export_table(table);

    fn [nvmlSystemGetDriverVersion](out: *mut c_char, room: u32) =
        system::driver_version(out, room);
    fn [nvmlSystemGetNVMLVersion](out: *mut c_char, room: u32) = system::nvml_version(out, room);
    fn [nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2](out: *mut i32) =
        system::cuda_version(out);
    fn [nvmlGetExcludedDeviceCount nvmlGetBlacklistDeviceCount nvmlUnitGetCount](out: *mut u32) =
        system::none(out);

    fn [nvmlDeviceGetCount nvmlDeviceGetCount_v2](out: *mut u32) = system::count(out);
    fn [nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByIndex_v2](i: u32, out: *mut Device) =
        system::by_index(i, out);
    fn [nvmlDeviceGetHandleByUUID](uuid: *const c_char, out: *mut Device) =
        system::by_uuid(uuid, out);
    fn [nvmlDeviceGetHandleByUUIDV](uuid: *const Uuid, out: *mut Device) =
        system::by_uuid_v(uuid, out);
    fn [nvmlDeviceGetHandleByPciBusId nvmlDeviceGetHandleByPciBusId_v2](
        id: *const c_char, out: *mut Device
    ) = system::by_pci(id, out);
    fn [nvmlDeviceGetHandleBySerial](serial: *const c_char, out: *mut Device) =
        system::by_serial(serial, out);

    fn [nvmlDeviceGetName](d: Device, out: *mut c_char, room: u32) = device::name(d, out, room);
    fn [nvmlDeviceGetUUID](d: Device, out: *mut c_char, room: u32) = device::uuid(d, out, room);
    fn [nvmlDeviceGetSerial](d: Device, out: *mut c_char, room: u32) =
        device::text(d, "serial", out, room);
    fn [nvmlDeviceGetVbiosVersion](d: Device, out: *mut c_char, room: u32) =
        device::text(d, "vbios", out, room);
    fn [nvmlDeviceGetBoardPartNumber](d: Device, out: *mut c_char, room: u32) =
        device::text(d, "part", out, room);
    fn [nvmlDeviceGetIndex](d: Device, out: *mut u32) = device::index(d, out);
    fn [nvmlDeviceGetPciInfo nvmlDeviceGetPciInfo_v2](d: Device, out: *mut PciInfoOld) =
        device::pci_old(d, out);
    fn [nvmlDeviceGetPciInfo_v3](d: Device, out: *mut PciInfo) = device::pci(d, out);
    fn [nvmlDeviceGetCudaComputeCapability](d: Device, major: *mut i32, minor: *mut i32) =
        device::compute_capability(d, major, minor);
    fn [nvmlDeviceGetArchitecture](d: Device, out: *mut u32) = device::architecture(d, out);
    fn [nvmlDeviceGetNumGpuCores](d: Device, out: *mut u32) = device::cores(d, out);

    fn [nvmlDeviceGetMemoryInfo](d: Device, out: *mut Memory) = device::memory(d, out);
    fn [nvmlDeviceGetMemoryInfo_v2](d: Device, out: *mut MemoryV2) = device::memory_v2(d, out);
    fn [nvmlDeviceGetBAR1MemoryInfo](d: Device, out: *mut Bar1Memory) = device::bar1(d, out);
    fn [nvmlDeviceGetUtilizationRates](d: Device, out: *mut Utilization) =
        device::utilization(d, out);
    fn [nvmlDeviceGetTemperature](d: Device, sensor: u32, out: *mut u32) =
        device::temperature(d, sensor, out);
    fn [nvmlDeviceGetTemperatureV](d: Device, out: *mut Temperature) =
        device::temperature_v(d, out);
    fn [nvmlDeviceGetTotalEnergyConsumption](d: Device, out: *mut u64) =
        device::live_wide(d, Number::Energy, out);
    fn [nvmlDeviceGetClockInfo](d: Device, domain: u32, out: *mut u32) =
        device::clock(d, domain, out);
    fn [nvmlDeviceGetClock](d: Device, domain: u32, id: u32, out: *mut u32) =
        device::clock_by_id(d, domain, id, out);
    fn [nvmlDeviceGetMaxClockInfo](d: Device, domain: u32, out: *mut u32) =
        device::max_clock(d, domain, out);
    fn [nvmlDeviceGetPowerManagementLimitConstraints](d: Device, min: *mut u32, max: *mut u32) =
        device::fixed_two(d, [Number::PowerMinLimit, Number::PowerMaxLimit], min, max);
    fn [nvmlDeviceGetEccMode](d: Device, now: *mut u32, next: *mut u32) =
        device::fixed_two(d, [Number::Ecc, Number::EccPending], now, next);
    fn [nvmlDeviceGetMigMode](d: Device, now: *mut u32, next: *mut u32) =
        device::fixed_two(d, [Number::Mig, Number::MigPending], now, next);
    fn [nvmlDeviceGetComputeMode](d: Device, out: *mut u32) = device::compute_mode(d, out);
    fn [nvmlDeviceIsMigDeviceHandle](d: Device, out: *mut u32) = device::is_mig(d, out);
    fn [
        nvmlDeviceGetComputeRunningProcesses nvmlDeviceGetComputeRunningProcesses_v2
        nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetGraphicsRunningProcesses
        nvmlDeviceGetGraphicsRunningProcesses_v2 nvmlDeviceGetGraphicsRunningProcesses_v3
        nvmlDeviceGetMPSComputeRunningProcesses nvmlDeviceGetMPSComputeRunningProcesses_v2
        nvmlDeviceGetMPSComputeRunningProcesses_v3
    ](d: Device, count: *mut u32, _list: *mut c_void) = device::processes(d, count);

    fn [nvmlDeviceGetGpuFabricInfo](d: Device, out: *mut FabricInfo) = device::fabric(d, out);
    fn [nvmlDeviceGetGpuFabricInfoV](d: Device, out: *mut FabricInfoV2) =
        device::fabric_v(d, out);
    fn [nvmlDeviceGetFieldValues](d: Device, count: i32, values: *mut FieldValue) =
        device::fields(d, count, values);
    fn [nvmlDeviceOnSameBoard](a: Device, b: Device, out: *mut i32) =
        device::same_board(a, b, out);
    fn [nvmlDeviceGetTopologyCommonAncestor](a: Device, b: Device, out: *mut u32) =
        device::ancestor(a, b, out);
    fn [nvmlDeviceGetP2PStatus](a: Device, b: Device, kind: u32, out: *mut u32) =
        device::p2p(a, b, kind, out);
}

numbers! {
    nvmlDeviceGetPowerUsage = live(Power);
    nvmlDeviceGetFanSpeed = live(Fan);
    nvmlDeviceGetPerformanceState = live(PerformanceState);
    nvmlDeviceGetPowerState = live(PerformanceState);
    nvmlDeviceGetCurrPcieLinkGeneration = live(PcieGeneration);
    nvmlDeviceGetCurrPcieLinkWidth = live(PcieWidth);
    nvmlDeviceGetPcieSpeed = live(PcieSpeed);
    nvmlDeviceGetMaxPcieLinkGeneration = fixed(PcieMaxGeneration);
    nvmlDeviceGetMaxPcieLinkWidth = fixed(PcieMaxWidth);
    nvmlDeviceGetPcieLinkMaxSpeed = fixed(PcieMaxSpeed);
    nvmlDeviceGetPowerManagementLimit = fixed(PowerLimit);
    nvmlDeviceGetPowerManagementDefaultLimit = fixed(PowerDefaultLimit);
    nvmlDeviceGetEnforcedPowerLimit = fixed(PowerEnforcedLimit);
    nvmlDeviceGetMinorNumber = fixed(Minor);
    nvmlDeviceGetBrand = fixed(Brand);
    nvmlDeviceGetBoardId = fixed(Board);
    nvmlDeviceGetMemoryBusWidth = fixed(MemoryBusWidth);
    nvmlDeviceGetPersistenceMode = fixed(Persistence);
    nvmlDeviceGetMaxMigDeviceCount = fixed(MaxMigDevices);
}
