//! Loaders and drivers of OpenCL: whatever a machine has, programs find Busbar, and servers find
//! devices.

use busbar_e2e::opencl::{Server, compile, driver, launcher, library, native, run, text, tree};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

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
    c.arg(tree().join("busbar")).args(["run", "--"]);
    let twice = run(c.arg(&program).env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(text(&twice), expected);
}

#[test]
fn doctor_says_which_loader_programs_get() {
    let folder = tempfile::tempdir().expect("a folder");
    loader_that_cannot_be_told(folder.path());
    let says = |path: &Path| {
        let mut c = std::process::Command::new(tree().join("busbar"));
        c.arg("doctor").env("LD_LIBRARY_PATH", path);
        let said = text(&run(c.env("BUSBAR_LIB_DIR", tree().join("e2e-lib"))));
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
