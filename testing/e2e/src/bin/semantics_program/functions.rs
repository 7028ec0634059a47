//! Functions in stream order that use managed memory, while the driver sits in calls that wait for
//! them.

use super::api::{Api, at};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of the memory that is used; more than one block of pages has.
const BYTES: u64 = 200_000;
/// Copies behind a function: more than there is room for between the device and the program.
const COPIES: u64 = 80;

/// What a function gets.
struct Turn {
    /// Managed memory.
    memory: u64,
    /// What it writes there.
    value: u32,
    /// What it has found.
    sum: AtomicU64,
    begun: AtomicBool,
    go_on: AtomicBool,
}

impl Turn {
    fn of(memory: u64) -> Self {
        Self {
            memory,
            value: 7,
            sum: AtomicU64::new(0),
            begun: AtomicBool::new(false),
            go_on: AtomicBool::new(false),
        }
    }

    /// Queues the function, which uses this until the stream is idle.
    fn queue(&self, api: &Api, stream: u64) {
        let f: unsafe extern "C" fn(_) = function;
        let data = std::ptr::from_ref(self) as u64;
        api.tell("cuLaunchHostFunc", &[stream, f as *const () as u64, data]);
    }

    /// Tells what the function has found, and what is behind it on the device now.
    fn show(&self, api: &Api, there: u64) {
        println!("the function saw {}", self.sum.load(Ordering::Acquire));
        let mut seen = [0u32; 4];
        api.tell("cuMemcpyDtoH_v2", &[at(&mut seen), there, 16]);
        println!("{seen:?}");
    }
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sums the memory up and changes its first word.
unsafe extern "C" fn function(data: *mut std::ffi::c_void) {
    // SAFETY: the program below keeps it until the stream is idle.
    let turn = unsafe { &*data.cast::<Turn>() };
    turn.begun.store(true, Ordering::Release);
    wait_for(&turn.go_on);
    // The call that waits for this function has begun by now, or makes the test easier.
    std::thread::sleep(Duration::from_millis(300));
    let words = turn.memory as *mut u32;
    // SAFETY: managed memory of so many bytes, which nothing else uses now.
    let sum = unsafe {
        let all = std::slice::from_raw_parts(words, BYTES as usize / 4);
        let sum = all.iter().map(|w| u64::from(*w)).sum::<u64>();
        words.write_volatile(turn.value);
        sum
    };
    turn.sum.store(sum, Ordering::Release);
}

/// What waits for the function, or holds what it needs, while it runs.
#[derive(Clone, Copy, Debug)]
enum Behind {
    Unload,
    Copies,
    Unregister,
    FreeHost,
    DestroyExec,
}

/// An executable graph whose fills run side by side.
fn branches(api: &Api, context: u64, there: u64) -> u64 {
    // Two fills of a word each: destination, pitch, value, size of an element, width, height.
    let (mut graph, mut exec) = (0u64, 0u64);
    api.tell("cuGraphCreate", &[at(&mut graph), 0]);
    for i in 0..2 {
        let mut fill = [there + 100 + 4 * i, 0, 3 + (4 << 32), 1, 1];
        let (mut node, fill) = (0u64, at(&mut fill));
        let args = [at(&mut node), graph, 0, 0, fill, context];
        api.tell("cuGraphAddMemsetNode", &args);
    }
    api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
    api.tell("cuGraphDestroy", &[graph]);
    exec
}

fn turn(api: &Api, (context, stream): (u64, u64), fill: u64, behind: Behind, written: bool) {
    println!("{behind:?}, written by the program: {written}");
    let memory = api.made("cuMemAllocManaged", &[BYTES, 1]);
    let other = api.made("cuMemAllocManaged", &[BYTES, 1]);
    let there = api.made("cuMemAlloc_v2", &[BYTES]);
    let host = api.made("cuMemHostAlloc", &[COPIES * 4096, 0]);
    let spare = api.made("cuModuleLoadData", &[super::api::IMAGE.as_ptr() as u64]);
    let more = api.made("cuMemHostAlloc", &[4096, 0]);
    let mut own = vec![0u8; 1 << 16];
    let own = own.as_mut_ptr() as u64;
    api.tell("cuMemHostRegister_v2", &[own, 1 << 16, 0]);
    let exec = branches(api, context, there);
    api.tell("cuStreamSynchronize", &[stream]);
    println!(
        "launch: {}",
        api.launch(fill, stream, &[memory, 5, BYTES / 4])
    );
    if written {
        api.tell("cuStreamSynchronize", &[stream]);
        // SAFETY: managed memory of so many bytes, which nothing else uses now.
        unsafe { std::slice::from_raw_parts_mut(memory as *mut u32, BYTES as usize / 4) }.fill(6);
    }
    let turn = Turn::of(memory);
    turn.queue(api, stream);
    api.tell("cuGraphLaunch", &[exec, stream]);
    wait_for(&turn.begun);
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            // SAFETY: as above.
            unsafe { (other as *mut u32).write_volatile(9) };
        });
        turn.go_on.store(true, Ordering::Release);
        match behind {
            Behind::Unload => _ = api.tell("cuModuleUnload", &[spare]),
            Behind::Copies => {
                for i in 0..COPIES {
                    let args = [host + i * 4096, there, 4096, stream];
                    assert_eq!(api.call("cuMemcpyDtoHAsync_v2", &args), 0);
                }
            }
            Behind::Unregister => _ = api.tell("cuMemHostUnregister", &[own]),
            Behind::FreeHost => _ = api.tell("cuMemFreeHost", &[more]),
            Behind::DestroyExec => _ = api.tell("cuGraphExecDestroy", &[exec]),
        }
        writer.join().expect("the write succeeds");
        // What the function has written is copied behind it.
        api.tell("cuMemcpyDtoDAsync_v2", &[there, memory, BYTES, stream]);
        api.tell("cuMemcpyDtoDAsync_v2", &[there + 8, other, 4, stream]);
        api.tell("cuStreamSynchronize", &[stream]);
    });
    turn.show(api, there);
    if !matches!(behind, Behind::Unregister) {
        api.tell("cuMemHostUnregister", &[own]);
    }
    for (name, p) in [
        ("cuMemFree_v2", memory),
        ("cuMemFree_v2", other),
        ("cuMemFree_v2", there),
        ("cuMemFreeHost", host),
    ] {
        api.tell(name, &[p]);
    }
}

