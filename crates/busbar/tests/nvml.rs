//! NVML through a server, against the library that the server asks.
//!
//! Each test starts a server, then runs itself once more as the program: in a process of its own,
//! with the environment that `busbar run` would give it.

mod common;
#[path = "common/program.rs"]
mod program;

use common::{Server, serve_with};
use program::{CHILD, Handle, Nvml, is_program, program};
use std::ffi::CStr;
use std::process::Command;
use std::ptr::null_mut;

const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NO_PERMISSION: u32 = 4;

fn serve(nvml: &str) -> Server {
    serve_with(nvml, &[])
}

impl Nvml {
    /// As [`Nvml::call`], with as many words as there are.
    fn many(&self, name: &str, args: &[usize]) -> u32 {
        type F = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> u32;
        let mut a = [0; 6];
        a[..args.len()].copy_from_slice(args);
        // SAFETY: as there.
        unsafe { self.0.get::<F>(name.as_bytes()).unwrap()(a[0], a[1], a[2], a[3], a[4], a[5]) }
    }

    fn wide<const N: usize>(&self, name: &str, d: Handle, first: u64) -> Result<[u64; N], u32> {
        let mut values = [0; N];
        values[0] = first;
        match self.call(name, [d, values.as_mut_ptr() as usize, 0, 0]) {
            0 => Ok(values),
            rc => Err(rc),
        }
    }

    fn energy(&self, d: Handle) -> Result<[u64; 1], u32> {
        self.wide("nvmlDeviceGetTotalEnergyConsumption", d, 0)
    }
}

/// Functions that store one 32-bit number or two.
const NUMBERS: &[&str] = &[
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetBoardId",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetBusType",
    "nvmlDeviceGetModuleId",
    "nvmlDeviceGetMultiGpuBoard",
    "nvmlDeviceGetDisplayMode",
    "nvmlDeviceGetDisplayActive",
    "nvmlDeviceGetPowerManagementMode",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetDefaultEccMode",
    "nvmlDeviceGetInforomConfigurationChecksum",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetSupportedClocksThrottleReasons",
];

