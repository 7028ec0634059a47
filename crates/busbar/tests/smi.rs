//! `busbar smi`, with and without a program of NVIDIA's on this machine.

mod common;

use common::{Server, built, serve_with};
use libloading::Library;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};

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
        long.matches("        Total                                          : 4608 MiB\n")
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

/// The texts of a document's elements by their paths, in order, for each element that is ended as
/// it began.
fn leaves(document: &str) -> Vec<(String, String)> {
    let (mut path, mut all) = (Vec::new(), Vec::new());
    let mut rest = document;
    while let Some((text, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').unwrap();
        rest = after;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        let name = tag.split(' ').next().unwrap();
        match name.strip_prefix('/') {
            None => path.push(name),
            Some(name) => {
                if !text.trim().is_empty() {
                    all.push((path.join("/"), text.to_string()));
                }
                assert_eq!(path.pop(), Some(name), "{document}");
            }
        }
    }
    assert!(path.is_empty() && rest.trim().is_empty(), "{document}");
    all
}

#[test]
fn what_is_known_is_told_in_xml() {
    let [a, b] = servers();
    let both = [a.address.as_str(), b.address.as_str()].join(",");
    let document = prints(&both, &["-q", "-x"]);
    assert!(
        document.starts_with(
            "<?xml version=\"1.0\" ?>\n\
             <!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n\
             <nvidia_smi_log>\n\t<timestamp>"
        ),
        "{document}"
    );
    assert_eq!(document.matches("\t<gpu id=\"0000").count(), 4);
    let all = leaves(&document);
    let of = |path: &str| {
        let path = format!("nvidia_smi_log/{path}");
        let texts = all.iter().filter(|l| l.0 == path).map(|l| l.1.as_str());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(of("driver_version"), ["580.82.07"]);
    assert_eq!(of("attached_gpus"), ["4"]);
    assert_eq!(of("cuda_version").len(), 1);
    for (path, text) in [
        ("product_architecture", "Hopper"),
        ("fan_speed", "N/A"),
        ("fb_memory_usage/total", "4608 MiB"),
        ("fb_memory_usage/reserved", "512 MiB"),
        ("fb_memory_usage/used", "101 MiB"),
        ("fb_memory_usage/free", "3995 MiB"),
        ("bar1_memory_usage/used", "1 MiB"),
        ("utilization/gpu_util", "41 %"),
        ("utilization/memory_util", "21 %"),
        ("temperature/gpu_temp", "31 C"),
        ("gpu_power_readings/power_state", "P0"),
        ("gpu_power_readings/average_power_draw", "75.00 W"),
        ("gpu_power_readings/current_power_limit", "650.00 W"),
        ("gpu_power_readings/requested_power_limit", "700.00 W"),
        ("clocks/graphics_clock", "1001 MHz"),
        ("max_clocks/video_clock", "2300 MHz"),
        ("pci/pci_device_id", "233510DE"),
        ("pci/pci_gpu_link_info/link_widths/max_link_width", "16x"),
    ] {
        let texts = of(&format!("gpu/{path}"));
        assert_eq!((texts.len(), texts[0]), (4, text), "{path}");
    }
    assert_eq!(of("gpu/server"), [&a, &a, &b, &b].map(|s| &s.address));
    let uuids = prints(&both, &["--query-gpu=uuid", "--format=csv,noheader"]);
    assert_eq!(of("gpu/uuid"), uuids.lines().collect::<Vec<_>>());
    // A part of it, and of one.
    let part = prints(&both, &["--xml-format", "-q", "-i", "2", "-d", "POWER"]);
    assert!(part.contains("<average_power_draw>") && !part.contains("<utilization>"));
    assert_eq!(part.matches("<gpu id=").count(), 1);
    assert_eq!(leaves(&part).len(), 4 + 8);
    // People read the same.
    let long = prints(&both, &["-q", "-i", "2"]);
    for line in [
        "Attached GPUs                                          : 4\n",
        "    Product Architecture                               : Hopper\n",
        "        Average Power Draw                             : 75.00 W\n",
        "                Max                                    : 5\n",
        "    Processes                                          : None\n",
    ] {
        assert!(long.contains(line), "{line}{long}");
    }
}

#[test]
fn how_gpus_reach_each_other_is_shown_as_far_as_servers_know_it() {
    let [a, b] = servers();
    let both = [a.address.as_str(), b.address.as_str()].join(",");
    let text = prints(&both, &["topo", "-m"]);
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online = online.trim();
    let (table, legend) = text.split_once("\n\n").unwrap();
    // The simulated NVML counts 14700 links to a switch, and one more of each further GPU.
    let wanted = format!(
        "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n\
         GPU0\t X \tNV14701\tSYS\tSYS\t{online}\tN/A\t\tN/A\n\
         GPU1\tNV14701\t X \tSYS\tSYS\t{online}\tN/A\t\tN/A\n\
         GPU2\tSYS\tSYS\t X \tNV14701\t{online}\tN/A\t\tN/A\n\
         GPU3\tSYS\tSYS\tNV14701\t X \t{online}\tN/A\t\tN/A"
    );
    assert_eq!(table, wanted);
    assert!(
        legend.starts_with("Legend:\n\n  X    = Self\n  SYS  = "),
        "{legend}"
    );
    let row = |letter: &str| {
        let text = prints(&both, &["topo", "-p2p", letter]);
        assert!(text.starts_with(" \tGPU0\tGPU1\tGPU2\tGPU3\t\n"), "{text}");
        assert!(text.ends_with("  U    = Unknown\n"), "{text}");
        text.lines().nth(2).unwrap().to_string()
    };
    for letter in ["r", "w", "n"] {
        assert_eq!(row(letter), " GPU1\tOK\tX\tNS\tNS\t");
    }
    assert_eq!(row("a"), " GPU1\tNS\tX\tNS\tNS\t");
}

#[test]
fn samples_are_a_line_a_gpu_or_a_program() {
    let [a, b] = servers();
    let both = [a.address.as_str(), b.address.as_str()].join(",");
    let all = ["dmon", "-s", "pucvmet", "-c", "2", "-d", "0.1", "-i", "1,3"];
    let line = |gpu: u32| {
        format!(
            "    {gpu}     75     32      -     42     22      -      7      -      -   1202 \
             \x20 1102      -      -    102      2      -      -      -     14      -      - \n"
        )
    };
    let sample = [line(1), line(3)].concat();
    assert_eq!(
        prints(&both, &all),
        [
            "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  \
             pviol  tviol     fb   bar1   ccpm  sbecc  dbecc    pci  rxpci  txpci \n\
             # Idx      W      C      C      %      %      %      %      %      %    MHz    MHz  \
             \x20   %   bool     MB     MB     MB   errs   errs   errs   MB/s   MB/s \n",
            &sample,
            &sample,
        ]
        .concat()
    );
    let dated = prints(
        &a.address,
        &["dmon", "-s", "m", "-c", "1", "-o", "DT", "-i", "0"],
    );
    let lines: Vec<_> = dated.lines().collect();
    let heading = "#Date        Time         gpu     fb   bar1   ccpm ";
    assert_eq!((lines[0], lines.len()), (heading, 3));
    assert_eq!(lines[2].len(), heading.len());
    let words: Vec<_> = lines[2].split_whitespace().collect();
    assert_eq!((words[0].len(), words[1].len()), (8, 8));
    assert_eq!(words[2..], ["0", "101", "1", "-"]);
    let nobody = prints(&a.address, &["pmon", "-s", "um", "-c", "1"]);
    let idle = "          -     -      -      -      -      -      -      -      -      -    -";
    assert_eq!(
        nobody,
        format!(
            "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    \
             command \n\
             # Idx           #    C/G      %      %      %      %      %      %     MB     MB    \
             name \n    0{idle}{0:14}\n    1{idle}{0:14}\n",
            ""
        )
    );
    let (code, _, err) = ends(&mut smi(&a.address, &["dmon", "-s", "x"]));
    assert_eq!((code, err.lines().count()), (Some(125), 1), "{err}");
}

/// One that goes on, once it has shown so many lines.
fn samples(server: &Server, kind: &str, lines: usize) -> (Child, BufReader<impl std::io::Read>) {
    let mut c = smi(&server.address, &[kind, "-d", "0.1"]);
    c.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = c.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..lines {
        assert_ne!(out.read_line(&mut String::new()).unwrap(), 0);
    }
    (child, out)
}

#[test]
fn samples_go_on_until_somebody_ends_them() {
    let [a, _] = servers();
    for kind in ["dmon", "pmon"] {
        let (child, out) = samples(&a, kind, 7);
        // SAFETY: a child of ours, which has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        assert_eq!((status.code(), stderr.len()), (Some(0), 0), "{kind}");
        drop(out);
        // A reader that has seen enough is no failure that anyone is told of.
        let (child, out) = samples(&a, kind, 3);
        drop(out);
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        assert_eq!(
            (status.signal(), stderr.len()),
            (Some(libc::SIGPIPE), 0),
            "{kind}"
        );
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
    let xml = run(&part, "nvidia-smi -q -x");
    assert!(xml.contains("\t\t\t<total>1024 MiB</total>\n"), "{xml}");
    let samples = run(&part, "nvidia-smi dmon -s m -c 1");
    assert!(
        samples.ends_with("    0      0      1      - \n"),
        "{samples}"
    );
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
