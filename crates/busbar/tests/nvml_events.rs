//! NVML's events and counters through a server.
//!
//! Each test starts a server, then runs itself once more as the program: in a process of its own,
//! with the environment that `busbar run` would give it.

mod common;
#[path = "common/program.rs"]
mod program;

use common::serve_with;
use program::{CHILD, Handle, Nvml, is_program, program};
use std::time::{Duration, Instant};

const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const TIMEOUT: u32 = 10;
const GPU_IS_LOST: u32 = 15;
const VERSION_MISMATCH: u32 = 25;

// Types of events.
const SINGLE_BIT: u64 = 1;
const DOUBLE_BIT: u64 = 2;
const STATE: u64 = 4;
const XID: u64 = 8;
const CLOCK: u64 = 16;
/// Longer than any event takes.
const LONG: u32 = 20_000;

/// Runs the test `name` as a program of a server of its own.
fn run(name: &str) {
    program(name, &serve_with("libfakenvml.so", &[]));
}

/// The client's NVML and the devices, once the server watches these.
fn client() -> (Nvml, [Handle; 2]) {
    let nvml = start("libnvidia_ml.so");
    let devices = two(&nvml);
    let set = created(&nvml);
    assert_eq!(register(&nvml, devices[1], DOUBLE_BIT, set), 0);
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        happen(&nvml, devices[1], DOUBLE_BIT, 0);
        if wait(&nvml, set, 3000).is_ok() {
            break;
        }
        assert!(Instant::now() < end, "nothing is told");
    }
    assert_eq!(nvml.call("nvmlEventSetFree", [set, 0, 0, 0]), 0);
    (nvml, devices)
}

fn start(name: &str) -> Nvml {
    let nvml = Nvml::load(name);
    assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 0);
    nvml
}

fn two(nvml: &Nvml) -> [Handle; 2] {
    let all = nvml.devices();
    [all[0].1, all[1].1]
}

fn created(nvml: &Nvml) -> usize {
    let mut set = 0usize;
    let args = [(&raw mut set) as usize, 0, 0, 0];
    assert_eq!(nvml.call("nvmlEventSetCreate", args), 0);
    set
}

fn register(nvml: &Nvml, d: Handle, types: u64, set: usize) -> u32 {
    nvml.call("nvmlDeviceRegisterEvents", [d, types as usize, set, 0])
}

/// Fields as the API has them: id and scope, time, latency, type and result, value.
fn fields(nvml: &Nvml, f: &str, d: Handle, ids: &[u64]) -> (u32, Vec<[u64; 5]>) {
    let mut all: Vec<_> = ids.iter().map(|id| [*id, 0, 0, 0, 0]).collect();
    let args = [d, all.len(), all.as_mut_ptr() as usize, 0];
    (nvml.call(f, args), all)
}

/// Makes an event happen, which the simulated library does for who asks for such a field.
fn happen(nvml: &Nvml, d: Handle, kind: u64, data: u64) {
    let field = (60_000 + u64::from(kind.trailing_zeros())) | data << 32;
    let (rc, said) = fields(nvml, "nvmlDeviceGetFieldValues", d, &[field]);
    assert_eq!((rc, said[0][3] >> 32), (0, 0));
}

/// The device, the type, the data and the instances of the next event.
fn wait(nvml: &Nvml, set: usize, ms: u32) -> Result<[u64; 4], u32> {
    let mut data = [0u64; 4];
    let args = [set, data.as_mut_ptr() as usize, ms as usize, 0];
    match nvml.call("nvmlEventSetWait_v2", args) {
        0 => Ok(data),
        rc => Err(rc),
    }
}

