//! The binaries under test: `BUSBAR_TREE` names a tree as `cargo xtask dist` leaves it; without it
//! the debug builds are put together as one.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the binaries are.
#[derive(Debug)]
pub struct Tree {
    /// The program `busbar`.
    pub busbar: PathBuf,
    /// The folder with the shims' folders.
    pub lib: PathBuf,
    /// The folder with the CUDA shim.
    pub cuda: PathBuf,
    /// The folder with the simulated driver.
    pub fakedev: PathBuf,
}

impl Tree {
    fn at(root: &Path) -> Self {
        Self {
            busbar: root.join("bin/busbar"),
            lib: root.join("lib"),
            cuda: root.join("lib/cuda"),
            fakedev: root.join("lib/fakedev"),
        }
    }

    /// The simulated driver.
    pub fn fakedev_library(&self) -> PathBuf {
        self.fakedev.join("libcuda.so.1")
    }

    /// The simulated NVML.
    pub fn fakenvml_library(&self) -> PathBuf {
        self.lib.join("fakenvml/libnvidia-ml.so.1")
    }
}

/// The tree that this process tests.
pub fn tree() -> &'static Tree {
    static TREE: OnceLock<Tree> = OnceLock::new();
    TREE.get_or_init(|| match std::env::var_os("BUSBAR_TREE") {
        Some(root) => Tree::at(Path::new(&root)),
        None => debug_tree(),
    })
}

/// Takes away what the surroundings say to Busbar, CUDA and the simulated driver, and says where
/// the shims are: the program itself may be reached by a link. How slow the machine is remains
/// known.
pub fn clear(c: &mut Command) {
    for (k, _) in std::env::vars_os() {
        let name = k.to_string_lossy();
        let theirs = ["BUSBAR_", "CUDA_", "FAKEDEV_"];
        if name != crate::SLOWNESS && theirs.iter().any(|p| name.starts_with(p)) {
            c.env_remove(&k);
        }
    }
    c.env_remove("LD_LIBRARY_PATH");
    // Whoever runs the tests may have logged in somewhere.
    c.env("BUSBAR_CONFIG", "/nonexistent/busbar/config.toml");
    c.env("BUSBAR_LIB_DIR", &tree().lib);
    if over_verbs() {
        c.env("BUSBAR_SHM", "0");
    }
}

/// Whether servers are to move their sessions to RDMA, in tests that say nothing of it, and
/// programs share no memory with their workers: so says `BUSBAR_TEST_VERBS=1`.
pub fn over_verbs() -> bool {
    std::env::var_os("BUSBAR_TEST_VERBS").is_some_and(|v| v == "1")
}

/// The folder that cargo builds into, from where it put this test program.
pub fn built() -> PathBuf {
    let exe = std::env::current_exe().expect("a test program has a path");
    let deps = exe.parent().expect("it lies in a folder");
    deps.parent()
        .expect("which lies in the target folder")
        .to_path_buf()
}

fn debug_tree() -> Tree {
    let target = built();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet"]);
    for package in [
        "busbar",
        "busbar-shim-cuda",
        "busbar-shim-nvml",
        "busbar-shim-nccl",
        "busbar-shim-cupti",
        "busbar-shim-opencl",
        "busbar-fakedev",
        "busbar-fakenccl",
        "busbar-fakecupti",
        "busbar-fakenvml",
    ] {
        build.args(["-p", package]);
    }
    if let Some(folder) = target.parent() {
        build.arg("--target-dir").arg(folder);
    }
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(
        build.status().expect("cargo runs").success(),
        "the build failed"
    );

    // Links, so that a tree made by an earlier run serves as well.
    let root = target.join("e2e-tree");
    let place = |from: &str, to: &str, link: fn(&Path, &Path) -> io::Result<()>| {
        let to = root.join(to);
        std::fs::create_dir_all(to.parent().expect("it has a parent")).expect("a folder");
        let aside = to.with_extension(std::process::id().to_string());
        link(&target.join(from), &aside).expect("a link");
        std::fs::rename(&aside, &to).expect("the link's place");
    };
    // It looks for the rest beside itself, and follows a link that says where it is.
    place("busbar", "bin/busbar", |from, to| {
        std::fs::hard_link(from, to)
    });
    let link = |from: &str, to: &str| place(from, to, |from, to| symlink(from, to));
    link("libcuda.so", "lib/cuda/libcuda.so.1");
    link("libnvidia_ml.so", "lib/cuda/libnvidia-ml.so.1");
    link("libbusbar_opencl.so", "lib/opencl/libbusbar_opencl.so");
    link("libnccl.so", "lib/nccl/libnccl.so.2");
    link("libcupti.so", "lib/cupti/libbusbar_cupti.so.1");
    link("libfakedev.so", "lib/fakedev/libcuda.so.1");
    link("libfakenccl.so", "lib/fakedev/libnccl.so.2");
    link("libfakecupti.so", "lib/fakedev/libcupti.so.13");
    link("libfakenvml.so", "lib/fakenvml/libnvidia-ml.so.1");
    Tree::at(&root)
}
