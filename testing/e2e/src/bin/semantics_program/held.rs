//! A stream that stands still, behind a function or a word that the program is to give it later:
//! other streams go on, and calls that CUDA makes asynchronously return at once.

use super::api::{Api, at};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// So long a stream stands still when it is forgotten: what then goes on goes on too late.
fn limit() -> Duration {
    busbar_e2e::patient(Duration::from_secs(4))
}

const MANY: u64 = 1 << 20;
const ROW: u64 = 4096;
const ROWS: u64 = 100;

/// A stream of the program's that stands still until it is let go.
pub struct Hold {
    /// 0 until the function runs, 1 while it waits; 2 lets it go, and 3 says that it waited in
    /// vain.
    state: AtomicU32,
}

unsafe extern "C" fn stand_still(data: *mut std::ffi::c_void) {
    // SAFETY: `Hold`s are never freed.
    let hold = unsafe { &*data.cast::<Hold>() };
    let end = Instant::now() + limit();
    let begun = hold
        .state
        .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
    while begun.is_ok() && hold.state.load(Ordering::Acquire) == 1 {
        if Instant::now() > end {
            hold.state.store(3, Ordering::Release);
        }
        std::thread::yield_now();
    }
}

impl Hold {
    /// Holds a stream.
    pub fn of(api: &Api, stream: u64) -> &'static Self {
        let hold: &Self = Box::leak(Box::new(Self {
            state: AtomicU32::new(0),
        }));
        let f = stand_still as unsafe extern "C" fn(*mut std::ffi::c_void);
        let data = std::ptr::from_ref(hold) as u64;
        assert_eq!(
            api.call("cuLaunchHostFunc", &[stream, f as usize as u64, data]),
            0
        );
        let end = Instant::now() + limit();
        while hold.state.load(Ordering::Acquire) == 0 && Instant::now() < end {
            std::thread::yield_now();
        }
        hold
    }

    /// Lets the stream go; whether it stood still until now.
    pub fn let_go(&self) -> bool {
        let held = self
            .state
            .compare_exchange(1, 2, Ordering::AcqRel, Ordering::Acquire);
        held.is_ok()
    }
}

/// An event dies while its stream stands still, and another one is made at once, which may have its
/// id: that the first one happens says nothing of the second.
pub fn event_ids(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [a, b, free] = [1u64; 3].map(|flags| api.made("cuStreamCreate", &[flags]));
    let words = api.made("cuMemAlloc_v2", &[4096]);
    api.tell("cuMemsetD8_v2", &[words, 0, 4096]);
    // Streams that do not wait for the default one would find zeros after what they wrote.
    assert_eq!(api.call("cuCtxSynchronize", &[]), 0);
    let event = || api.made("cuEventCreate", &[2]);
    // Whoever asks is told from then on.
    println!("never recorded: {}", api.call("cuEventQuery", &[event()]));
    for round in 1..=40u64 {
        let hold = |stream, word| {
            let args = [stream, words + word, round, 0];
            assert_eq!(api.call("cuStreamWaitValue32_v2", &args), 0);
        };
        let let_go = |word| {
            let args = [free, words + word, round, 0];
            assert_eq!(api.call("cuStreamWriteValue32_v2", &args), 0);
        };
        hold(a, 0);
        let first = event();
        assert_eq!(api.call("cuEventRecord", &[first, a]), 0);
        assert_eq!(api.call("cuEventDestroy_v2", &[first]), 0);
        hold(b, 64);
        let next = event();
        assert_eq!(api.call("cuEventRecord", &[next, b]), 0);
        let before = api.call("cuEventQuery", &[next]);
        let_go(0);
        assert_eq!(api.call("cuStreamSynchronize", &[a]), 0);
        let meanwhile = api.call("cuEventQuery", &[next]);
        let_go(64);
        assert_eq!(api.call("cuEventSynchronize", &[next]), 0);
        let after = api.call("cuEventQuery", &[next]);
        assert_eq!(api.call("cuEventDestroy_v2", &[next]), 0);
        println!("{before} {meanwhile} {after}");
    }
}

/// Memory that the cases copy from and to.
struct Place {
    device: u64,
    array: u64,
    /// Page-locked.
    from: u64,
    to: u64,
    /// The program's own, registered: twice as much.
    own: u64,
    fill: u64,
}

