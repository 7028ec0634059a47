//! OpenCL programs, natively and through a server, on this machine's own devices.

use crate::tree::{built, over_verbs, tree};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long any one program may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a C program of `programs/` against the system's OpenCL loader.
pub fn compile(name: &str) -> PathBuf {
    compile_with(name, &[])
}

/// The same of a shared library, which needs the loader.
pub fn compile_library(name: &str) -> PathBuf {
    compile_with(name, &["-shared", "-fPIC", "-Wl,--no-as-needed"])
}

fn compile_with(name: &str, flags: &[&str]) -> PathBuf {
    // Tests run side by side: while one starts the program another must not write it.
    static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let out = built().join(format!("e2e-{name}-{}", std::process::id()));
    if made.contains(&out) {
        return out;
    }
    let source = root()
        .join("testing/e2e/programs")
        .join(format!("{name}.c"));
    let done = Command::new("cc")
        .args(["-O1", "-Wno-deprecated-declarations"])
        .args(flags)
        .arg("-o")
        .arg(&out)
        .arg(source)
        .args(["-lOpenCL", "-lpthread"])
        .status();
    assert!(done.expect("cc runs").success(), "{name}.c compiles");
    made.push(out.clone());
    out
}

/// A server on a free port.
pub struct Server {
    child: Child,
    /// Its address.
    pub address: String,
    dir: tempfile::TempDir,
}

impl Server {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(|_| ())
    }

    /// Starts one with flags and variables of its own.
    pub fn start_with(change: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(&tree().busbar);
        command
            // What ends sooner was noticed, and did not just run out.
            .args(["serve", "--resume-timeout", "3600"])
            .args(["--listen", "127.0.0.1:0"])
            .env("POCL_CACHE_DIR", kernels())
            .stderr(Stdio::null());
        change(&mut command);
        if !command.get_args().any(|a| a == "--cache-dir") {
            command.arg("--cache-dir").arg(dir.path().join("cache"));
        }
        if over_verbs() && !command.get_args().any(|a| a == "--rdma") {
            command.args(["--rdma", "auto"]);
        }
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("busbar serve starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = loop {
            let line = lines
                .next()
                .expect("it says where it listens")
                .expect("text");
            if let Some(a) = line.strip_prefix("busbar: listening on ") {
                break a.trim().to_string();
            }
        };
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address,
            dir,
        }
    }

    /// The processes of its sessions and those in reserve.
    pub fn workers(&self) -> Vec<u32> {
        crate::proc::children(self.child.id())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The sessions that it has.
    pub fn sessions(&self) -> Vec<serde_json::Value> {
        let mut c = Command::new(&tree().busbar);
        let out = run(c.args(["ps", "--json", "--server", &self.address]));
        let list: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        let sessions = list[0]["status"]["sessions"].as_array();
        sessions.cloned().unwrap_or_default()
    }

    /// Where it keeps what later sessions can use.
    pub fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        crate::proc::crash(&mut self.child);
    }

    /// `program` on this server.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        remote(&self.address, program)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `program` on the server at `address`.
pub fn remote(address: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    // Moved into its place: a program that starts while it is written would find no driver in it.
    static VENDORS: OnceLock<PathBuf> = OnceLock::new();
    let vendors = VENDORS.get_or_init(|| {
        let vendors = built().join("e2e-vendors");
        std::fs::create_dir_all(&vendors).expect("a folder");
        let driver = tree().lib.join("opencl/libbusbar_opencl.so");
        let icd = format!("{}\n", driver.display());
        let aside = built().join(format!("busbar.icd.{}", std::process::id()));
        std::fs::write(&aside, icd).expect("a file");
        std::fs::rename(aside, vendors.join("busbar.icd")).expect("a file");
        vendors
    });
    let mut c = Command::new(program);
    c.env("BUSBAR_SERVER", address)
        .env("BUSBAR_DEVICE_NAMES", "plain")
        // A server that is gone for good need not be waited for.
        .env("BUSBAR_RESUME_TIMEOUT", "2")
        .env("OCL_ICD_VENDORS", vendors);
    if over_verbs() {
        c.env("BUSBAR_SHM", "0");
    }
    c
}

/// `busbar run`, with the address of a server; a program and its arguments are to follow.
pub fn launcher(address: &str) -> Command {
    let mut c = Command::new(&tree().busbar);
    c.args(["run", "--server", address, "--"])
        .env("BUSBAR_LIB_DIR", &tree().lib)
        .env("BUSBAR_DEVICE_NAMES", "plain");
    c
}

/// Where the dynamic linker finds a library.
pub fn library(name: &str) -> PathBuf {
    let out = Command::new("/sbin/ldconfig").arg("-p").output();
    let out = text(&out.expect("ldconfig runs"));
    let line = out.lines().find(|l| {
        let l = l.trim();
        l.starts_with(&format!("{name} ")) && l.contains("x86-64")
    });
    let path = line.and_then(|l| l.split(" => ").nth(1));
    PathBuf::from(path.unwrap_or_else(|| panic!("{name} is installed")))
}

/// The CPU device's driver, as a file for loaders names it.
pub fn driver() -> PathBuf {
    let files = std::fs::read_dir("/etc/OpenCL/vendors").expect("a driver is installed");
    let texts = files.map(|f| std::fs::read_to_string(f.expect("a file").path()).expect("text"));
    let names: Vec<_> = texts.map(|t| t.trim().to_string()).collect();
    let name = names.iter().find(|n| n.contains("pocl"));
    let name = name.unwrap_or_else(|| panic!("PoCL is among {names:?}"));
    // A bare name is one that the dynamic linker finds where it finds the loader.
    library("libOpenCL.so.1").with_file_name(name)
}

/// `program` on this machine's own devices.
pub fn native(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut c = Command::new(program);
    c.env("POCL_CACHE_DIR", kernels());
    c
}

/// Where the CPU device keeps compiled kernels: shared, for compiling takes long.
fn kernels() -> PathBuf {
    built().join("e2e-kernels")
}

/// Runs to the end, or panics when that takes too long.
pub fn run(c: &mut Command) -> Output {
    let child = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    finish(child.expect("the program starts"))
}

/// Waits for the end, or panics when that takes too long.
pub fn finish(child: Child) -> Output {
    let id = child.id() as i32;
    let (say, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || say.send(child.wait_with_output()));
    match hear.recv_timeout(crate::patient(PATIENCE)) {
        Ok(out) => out.expect("output"),
        Err(_) => {
            // SAFETY: a process of ours.
            unsafe { libc::kill(id, libc::SIGKILL) };
            panic!("the program hangs");
        }
    }
}

/// What it printed.
pub fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}