/// What a program sees, with the devices' numbers in the place of handles.
fn seen(nvml: &Nvml, [a, b]: [Handle; 2]) -> Vec<Result<[u64; 4], u32>> {
    let mut seen = Vec::new();
    let mut types = 0u64;
    let args = [a, (&raw mut types) as usize, 0, 0];
    let rc = nvml.call("nvmlDeviceGetSupportedEventTypes", args);
    seen.push(Ok([rc.into(), types, 0, 0]));
    let (first, second) = (created(nvml), created(nvml));
    for (d, types) in [(a, XID | SINGLE_BIT), (a, STATE), (a, 0), (b, XID)] {
        seen.push(Err(register(nvml, d, types, first)));
    }
    let mut next = |set, ms| {
        let number = |d: u64| [a, b].iter().position(|h| *h as u64 == d).unwrap() as u64;
        seen.push(wait(nvml, set, ms).map(|e| [number(e[0]), e[1], e[2], e[3]]));
    };
    next(first, 0);
    // Only what is registered comes, in the order in which it happened, over devices, too.
    happen(nvml, a, XID, 79);
    happen(nvml, a, CLOCK, 5);
    happen(nvml, b, SINGLE_BIT, 0);
    happen(nvml, b, XID, 48);
    happen(nvml, a, SINGLE_BIT, 3);
    for _ in 0..3 {
        next(first, LONG);
    }
    next(first, 300);
    // A set of a later time does not have them; the next event both have.
    seen.push(Err(register(nvml, a, XID, second)));
    let mut next = |set, ms| seen.push(wait(nvml, set, ms).map(|e| [0, e[1], e[2], e[3]]));
    next(second, 300);
    happen(nvml, a, XID, 94);
    next(second, LONG);
    next(first, LONG);
    next(first, 0);
    next(second, 0);
    for set in [first, second] {
        seen.push(Err(nvml.call("nvmlEventSetFree", [set, 0, 0, 0])));
    }
    seen
}

#[test]
fn a_program_is_told_what_it_would_be_natively() {
    if !is_program() {
        return run("a_program_is_told_what_it_would_be_natively");
    }
    let native = start("libfakenvml.so");
    let want = seen(&native, two(&native));
    let (here, devices) = client();
    assert_eq!(seen(&here, devices), want);
    assert_eq!(
        want.iter().filter(|s| s.is_ok_and(|e| e[1] == XID)).count(),
        4
    );
}

#[test]
fn what_other_programs_bring_about_is_not_told() {
    if !is_program() {
        return run("what_other_programs_bring_about_is_not_told");
    }
    let (nvml, [d, _]) = client();
    let set = created(&nvml);
    assert_eq!(register(&nvml, d, XID | SINGLE_BIT, set), 0);
    for xid in [13, 31, 43, 45, 68, 109] {
        happen(&nvml, d, XID, xid);
    }
    // The number of an Xid is nothing of another type.
    happen(&nvml, d, SINGLE_BIT, 31);
    happen(&nvml, d, XID, 79);
    let next = || wait(&nvml, set, LONG).map(|e| [e[1], e[2]]);
    assert_eq!(next(), Ok([SINGLE_BIT, 31]));
    assert_eq!(next(), Ok([XID, 79]));
    assert_eq!(wait(&nvml, set, 300), Err(TIMEOUT));
}

#[test]
fn who_waits_holds_nobody_up() {
    if !is_program() {
        return run("who_waits_holds_nobody_up");
    }
    let (nvml, [d, other]) = client();
    let nvml = &nvml;
    let (set, more) = (created(nvml), created(nvml));
    assert_eq!(register(nvml, d, XID, set), 0);
    for ms in [0, 400] {
        let began = Instant::now();
        assert_eq!(wait(nvml, set, ms), Err(TIMEOUT));
        assert!(began.elapsed() >= Duration::from_millis(ms.into()), "{ms}");
    }
    std::thread::scope(|s| {
        let waits = s.spawn(|| (wait(nvml, set, LONG), Instant::now()));
        std::thread::sleep(Duration::from_millis(100));
        // Another set, and what is no event at all.
        assert_eq!(register(nvml, other, SINGLE_BIT, more), 0);
        happen(nvml, other, SINGLE_BIT, 0);
        assert_eq!(wait(nvml, more, LONG).unwrap()[1], SINGLE_BIT);
        assert_eq!(nvml.devices().len(), 2);
        assert_eq!(nvml.call("nvmlEventSetFree", [more, 0, 0, 0]), 0);
        let before = Instant::now();
        happen(nvml, d, XID, 79);
        let (told, when) = waits.join().unwrap();
        assert_eq!(told.map(|e| e[2]), Ok(79));
        assert!(when > before);
    });
}

