//! Devices: which ones the program sees, and what is known of them.

use super::prelude::*;
use crate::plan::Seen;
use crate::ranks::Spot;
use crate::servers::domain;
use busbar_control::text::to_hex;
use busbar_wire::generated::cuda::contract::DEVICES;
use busbar_wire::{Reader, WireError};

/// A device, as the server described it when the session began.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its position in the server's list.
    pub position: u32,
    /// The server's number among those of the process.
    pub server: usize,
    /// The program's ordinal.
    pub ordinal: CUdevice,
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Every attribute that its driver knows.
    pub attributes: HashMap<i32, i32>,
    /// The id of its primary context.
    pub primary: u32,
    /// It stands for a device of another rank, and work that is given to it is done by this one.
    pub stand_in: bool,
    /// The program sees it at another place on the bus than its server does.
    pub moved: bool,
}

/// On the bus of a stand-in: no device of a real machine has this number there.
const NO_SLOT: i32 = 0x1f;

impl Device {
    /// Compute capability, as 90 for 9.0.
    pub fn arch(&self) -> u32 {
        let get = |a| self.attributes.get(&(a as i32)).copied().unwrap_or(0) as u32;
        get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10
            + get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    }

    /// The same device, in the place of another rank's.
    fn stand_in(&self, of: Spot) -> Self {
        let mut d = self.clone();
        (d.stand_in, d.moved) = (true, true);
        // Each device of a program has a name and a place of its own.
        let number = (of.server as u32 + 1) << 16 | (of.position & 0xffff);
        for (byte, n) in d.uuid[12..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= n;
        }
        let domain = domain(of.server, 0) as i32;
        let place = [domain, (of.position & 0xff) as i32, NO_SLOT];
        let place = PLACE.map(|a| a as i32).into_iter().zip(place);
        d.attributes.extend(place);
        d.attributes.insert(BOARD, number as i32);
        d
    }

    /// Where it is on the bus: domain, bus, device.
    pub fn pci(&self) -> [i32; 3] {
        PLACE.map(|a| self.attributes.get(&(a as i32)).copied().unwrap_or(0))
    }

    /// The same, as the driver writes it.
    pub fn bus_id(&self) -> String {
        let [domain, bus, device] = self.pci();
        format!("{domain:04X}:{bus:02X}:{device:02X}.0")
    }
}

/// What says where a device is on the bus.
const PLACE: [CUdevice_attribute; 3] = [
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
];
/// Devices of one board have one number of these.
const BOARD: i32 = CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID as i32;

/// Attributes that are 0 whatever the server's driver says: the processor that would use what they
/// offer is in another machine.
const HIDDEN: &[u32] = &[
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
    CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
    CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
    CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH,
    CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED,
];
/// The ways to share memory of a pool that there are between processes of the program's machine.
const SHARED_AS: i32 = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR as i32;

/// Reads the list of `OpenCuda`, from a server of the process, which is so manieth of its program.
pub fn parse(bytes: &[u8], server: usize, number: usize) -> Result<Vec<Device>, WireError> {
    let mut r = Reader::new(bytes);
    let mut devices = Vec::new();
    while r.left() > 0 {
        let position = devices.len() as u32;
        let name = r.str()?.to_string();
        let uuid = r.array()?;
        // Bytes of memory, which only `cuDeviceTotalMem` wants to know, and asks.
        r.u64()?;
        let n = r.count(4096, 8)?;
        let mut attributes = HashMap::with_capacity(n);
        for _ in 0..n {
            attributes.insert(r.i32()?, r.i32()?);
        }
        attributes.extend(HIDDEN.iter().map(|a| (*a as i32, 0)));
        let handles = CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES as i32;
        *attributes.entry(handles).or_insert(0) &= SHARED_AS;
        // Over a network no memory of the server's is nearer: one node stands for all.
        let node = CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID as i32;
        attributes.entry(node).and_modify(|n| *n = (*n).min(0));
        // What tells devices apart does so over servers.
        let pci = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID as i32;
        attributes
            .entry(pci)
            .and_modify(|d| *d = domain(number, *d as u32) as i32);
        let boards = (number as i32) << 16;
        attributes.entry(BOARD).and_modify(|b| *b ^= boards);
        devices.push(Device {
            position,
            server,
            ordinal: 0,
            name,
            uuid,
            attributes,
            primary: 0,
            stand_in: false,
            moved: number > 0,
        });
    }
    Ok(devices)
}

/// The devices that a program sees of those that there are, in the order of its job's ranks; all
/// where nothing is said of them.
pub fn in_order(all: Vec<Device>, seen: &[Seen]) -> Vec<Device> {
    if seen.is_empty() {
        return all;
    }
    let of = |s: &Seen| {
        let is = |d: &&Device| (d.server, d.position) == (s.spot.server, s.spot.position);
        let found = all.iter().find(is)?;
        Some(match s.stands_for {
            Some(of) => found.stand_in(of),
            None => found.clone(),
        })
    };
    seen.iter().filter_map(of).collect()
}

