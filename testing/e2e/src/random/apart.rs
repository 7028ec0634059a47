//! What a program sees of devices that lie apart: 0 and 1 at one server, 2 and 3 at another.

use crate::driver::Driver;
use std::io::Read;

fn contexts(d: &Driver) -> Vec<usize> {
    assert_eq!(d.cuInit(0), 0, "cuInit");
    let mut n = 0;
    assert_eq!(d.cuDeviceGetCount(&mut n), 0);
    println!("devices {n}");
    let retained = |device| {
        let mut c = 0;
        assert_eq!(d.cuDevicePrimaryCtxRetain(&mut c, device), 0);
        c
    };
    (0..n).map(retained).collect()
}

/// Prints what holds between devices.
pub fn run(d: &Driver) {
    let contexts = contexts(d);
    let places: Vec<_> = (0..4)
        .map(|device| {
            let mut text = [0u8; 16];
            assert_eq!(d.cuDeviceGetPCIBusId(&mut text, 16, device), 0);
            text
        })
        .collect();
    let mut different = places.clone();
    different.sort_unstable();
    different.dedup();
    println!("places differ: {}", different.len() == 4);
    let found = (0..4).all(|device| {
        let mut out = -1;
        let place = places[device as usize].as_ptr().cast();
        assert_eq!(d.cuDeviceGetByPCIBusId(&mut out, place), 0);
        out == device
    });
    println!("found by place: {found}");
    let peers = [(0, 1), (0, 2), (2, 3), (3, 1)].map(|(a, b)| {
        let mut can = -1;
        assert_eq!(d.cuDeviceCanAccessPeer(&mut can, a, b), 0);
        format!(" {a}-{b} {can}")
    });
    println!("peers:{}", peers.concat());
    assert_eq!(d.cuCtxSetCurrent(contexts[0]), 0);
    println!("enable: {}", d.cuCtxEnablePeerAccess(contexts[2], 0));

    let (mut here, mut there, mut stream, mut ms) = (0, 0, 0, 0.0);
    assert_eq!(d.cuEventCreate(&mut here, 0), 0);
    assert_eq!(d.cuEventRecord(here, 0), 0);
    assert_eq!(d.cuCtxSetCurrent(contexts[3]), 0);
    assert_eq!(d.cuEventCreate(&mut there, 0), 0);
    assert_eq!(d.cuEventRecord(there, 0), 0);
    assert_eq!(d.cuStreamCreate(&mut stream, 0), 0);
    println!("elapsed: {}", d.cuEventElapsedTime(&mut ms, here, there));
    println!("record: {}", d.cuEventRecord(here, stream));

    let p = d.alloc(100);
    assert_eq!(d.cuCtxSetCurrent(contexts[0]), 0);
    let (mut memory, mut device) = (0, 9);
    assert_eq!(d.cuPointerGetAttribute(&mut memory, 2, p), 0);
    assert_eq!(d.cuPointerGetAttribute(&mut device, 9, p), 0);
    println!("pointer: {memory} {device}");

    let current = |push: Option<usize>| {
        let (mut device, mut old) = (-1, 0);
        match push {
            Some(context) => assert_eq!(d.cuCtxPushCurrent_v2(context), 0),
            None => assert_eq!(d.cuCtxPopCurrent_v2(&mut old), 0),
        }
        assert_eq!(d.cuCtxGetDevice(&mut device), 0);
        device
    };
    let top = current(Some(contexts[3]));
    let below = current(None);
    println!("stack: {top} {below} {}", current(Some(contexts[2])));
}

/// Uses memory of both servers when the first has died.
pub fn one_dies(d: &Driver) {
    let contexts = contexts(d);
    let place = |i: usize, value: u8| {
        assert_eq!(d.cuCtxSetCurrent(contexts[i]), 0);
        let p = d.alloc(4096);
        assert_eq!(d.cuMemsetD8_v2(p, value, 4096), 0);
        assert_eq!(d.cuCtxSynchronize(), 0);
        p
    };
    let (p, q) = (place(0, 1), place(2, 2));
    println!("ready");
    let mut all = Vec::new();
    std::io::stdin().read_to_end(&mut all).expect("an end");
    let read = |i: usize, p| {
        let mut out = [0u8; 4096];
        assert_eq!(d.cuCtxSetCurrent(contexts[i]), 0);
        (d.cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), p, 4096), out)
    };
    println!("first: {}", read(0, p).0);
    println!("later: {}", d.cuCtxSynchronize());
    let (rc, out) = read(2, q);
    println!("other: {rc} {}", out == [2; 4096]);
}
