//! What machine code of a client tries in its cell: each attack is a few system calls, made by a
//! kernel on a CPU device, and none may succeed. docs/attacks.md lists them.

use busbar_e2e::opencl::{self, Server};
use busbar_e2e::until;
use std::path::Path;
use std::process::Stdio;

/// One attack: a name, the parts of isolation that hold it, and a system call with its arguments.
struct Attack {
    name: &'static str,
    held_by: &'static str,
    call: [String; 6],
}

fn attack(
    name: &'static str,
    held_by: &'static str,
    number: i64,
    args: [&dyn ToString; 4],
) -> Attack {
    let [a, b, c, d] = args.map(ToString::to_string);
    Attack {
        name,
        held_by,
        call: ["1".into(), number.to_string(), a, b, c, d],
    }
}

/// The attacks, against a server with a file somewhere, and one beside its program.
fn attacks(server: u32, secret: &Path, beside: &Path, home: &Path) -> Vec<Attack> {
    let here = libc::AT_FDCWD;
    let (read, write) = (libc::O_RDONLY, libc::O_WRONLY | libc::O_CREAT);
    let open = |name, held_by, path: String, how: i32| {
        attack(name, held_by, libc::SYS_openat, [&here, &path, &how, &384])
    };
    let of_server = |file: &str| format!("/proc/{server}/{file}");
    let secret = secret.display().to_string();
    vec![
        // Files.
        open("a file of the server's", "folders", secret.clone(), read),
        open(
            "a file beside the server's program",
            "folders",
            beside.display().to_string(),
            read,
        ),
        open("a home folder", "folders", home.display().to_string(), read),
        open("passwords", "users", "/etc/shadow".into(), read),
        open(
            "a new program of the system",
            "users",
            "/usr/bin/busbar-x".into(),
            write,
        ),
        open(
            "a new library of the system",
            "users",
            "/etc/ld.so.preload".into(),
            write,
        ),
        open(
            "a kernel setting",
            "users",
            "/proc/sys/kernel/core_pattern".into(),
            write,
        ),
        open(
            "a kernel trigger",
            "users",
            "/proc/sysrq-trigger".into(),
            write,
        ),
        open(
            "a device's setting",
            "folders",
            "/sys/kernel/uevent_helper".into(),
            write,
        ),
        open("a disk", "folders", "/dev/vda".into(), read),
        open("the machine's memory", "folders", "/dev/mem".into(), read),
        open("the kernel's log", "folders", "/dev/kmsg".into(), read),
        open("the first terminal", "folders", "/dev/tty1".into(), write),
        open(
            "the container runtime",
            "folders",
            "/run/docker.sock".into(),
            read,
        ),
        open(
            "control groups",
            "folders",
            "/sys/fs/cgroup/cgroup.procs".into(),
            write,
        ),
        attack(
            "a device file",
            "users",
            libc::SYS_mknodat,
            [&here, &"/tmp/disk", &0o60600, &0x800],
        ),
        attack(
            "a link to a file of the server's",
            "folders",
            libc::SYS_linkat,
            [&here, &secret, &here, &"/tmp/link"],
        ),
        attack(
            "a file's owner",
            "users",
            libc::SYS_fchownat,
            [&here, &"/tmp", &0, &0],
        ),
        // Processes.
        open("the server's memory", "processes", of_server("mem"), read),
        open(
            "the server's variables",
            "processes",
            of_server("environ"),
            read,
        ),
        open(
            "the server's root folder",
            "processes",
            of_server("root/etc/hostname"),
            read,
        ),
        open(
            "the server's descriptors",
            "processes",
            of_server("fd/0"),
            read,
        ),
        open(
            "the first process's memory",
            "users",
            "/proc/1/mem".into(),
            read,
        ),
        attack(
            "a signal to the server",
            "processes",
            libc::SYS_kill,
            [&server, &0, &0, &0],
        ),
        attack(
            "a descriptor of the server's process",
            "processes",
            libc::SYS_pidfd_open,
            [&server, &0, &0, &0],
        ),
        attack(
            "tracing",
            "system calls",
            libc::SYS_ptrace,
            [&16, &1, &0, &0],
        ),
        attack(
            "another's memory",
            "system calls",
            libc::SYS_process_vm_readv,
            [&1, &0, &0, &0],
        ),
        attack(
            "the priority of others",
            "users",
            libc::SYS_setpriority,
            [&2, &0, &-20, &0],
        ),
        // Rights.
        attack("root's number", "users", libc::SYS_setuid, [&0, &0, &0, &0]),
        attack("root's group", "users", libc::SYS_setgid, [&0, &0, &0, &0]),
        attack(
            "another root folder",
            "users",
            libc::SYS_chroot,
            [&"/tmp", &0, &0, &0],
        ),
        attack(
            "a user namespace",
            "system calls",
            libc::SYS_unshare,
            [&libc::CLONE_NEWUSER, &0, &0, &0],
        ),
        attack(
            "a process in a user namespace",
            "system calls",
            libc::SYS_clone,
            [&(libc::CLONE_NEWUSER | libc::SIGCHLD), &0, &0, &0],
        ),
        attack(
            "a mount",
            "system calls",
            libc::SYS_mount,
            [&"x", &"/tmp", &"tmpfs", &0],
        ),
        attack(
            "no mount",
            "system calls",
            libc::SYS_umount2,
            [&"/tmp", &2, &0, &0],
        ),
        attack(
            "the host's name",
            "users",
            libc::SYS_sethostname,
            [&"x", &1, &0, &0],
        ),
        attack(
            "the clock",
            "users",
            libc::SYS_settimeofday,
            [&"0123456789abcdef", &0, &0, &0],
        ),
        attack("ports", "users", libc::SYS_iopl, [&3, &0, &0, &0]),
        attack(
            "a restart",
            "users",
            libc::SYS_reboot,
            [&0xfee1_deadu32, &672_274_793, &0x89ab_cdefu32, &0],
        ),
        // Parts of the kernel.
        attack(
            "a ring",
            "system calls",
            libc::SYS_io_uring_setup,
            [&8, &"x", &0, &0],
        ),
        attack(
            "programs in the kernel",
            "system calls",
            libc::SYS_bpf,
            [&0, &"x", &8, &0],
        ),
        attack(
            "faults",
            "system calls",
            libc::SYS_userfaultfd,
            [&0, &0, &0, &0],
        ),
        attack(
            "counters",
            "system calls",
            libc::SYS_perf_event_open,
            [&"x", &0, &-1, &-1],
        ),
        attack("keys", "system calls", libc::SYS_keyctl, [&0, &-3, &1, &0]),
        attack(
            "a module",
            "system calls",
            libc::SYS_finit_module,
            [&0, &"x", &0, &0],
        ),
        attack(
            "another kernel",
            "system calls",
            libc::SYS_kexec_load,
            [&0, &0, &0, &0],
        ),
        // The network.
        attack("TCP", "system calls", libc::SYS_socket, [&2, &1, &0, &0]),
        attack("UDP", "system calls", libc::SYS_socket, [&10, &2, &0, &0]),
        attack(
            "packets",
            "system calls",
            libc::SYS_socket,
            [&17, &3, &0, &0],
        ),
        attack(
            "a pair of sockets of a cluster",
            "system calls",
            libc::SYS_socketpair,
            [&libc::AF_TIPC, &1, &0, &"0123456789abcdef"],
        ),
        attack(
            "a machine's inside",
            "system calls",
            libc::SYS_socket,
            [&40, &1, &0, &0],
        ),
    ]
}