/// Applies `CUDA_DEVICE_ORDER` and then `CUDA_VISIBLE_DEVICES`: ordinals or UUIDs, in order, up to
/// the first that is not there. Without an order of the program's own the server's holds. An order
/// that does not exist and a repeated device are errors, as they are to the driver. `primary`
/// chooses the id of a primary context at a server.
pub fn visible(mut all: Vec<Device>, primary: impl Fn(usize) -> u32) -> Result<Vec<Device>> {
    match std::env::var_os("CUDA_DEVICE_ORDER") {
        Some(v) if v == "PCI_BUS_ID" => all.sort_by_key(Device::pci),
        Some(v) if !v.is_empty() && v != "FASTEST_FIRST" => return Err(CUDA_ERROR_INVALID_DEVICE),
        _ => {}
    }
    let mut chosen = match std::env::var_os("CUDA_VISIBLE_DEVICES") {
        None => all,
        Some(list) => choose(&all, &list.to_string_lossy())?,
    };
    let most = DEVICES.len();
    if chosen.len() > most {
        let (all, say) = (chosen.len(), "CUDA_VISIBLE_DEVICES can choose others");
        crate::log!(Warn, "the program sees {most} of {all} devices: {say}");
        chosen.truncate(most);
    }
    for (i, d) in chosen.iter_mut().enumerate() {
        (d.ordinal, d.primary) = (i as CUdevice, primary(d.server));
    }
    Ok(chosen)
}

fn choose(all: &[Device], list: &str) -> Result<Vec<Device>> {
    let mut chosen: Vec<&Device> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let found = match word.parse::<usize>() {
            Ok(n) => all.get(n),
            Err(_) => by_uuid(all, word),
        };
        match found {
            Some(d) if chosen.iter().all(|c| !std::ptr::eq(*c, d)) => chosen.push(d),
            Some(_) => return Err(CUDA_ERROR_INVALID_DEVICE),
            None => break,
        }
    }
    Ok(chosen.into_iter().cloned().collect())
}

/// The one device whose UUID begins so. A part of a GPU is a device with a UUID like any other.
fn by_uuid<'a>(all: &'a [Device], word: &str) -> Option<&'a Device> {
    let digits = word
        .strip_prefix("GPU-")
        .or_else(|| word.strip_prefix("MIG-"))?;
    let wanted = digits.replace('-', "").to_ascii_lowercase();
    if wanted.is_empty() {
        return None;
    }
    let hex = |d: &Device| to_hex(&d.uuid);
    let mut matching = all.iter().filter(|d| hex(d).starts_with(&wanted));
    let one = matching.next();
    one.filter(|_| matching.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::Spot;

    fn devices() -> Vec<Device> {
        let d = |position: u32| Device {
            position,
            server: 0,
            ordinal: 0,
            name: String::new(),
            uuid: [0x10 + position as u8; 16],
            attributes: HashMap::new(),
            primary: 0,
            stand_in: false,
            moved: false,
        };
        (0..3).map(d).collect()
    }

    #[test]
    fn visible_devices_are_chosen_as_the_driver_does() {
        let pick = |s: &str| {
            choose(&devices(), s)
                .expect("no device twice")
                .iter()
                .map(|d| d.position)
                .collect::<Vec<_>>()
        };
        assert_eq!(pick("2,0"), [2, 0]);
        assert_eq!(pick("1,7,0"), [1], "up to the first that is not there");
        assert_eq!(pick("-1"), [0u32; 0]);
        assert_eq!(pick(""), [0u32; 0]);
        assert_eq!(pick("GPU-1111"), [1]);
        assert_eq!(pick("GPU-11111111-1111,0"), [1, 0]);
        assert_eq!(pick("MIG-1212,1"), [2, 1]);
        assert_eq!(pick("GPU-1"), [0u32; 0], "more than one begins so");
        assert_eq!(pick("GPU-,0"), [0u32; 0]);
        assert_eq!(pick("MIG-GPU-1212/1/0,0"), [0u32; 0]);
        assert_eq!(pick("0,-1,1"), [0]);
        assert_eq!(pick("1, 2"), [1, 2]);
        assert!(choose(&devices(), "0,0").is_err());
    }

    #[test]
    fn a_rank_sees_as_many_devices_as_its_job_has() {
        let spot = |server, position| Spot { server, position };
        let see = |position, stands_for| Seen {
            spot: spot(0, position),
            stands_for,
        };
        let (a, b) = (Some(spot(0, 0)), Some(spot(0, 1)));
        let seen = [see(1, a), see(1, b), see(1, None), see(2, None)];
        let all = in_order(devices(), &seen);
        let found: Vec<_> = all.iter().map(|d| (d.position, d.stand_in)).collect();
        assert_eq!(found, [(1, true), (1, true), (1, false), (2, false)]);
        let names: std::collections::BTreeSet<_> = all.iter().map(|d| d.uuid).collect();
        assert_eq!(names.len(), 4, "each has a name of its own");
        let places: std::collections::BTreeSet<_> = all.iter().map(Device::pci).collect();
        assert_eq!(
            places.len(),
            3,
            "stand-ins have places, these others have none"
        );
        let chosen = choose(&all, "1,0,3").expect("three devices");
        assert_eq!(chosen.len(), 3, "stand-ins are not the same device");
    }

    #[test]
    fn devices_are_ordered_by_their_place_on_the_bus() {
        let mut all = devices();
        for (d, bus) in all.iter_mut().zip([7, 1, 4]) {
            d.attributes
                .insert(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID as i32, bus);
        }
        all.sort_by_key(Device::pci);
        let order: Vec<_> = all.iter().map(|d| d.position).collect();
        assert_eq!(order, [1, 2, 0]);
    }
}