#[test]
fn values_are_those_of_the_servers_nvml() {
    if !is_program() {
        return program(
            "values_are_those_of_the_servers_nvml",
            &serve("libfakenvml.so"),
        );
    }
    let (there, here) = (Nvml::load("libfakenvml.so"), Nvml::load("libnvidia_ml.so"));
    for n in [&there, &here] {
        assert_eq!(n.call("nvmlInit_v2", [0; 4]), 0);
    }
    for f in ["nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion"] {
        let kernel = std::path::Path::new("/proc/driver/nvidia/version").exists();
        if !kernel || f == "nvmlSystemGetNVMLVersion" {
            assert_eq!(here.text(f, None), there.text(f, None), "{f}");
        }
    }
    let (a, b) = (there.devices(), here.devices());
    assert_eq!(a.len(), 2);
    for ((uuid, x), (other, y)) in a.iter().zip(&b) {
        assert_eq!(uuid, other);
        for f in NUMBERS {
            let (want, got) = (there.numbers(f, &[*x]), here.numbers(f, &[*y]));
            assert_eq!(got, want, "{f}");
        }
        for f in ["nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo"] {
            for domain in 0..4 {
                let want = there.numbers(f, &[*x, domain]);
                assert_eq!(here.numbers(f, &[*y, domain]), want, "{f} {domain}");
            }
        }
        let f = "nvmlDeviceGetTemperature";
        assert_eq!(here.numbers(f, &[*y, 0]), there.numbers(f, &[*x, 0]));
        assert_eq!(here.numbers(f, &[*y, 7]), there.numbers(f, &[*x, 7]));
        let f = "nvmlDeviceGetTemperatureThreshold";
        for kind in 0..10 {
            let want = there.numbers(f, &[*x, kind]);
            assert_eq!(here.numbers(f, &[*y, kind]), want, "{f} {kind}");
        }
        for f in [
            "nvmlDeviceGetSerial",
            "nvmlDeviceGetVbiosVersion",
            "nvmlDeviceGetInforomImageVersion",
        ] {
            assert_eq!(here.text(f, Some(*y)), there.text(f, Some(*x)), "{f}");
        }
        for f in ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetBAR1MemoryInfo"] {
            let want = there.wide::<3>(f, *x, 0);
            assert!(want.is_ok());
            assert_eq!(here.wide::<3>(f, *y, 0), want, "{f}");
        }
        let f = "nvmlDeviceGetMemoryInfo_v2";
        for version in [40 | 2 << 24, 40 | 3 << 24] {
            let want = there.wide::<5>(f, *x, version);
            assert_eq!(here.wide::<5>(f, *y, version), want, "{f}");
        }
        let f = "nvmlDeviceGetPciInfoExt";
        for version in [64 | 1 << 24, 64 | 2 << 24] {
            let want = there.wide::<8>(f, *x, version);
            assert_eq!(here.wide::<8>(f, *y, version), want, "{f}");
        }
    }
    let f = "nvmlDeviceGetTopologyCommonAncestor";
    let status = |n: &Nvml, [a, b]: [Handle; 2], kind| {
        let mut s = 99u32;
        let args = [a, b, kind, (&raw mut s) as usize];
        (n.call("nvmlDeviceGetP2PStatus", args), s)
    };
    // Also of a device and itself: NCCL asks, with one rank, too.
    for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (there_pair, here_pair) = ([a[i].1, a[j].1], [b[i].1, b[j].1]);
        let want = there.numbers(f, &there_pair);
        assert_eq!(here.numbers(f, &here_pair), want, "{f} {i} {j}");
        for kind in 0..7 {
            let want = status(&there, there_pair, kind);
            assert_eq!(status(&here, here_pair, kind), want, "{kind} {i} {j}");
        }
    }
    assert_eq!(here.call("nvmlShutdown", [0; 4]), 0);
    assert_eq!(here.call("nvmlShutdown", [0; 4]), 1);
    assert_eq!(here.numbers("nvmlDeviceGetCount_v2", &[]), Err(1));
}

/// What a function leaves in places of so many words, which it is given with these words in them.
fn asked(nvml: &Nvml, f: &str, first: &[usize], places: &[&[u64]]) -> (u32, Vec<Vec<u64>>) {
    let mut places: Vec<Vec<u64>> = places.iter().map(|p| p.to_vec()).collect();
    let pointers = places.iter_mut().map(|p| p.as_mut_ptr() as usize);
    let args: Vec<_> = first.iter().copied().chain(pointers).collect();
    (nvml.many(f, &args), places)
}