/// A slice of page-locked memory.
fn bytes(p: u64, n: u64) -> &'static mut [u8] {
    // SAFETY: each caller gives memory that is there until the program ends, and waits for copies.
    unsafe { std::slice::from_raw_parts_mut(p as *mut u8, n as usize) }
}

/// `CUDA_MEMCPY2D` of whole rows; kinds are 1 for the host, 2 for the device, 3 for an array.
fn rows((from, src): (u64, u64), (to, dst): (u64, u64)) -> [u64; 16] {
    let end = |kind: u64, p: u64| {
        let of = |k| if kind == k { p } else { 0 };
        [0, 0, kind, of(1), of(2), of(3), ROW]
    };
    let mut all = [0; 16];
    all[..7].copy_from_slice(&end(from, src));
    all[7..14].copy_from_slice(&end(to, dst));
    (all[14], all[15]) = (ROW, ROWS);
    all
}

/// Calls of a case, the first of which is the one in question, and what the program sees once their
/// stream is done.
type Case = (
    &'static str,
    fn(&Api, &Place, u64) -> Vec<i32>,
    fn(&Place) -> u64,
);

fn sum(p: u64, n: u64) -> u64 {
    bytes(p, n).iter().map(|b| u64::from(*b)).sum()
}

const CASES: [Case; 11] = [
    (
        "a short copy in",
        |api, p, s| {
            vec![
                api.call("cuMemcpyHtoDAsync_v2", &[p.device, p.from, 64, s]),
                api.call("cuMemcpyDtoHAsync_v2", &[p.to, p.device, 64, s]),
            ]
        },
        |p| sum(p.to, 64),
    ),
    (
        "a copy in",
        |api, p, s| vec![api.call("cuMemcpyHtoDAsync_v2", &[p.device, p.from, MANY, s])],
        |_| 0,
    ),
    (
        "a copy out",
        |api, p, s| vec![api.call("cuMemcpyDtoHAsync_v2", &[p.to, p.device, MANY, s])],
        |p| sum(p.to, MANY),
    ),
    (
        "rows in",
        |api, p, s| {
            let mut all = rows((1, p.from), (2, p.device));
            vec![api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s])]
        },
        |_| 0,
    ),
    (
        "rows out",
        |api, p, s| {
            let mut all = rows((2, p.device), (1, p.to));
            vec![api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s])]
        },
        |p| sum(p.to, ROW * ROWS),
    ),
    (
        "an array in",
        |api, p, s| {
            let mut all = rows((1, p.from), (3, p.array));
            vec![api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s])]
        },
        |_| 0,
    ),
    (
        "an array out",
        |api, p, s| {
            let mut all = rows((3, p.array), (1, p.to));
            vec![api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s])]
        },
        |p| sum(p.to, ROW * ROWS),
    ),
    (
        "memory of a pool",
        |api, p, s| {
            let mut q = 0u64;
            vec![
                api.call("cuMemAllocAsync", &[at(&mut q), MANY, s]),
                api.call("cuMemsetD8Async", &[q, 3, MANY, s]),
                api.call("cuMemcpyDtoHAsync_v2", &[p.to, q, MANY, s]),
                api.call("cuMemFreeAsync", &[q, s]),
            ]
        },
        |p| sum(p.to, MANY),
    ),
    (
        "a graph that copies in and out",
        |api, p, s| {
            graph(api, s, || {
                vec![
                    api.call("cuMemcpyHtoDAsync_v2", &[p.device, p.from, MANY, s]),
                    api.call("cuMemcpyDtoHAsync_v2", &[p.to, p.device, MANY, s]),
                ]
            })
        },
        |p| sum(p.to, MANY),
    ),
    (
        "a graph that copies registered memory",
        |api, p, s| {
            graph(api, s, || {
                vec![
                    api.call("cuMemcpyHtoDAsync_v2", &[p.device, p.own, MANY, s]),
                    api.call("cuMemcpyDtoHAsync_v2", &[p.own + MANY, p.device, MANY, s]),
                ]
            })
        },
        |p| sum(p.own + MANY, MANY),
    ),
    (
        "a graph that copies the same memory in and out",
        |api, p, s| {
            let all = bytes(p.own, MANY);
            all.fill(all[0].wrapping_add(20));
            graph(api, s, || {
                vec![
                    api.call("cuMemcpyHtoDAsync_v2", &[p.device, p.own, MANY, s]),
                    api.call("cuMemcpyDtoHAsync_v2", &[p.own, p.device, MANY, s]),
                ]
            })
        },
        |p| sum(p.own, MANY),
    ),
];

