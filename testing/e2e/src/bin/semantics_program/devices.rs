//! As many devices as a server may have.

use super::{Api, at};

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