#[test]
fn the_server_asks_its_nvml_what_it_does_not_know() {
    if !is_program() {
        let name = "the_server_asks_its_nvml_what_it_does_not_know";
        return program(name, &serve("libfakenvml.so"));
    }
    let (there, here) = (Nvml::load("libfakenvml.so"), Nvml::load("libnvidia_ml.so"));
    for n in [&there, &here] {
        assert_eq!(n.call("nvmlInit_v2", [0; 4]), 0);
    }
    const OLD: u64 = 0x5555_5555;
    for ((_, x), (_, y)) in there.devices().iter().zip(&here.devices()) {
        let same = |f: &str, numbers: &[usize], places: &[&[u64]]| {
            let first = |d: &Handle| [&[*d], numbers].concat();
            let want = asked(&there, f, &first(x), places);
            assert_eq!(asked(&here, f, &first(y), places), want, "{f} {numbers:?}");
            want
        };
        let (rc, found) = same("nvmlDeviceGetIrqNum", &[], &[&[OLD]]);
        assert_eq!((rc, found[0][0] > 40), (0, true));
        same("nvmlDeviceGetRemappedRows", &[], &[&[OLD][..]; 4]);
        for codec in [0, 2, 9] {
            same("nvmlDeviceGetEncoderCapacity", &[codec], &[&[OLD]]);
        }
        same("nvmlDeviceGetEncoderStats", &[], &[&[OLD][..]; 3]);
        same("nvmlDeviceGetFBCStats", &[], &[&[OLD; 2]]);
        for version in [12 | 1 << 24, 12 | 2 << 24, 16 | 1 << 24, 0] {
            same("nvmlDeviceGetRepairStatus", &[], &[&[version, OLD, OLD]]);
        }
        let f = "nvmlDeviceGetSupportedGraphicsClocks";
        assert_eq!(same(f, &[2619], &[&[8], &[OLD; 4]]).1[0][0], 3);
        assert_eq!(same(f, &[2619], &[&[2], &[OLD; 4]]).0, 7);
        let mut n = 0u32;
        let args = [*y, 2619, (&raw mut n) as usize, 0];
        assert_eq!((here.call(f, args), n), (7, 3), "no room yet");
        // Fields that there are and one that there is not; then none.
        let fields: Vec<u64> = [83, 7, 138].iter().flat_map(|f| [*f, 0, 0, 0, 0]).collect();
        for count in [3, 1, 0] {
            same("nvmlDeviceGetFieldValues", &[count], &[&fields]);
        }
        for object in [0, 2, 9] {
            let text = |n: &Nvml, d: Handle, room: usize| {
                let mut text = [0x41u8; 16];
                let args = [d, object, text.as_mut_ptr() as usize, room];
                (n.call("nvmlDeviceGetInforomVersion", args), text)
            };
            for room in [16, 3] {
                assert_eq!(text(&here, *y, room), text(&there, *x, room));
            }
        }
        assert_eq!(here.call("nvmlDeviceGetIrqNum", [*y, 0, 0, 0]), 2);
        // A server's driver that is older has no such function.
        let missing = asked(&here, "nvmlDeviceGetNumaNodeId", &[*y], &[&[OLD]]);
        assert_eq!(missing, (13, vec![vec![OLD]]));
        near(&here, *y);
    }
    let branch = |n: &Nvml, version| {
        let mut text = [0u8; 84];
        text[..4].copy_from_slice(&u32::to_ne_bytes(version));
        let args = [text.as_mut_ptr() as usize, 80, 0, 0];
        (n.call("nvmlSystemGetDriverBranch", args), text)
    };
    for version in [84 | 1 << 24, 84 | 9 << 24] {
        assert_eq!(branch(&here, version), branch(&there, version));
    }
}

/// Processors and devices near this one, and the name of this process.
fn near(nvml: &Nvml, d: Handle) {
    let mut cpus = [0u64; 16];
    let args = [d, cpus.len(), cpus.as_mut_ptr() as usize, 0];
    assert_eq!(nvml.call("nvmlDeviceGetCpuAffinity", args), 0);
    let n = std::thread::available_parallelism().unwrap().get() as u32;
    assert!(cpus.iter().map(|w| w.count_ones()).sum::<u32>() >= n);
    assert_eq!(nvml.call("nvmlDeviceSetCpuAffinity", [d, 0, 0, 0]), 0);
    assert_eq!(nvml.call("nvmlDeviceGetMemoryAffinity", [d, 0, 0, 0]), 2);
    let (mut n, mut all) = (0u32, [0; 2]);
    let list = [(&raw mut n) as usize, all.as_mut_ptr() as usize];
    assert_eq!(
        nvml.call("nvmlSystemGetTopologyGpuSet", [0, list[0], 0, 0]),
        0
    );
    assert_eq!(n, 2);
    let args = [0, list[0], list[1], 0];
    assert_eq!((nvml.call("nvmlSystemGetTopologyGpuSet", args), n), (0, 2));
    for (level, count) in [(50, 1), (10, 0)] {
        n = 2;
        let args = [d, level, list[0], list[1]];
        assert_eq!(nvml.call("nvmlDeviceGetTopologyNearestGpus", args), 0);
        assert!(n == count && !all[..count as usize].contains(&d), "{level}");
    }
    let mut name = [0u8; 256];
    let args = [
        std::process::id() as usize,
        name.as_mut_ptr() as usize,
        256,
        0,
    ];
    assert_eq!(nvml.call("nvmlSystemGetProcessName", args), 0);
    let own = std::env::args().next().unwrap();
    let name = CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();
    assert!(own.starts_with(name) && !name.is_empty(), "{name}");
    let args = [0x7fff_fff0, (&raw mut n) as usize, 4, 0];
    assert_eq!(nvml.call("nvmlSystemGetProcessName", args), 6);
}