/// Launches a graph of what is captured, and gives what all of that said.
fn graph(api: &Api, stream: u64, put: impl FnOnce() -> Vec<i32>) -> Vec<i32> {
    let (mut graph, mut exec) = (0u64, 0u64);
    let mut said = vec![api.call("cuStreamBeginCapture_v2", &[stream, 2])];
    said.extend(put());
    said.push(api.call("cuStreamEndCapture", &[stream, at(&mut graph)]));
    said.push(api.call("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]));
    said.push(api.call("cuGraphLaunch", &[exec, stream]));
    said.push(api.call("cuGraphExecDestroy", &[exec]));
    said
}

/// Each case on another stream than the one that stands still, and behind it.
pub fn held(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [a, b] = [(); 2].map(|()| api.made("cuStreamCreate", &[1]));
    // Width and height, one channel of unsigned bytes.
    let mut shape = [ROW, ROWS, 1 | 1 << 32];
    let place = Place {
        device: api.made("cuMemAlloc_v2", &[MANY]),
        array: api.made("cuArrayCreate_v2", &[at(&mut shape)]),
        from: api.made("cuMemHostAlloc", &[MANY, 2]),
        to: api.made("cuMemHostAlloc", &[MANY, 2]),
        own: vec![3u8; 2 * MANY as usize + 8].leak().as_ptr() as u64,
        fill: api.kernel("fill"),
    };
    for (i, b) in bytes(place.from, MANY).iter_mut().enumerate() {
        *b = (i % 251) as u8;
    }
    api.tell("cuMemHostRegister_v2", &[place.own, 2 * MANY, 0]);
    for (what, run, see) in CASES {
        let hold = Hold::of(api, a);
        let done = run(api, &place, b);
        let waited = api.call("cuStreamSynchronize", &[b]);
        println!("{what}: {done:?} {waited} sees {}", see(&place));
        println!("meanwhile the other stood still: {}", hold.let_go());
        api.tell("cuStreamSynchronize", &[a]);
        let hold = Hold::of(api, a);
        let done = run(api, &place, a);
        println!(
            "behind it: {done:?}, while it stood still: {}",
            hold.let_go()
        );
        api.tell("cuStreamSynchronize", &[a]);
        println!("sees {}", see(&place));
    }
    first_uses(api, &place, [a, b]);
    fewer_pages(api, &place, [a, b]);
    large(api, &place, [a, b]);
}

/// Kernels see memory of the program's for the first time.
fn first_uses(api: &Api, place: &Place, [a, b]: [u64; 2]) {
    let n = 3000u64;
    let own = vec![0u32; 8192].leak();
    let registered = own.as_ptr() as u64;
    for (what, p) in [
        ("mapped", api.made("cuMemHostAlloc", &[8 * n, 2])),
        ("registered", registered),
    ] {
        let hold = Hold::of(api, a);
        let mut there = p;
        if p == registered {
            api.tell("cuMemHostRegister_v2", &[p, 8192 * 4, 2]);
        }
        api.tell("cuMemHostGetDevicePointer_v2", &[at(&mut there), p, 0]);
        println!("launch: {}", api.launch(place.fill, b, &[there, 7, n]));
        api.tell("cuStreamSynchronize", &[b]);
        println!("{what}: sees {}", sum(p, 4 * n));
        println!("meanwhile the other stood still: {}", hold.let_go());
        api.tell("cuStreamSynchronize", &[a]);
    }
}

/// Memory is registered where more was registered, and seen, before.
fn fewer_pages(api: &Api, place: &Place, [a, b]: [u64; 2]) {
    let own = vec![0u32; 8192].leak().as_ptr() as u64 + 100;
    for (more, less, at_byte) in [(12000u64, 5000u64, 0u64), (16000, 4000, 8192)] {
        api.tell("cuMemHostRegister_v2", &[own, more, 2]);
        println!("launch: {}", api.launch(place.fill, b, &[own, 7, more / 4]));
        api.tell("cuStreamSynchronize", &[b]);
        api.tell("cuMemHostUnregister", &[own]);
        let hold = Hold::of(api, a);
        let p = own + at_byte;
        api.tell("cuMemHostRegister_v2", &[p, less, 2]);
        println!("launch: {}", api.launch(place.fill, b, &[p, 9, less / 4]));
        api.tell("cuStreamSynchronize", &[b]);
        println!("sees {} of {}", sum(p, less), sum(own, more));
        println!("meanwhile the other stood still: {}", hold.let_go());
        api.tell("cuStreamSynchronize", &[a]);
        api.tell("cuMemHostUnregister", &[p]);
        // And more again.
        api.tell("cuMemHostRegister_v2", &[own, more, 2]);
        println!("launch: {}", api.launch(place.fill, b, &[own, 5, more / 4]));
        api.tell("cuStreamSynchronize", &[b]);
        println!("sees {}", sum(own, more));
        api.tell("cuMemHostUnregister", &[own]);
    }
}

/// More behind the stream that stands still than a server has room for on the way.
fn large(api: &Api, place: &Place, [a, b]: [u64; 2]) {
    const LARGE: u64 = 160 << 20;
    let device = api.made("cuMemAlloc_v2", &[LARGE]);
    let host = api.made("cuMemHostAlloc", &[LARGE, 0]);
    let word = api.made("cuMemAlloc_v2", &[4096]);
    for (i, (what, name, args)) in [
        ("in", "cuMemcpyHtoDAsync_v2", [device, host, LARGE, a]),
        ("out", "cuMemcpyDtoHAsync_v2", [host, device, LARGE, a]),
        ("in", "cuMemcpyHtoDAsync_v2", [device, host, LARGE, a]),
        ("out", "cuMemcpyDtoHAsync_v2", [host, device, LARGE, a]),
    ]
    .into_iter()
    .enumerate()
    {
        bytes(host, LARGE).fill(5 + i as u8);
        // Behind a function, or behind a word in device memory.
        let hold = (i < 2).then(|| Hold::of(api, a));
        let ended = Arc::new(AtomicBool::new(false));
        if hold.is_none() {
            api.tell("cuMemsetD32_v2", &[word, 0, 1]);
            // The stream does not wait for that fill.
            api.tell("cuStreamSynchronize", &[0]);
            api.tell("cuStreamWaitValue32_v2", &[a, word, 1, 0]);
            let ended = ended.clone();
            std::thread::spawn(move || {
                std::thread::sleep(3 * limit());
                if !ended.load(Ordering::Acquire) {
                    println!("nothing goes on");
                    std::process::exit(1);
                }
            });
        }
        api.tell(name, &args);
        api.tell("cuMemcpyHtoDAsync_v2", &[place.device, place.from, MANY, b]);
        api.tell("cuMemcpyDtoHAsync_v2", &[place.to, place.device, MANY, b]);
        api.tell("cuStreamSynchronize", &[b]);
        println!("much {what}: sees {}", sum(place.to, MANY));
        match hold {
            Some(hold) => println!("meanwhile the other stood still: {}", hold.let_go()),
            None => {
                println!(
                    "the other stands still: {}",
                    api.call("cuStreamQuery", &[a])
                );
                api.tell("cuStreamWriteValue32_v2", &[b, word, 1, 0]);
            }
        }
        api.tell("cuStreamSynchronize", &[a]);
        ended.store(true, Ordering::Release);
        println!("sees {}", sum(host, LARGE));
    }
}

/// How a case copies the first half of some memory, and what it leaves there, if it comes there.
type Way = (&'static str, fn(&Api, &Place, u64, u64) -> i32, bool);

const WAYS: [Way; 7] = [
    (
        "a few bytes out",
        |api, p, half, s| api.call("cuMemcpyDtoHAsync_v2", &[half, p.device, 64, s]),
        true,
    ),
    (
        "much out",
        |api, p, half, s| api.call("cuMemcpyDtoHAsync_v2", &[half, p.device, MANY, s]),
        true,
    ),
    (
        "rows out",
        |api, p, half, s| {
            let mut all = rows((2, p.device), (1, half));
            api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s])
        },
        true,
    ),
    (
        "an array out",
        |api, p, half, s| {
            let mut all = rows((3, p.array), (1, half));
            api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s])
        },
        true,
    ),
    (
        "much in",
        |api, p, half, s| api.call("cuMemcpyHtoDAsync_v2", &[p.device, half, MANY, s]),
        false,
    ),
    (
        "rows in",
        |api, p, half, s| {
            let mut all = rows((1, half), (2, p.device));
            api.call("cuMemcpy2DAsync_v2", &[at(&mut all), s])
        },
        false,
    ),
    (
        "out and in",
        |api, p, half, s| {
            let out = api.call("cuMemcpyDtoHAsync_v2", &[half, p.device, MANY, s]);
            out + api.call("cuMemcpyHtoDAsync_v2", &[p.device, half, MANY, s])
        },
        true,
    ),
];