#[test]
fn nothing_that_a_kernel_tries_in_its_cell_succeeds() {
    let folder = tempfile::tempdir().expect("a folder");
    let (secret, log) = (folder.path().join("secret"), folder.path().join("log"));
    std::fs::write(&secret, "of the server").expect("a file");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&secret, open).expect("it is ours");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), all).expect("it is ours");
    let file = std::fs::File::create(&log).expect("a file");
    let server = Server::start_with(|c| {
        c.stdin(Stdio::null()).stderr(file);
    });
    let says = until("what it says of isolation", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines()
            .find(|l| l.contains("isolation best"))
            .map(String::from)
    });
    let has = says
        .split("; missing")
        .next()
        .unwrap_or_default()
        .to_string();
    let home = std::env::var("HOME").expect("a home");
    let folder = busbar_e2e::tree::tree().busbar.parent().expect("a folder");
    let beside = tempfile::NamedTempFile::new_in(folder).expect("a file");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(beside.path(), open).expect("it is ours");
    let attacks = attacks(server.pid(), &secret, beside.path(), Path::new(&home));
    let program = opencl::compile("opencl_calls");
    let args = attacks.iter().flat_map(|a| a.call.iter());
    let out = opencl::run(server.command(program).args(args));
    let text = opencl::text(&out);
    let results: Vec<i64> = text.lines().map_while(|l| l.parse().ok()).collect();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(results.len(), attacks.len(), "{text}{errors}");
    let (held, open): (Vec<_>, Vec<_>) =
        (attacks.iter().zip(results)).partition(|(_, result)| *result < 0);
    for (a, result) in &open {
        let part = a.held_by;
        assert!(!has.contains(part), "{} ({part}): {result}; {says}", a.name);
        eprintln!("not held: {}: this machine has no {part}", a.name);
    }
    assert!(held.len() + open.len() > 40);
    // The page says of each what holds it.
    let page = opencl::root().join("docs/attacks.md");
    let page = std::fs::read_to_string(page).expect("a page");
    for a in &attacks {
        let row = format!("| {} | {} |", a.name, a.held_by);
        assert!(page.contains(&row), "docs/attacks.md lacks: {row}");
    }
}
