//! Loaders and drivers of OpenCL: whatever a machine has, programs find Busbar, and servers find
//! devices.

use busbar_e2e::opencl::{Server, compile, driver, launcher, library, native, run, text};
use busbar_e2e::tree::tree;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The system's loader without its knowledge of the variable that names drivers, in a folder.
fn loader_that_cannot_be_told(folder: &Path) {
    let mut file = fs::read(library("libOpenCL.so.1")).expect("a loader");
    let name = b"OCL_ICD_VENDORS";
    while let Some(i) = file.windows(name.len()).position(|w| w == name) {
        file[i] = b'X';
    }
    fs::write(folder.join("libOpenCL.so.1"), file).expect("a file");
}

#[test]
fn a_loader_that_cannot_be_told_of_busbar_is_replaced() {
    let program = compile("opencl_features");
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    loader_that_cannot_be_told(folder.path());
    let expected = text(&run(&mut native(&program)));
    let mut c = launcher(&server.address);
    let once = run(c.arg(&program).env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(text(&once), expected);
    // A program that was linked with a loader asks for the versions of its functions.
    assert_eq!(String::from_utf8_lossy(&once.stderr), "");
    // Within a shell that `busbar run` started, its own loader is not the machine's.
    let mut c = launcher(&server.address);
    c.arg(&tree().busbar).args(["run", "--"]);
    let twice = run(c.arg(&program).env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(text(&twice), expected);
}

#[test]
fn drivers_that_a_variable_names_do_not_come_before_busbars() {
    let server = Server::start();
    let mut c = launcher(&server.address);
    c.args([
        "sh",
        "-c",
        "echo \"$OCL_ICD_VENDORS ${OCL_ICD_FILENAMES-none}\"",
    ]);
    let said = text(&run(c.env("OCL_ICD_FILENAMES", "libpocl.so.2")));
    assert!(said.ends_with("/vendors/ none\n"), "{said}");
    let program = compile("opencl_features");
    let expected = text(&run(&mut native(&program)));
    let mut c = launcher(&server.address);
    let out = run(c
        .arg(&program)
        .env("OCL_ICD_FILENAMES", "libpocl.so.2")
        .env("BUSBAR_STATS", "1"));
    assert_eq!(text(&out), expected);
    let stats = busbar_e2e::program::stats(&out);
    assert!(stats["calls"].as_u64().is_some_and(|n| n > 100), "{stats}");
}

/// The shared libraries that a program or library needs, but no loader of OpenCL.
fn needed(file: &Path) -> Vec<PathBuf> {
    let said = text(&run(Command::new("ldd").arg(file)));
    let paths = said.split_whitespace().filter(|w| w.starts_with('/'));
    let paths = paths.map(|w| PathBuf::from(w.trim_end_matches(':')));
    paths
        .filter(|p| p != file && !p.ends_with("libOpenCL.so.1"))
        .collect()
}

/// A root folder for programs of their own: what they need of the system, and nothing else.
fn root_without_a_loader(root: &Path, programs: &[(PathBuf, &str)]) {
    let put = |from: &Path, to: &Path| {
        let to = root.join(to.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(from, to).expect("a file");
    };
    for (from, to) in programs {
        put(from, Path::new(to));
        needed(from).iter().for_each(|p| put(p, p));
    }
    fs::create_dir_all(root.join("tmp")).expect("a folder");
}

/// A command within that root, or `None` where the system lets nobody change roots.
fn within(root: &Path) -> Option<Command> {
    let tries = [&["chroot"][..], &["unshare", "--map-root-user", "chroot"]];
    let command = |words: &[&str]| {
        let mut c = Command::new(words[0]);
        c.args(&words[1..]).arg(root).env_clear();
        c.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        c
    };
    let works = |words: &&&[&str]| {
        let mut c = command(words);
        let c = c.args(["/opt/busbar/bin/busbar", "--version"]);
        let done = c.stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|s| s.success())
    };
    tries.iter().find(works).map(|words| command(words))
}

#[test]
fn a_machine_without_any_loader_needs_none() {
    let linked = compile("opencl_features");
    let server = Server::start();
    let root = tempfile::tempdir().expect("a folder");
    let own = |name: &str| tree().lib.join(name);
    let programs = [
        (tree().busbar.clone(), "/opt/busbar/bin/busbar"),
        (
            own("opencl/libbusbar_opencl.so"),
            "/opt/busbar/lib/opencl/libbusbar_opencl.so",
        ),
        (
            own("cuda/libcuda.so.1"),
            "/opt/busbar/lib/cuda/libcuda.so.1",
        ),
        (compile("opencl_dlopen"), "/bin/dlopen"),
        (linked.clone(), "/bin/linked"),
    ];
    root_without_a_loader(root.path(), &programs);
    if within(root.path()).is_none() {
        eprintln!("not tried: no root of its own can be had here");
        return;
    }
    let run_in = |words: &[&str]| {
        let mut c = within(root.path()).expect("it could be had");
        c.env("BUSBAR_DEVICE_NAMES", "plain")
            .env("BUSBAR_LIB_DIR", "/opt/busbar/lib");
        let out = run(c.args(words));
        text(&out) + &String::from_utf8_lossy(&out.stderr)
    };
    let busbar = |words: &[&str]| {
        let start = [
            "/opt/busbar/bin/busbar",
            "run",
            "--server",
            &server.address,
            "--",
        ];
        run_in(&[&start, words].concat())
    };
    let alone = run_in(&["/bin/dlopen"]);
    assert!(alone.starts_with("no OpenCL: "), "{alone}");
    let right = "read: 0, answer: 42\n";
    assert_eq!(busbar(&["/bin/dlopen"]), right);
    assert_eq!(busbar(&["/bin/dlopen", "libOpenCL.so"]), right);
    assert_eq!(busbar(&["/bin/linked"]), text(&run(&mut native(&linked))));
    let doctor = run_in(&["/opt/busbar/bin/busbar", "doctor"]);
    assert!(doctor.contains("this machine has none"), "{doctor}");
}

#[test]
fn doctor_says_which_loader_programs_get() {
    let folder = tempfile::tempdir().expect("a folder");
    loader_that_cannot_be_told(folder.path());
    let says = |path: &Path| {
        let mut c = std::process::Command::new(&tree().busbar);
        c.arg("doctor").env("LD_LIBRARY_PATH", path);
        let said = text(&run(c.env("BUSBAR_LIB_DIR", &tree().lib)));
        let line = said.lines().find(|l| l.contains("opencl "));
        line.unwrap_or_else(|| panic!("{said}")).to_string()
    };
    let own = says(folder.path());
    assert!(own.contains("does not know OCL_ICD_VENDORS"), "{own}");
    let machines = says(Path::new("/nowhere"));
    let loader = library("libOpenCL.so.1");
    assert!(machines.contains(&*loader.to_string_lossy()), "{machines}");
}

#[test]
fn a_driver_serves_without_a_loader() {
    let program = compile("opencl_features");
    let server = Server::start_with(|c| {
        c.arg("--opencl-library").arg(driver());
    });
    let expected = text(&run(&mut native(&program)));
    assert_eq!(text(&run(&mut server.command(&program))), expected);
}

#[test]
fn a_vendors_driver_is_found_where_nothing_names_it() {
    // What a container with a GPU has: a driver, but no loader and no file that names the driver.
    // The driver is another one here, under that name; its parts lie beside it.
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("libOpenCL.so.1"), "").expect("a file");
    symlink(driver(), at("libnvidia-opencl.so.1")).expect("a link");
    symlink(driver().with_file_name("pocl"), at("pocl")).expect("a link");
    let server = Server::start_with(|c| {
        c.env("LD_LIBRARY_PATH", folder.path());
    });
    let out = run(launcher(&server.address).args(["clinfo", "-l"]));
    let here = run(native("clinfo").arg("-l"));
    assert_eq!(text(&out), text(&here));
}
