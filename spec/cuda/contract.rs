//! What both ends must agree on beside the messages.

/// Where addresses lie that the client chooses. The worker reserves a range whole when something is
/// first mapped there: the driver honours the wish for an address when much is asked for. Measured:
/// it does from 0x3000_0000_0000 to 0x5400_0000_0000 and at 0x7000_0000_0000, not at
/// 0x0100_0000_0000. Linux puts a program and its heap between 0x5555_0000_0000 and
/// 0x5700_0000_0000, and all else below 0x8000_0000_0000 downwards: what the program has mapped as
/// well keeps away from both.
#[ranges(1 << 40)]
enum Ranges {
    /// Memory of the program's devices, a range each, in the program's order.
    Devices = [0x3000_0000_0000; 16] + [0x6000_0000_0000; 16] + [0x1000_0000_0000; 32],
    /// Addresses that programs reserve for mappings of their own.
    Reserved = [0x4000_0000_0000; 16],
    /// Managed memory. What lies in this range and in those below it, all devices may use.
    Managed = [0x5000_0000_0000; 1],
    /// Page-locked host memory.
    Host = [0x5100_0000_0000; 1],
    /// Device memory in which kernels see memory that the program registered.
    Window = [0x5200_0000_0000; 1],
    /// Page-locked memory that the program and a worker on its host have both mapped.
    Shared = [0x5300_0000_0000; 1],
}

/// What the worker maps at least: the driver's own granularity.
const GRANULE: u64 = 2 << 20;

/// Ids of objects from here on are chosen by the worker, all others by the client.
const WORKER_IDS: u32 = 1 << 21;

/// Among the positions of a program's devices: one that another server has.
const OTHERS_DEVICE: u32 = 0xffff_ffff;

/// Places in which the worker keeps parameters of launches.
const KEPT_PLACES: u32 = 1 << 16;

/// The most bytes of one launch's parameters that it keeps, and of all together.
const KEPT_BYTES: u32 = 8 << 10;
const KEPT_MOST: u32 = 32 << 20;

/// The same of bytes that are copied to devices.
const COPY_PLACES: u32 = 1 << 13;
const COPY_BYTES: u32 = 512 << 10;
const COPY_MOST: u32 = 32 << 20;

/// The most bytes of the program's memory that a copy asks for when its turn has come: the worker
/// has page-locked memory for each such copy.
const MOST_READ: u64 = 16 << 20;