#[test]
fn places_names_and_capabilities_are_those_of_the_servers_cuda() {
    if !is_program() {
        let name = "places_names_and_capabilities_are_those_of_the_servers_cuda";
        // A library that is no NVML: the server has none.
        return program(name, &serve("libfakedev.so"));
    }
    let (cuda, nvml) = (Nvml::load("libfakedev.so"), Nvml::load("libnvidia_ml.so"));
    assert_eq!(cuda.call("cuInit", [0; 4]), 0);
    assert_eq!(nvml.call("nvmlInit", [0; 4]), 0);
    let version = cuda.numbers("cuDriverGetVersion", &[]);
    assert_eq!(
        nvml.numbers("nvmlSystemGetCudaDriverVersion_v2", &[]),
        version
    );
    for (i, (uuid, d)) in nvml.devices().into_iter().enumerate() {
        let mut name = [0u8; 64];
        cuda.call("cuDeviceGetName", [name.as_mut_ptr() as usize, 64, i, 0]);
        let name = CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();
        assert_eq!(nvml.text("nvmlDeviceGetName", Some(d)).unwrap(), name);
        let (mut major, mut minor) = (0u32, 0u32);
        let args = [(&raw mut major) as usize, (&raw mut minor) as usize, i, 0];
        cuda.call("cuDeviceComputeCapability", args);
        let f = "nvmlDeviceGetCudaComputeCapability";
        assert_eq!(nvml.numbers(f, &[d]), Ok([major, minor]));
        assert_eq!(nvml.numbers("nvmlDeviceGetIndex", &[d]), Ok([i as u32, 0]));

        let mut place = [0u8; 32];
        cuda.call(
            "cuDeviceGetPCIBusId",
            [place.as_mut_ptr() as usize, 32, i, 0],
        );
        let mut info = [0u8; 72];
        let at = info.as_mut_ptr() as usize;
        assert_eq!(nvml.call("nvmlDeviceGetPciInfo_v3", [d, at, 0, 0]), 0);
        let place = CStr::from_bytes_until_nul(&place).unwrap();
        assert_eq!(CStr::from_bytes_until_nul(&info[..16]).unwrap(), place);
        assert_eq!(info[68..], [0; 4]);

        let mut h: Handle = 0;
        let out = (&raw mut h) as usize;
        let args = [place.as_ptr() as usize, out, 0, 0];
        assert_eq!(nvml.call("nvmlDeviceGetHandleByPciBusId_v2", args), 0);
        assert_eq!(h, d);
        let uuid = std::ffi::CString::new(uuid).unwrap();
        h = 0;
        let args = [uuid.as_ptr() as usize, out, 0, 0];
        assert_eq!(nvml.call("nvmlDeviceGetHandleByUUID", args), 0);
        assert_eq!(h, d);

        // What only NVML knows is not made up.
        for f in ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetUtilizationRates"] {
            assert_eq!(nvml.numbers(f, &[d]), Err(NOT_SUPPORTED), "{f}");
        }
        let memory = nvml.wide::<3>("nvmlDeviceGetMemoryInfo", d, 0);
        assert_eq!(memory, Err(NOT_SUPPORTED));
        assert_eq!(nvml.text("nvmlDeviceGetUUID", Some(d + 1)), Err(2));

        // There is no fabric, and no byte beyond what the version says is touched.
        for (version, size) in [(36 | 2 << 24, 36), (40 | 3 << 24, 40)] {
            let mut fabric = [0xaa_u8; 44];
            fabric[..4].copy_from_slice(&u32::to_ne_bytes(version));
            let at = fabric.as_mut_ptr() as usize;
            assert_eq!(nvml.call("nvmlDeviceGetGpuFabricInfoV", [d, at, 0, 0]), 0);
            assert_eq!(fabric[4..36], [0; 32]);
            assert!(fabric[size..].iter().all(|b| *b == 0xaa));
        }
    }
    let none = c"GPU-00000000-0000-0000-0000-000000000000".as_ptr() as usize;
    let mut h: Handle = 0;
    let args = [none, (&raw mut h) as usize, 0, 0];
    assert_eq!(nvml.call("nvmlDeviceGetHandleByUUID", args), 6);
    assert_ne!(
        nvml.call("nvmlInternalGetExportTable", [out_of(&mut h), 0, 0, 0]),
        0
    );
}

