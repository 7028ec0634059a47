//! A device whose memory is full, and one that fails in the middle of a copy.

use super::api::{Api, at};

const MIB: u64 = 1 << 20;

/// A module with a variable of so many bytes.
fn module_of(bytes: u64) -> String {
    format!("fakedev-module 1\nkernel nop nop\nglobal counter {bytes}\n\0")
}

/// Every call that takes memory of the device, all of which is taken.
fn takers(api: &Api) {
    let (mut a, mut b) = (0u64, 0u64);
    // Of a type and a place: pinned memory of device 0.
    let properties = [1i32, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // Width, height, format and channels of an array of words.
    let array = [4096u64, 4096, 4 << 32 | 0x20];
    let image = module_of(64 * MIB);
    let p = properties.as_ptr() as u64;
    api.tell("cuMemAllocAsync", &[at(&mut a), 64 * MIB, 0]);
    api.tell("cuMemAllocPitch_v2", &[at(&mut a), at(&mut b), MIB, 64, 4]);
    api.tell("cuMemCreate", &[at(&mut a), 64 * MIB, p, 0]);
    api.tell("cuArrayCreate_v2", &[at(&mut a), array.as_ptr() as u64]);
    api.tell("cuModuleLoadData", &[at(&mut a), image.as_ptr() as u64]);
    api.tell("cuCtxSynchronize", &[]);
}

/// Fills the device, asks for more, and has room again as soon as memory is freed, also while the
/// device is at work.
pub(super) fn full(api: &Api) {
    let context = api.made("cuCtxCreate_v2", &[0, 0]);
    let spin = api.kernel("spin");
    let mut p = 0u64;
    for size in [1 << 40, u64::MAX, 1 << 62] {
        api.tell("cuMemAlloc_v2", &[at(&mut p), size]);
    }
    let mut all = Vec::new();
    let rc = loop {
        match api.call("cuMemAlloc_v2", &[at(&mut p), 8 * MIB]) {
            0 => all.push(p),
            rc => break rc,
        }
    };
    println!("full: {rc}");
    takers(api);
    api.launch(spin, 0, &[100_000]);
    for p in all {
        assert_eq!(api.call("cuMemFree_v2", &[p]), 0);
    }
    let image = module_of(64 * MIB);
    let module = api.made("cuModuleLoadData", &[image.as_ptr() as u64]);
    api.tell("cuModuleUnload", &[module]);
    api.launch(spin, 0, &[100_000]);
    takers(api);
    api.tell("cuCtxDestroy_v2", &[context]);
}

/// Copies that are behind other work, once and once again.
pub(super) fn copies(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let spin = api.kernel("spin");
    let mut bytes = vec![7u8; 4 << 20];
    let n = bytes.len() as u64;
    let device = api.made("cuMemAlloc_v2", &[n]);
    api.tell("cuMemcpyHtoD_v2", &[device, bytes.as_ptr() as u64, n]);
    for _ in 0..2 {
        bytes.fill(0);
        api.launch(spin, 0, &[100_000]);
        let rc = api.tell("cuMemcpyDtoH_v2", &[bytes.as_mut_ptr() as u64, device, n]);
        println!("all there: {}", rc != 0 || bytes.iter().all(|b| *b == 7));
    }
    api.tell("cuCtxSynchronize", &[]);
}

/// A primary context that the device has no memory for at first.
pub(super) fn primary(api: &Api) {
    let (mut context, mut p) = (0u64, 0u64);
    for _ in 0..2 {
        api.tell("cuDevicePrimaryCtxRetain", &[at(&mut context), 0]);
        api.tell("cuCtxSetCurrent", &[context]);
        api.tell("cuMemAlloc_v2", &[at(&mut p), MIB]);
    }
}

/// A library of machine code, which is loaded while the program goes on.
pub(super) fn library(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let image = machine_code();
    for _ in 0..2 {
        let (mut library, mut kernel) = (0u64, 0u64);
        api.tell(
            "cuLibraryLoadData",
            &[at(&mut library), image.as_ptr() as u64],
        );
        let name = c"nop".as_ptr() as u64;
        api.tell("cuLibraryGetKernel", &[at(&mut kernel), library, name]);
        api.tell("cuLibraryUnload", &[library]);
        api.tell("cuCtxSynchronize", &[]);
    }
}

/// A fat binary with one entry, which passes for machine code of the device's architecture.
fn machine_code() -> Vec<u8> {
    let mut module = module_of(64).into_bytes();
    module.resize(module.len().next_multiple_of(8), 0);
    let n = module.len() as u64;
    let mut entry = [0u8; 64];
    entry[0] = 2;
    entry[4] = 64;
    entry[8..16].copy_from_slice(&n.to_le_bytes());
    entry[28] = 90;
    let mut all = 0xba55_ed50u32.to_le_bytes().to_vec();
    all.extend([1, 0, 16, 0]);
    all.extend((n + 64).to_le_bytes());
    all.extend(entry);
    all.extend(module);
    all
}

/// Each device's memory is its own, and it is said of it whose it is; so is what is mapped where
/// the program has reserved addresses.
pub fn devices(api: &Api) {
    const N: u64 = 3 << 20;
    let mut count = 0i32;
    api.tell("cuDeviceGetCount", &[at(&mut count)]);
    println!("{count} devices");
    let memory: Vec<_> = (0..count as u64)
        .map(|device| {
            let context = api.made("cuDevicePrimaryCtxRetain", &[device]);
            assert_eq!(api.call("cuCtxSetCurrent", &[context]), 0);
            let p = api.made("cuMemAlloc_v2", &[N]);
            assert_eq!(api.call("cuMemsetD8_v2", &[p, device + 1, N]), 0);
            (context, p)
        })
        .collect();
    let reserved = api.made("cuMemAddressReserve", &[N + (1 << 20), 0, 0, 0]);
    for (_, p) in &memory {
        assert!(!(reserved..reserved + N).contains(p));
    }
    for (device, (context, p)) in memory.iter().enumerate() {
        assert_eq!(api.call("cuCtxSetCurrent", &[*context]), 0);
        let (mut ordinal, mut bytes) = (-1i32, [0u8; 2]);
        let asked = api.call("cuPointerGetAttribute", &[at(&mut ordinal), 9, p + N - 1]);
        let read = api.call("cuMemcpyDtoH_v2", &[at(&mut bytes), p + N - 2, 2]);
        let freed = api.call("cuMemFree_v2", &[*p]);
        println!("{device}: {asked} {ordinal}, {read} {bytes:?}, {freed}");
    }
}
