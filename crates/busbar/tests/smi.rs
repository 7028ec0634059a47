//! `busbar smi`, with and without a program of NVIDIA's on this machine.

mod common;

use common::{Server, built, serve_with};
use libloading::Library;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

const PROGRAM: &str = "SMI_TEST_PROGRAM";

/// Two servers with two GPUs each.
fn servers() -> [Server; 2] {
    ["1", "2"].map(|machine| serve_with("libfakenvml.so", &[("FAKEDEV_MACHINE", machine)]))
}

fn smi(servers: &str, args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_busbar"));
    // As on a machine without NVIDIA's program, whichever this is.
    c.env("PATH", "/nowhere").env_remove("BUSBAR_SMI");
    c.args(["smi", "--server", servers]).args(args);
    c
}

fn ends(c: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = c.output().unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn prints(servers: &str, args: &[&str]) -> String {
    let (code, out, err) = ends(&mut smi(servers, args));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}: {out}");
    out
}

#[test]
fn without_nvidias_program_the_table_is_drawn_here() {
    let [a, b] = servers();
    let both = [a.address.as_str(), b.address.as_str()].join(",");
    let out = prints(&both, &[]);
    let (_, table) = out.split_once('\n').unwrap();
    assert!(
        table
            .lines()
            .all(|l| l.is_empty() || l.chars().count() == 91),
        "{table}"
    );
    let gpus: Vec<_> = table.lines().filter(|l| l.contains("fakedev")).collect();
    let numbers: Vec<_> = gpus
        .iter()
        .filter_map(|l| l.split_whitespace().nth(1))
        .collect();
    assert_eq!(numbers, ["0", "1", "2", "3"]);
    for server in [&a, &b] {
        let head = format!("| {:<34}Driver Version: 580.82.07 ", server.address);
        assert!(table.contains(&head), "{table}");
    }
    let cells = [
        "| N/A   31C    P0             75W /  700W ",
        "|     101MiB /   4608MiB ",
        "|     41%      Default |",
    ];
    assert!(table.contains(&cells.concat()), "{table}");
    assert!(table.contains("No running processes found"), "{table}");
    // What scripts read.
    let line = prints(&both, &["-L"]);
    let uuid = "GPU-62757362-6172-2d66-616b-65646576";
    assert!(
        line.starts_with("GPU 0: Busbar fakedev (UUID: ") && line.contains(uuid),
        "{line}"
    );
    assert_eq!(line.lines().count(), 4);
    let asked =
        "--query-gpu=index,server,memory.total,memory.used,utilization.gpu,power.draw,fan.speed";
    let wanted = |units: bool| {
        let row = |i: usize| {
            let (server, d) = ([&a, &b][i / 2].address.as_str(), i % 2 + 1);
            let (mib, percent, watt) = match units {
                true => (" MiB", " %", " W"),
                false => ("", "", ""),
            };
            format!(
                "{i}, {server}, 4608{mib}, {}{mib}, {}{percent}, 75.00{watt}, [N/A]\n",
                100 + d,
                40 + d
            )
        };
        (0..4).map(row).collect::<String>()
    };
    let heading = "index, server, memory.total [MiB], memory.used [MiB], utilization.gpu [%], \
                   power.draw [W], fan.speed [%]\n";
    assert_eq!(
        prints(&both, &[asked, "--format=csv"]),
        [heading, &wanted(true)].concat()
    );
    assert_eq!(
        prints(&both, &[asked, "--format=csv,noheader,nounits"]),
        wanted(false)
    );
    // What nobody tells is no reason to say nothing of the rest.
    let asked = "--query-gpu=index,temperature.memory,clocks_throttle_reasons.active,ecc.errors.\
                 uncorrected.volatile.total,protected_memory.used";
    assert_eq!(
        prints(&both, &["-i", "1", asked, "--format=csv"]),
        "index, temperature.memory, clocks_event_reasons.active, \
         ecc.errors.uncorrected.volatile.total, protected_memory.used [MiB]\n\
         1, [N/A], [N/A], [N/A], [N/A]\n"
    );
    let chosen = prints(
        &both,
        &["-i", "2", "--query-gpu=index", "--format=csv,noheader"],
    );
    assert_eq!(chosen, "2\n");
    let long = prints(&both, &["-q", "-d", "MEMORY"]);
    assert_eq!(
        long.matches("        Total                             : 4608 MiB\n")
            .count(),
        4
    );
    assert!(!long.contains("Power"), "{long}");
    // Without a device that is meant, or a form that is known.
    for (args, said) in [
        (&["-i", "9"][..], "no GPU `9`"),
        (&["-L", "--server=a"], "--server goes before"),
        (&["-pm", "1"], "install nvidia-smi"),
    ] {
        let (code, out, err) = ends(&mut smi(&both, args));
        assert_eq!((code, out.as_str()), (Some(125), ""));
        assert!(err.contains(said) && err.lines().count() == 1, "{err}");
    }
}