/// The symbols of a class in `spec/nvml`.
fn symbols(of_class: impl Fn(&str) -> bool) -> Vec<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = std::fs::read_to_string(root.join("docs/coverage-nvml.md")).unwrap();
    let rows = table.lines().filter_map(|l| l.strip_prefix("| `"));
    let rows = rows.map(|row| row.split_once("` | ").unwrap());
    let found = rows.filter(|(_, class)| of_class(class));
    found.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_symbol_is_there_and_says_what_it_cannot_do() {
    if !is_program() {
        let name = "every_symbol_is_there_and_says_what_it_cannot_do";
        return program(name, &serve("libfakenvml.so"));
    }
    let nvml = Nvml::load("libnvidia_ml.so");
    let refused = symbols(|class| class.starts_with("unsupported"));
    let forbidden = symbols(|class| class.starts_with("forbidden"));
    let all = symbols(|_| true);
    assert!(refused.len() > 150 && forbidden.len() > 30);
    assert!(all.len() > refused.len() + forbidden.len() + 150);
    for f in refused.iter().chain(&forbidden) {
        assert_eq!(nvml.call(f, [0; 4]), 1, "{f}");
    }
    assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 0);
    for f in &refused {
        assert_eq!(nvml.call(f, [0; 4]), NOT_SUPPORTED, "{f}");
    }
    let (_, device) = nvml.devices().remove(0);
    // A GPU is taken away by its place, which no handle names.
    let by_place = ["DiscoverGpus", "ModifyDrainState", "RemoveGpu"];
    for f in &forbidden {
        assert_eq!(nvml.call(f, [device, 0, 0, 0]), NO_PERMISSION, "{f}");
        let no_device = match by_place.iter().any(|p| f.contains(p)) {
            true => NO_PERMISSION,
            false => INVALID_ARGUMENT,
        };
        assert_eq!(nvml.call(f, [device + 1, 0, 0, 0]), no_device, "{f}");
    }
    // The others take no null for a device, nor for a place of an answer.
    let starts = ["nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags"];
    let ends = ["nvmlShutdown", "nvmlErrorString"];
    for f in all.iter().map(String::as_str) {
        if !starts.contains(&f) && !ends.contains(&f) {
            assert_ne!(nvml.many(f, &[]), 0, "{f}");
            if f.starts_with("nvmlDeviceGet") && !f.contains("Handle") && !f.contains("Count") {
                assert_ne!(nvml.many(f, &[device]), 0, "{f}");
            }
        }
    }
}

fn out_of(h: &mut Handle) -> usize {
    std::ptr::from_mut(h) as usize
}

#[test]
fn a_fork_in_the_middle_of_questions_hangs_nobody() {
    if !is_program() {
        let name = "a_fork_in_the_middle_of_questions_hangs_nobody";
        return program(name, &serve("libfakenvml.so"));
    }
    let nvml = &Nvml::load("libnvidia_ml.so");
    use std::sync::atomic::{AtomicBool, Ordering};
    /// Also when the test fails: the scope waits for its threads then, too.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = &AtomicBool::new(false);
    std::thread::scope(|s| {
        let _stop = Stop(stop);
        for _ in 0..4 {
            s.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 0);
                    for (_, d) in nvml.devices() {
                        assert!(nvml.energy(d).is_ok());
                    }
                    assert_eq!(nvml.call("nvmlShutdown", [0; 4]), 0);
                }
            });
        }
        for _ in 0..20 {
            // SAFETY: the child makes calls that are safe after a fork, and exits.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let init = nvml.call("nvmlInit_v2", [0; 4]);
                let got = nvml.numbers("nvmlDeviceGetCount_v2", &[]);
                // SAFETY: no exit handlers run.
                unsafe { libc::_exit(if init == 0 && got == Ok([2, 0]) { 0 } else { 1 }) };
            }
            let mut status = -1;
            // SAFETY: waits for the child just made.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            assert_eq!(status, 0);
        }
    });
}

