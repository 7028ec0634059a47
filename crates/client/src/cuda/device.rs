//! Devices: which ones the program sees, and what is known of them.

use super::handles;
use super::runtime::{self, enter_local, guard, put};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::Kind;
use busbar_wire::{Reader, WireError};
use std::collections::HashMap;

/// A device, as the server described it when the session began.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its position in the server's list.
    pub position: u32,
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Memory in bytes.
    pub memory: u64,
    /// Every attribute that its driver knows.
    pub attributes: HashMap<i32, i32>,
    /// The id of its primary context.
    pub primary: u32,
}

impl Device {
    /// Compute capability, as 90 for 9.0.
    pub fn arch(&self) -> u32 {
        let get = |a| self.attributes.get(&(a as i32)).copied().unwrap_or(0) as u32;
        get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10
            + get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    }
}

/// Attributes that are not as the server's driver says, because the processor that would use them
/// is in another machine. With `CONCURRENT_MANAGED_ACCESS` off, CUDA's own rules make managed
/// memory coherent at synchronization points, which is what can be kept over a network.
const MASKED: &[(u32, i32)] = &[
    (CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0),
    (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0),
    (CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0),
    (
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        0,
    ),
    (CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0),
    (CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 0),
    (
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
        0,
    ),
    (
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        0,
    ),
    (CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0),
    (CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0),
    (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0),
    (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0),
];

/// Reads the list of `OpenCuda`.
pub fn parse(bytes: &[u8]) -> Result<Vec<Device>, WireError> {
    let mut r = Reader::new(bytes);
    let mut devices = Vec::new();
    while r.left() > 0 {
        let position = devices.len() as u32;
        let name = r.str()?.to_string();
        let uuid = r.array()?;
        let memory = r.u64()?;
        let n = r.count(4096, 8)?;
        let mut attributes = HashMap::with_capacity(n);
        for _ in 0..n {
            attributes.insert(r.i32()?, r.i32()?);
        }
        for (a, v) in MASKED {
            attributes.insert(*a as i32, *v);
        }
        devices.push(Device {
            position,
            name,
            uuid,
            memory,
            attributes,
            primary: 0,
        });
    }
    Ok(devices)
}

/// Applies `CUDA_VISIBLE_DEVICES`: ordinals or UUIDs, in order, up to the first that is not there.
pub fn visible(all: Vec<Device>) -> Vec<Device> {
    let mut chosen = match std::env::var("CUDA_VISIBLE_DEVICES") {
        Err(_) => all,
        Ok(list) => choose(&all, &list),
    };
    for d in &mut chosen {
        d.primary = handles::create(Kind::Context, 0);
    }
    chosen
}

fn choose(all: &[Device], list: &str) -> Vec<Device> {
    let mut chosen: Vec<Device> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let found = match word.parse::<usize>() {
            Ok(n) => all.get(n),
            Err(_) => {
                let wanted = word.strip_prefix("GPU-").unwrap_or("?").replace('-', "");
                let hex = |d: &Device| {
                    d.uuid
                        .iter()
                        .map(|b| format!("{b:02x}"))
                        .collect::<String>()
                };
                all.iter()
                    .find(|d| !wanted.is_empty() && hex(d).starts_with(&wanted))
            }
        };
        match found {
            Some(d) if chosen.iter().all(|c| c.position != d.position) => chosen.push(d.clone()),
            // The driver takes a repeated device for a mistake and shows none at all.
            Some(_) => return Vec::new(),
            None => break,
        }
    }
    chosen
}

/// The device with the program's ordinal.
pub fn get(cx: runtime::Cx, dev: CUdevice) -> Result<&'static Device, CUresult> {
    usize::try_from(dev)
        .ok()
        .and_then(|i| cx.rt.devices.get(i))
        .ok_or(CUDA_ERROR_INVALID_DEVICE)
}

pub(super) unsafe fn cuDeviceGet(device: *mut CUdevice, ordinal: i32) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        get(cx, ordinal)?;
        // SAFETY: the program's pointer.
        unsafe { put(device, ordinal) }
    })
}

pub(super) unsafe fn cuDeviceGetCount(count: *mut i32) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        // SAFETY: the program's pointer.
        unsafe { put(count, cx.rt.devices.len() as i32) }
    })
}

pub(super) unsafe fn cuDeviceGetAttribute(
    pi: *mut i32,
    attrib: CUdevice_attribute,
    dev: CUdevice,
) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let d = get(cx, dev)?;
        let v = d
            .attributes
            .get(&(attrib as i32))
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the program's pointer.
        unsafe { put(pi, *v) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices() -> Vec<Device> {
        let d = |position: u32| Device {
            position,
            name: String::new(),
            uuid: [0x10 + position as u8; 16],
            memory: 0,
            attributes: HashMap::new(),
            primary: 0,
        };
        (0..3).map(d).collect()
    }

    #[test]
    fn visible_devices_are_chosen_as_the_driver_does() {
        let pick = |s: &str| {
            choose(&devices(), s)
                .iter()
                .map(|d| d.position)
                .collect::<Vec<_>>()
        };
        assert_eq!(pick("2,0"), [2, 0]);
        assert_eq!(pick("1,7,0"), [1], "up to the first that is not there");
        assert_eq!(pick("-1"), [0u32; 0]);
        assert_eq!(pick(""), [0u32; 0]);
        assert_eq!(pick("GPU-1111"), [1]);
        assert_eq!(pick("0,0"), [0u32; 0]);
    }
}
