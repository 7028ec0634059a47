//! The names that programs find Busbar's libraries by.

use busbar_e2e::opencl;
use busbar_e2e::program::{clear, finished, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Loads each library by its name without a number first, as Taichi and Dr.Jit do, and says whether
/// the name with the number is the same one.
const NAMES: &str = "
import ctypes, os, sys
folders = os.environ['LD_LIBRARY_PATH'].split(':')
assert len(folders) == len(set(folders)), folders
for name in sys.argv[1:]:
    plain = ctypes.CDLL(f'lib{name}.so')
    assert plain._handle == ctypes.CDLL(f'lib{name}.so.1')._handle, name
    if name == 'cuda':
        count = ctypes.c_int()
        assert plain.cuInit(0) == 0
        assert plain.cuDeviceGetCount(ctypes.byref(count)) == 0
        print(count.value, 'devices')
    else:
        print('NVML', plain.nvmlInit_v2())
";

#[test]
fn names_without_a_number_lead_to_the_same_libraries() {
    let server = Options::default().env("FAKEDEV_DEVICES", "2").start();
    let names = ["cuda", "nvidia-ml"];
    for names in [names, [names[1], names[0]]] {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.args(["run", "--server", &server.address, "--"]);
        // Around it is another that has set the folders.
        c.args([&tree().busbar.to_string_lossy(), "run", "--server"]);
        c.args([&server.address, "--", "python3", "-c"]);
        let said = printed(c.arg(NAMES).args(names));
        let mut lines: Vec<_> = said.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["2 devices", "NVML 0"]);
    }
}

/// Says what is preloaded, by the names of the files, and whether CUPTI is one library under all
/// its names. A counter's function is there, and refuses.
const CUPTI: &str = "
import ctypes, os
folders = os.environ['LD_LIBRARY_PATH'].split(':')
assert len(folders) == len(set(folders)), folders
print(*map(os.path.basename, os.environ.get('LD_PRELOAD', '').split(':')))
triton = os.environ.get('TRITON_CUPTI_LIB_PATH')
if triton:
    assert triton in folders, folders
    names = [f'libcupti.so{end}' for end in ('', '.12', '.13')] + [f'{triton}/libcupti.so']
    assert len({ctypes.CDLL(name)._handle for name in names}) == 1
    print(ctypes.CDLL(None).cuptiEventGroupCreate())
";

#[test]
fn profilers_find_one_cupti_whatever_they_ask_for() {
    let server = Server::start();
    let told = |around: bool, settings: &[(&str, &str)]| {
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        c.env_remove("LD_PRELOAD").args(["run", "--server"]);
        c.args([&server.address, "--"]);
        if around {
            // What this one sets is not set twice, and may be taken back.
            let inner = settings
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            c.arg("env").args(inner).arg(&tree().busbar);
            c.args(["run", "--server", &server.address, "--"]);
        } else {
            c.envs(settings.iter().copied());
        }
        printed(c.args(["python3", "-c", CUPTI]))
    };
    let own = ("LD_PRELOAD", "libc.so.6");
    for around in [false, true] {
        assert_eq!(told(around, &[]), "libbusbar_cupti.so.1\n27\n");
        assert_eq!(told(around, &[("BUSBAR_CUPTI", "0")]), "\n");
    }
    assert_eq!(told(false, &[own]), "libbusbar_cupti.so.1 libc.so.6\n27\n");
    let both = told(false, &[own, ("BUSBAR_NCCL", "on")]);
    assert_eq!(both, "libbusbar_cupti.so.1 libnccl.so.2 libc.so.6\n27\n");
}

#[test]
fn a_program_may_link_what_it_compiles_with_the_driver() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    // As compilers of models do: no flag says where the driver lies.
    let build = "echo 'int cuInit(int); int nvmlInit_v2(void); \
                 int main(void) { return cuInit(0) + nvmlInit_v2(); }' > a.c && \
                 cc a.c -o a -lcuda -lnvidia-ml && ./a && echo it runs";
    c.args(["run", "--server", &server.address, "--", "sh", "-c", build]);
    assert_eq!(printed(c.current_dir(folder.path())), "it runs\n");
}

#[test]
fn nvidia_smi_says_so_where_no_server_has_a_gpu_of_nvidias() {
    let server = opencl::Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("nvidia-smi");
    std::fs::write(&script, "#!/bin/sh\nexec /a/driver/that/is/gone").expect("a script");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("its mode");
    // Whichever this machine has; and a script is not NVIDIA's.
    for path in [OsStr::new("/nowhere"), folder.path().as_os_str()] {
        let mut c = opencl::launcher(&server.address);
        let out = finished(c.env("PATH", path).args(["nvidia-smi", "-L"]));
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && err.contains("no server has an NVIDIA GPU"),
            "{path:?}: {err}"
        );
    }
}

#[test]
fn a_drivers_path_is_taken_from_where_the_server_is_started() {
    let server = Options {
        folder: tree().fakedev.parent().map(Into::into),
        ..Options::default()
    };
    // The processes that load it are elsewhere.
    let server = server.arg("--cuda-library", "fakedev/libcuda.so.1").start();
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["run", "--server", &server.address, "--", "python3", "-c"]);
    let said = printed(c.arg(NAMES).args(["cuda"]));
    assert_eq!(said, "1 devices\n");
}