#[test]
fn a_set_that_has_ended_is_refused() {
    if !is_program() {
        return run("a_set_that_has_ended_is_refused");
    }
    let (nvml, [d, _]) = client();
    let nvml = &nvml;
    let set = created(nvml);
    assert_eq!(register(nvml, d, XID, set), 0);
    assert_eq!(register(nvml, d + 1, XID, set), INVALID_ARGUMENT);
    let no_place = nvml.call("nvmlEventSetWait_v2", [set, 0, 0, 0]);
    assert_eq!(no_place, INVALID_ARGUMENT);
    std::thread::scope(|s| {
        let waits = s.spawn(|| wait(nvml, set, LONG));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(nvml.call("nvmlEventSetFree", [set, 0, 0, 0]), 0);
        assert_eq!(waits.join().unwrap(), Err(INVALID_ARGUMENT));
    });
    for set in [set, 0, d, created(nvml) + 1] {
        assert_eq!(wait(nvml, set, 0), Err(INVALID_ARGUMENT));
        assert_eq!(register(nvml, d, XID, set), INVALID_ARGUMENT);
        let rc = nvml.call("nvmlEventSetFree", [set, 0, 0, 0]);
        assert_eq!(rc, INVALID_ARGUMENT);
    }
    // The first form of the structure ends before the instances.
    let set = created(nvml);
    assert_eq!(register(nvml, d, XID, set), 0);
    happen(nvml, d, XID, 79);
    let mut data = [7u64; 4];
    let args = [set, data.as_mut_ptr() as usize, LONG as usize, 0];
    assert_eq!(nvml.call("nvmlEventSetWait", args), 0);
    assert_eq!(data, [d as u64, XID, 79, 7]);
}

#[test]
fn a_server_that_is_gone_hangs_nobody() {
    if !is_program() {
        return run("a_server_that_is_gone_hangs_nobody");
    }
    let (nvml, [d, _]) = client();
    let (set, empty) = (created(&nvml), created(&nvml));
    assert_eq!(register(&nvml, d, XID, set), 0);
    let pid: i32 = std::env::var(CHILD).unwrap().parse().unwrap();
    // SAFETY: kills the server that this test started.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    for ms in [0, 1500] {
        let began = Instant::now();
        assert_eq!(wait(&nvml, set, ms), Err(GPU_IS_LOST));
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(ms.into()), "{ms}: {took:?}");
        assert!(took < Duration::from_secs(30), "{ms}: {took:?}");
    }
    assert_eq!(register(&nvml, d, XID, empty), GPU_IS_LOST);
    assert_eq!(wait(&nvml, empty, 0), Err(TIMEOUT));
}

/// The process that reads the server's NVML.
fn reader(server: u32) -> Option<u32> {
    let read = |pid: u32, what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).ok();
    let parent = |pid| {
        let stat = read(pid, "stat")?;
        let behind = stat.rsplit(") ").next()?.to_string();
        behind.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let is_below = |pid| std::iter::successors(Some(pid), |p| parent(*p)).any(|p| p == server);
    let all = std::fs::read_dir("/proc").unwrap();
    let mut all = all.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    all.find(|pid| {
        let line = read(*pid, "cmdline").unwrap_or_default();
        line.split('\0').any(|word| word == "--readings") && is_below(*pid)
    })
}

#[test]
fn what_reads_nvml_is_started_again_for_who_waits() {
    if !is_program() {
        return run("what_reads_nvml_is_started_again_for_who_waits");
    }
    let (nvml, [d, _]) = client();
    let set = created(&nvml);
    assert_eq!(register(&nvml, d, XID, set), 0);
    happen(&nvml, d, XID, 48);
    assert_eq!(wait(&nvml, set, LONG).map(|e| e[2]), Ok(48));
    let server: u32 = std::env::var(CHILD).unwrap().parse().unwrap();
    let first = reader(server).unwrap();
    // SAFETY: kills a process of the server that this test started.
    assert_eq!(unsafe { libc::kill(first as i32, libc::SIGKILL) }, 0);
    let end = Instant::now() + Duration::from_secs(60);
    // Whoever waits does not ask NVML anything.
    while reader(server).is_none_or(|pid| pid == first) {
        assert_eq!(wait(&nvml, set, 500), Err(TIMEOUT));
        assert!(Instant::now() < end);
    }
    let (again, _) = client();
    happen(&again, d, XID, 79);
    assert_eq!(wait(&nvml, set, LONG).map(|e| e[2]), Ok(79));
}

/// A request of the machine's events.
fn request(nvml: &Nvml, f: &str, words: &mut [u64]) -> u32 {
    nvml.call(f, [words.as_mut_ptr() as usize, 0, 0, 0])
}

