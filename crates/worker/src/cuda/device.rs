//! Devices.

use super::driver::{load, name_of};
use super::prelude::*;
use crate::answer;
use busbar_control::device::Device;
use busbar_control::text::to_hex;
use busbar_wire::Writer;
use std::ffi::{CStr, c_char};

/// Attributes are numbered from 1; the newest that any driver knows is below this.
const ATTRIBUTES: i32 = 192;

fn text(f: impl FnOnce(*mut c_char, i32) -> CUresult) -> String {
    let mut buf = [0 as c_char; 256];
    match f(buf.as_mut_ptr(), buf.len() as i32 - 1) {
        // SAFETY: the last byte stays zero.
        CUDA_SUCCESS => unsafe { CStr::from_ptr(buf.as_ptr()) }
            .to_string_lossy()
            .into_owned(),
        _ => String::new(),
    }
}

fn name(d: &Driver, dev: i32) -> String {
    // SAFETY: the buffer is as long as said.
    text(|p, n| unsafe { d.cuDeviceGetName(p, n, dev) })
}

fn uuid(d: &Driver, dev: i32) -> [u8; 16] {
    let mut u: CUuuid = busbar_abi::zeroed();
    // SAFETY: a pointer to a live structure.
    unsafe { d.cuDeviceGetUuid(&mut u, dev) };
    busbar_abi::to_array(&u)
}

fn memory(d: &Driver, dev: i32) -> u64 {
    let mut n = 0usize;
    // SAFETY: a pointer to a live number.
    unsafe { d.cuDeviceTotalMem_v2(&mut n, dev) };
    n as u64
}

fn version(d: &Driver) -> i32 {
    let mut v = 0;
    // SAFETY: a pointer to a live number.
    unsafe { d.cuDriverGetVersion(&mut v) };
    v
}

fn attribute(d: &Driver, dev: i32, a: CUdevice_attribute) -> Option<i32> {
    let mut value = 0;
    // SAFETY: a pointer to a live number.
    let rc = unsafe { d.cuDeviceGetAttribute(&mut value, a, dev) };
    (rc == CUDA_SUCCESS).then_some(value)
}