#[test]
fn memory_is_the_part_that_the_program_has() {
    if !is_program() {
        let server = serve("libfakenvml.so");
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory_is_the_part_that_the_program_has"])
            .env("BUSBAR_SERVER", &server.address)
            .env("BUSBAR_MEMORY", "300MiB")
            .env(CHILD, server.child.id().to_string())
            .status()
            .unwrap();
        return assert!(status.success(), "{status}");
    }
    let nvml = Nvml::load("libnvidia_ml.so");
    assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 0);
    let part = 300 << 20;
    for (_, d) in nvml.devices() {
        let first = nvml.wide::<3>("nvmlDeviceGetMemoryInfo", d, 0);
        assert_eq!(first, Ok([part, part, 0]));
        let second = nvml.wide::<5>("nvmlDeviceGetMemoryInfo_v2", d, 40 | 2 << 24);
        assert_eq!(second.unwrap()[1..], [part, 0, part, 0]);
    }
}

/// Programs look before and after they allocate.
#[test]
fn memory_is_that_of_this_moment() {
    let name = "memory_is_that_of_this_moment";
    if !is_program() {
        return program(
            name,
            &serve_with("libfakenvml.so", &[("FAKENVML_GROWS", "1")]),
        );
    }
    let nvml = Nvml::load("libnvidia_ml.so");
    assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 0);
    let (_, d) = nvml.devices().remove(0);
    let used = || {
        nvml.wide::<5>("nvmlDeviceGetMemoryInfo_v2", d, 40 | 2 << 24)
            .unwrap()[4]
    };
    let mut last = used();
    for _ in 0..20 {
        let now = used();
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}

/// Each reading of the simulated library raises the energy by 1000, from a million on; the first
/// is made when the server starts.
#[test]
fn who_only_counts_gpus_causes_no_reading() {
    if !is_program() {
        let name = "who_only_counts_gpus_causes_no_reading";
        return program(name, &serve("libfakenvml.so"));
    }
    let nvml = Nvml::load("libnvidia_ml.so");
    for _ in 0..3 {
        assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 0);
        assert_eq!(nvml.devices().len(), 2);
        assert_eq!(nvml.call("nvmlShutdown", [0; 4]), 0);
        // Longer than readings are taken for those of now.
        std::thread::sleep(std::time::Duration::from_millis(600));
    }
    assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 0);
    let (_, d) = nvml.devices().remove(0);
    // Two GPUs, read twice: at the server's start, and now.
    assert!(nvml.energy(d).unwrap()[0] < 1_004_000);
}

#[test]
fn live_values_follow_the_server_until_it_is_gone() {
    if !is_program() {
        let name = "live_values_follow_the_server_until_it_is_gone";
        return program(name, &serve("libfakenvml.so"));
    }
    let nvml = Nvml::load("libnvidia_ml.so");
    assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 0);
    let (uuid, d) = nvml.devices().remove(0);
    let first = nvml.energy(d).unwrap();
    while nvml.energy(d).unwrap() <= first {
        std::thread::yield_now();
    }
    let pid: i32 = std::env::var(CHILD).unwrap().parse().unwrap();
    // SAFETY: kills the server that this test started.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    while nvml.energy(d).is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(nvml.energy(d), Err(15));
    assert_eq!(nvml.text("nvmlDeviceGetUUID", Some(d)), Ok(uuid));
    // A new start does not find the server any more.
    assert_eq!(nvml.call("nvmlShutdown", [0; 4]), 0);
    assert_eq!(nvml.call("nvmlInit_v2", [0; 4]), 9);
    assert_eq!(
        nvml.call("nvmlDeviceGetCount_v2", [null_mut::<u32>() as usize; 4]),
        1
    );
}