#[test]
fn the_machine_has_no_events() {
    if !is_program() {
        return run("the_machine_has_no_events");
    }
    let nvml = start("libnvidia_ml.so");
    let all = [
        ("nvmlSystemEventSetCreate", 16),
        ("nvmlSystemRegisterEvents", 24),
        ("nvmlSystemEventSetWait", 32),
        ("nvmlSystemEventSetFree", 16),
    ];
    for (f, size) in all {
        for version in [size, size | 2 << 24, (size + 8) | 1 << 24] {
            let mut words = [version, 0, 0, 0];
            assert_eq!(request(&nvml, f, &mut words), VERSION_MISMATCH, "{f}");
        }
        assert_eq!(nvml.call(f, [0; 4]), INVALID_ARGUMENT, "{f}");
    }
    const VERSION: u64 = 1 << 24;
    let mut made = [16 | VERSION, 0];
    assert_eq!(request(&nvml, all[0].0, &mut made), 0);
    let set = made[1];
    let register = |set, types| request(&nvml, all[1].0, &mut [24 | VERSION, types, set]);
    assert_eq!(
        [1, 2, 3, 4].map(|t| register(set, t)),
        [0, 0, 0, INVALID_ARGUMENT]
    );
    let mut place = [0u64; 2];
    let place = place.as_mut_ptr() as u64;
    for ms in [0, 400] {
        let began = Instant::now();
        let mut words = [32 | VERSION | ms << 32, set, place, 1 | 9 << 32];
        assert_eq!(request(&nvml, all[2].0, &mut words), TIMEOUT);
        assert_eq!(words[3], 1, "no event");
        assert!(began.elapsed() >= Duration::from_millis(ms));
    }
    let wait = |set, place, n| request(&nvml, all[2].0, &mut [32 | VERSION, set, place, n]);
    assert_eq!(
        [wait(set, 0, 1), wait(set, place, 0)],
        [INVALID_ARGUMENT; 2]
    );
    let free = |set| request(&nvml, all[3].0, &mut [16 | VERSION, set]);
    // Neither kind of set is one of the other.
    let other = created(&nvml);
    let of_devices = nvml.call("nvmlEventSetFree", [set as usize, 0, 0, 0]);
    assert_eq!(of_devices, INVALID_ARGUMENT);
    assert_eq!(
        [free(other as u64), free(set), free(set)],
        [INVALID_ARGUMENT, 0, INVALID_ARGUMENT]
    );
    assert_eq!(
        [register(set, 1), wait(set, place, 1)],
        [INVALID_ARGUMENT; 2]
    );
}

/// The simulated library counts replays from 9400 and the device's number on, one more each time.
#[test]
fn counters_are_cleared_for_one_process() {
    let name = "counters_are_cleared_for_one_process";
    if !is_program() {
        let server = serve_with("libfakenvml.so", &[]);
        program(name, &server);
        return program(name, &server);
    }
    let nvml = start("libnvidia_ml.so");
    let [d, other] = two(&nvml);
    let values = |d, ids: &[u64]| {
        let (rc, said) = fields(&nvml, "nvmlDeviceGetFieldValues", d, ids);
        assert_eq!(rc, 0);
        said.iter().map(|v| v[4]).collect::<Vec<_>>()
    };
    // Also in the second process.
    let before = values(d, &[94])[0];
    assert!(before > 9400);
    let of_link = 32 | 3 << 32;
    let ids = [83, 94, of_link, 7];
    let (rc, cleared) = fields(&nvml, "nvmlDeviceClearFieldValues", d, &ids);
    assert_eq!(rc, 0);
    let said: Vec<_> = cleared.iter().map(|v| (v[3] >> 32) as u32).collect();
    assert_eq!(said, [NOT_SUPPORTED, 0, 0, NOT_SUPPORTED]);
    let [energy, replays, link] = values(d, &ids[..3])[..] else {
        panic!("three values")
    };
    assert_eq!(
        [energy, link],
        [8300 + values(other, &[83])[0] % 100 - 1, 0]
    );
    assert_eq!([replays, values(d, &[94])[0]], [1, 2]);
    // Another link of the device, and another device.
    assert_eq!(values(d, &[32])[0] / 100, 32);
    assert!(values(other, &[94])[0] > before);
    let f = "nvmlDeviceGetPcieReplayCounter";
    assert_eq!(nvml.numbers(f, &[d]), Ok([0, 0]));
    assert!(nvml.numbers(f, &[other]).unwrap()[0] > 0);
    let refused = [[d, usize::MAX, 8, 0], [d, 1, 0, 0], [d + 1, 0, 8, 0]];
    for args in refused {
        let rc = nvml.call("nvmlDeviceClearFieldValues", args);
        assert_eq!(rc, INVALID_ARGUMENT, "{args:?}");
    }
}

#[test]
fn the_server_checks_its_inforom() {
    if !is_program() {
        return run("the_server_checks_its_inforom");
    }
    let nvml = start("libnvidia_ml.so");
    let [d, _] = two(&nvml);
    let f = "nvmlDeviceValidateInforom";
    assert_eq!(nvml.call(f, [d, 0, 0, 0]), 0);
    assert_eq!(nvml.call(f, [d + 1, 0, 0, 0]), INVALID_ARGUMENT);
}