/// The GPUs of this machine.
pub fn probe(library: Option<&str>) -> Result<Vec<Device>, String> {
    let d = load(library)?;
    let mut n = 0;
    // SAFETY: a pointer to a live number.
    check(unsafe { d.cuDeviceGetCount(&mut n) }).map_err(name_of)?;
    let hex = |u: [u8; 16]| to_hex(&u);
    let v = version(d);
    let attribute = |dev: i32, a| attribute(d, dev, a).map(|v| v as u32);
    let pci = |dev| {
        Some([
            attribute(dev, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            attribute(dev, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
            attribute(dev, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?,
        ])
    };
    let compute = |dev| {
        Some([
            attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ])
    };
    let one = |dev: i32| Device {
        api: "cuda".into(),
        ordinal: dev as u32,
        kind: "gpu".into(),
        name: name(d, dev),
        memory: memory(d, dev),
        uuid: hex(uuid(d, dev)),
        driver: format!("CUDA {}.{}", v / 1000, v % 1000 / 10),
        cuda: v as u32,
        pci: pci(dev),
        compute: compute(dev),
        processors: attribute(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    };
    match n {
        0 => Err("the NVIDIA driver finds no GPU".into()),
        n => Ok((0..n).map(one).collect()),
    }
}

/// Of a session that may have a part, that is all there is.
pub fn cu_device_total_mem_v2(
    w: &mut Cuda,
    m: msg::CuDeviceTotalMemV2,
) -> Result<msg::CuDeviceTotalMemV2Reply> {
    let bytes = w.gate.part(memory(w.driver, w.device(m.dev)?));
    Ok(msg::CuDeviceTotalMemV2Reply { bytes })
}

pub fn open_cuda(w: &mut Cuda, _m: msg::OpenCuda) -> Result<Encoded> {
    let d = w.driver;
    let mut list = Vec::new();
    let mut out = Writer::new(&mut list);
    for dev in &w.allowed {
        out.str(&name(d, *dev));
        out.raw(&uuid(d, *dev));
        out.u64(w.gate.part(memory(d, *dev)));
        let known = |a: i32| Some((a, attribute(d, *dev, a as _)?));
        let attributes: Vec<_> = (1..ATTRIBUTES).filter_map(known).collect();
        out.u32(attributes.len() as u32);
        for (a, v) in attributes {
            out.i32(a);
            out.i32(v);
        }
    }
    Ok(Encoded::of(&msg::OpenCudaReply {
        driver: version(d) as u32,
        devices: &list,
    }))
}

pub fn select_devices(w: &mut Cuda, m: msg::SelectDevices) -> Result<(), WireError> {
    let pick = |i: &u32| match *i {
        msg::contract::OTHERS_DEVICE => Some(-1),
        i => w.allowed.get(i as usize).copied(),
    };
    let chosen: Option<Vec<i32>> = m.devices.iter().map(pick).collect();
    w.devices = chosen.ok_or(WireError::BadValue("device"))?;
    Ok(())
}

pub fn cu_device_get_by_pci_bus_id(
    w: &mut Cuda,
    m: msg::CuDeviceGetByPCIBusId<'_>,
) -> Result<msg::CuDeviceGetByPCIBusIdReply, Fail> {
    let id = answer::text(m.pci_bus_id)?;
    let mut here = 0;
    // SAFETY: a pointer to a live number, and a string.
    check(unsafe { w.cuDeviceGetByPCIBusId(&mut here, id.as_ptr()) })?;
    // The program counts only the devices that it sees.
    let seen = w.devices.iter().position(|d| *d == here);
    let dev = seen.ok_or(CUDA_ERROR_INVALID_DEVICE)? as i32;
    Ok(msg::CuDeviceGetByPCIBusIdReply { dev })
}

pub fn chip_layout(w: &mut Cuda, m: msg::ChipLayout) -> Result<Encoded> {
    let found = layout(w.driver, w.device(m.device)?).filter(|(a, _)| !a.is_empty());
    let (a, b) = found.ok_or(CUDA_ERROR_NOT_SUPPORTED)?;
    Ok(Encoded::of(&msg::ChipLayoutReply {
        index_in_gpc: &a,
        gpc_of_tpc: &b,
    }))
}

pub fn error_text(w: &mut Cuda, m: msg::ErrorText) -> Result<Encoded> {
    type Ask = unsafe fn(&Driver, CUresult, *mut *const c_char) -> CUresult;
    let ask = |f: Ask| {
        let mut text = std::ptr::null();
        // SAFETY: a pointer to a live pointer; what the driver then gives is a text of its own.
        unsafe {
            match f(w.driver, m.error, &mut text) {
                CUDA_SUCCESS if !text.is_null() => {
                    CStr::from_ptr(text).to_string_lossy().into_owned()
                }
                _ => String::new(),
            }
        }
    };
    let (name, text) = (ask(Driver::cuGetErrorName), ask(Driver::cuGetErrorString));
    let (name, text) = (&name[..], &text[..]);
    Ok(Encoded::of(&msg::ErrorTextReply { name, text }))
}

/// Asks the driver's own undocumented table how the chip's processors are grouped.
fn layout(d: &Driver, dev: i32) -> Option<(Vec<u8>, Vec<u8>)> {
    const LAYOUT: [u8; 16] = *b"\x17\x34\xdc\x26\x80\x0d\x47\x45\x87\x26\xc0\xf1\xe7\xdd\x8b\xca";
    let id: CUuuid = busbar_abi::from_bytes(&LAYOUT)?;
    let mut table = std::ptr::null();
    let mut processors = 0;
    let sms = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    // SAFETY: pointers to live values; the table is the driver's, its slot 0 tells its size, and
    // slots 4 and 13 have these signatures wherever they were seen.
    unsafe {
        check(d.cuGetExportTable(&mut table, &id)).ok()?;
        check(d.cuDeviceGetAttribute(&mut processors, sms, dev)).ok()?;
        let slots: *const usize = table.cast();
        if slots.is_null() || slots.read() < 14 * size_of::<usize>() {
            return None;
        }
        type Get = unsafe extern "C" fn(*mut *mut u8, *mut *mut u8) -> CUresult;
        type Free = unsafe extern "C" fn(*mut u8, *mut u8) -> CUresult;
        let get: Get = std::mem::transmute(slots.add(4).read());
        let free: Free = std::mem::transmute(slots.add(13).read());
        let (mut a, mut b) = (std::ptr::null_mut(), std::ptr::null_mut());
        check(get(&mut a, &mut b)).ok()?;
        if a.is_null() || b.is_null() {
            return None;
        }
        // One byte for each pair of processors.
        let n = processors as usize / 2;
        let copy = |p: *mut u8| std::slice::from_raw_parts(p, n).to_vec();
        let found = (copy(a), copy(b));
        free(a, b);
        Some(found)
    }
}