/// The same of a graph, whose copies before and behind the function use the program's memory.
fn in_a_graph(api: &Api, stream: u64, fill: u64) {
    println!("in a graph");
    let [from, to] = [0, 1].map(|_| api.made("cuMemAlloc_v2", &[BYTES]));
    let host = api.made("cuMemHostAlloc", &[BYTES, 0]);
    let spare = api.made("cuModuleLoadData", &[super::api::IMAGE.as_ptr() as u64]);
    println!(
        "launch: {}",
        api.launch(fill, stream, &[from, 5, BYTES / 4])
    );
    api.tell("cuStreamSynchronize", &[stream]);
    let turn = Turn::of(host);
    const RELAXED: u64 = 2;
    api.tell("cuStreamBeginCapture_v2", &[stream, RELAXED]);
    api.tell("cuMemcpyDtoHAsync_v2", &[host, from, BYTES, stream]);
    turn.queue(api, stream);
    api.tell("cuMemcpyHtoDAsync_v2", &[to, host, BYTES, stream]);
    let (mut graph, mut exec) = (0u64, 0u64);
    api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
    api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
    api.tell("cuGraphLaunch", &[exec, stream]);
    wait_for(&turn.begun);
    turn.go_on.store(true, Ordering::Release);
    api.tell("cuModuleUnload", &[spare]);
    api.tell("cuStreamSynchronize", &[stream]);
    turn.show(api, to);
}

/// A function has its memory whatever waits for it.
pub(super) fn functions(api: &Api) {
    let context = api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = api.made("cuStreamCreate", &[1]);
    let fill = api.kernel("fill");
    for behind in [
        Behind::Unload,
        Behind::Copies,
        Behind::Unregister,
        Behind::FreeHost,
        Behind::DestroyExec,
    ] {
        for written in [false, true] {
            turn(api, (context, stream), fill, behind, written);
        }
    }
    in_a_graph(api, stream, fill);
}