#[test]
fn a_server_that_is_down_is_named_and_the_others_are_shown() {
    let [a, b] = servers();
    let both = [a.address.clone(), b.address.clone()].join(",");
    drop(b);
    let (code, out, err) = ends(&mut smi(&both, &["-L"]));
    assert_eq!((code, out.lines().count()), (Some(125), 2), "{err}");
    assert!(
        err.contains("cannot reach") && err.lines().count() == 1,
        "{err}"
    );
}

#[test]
fn nvidias_program_runs_here_and_sees_the_gpus_of_all_servers() {
    if std::env::var_os(PROGRAM).is_some() {
        return print_devices();
    }
    let [a, b] = servers();
    let both = [a.address.as_str(), b.address.as_str()].join(",");
    let folder = tempfile::tempdir().unwrap();
    let (bin, cuda) = (folder.path().join("bin"), folder.path().join("lib/cuda"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(&cuda).unwrap();
    symlink(std::env::current_exe().unwrap(), bin.join("nvidia-smi")).unwrap();
    let shim = built("libnvidia_ml.so");
    for name in ["libnvidia-ml.so.1", "libcuda.so.1"] {
        symlink(&shim, cuda.join(name)).unwrap();
    }
    // Its own arguments, those that begin with a hyphen, too, go to the program.
    let name = "nvidias_program_runs_here_and_sees_the_gpus_of_all_servers";
    let of = |servers: &str| {
        let mut c = smi(servers, &["--exact", name, "--nocapture"]);
        c.env("PATH", &bin).env(PROGRAM, "1");
        c.env("BUSBAR_LIB_DIR", folder.path().join("lib"));
        c
    };
    let (code, out, err) = ends(&mut of(&both));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("GPUs: 4\n"), "{out}");
    // A server that is away is left out, and is a failure in the end.
    drop(b);
    let (code, out, err) = ends(&mut of(&both));
    assert_eq!(code, Some(125), "{out}");
    assert!(
        out.contains("GPUs: 2\n") && err.contains("cannot reach"),
        "{out}{err}"
    );
    // Somebody may have given Busbar's command that name.
    let drawn = ends(of(&a.address).env("BUSBAR_SMI", "1").args(["-L"])).2;
    assert!(drawn.contains("not `--exact`"), "{drawn}");
}

#[test]
fn a_program_finds_nvidia_smi_which_shows_its_own_gpus_and_its_part_of_them() {
    let [a, b] = servers();
    let both = [a.address.as_str(), b.address.as_str()].join(",");
    let lib = tempfile::tempdir().unwrap();
    let cuda = lib.path().join("cuda");
    std::fs::create_dir_all(&cuda).unwrap();
    for (name, library) in [
        ("libnvidia-ml.so.1", "libnvidia_ml.so"),
        ("libcuda.so.1", "libnvidia_ml.so"),
    ] {
        symlink(built(library), cuda.join(name)).unwrap();
    }
    let run = |flags: &[&str], program: &str| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_busbar"));
        c.env("PATH", "/usr/bin:/bin").env_remove("BUSBAR_SMI");
        c.env("BUSBAR_LIB_DIR", lib.path());
        c.args(["run", "--server", &both]).args(flags);
        let (code, out, err) = ends(c.args(["--", "sh", "-c", program]));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{program}: {out}");
        out
    };
    let all = run(&[], "nvidia-smi --list-gpus");
    assert_eq!(all.lines().count(), 4, "{all}");
    assert!(
        all.starts_with("GPU 0: Busbar fakedev (UUID: GPU-"),
        "{all}"
    );
    let ask = "nvidia-smi --query-gpu=index,count,memory.total,memory.used,utilization.gpu \
               --format=csv,noheader,nounits";
    assert_eq!(run(&[], ask).lines().nth(3), Some("3, 4, 4608, 102, 42"));
    // Of a part that part, whichever GPU it is of.
    let part = ["-n", "1", "-m", "1GiB"];
    let own = run(&part, &format!("nvidia-smi -L && {ask}"));
    assert_eq!(own.lines().count(), 2, "{own}");
    assert!(own.contains("\n0, 1, 1024, 0, "), "{own}");
    // Without a program it is what one would get.
    let mut c = smi(&b.address, &["--own", "-L"]);
    let (code, out, err) = ends(c.env("BUSBAR_LIB_DIR", lib.path()));
    assert_eq!((code, out.lines().count(), err.as_str()), (Some(0), 2, ""));
    // The command of that name that users have shows all of the server that the program is at.
    assert_eq!(run(&part, "busbar smi -L").lines().count(), 2);
}

/// What a program of NVIDIA's does first.
fn print_devices() {
    let mut n = 0u32;
    // SAFETY: the library that the loader finds by its name, and functions as NVML has them.
    unsafe {
        let nvml = Library::new("libnvidia-ml.so.1").unwrap();
        let init: libloading::Symbol<'_, unsafe extern "C" fn() -> u32> =
            nvml.get(b"nvmlInit_v2").unwrap();
        let count: libloading::Symbol<'_, unsafe extern "C" fn(*mut u32) -> u32> =
            nvml.get(b"nvmlDeviceGetCount_v2").unwrap();
        assert_eq!((init(), count(&mut n)), (0, 0));
    }
    println!("GPUs: {n}");
}