/// Kernels use memory for the first time while a stream that stands still has a copy of some of it
/// before it: they do not wait for that, and what is behind the copy finds its bytes.
pub fn in_the_way(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let [a, b, early, late] = [(); 4].map(|()| api.made("cuStreamCreate", &[1]));
    let mut shape = [ROW, ROWS, 1 | 1 << 32];
    let place = Place {
        device: api.made("cuMemAlloc_v2", &[MANY]),
        array: api.made("cuArrayCreate_v2", &[at(&mut shape)]),
        from: api.made("cuMemHostAlloc", &[MANY, 0]),
        to: 0,
        own: 0,
        fill: api.kernel("fill"),
    };
    let copy = api.kernel("copy");
    let found = [(); 3].map(|()| api.made("cuMemAlloc_v2", &[MANY]));
    for (what, way, comes) in WAYS {
        for registered in [false, true] {
            println!("{what}, registered: {registered}");
            bytes(place.from, MANY).fill(5);
            let mut all = rows((1, place.from), (3, place.array));
            api.tell("cuMemcpy2D_v2", &[at(&mut all)]);
            api.tell("cuMemcpyHtoD_v2", &[place.device, place.from, MANY]);
            let half = if registered {
                // Not from the beginning of a page, nor to the end of one.
                let own = vec![0u8; 3 * MANY as usize].leak().as_ptr() as u64 + 400;
                api.tell("cuMemHostRegister_v2", &[own, 2 * MANY + 999 * 4, 0]);
                own
            } else {
                api.made("cuMemHostAlloc", &[2 * MANY, 0])
            };
            bytes(half, 2 * MANY).fill(1);
            let hold = Hold::of(api, a);
            println!("copied: {}", way(api, &place, half, a));
            let event = api.made("cuEventCreate", &[2]);
            api.tell("cuEventRecord", &[event, a]);
            api.tell("cuStreamWaitEvent", &[early, event, 0]);

            println!(
                "launch: {}",
                api.launch(place.fill, b, &[half + MANY, 7, 1000])
            );
            api.tell("cuStreamSynchronize", &[b]);
            println!("sees {}", sum(half + MANY, 4000));
            api.tell("cuStreamWaitEvent", &[late, event, 0]);
            for (stream, to) in [a, early, late].into_iter().zip(found) {
                println!("behind it: {}", api.launch(copy, stream, &[to, half, MANY]));
            }
            println!("while it stood still: {}", hold.let_go());
            for (stream, to) in [a, early, late].into_iter().zip(found) {
                api.tell("cuStreamSynchronize", &[stream]);
                let mut back = vec![0u8; MANY as usize];
                api.call("cuMemcpyDtoH_v2", &[at(&mut back[0]), to, MANY]);
                println!("found {}", sum(at(&mut back[0]), MANY));
            }
            println!("in memory {} {}", sum(half, MANY), sum(half + MANY, 4000));
            println!(
                "came: {}",
                bytes(half, 64)
                    .iter()
                    .all(|v| *v == if comes { 5 } else { 1 })
            );
            api.tell("cuMemcpyDtoH_v2", &[place.from, place.device, MANY]);
            println!("on the device {}", sum(place.from, MANY));
            // Now that kernels see it.
            let hold = Hold::of(api, a);
            println!("again: {}", way(api, &place, half, a));
            println!("while it stood still: {}", hold.let_go());
            api.tell("cuStreamSynchronize", &[a]);
            println!("in memory {} {}", sum(half, MANY), sum(half + MANY, 4000));
            api.tell("cuMemcpyDtoH_v2", &[place.from, place.device, MANY]);
            println!("on the device {}", sum(place.from, MANY));
            api.tell("cuEventDestroy_v2", &[event]);
            match registered {
                true => api.tell("cuMemHostUnregister", &[half]),
                false => api.tell("cuMemFreeHost", &[half]),
            };
        }
    }
}
