//! Each format, read again with programs that did not write it.

use busbar_packaging::{Format, Product, pack};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const TIME: u32 = 1_700_000_000;
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What a command that must succeed prints.
fn said(command: &mut Command) -> String {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {error}");
    String::from_utf8(out.stdout).unwrap()
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("not read with {program}, which is not here");
    }
    there
}

/// The program: of the tree that is tested, else built.
fn busbar() -> PathBuf {
    if let Some(tree) = std::env::var_os("BUSBAR_TREE") {
        return Path::new(&tree).join("bin/busbar");
    }
    said(Command::new(env!("CARGO")).args(["build", "--quiet", "--package=busbar"]));
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(2).unwrap().join("busbar")
}

/// Lays out a tree, with small files as libraries: to what packs them they are all the same.
fn lay_out(tree: &Path, reverse: bool) {
    let mut names = vec![
        "lib/cuda/libcuda.so.1",
        "lib/cuda/libnvidia-ml.so.1",
        "lib/opencl/libbusbar_opencl.so",
        "lib/nccl/libnccl.so.2",
        "lib/cupti/libbusbar_cupti.so.1",
        "lib/fakedev/libcuda.so.1",
        "lib/cuda/unnumbered/libcuda.so",
        "lib/cupti/names/libcupti.so",
        "lib/cuda/programs/nvidia-smi",
        "lib/opencl/loader/libOpenCL.so.1",
    ];
    if reverse {
        names.reverse();
    }
    for name in names {
        let file = tree.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::copy("/bin/true", &file).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let bin = tree.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let mut strip = Command::new("strip");
    said(
        strip
            .arg("--strip-unneeded")
            .arg("-o")
            .args([&bin.join("busbar"), &busbar()]),
    );
}

/// A folder with all packages, made once.
fn packages() -> &'static Path {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        lay_out(&folder.path().join("tree"), false);
        let product = Product::read(root(), &folder.path().join("tree"), TIME).unwrap();
        pack(&product, folder.path(), &Format::all()).unwrap();
        folder
    });
    folder.path()
}

fn package(name: &str) -> PathBuf {
    let file = packages().join(name);
    assert!(file.exists(), "{name} was not made");
    file
}

fn names(listing: &str) -> BTreeSet<&str> {
    listing
        .lines()
        .filter_map(|l| l.split_whitespace().nth(5))
        .collect()
}

#[test]
fn another_run_gives_the_same_bytes() {
    let again = tempfile::tempdir().unwrap();
    lay_out(&again.path().join("tree"), true);
    let product = Product::read(root(), &again.path().join("tree"), TIME).unwrap();
    let made = pack(&product, again.path(), &Format::all()).unwrap();
    assert_eq!(made.len(), 6);
    for file in made
        .iter()
        .map(|p| p.file_name().unwrap())
        .chain(["SHA256SUMS".as_ref()])
    {
        let of = |folder: &Path| fs::read(folder.join(file)).unwrap();
        assert!(of(packages()) == of(again.path()), "{file:?} differs");
    }
    said(
        Command::new("sha256sum")
            .args(["--check", "SHA256SUMS"])
            .current_dir(packages()),
    );
}

#[test]
fn a_tree_that_is_not_whole_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = || {
        Product::read(root(), folder.path(), TIME)
            .err()
            .map(|e| format!("{e:#}"))
    };
    assert!(refused().unwrap().contains("has no bin/busbar"));
    lay_out(folder.path(), false);
    fs::remove_file(folder.path().join("lib/cuda/libcuda.so.1")).unwrap();
    assert!(refused().unwrap().contains("has no lib/cuda/libcuda.so.1"));
    fs::write(folder.path().join("lib/cuda/libcuda.so.1"), "text").unwrap();
    assert!(refused().unwrap().contains("no 64-bit ELF file"));
}

#[test]
fn the_tarball_runs_where_it_is_unpacked() {
    let name = format!("busbar-{VERSION}-linux-x86_64");
    let file = package(&format!("{name}.tar.gz"));
    let listing = said(Command::new("tar").arg("tvzf").arg(&file).env("TZ", "UTC"));
    for line in listing.lines() {
        assert!(line.contains("root/root"), "{line}");
        assert!(line.contains("2023-11-14 22:13"), "{line}");
    }
    let has = names(&listing);
    for path in [
        "lib/cuda/libcuda.so.1",
        "lib/nccl/libnccl.so.2",
        "lib/cupti/libbusbar_cupti.so.1",
        "lib/systemd/system/busbar.service",
        "lib/sysusers.d/busbar.conf",
        "etc/busbar/serve.toml",
        "share/bash-completion/completions/busbar",
        "share/fish/vendor_completions.d/busbar.fish",
        "share/zsh/site-functions/_busbar",
        "share/man/man1/busbar.1",
        "share/man/man1/busbar-run.1",
        "LICENSE",
        "README.md",
    ] {
        assert!(has.contains(&*format!("{name}/{path}")), "{path}: {has:?}");
    }
    assert!(!listing.contains("fakedev"), "{listing}");
    let to = tempfile::tempdir().unwrap();
    said(
        Command::new("tar")
            .arg("xzf")
            .arg(&file)
            .arg("-C")
            .arg(to.path()),
    );
    let tree = to.path().join(name);
    let version = said(Command::new(tree.join("bin/busbar")).arg("--version"));
    assert_eq!(version.trim(), format!("busbar {VERSION}"));
    let settings = tree.join("etc/busbar/serve.toml");
    let mut serve = Command::new(tree.join("bin/busbar"));
    said(serve.args(["serve", "--check", "--config"]).arg(&settings));
    let page = fs::read_to_string(tree.join("share/man/man1/busbar-run.1")).unwrap();
    assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
    let complete = "share/bash-completion/completions/busbar";
    said(Command::new("bash").arg("-n").arg(tree.join(complete)));
}

#[test]
fn the_wheel_is_as_its_record_says() {
    let wheel = fs::read_dir(packages())
        .unwrap()
        .flatten()
        .map(|f| f.path());
    let wheel = wheel
        .into_iter()
        .find(|p| p.extension().is_some_and(|e| e == "whl"))
        .unwrap();
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with(&format!("busbar-{VERSION}-py3-none-manylinux_2_"))
            && name.ends_with("_x86_64.whl"),
        "{name}"
    );
    said(
        Command::new("python3")
            .args(["-m", "zipfile", "-t"])
            .arg(&wheel),
    );
    // Another program's reading of the digests, and of what may be run.
    let script = "
import base64, csv, hashlib, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
info, = {n.split('/')[0] for n in z.namelist() if '.dist-info/' in n}
rows = list(csv.reader(z.read(info + '/RECORD').decode().splitlines()))
assert sorted(r[0] for r in rows) == sorted(z.namelist())
for path, digest, size in rows:
    if path.endswith('/RECORD'):
        continue
    data = z.read(path)
    want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
    assert digest == 'sha256=' + want and int(size) == len(data), path
print(*(n for n in z.namelist() if z.getinfo(n).external_attr >> 16 & 0o111))
";
    let run = said(Command::new("python3").args(["-c", script]).arg(&wheel));
    assert_eq!(run.trim(), "busbar/bin/busbar");
}

#[test]
fn the_wheel_starts_the_program() {
    let wheel = fs::read_dir(packages())
        .unwrap()
        .flatten()
        .map(|f| f.path());
    let wheel = wheel
        .into_iter()
        .find(|p| p.extension().is_some_and(|e| e == "whl"))
        .unwrap();
    let to = tempfile::tempdir().unwrap();
    // zipfile keeps no modes; installers do.
    said(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .args([&wheel, to.path()]),
    );
    let program = to.path().join("busbar/bin/busbar");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let python = || {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", to.path()).args(["-m", "busbar"]);
        python
    };
    assert_eq!(
        said(python().arg("--version")).trim(),
        format!("busbar {VERSION}")
    );
    // Its exit status and its arguments are the program's own.
    let failed = python()
        .args(["run", "--server", "h:1", "--", "no such program"])
        .output();
    assert_eq!(failed.unwrap().status.code(), Some(127));
    fs::remove_file(&program).unwrap();
    let failed = python().output().unwrap();
    let why = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(why.contains("install the package again"), "{why}");
    assert_eq!(why.lines().count(), 1, "{why}");
}

#[test]
fn dpkg_reads_the_deb() {
    if !is_there("dpkg-deb") {
        return;
    }
    let file = package(&format!("busbar_{VERSION}_amd64.deb"));
    let dpkg = |what: &str| {
        said(
            Command::new("dpkg-deb")
                .arg(what)
                .arg(&file)
                .env("TZ", "UTC"),
        )
    };
    let control = dpkg("-f");
    for line in [
        "Package: busbar",
        "Architecture: amd64",
        "Depends: libc6 (>= 2.",
    ] {
        assert!(control.contains(line), "{control}");
    }
    let about = dpkg("-I");
    for script in ["conffiles", "postinst", "prerm", "postrm"] {
        assert!(about.contains(script), "{about}");
    }
    let listing = dpkg("-c");
    for line in listing.lines() {
        assert!(line.contains("root/root"), "{line}");
    }
    let has = names(&listing);
    for path in [
        "usr/bin/busbar",
        "usr/lib/busbar/bin/busbar",
        "usr/lib/busbar/lib/cuda/libcuda.so.1",
        "usr/lib/systemd/system/busbar.service",
        "usr/lib/sysusers.d/busbar.conf",
        "usr/share/man/man1/busbar-serve.1.gz",
        "usr/share/doc/busbar/copyright",
        "etc/busbar/serve.toml",
    ] {
        assert!(has.contains(path), "{path}: {has:?}");
    }
    assert!(listing.contains("usr/bin/busbar -> ../lib/busbar/bin/busbar"));
    let names = "lib/cuda/unnumbered/libcuda.so -> /usr/lib/busbar/lib/cuda/libcuda.so.1";
    assert!(listing.contains(names), "{listing}");
    let cupti = "/usr/lib/busbar/lib/cupti/libbusbar_cupti.so.1";
    let names = format!("lib/cupti/names/libcupti.so.13 -> {cupti}");
    assert!(listing.contains(&names), "{listing}");
    let program = "lib/cuda/programs/nvidia-smi -> /usr/lib/busbar/bin/busbar";
    assert!(listing.contains(program), "{listing}");
    // It runs through the link.
    let to = tempfile::tempdir().unwrap();
    said(Command::new("dpkg-deb").args(["-x".as_ref(), file.as_os_str(), to.path().as_os_str()]));
    let version = said(Command::new(to.path().join("usr/bin/busbar")).arg("--version"));
    assert_eq!(version.trim(), format!("busbar {VERSION}"));
}

#[test]
fn rpm_reads_the_rpm() {
    if !is_there("rpm") {
        return;
    }
    let file = package(&format!("busbar-{VERSION}-1.x86_64.rpm"));
    let rpm = |args: &[&str]| said(Command::new("rpm").args(args).arg(&file).env("TZ", "UTC"));
    let digests = rpm(&["-K", "--nosignature"]);
    assert!(digests.contains("digests OK"), "{digests}");
    let listing = rpm(&[
        "-qp",
        "--queryformat",
        "[%{FILENAMES} %{FILEUSERNAME} %{FILEMTIMES}\n]",
    ]);
    for path in [
        "/usr/bin/busbar",
        "/usr/lib/busbar/lib/cuda/libcuda.so.1",
        "/usr/lib/systemd/system/busbar.service",
        "/etc/busbar/serve.toml",
        "/usr/share/licenses/busbar/LICENSE",
    ] {
        assert!(
            listing.contains(&format!("{path} root {TIME}\n")),
            "{path}: {listing}"
        );
    }
    assert_eq!(
        rpm(&["-qp", "--configfiles"]).trim(),
        "/etc/busbar/serve.toml"
    );
    let needs = rpm(&["-qp", "--requires"]);
    assert!(needs.contains("libc.so.6(GLIBC_2."), "{needs}");
    let host = rpm(&["-qp", "--queryformat", "%{BUILDHOST} %{BUILDTIME}"]);
    assert_eq!(host, format!("(none) {TIME}"));
    assert!(rpm(&["-qp", "--scripts"]).contains("systemd-sysusers"));
    if !is_there("cpio") {
        return;
    }
    let to = tempfile::tempdir().unwrap();
    let mut unpack = Command::new("sh");
    unpack
        .args(["-c", "rpm2cpio \"$0\" | cpio --quiet -idm"])
        .arg(&file);
    said(unpack.current_dir(to.path()));
    let version = said(Command::new(to.path().join("usr/bin/busbar")).arg("--version"));
    assert_eq!(version.trim(), format!("busbar {VERSION}"));
}

/// What an image's archive holds, after its digests and sizes have been checked.
fn image(name: &str) -> (Value, String) {
    let file = package(&format!("{name}-{VERSION}-oci.tar"));
    let to = tempfile::tempdir().unwrap();
    said(
        Command::new("tar")
            .arg("xf")
            .arg(&file)
            .arg("-C")
            .arg(to.path()),
    );
    let read = |path: &str| fs::read(to.path().join(path)).unwrap();
    let json = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
    let blob = |of: &Value| {
        let digest = of["digest"]
            .as_str()
            .unwrap()
            .strip_prefix("sha256:")
            .unwrap();
        let bytes = read(&format!("blobs/sha256/{digest}"));
        assert_eq!(format!("{:x}", Sha256::digest(&bytes)), digest);
        assert_eq!(of["size"], bytes.len());
        bytes
    };
    assert_eq!(json(&read("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let manifest = json(&blob(&json(&read("index.json"))["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    let layer = to.path().join("layer.tar.gz");
    fs::write(&layer, blob(&layers[0])).unwrap();
    let unpacked = Command::new("gzip")
        .arg("-dc")
        .arg(&layer)
        .output()
        .unwrap()
        .stdout;
    let diff = format!("sha256:{:x}", Sha256::digest(&unpacked));
    assert_eq!(config["rootfs"]["diff_ids"][0], diff);
    let docker = &json(&read("manifest.json"))[0];
    assert_eq!(json(&read(docker["Config"].as_str().unwrap())), config);
    assert_eq!(docker["RepoTags"][0], format!("{name}:latest"));
    (config, said(Command::new("tar").arg("tvzf").arg(&layer)))
}

#[test]
fn the_image_of_the_client_is_a_folder() {
    let (config, listing) = image("busbar");
    assert_eq!(config["architecture"], "amd64");
    let has = names(&listing);
    assert!(has.contains("opt/busbar/bin/busbar"), "{has:?}");
    assert!(has.contains("opt/busbar/lib/cuda/libcuda.so.1"), "{has:?}");
    assert!(has.iter().all(|p| p.starts_with("opt/")), "{has:?}");
}

#[test]
fn the_image_of_the_server_has_what_the_server_takes() {
    let (config, listing) = image("busbar-server");
    assert_eq!(config["config"]["Cmd"][0], "serve");
    let has = names(&listing);
    for path in [
        "lib64/ld-linux-x86-64.so.2",
        "etc/busbar/serve.toml",
        "tmp/",
        "proc/",
    ] {
        assert!(has.contains(path), "{path}: {has:?}");
    }
    assert!(has.iter().any(|p| p.ends_with("/libc.so.6")), "{has:?}");
}

/// The root file system of the server's image, in a folder of `to`, and how the image is started.
fn unpack_server(to: &Path) -> (PathBuf, Value) {
    let json =
        |path: PathBuf| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let file = package(&format!("busbar-server-{VERSION}-oci.tar"));
    said(Command::new("tar").arg("xf").arg(&file).arg("-C").arg(to));
    let docker = json(to.join("manifest.json"))[0].take();
    let layer = to.join(docker["Layers"][0].as_str().unwrap());
    let root = to.join("root");
    fs::create_dir(&root).unwrap();
    said(
        Command::new("tar")
            .arg("xzf")
            .arg(layer)
            .arg("-C")
            .arg(&root),
    );
    let config = json(to.join(docker["Config"].as_str().unwrap()));
    (root, config["config"].clone())
}

/// What the server says of its settings.
const CHECK: [&str; 4] = ["serve", "--check", "--config", "/etc/busbar/serve.toml"];

#[test]
fn the_server_runs_in_its_image() {
    let mut alone = Command::new("unshare");
    let alone = alone.args(["--map-root-user", "true"]).status();
    if !alone.is_ok_and(|s| s.success()) {
        return eprintln!("no root folder of its own may be entered here");
    }
    let to = tempfile::tempdir().unwrap();
    let (root, _) = unpack_server(to.path());
    // Nothing of this machine but its kernel.
    let mut inside = Command::new("unshare");
    let enter = ["--map-root-user", "chroot"];
    inside
        .args(enter)
        .arg(&root)
        .arg("/opt/busbar/bin/busbar")
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let checked = said(inside.args(CHECK));
    assert!(checked.contains("0.0.0.0:7400"), "{checked}");
}

#[test]
fn the_server_runs_in_a_container() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 || !is_there("runc") {
        return eprintln!("containers are made by root and runc, where both are");
    }
    let to = tempfile::tempdir().unwrap();
    let (_, image) = unpack_server(to.path());
    let runc = || {
        let mut runc = Command::new("runc");
        runc.arg("--root")
            .arg(to.path().join("state"))
            .current_dir(to.path());
        runc
    };
    said(runc().arg("spec"));
    let settings = to.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&settings).unwrap()).unwrap();
    let entry = image["Entrypoint"].as_array().unwrap().iter();
    let args = entry.cloned().chain(CHECK.map(Value::from)).collect();
    config["root"] = serde_json::json!({"path": "root", "readonly": false});
    config["process"]["terminal"] = false.into();
    config["process"]["args"] = Value::Array(args);
    config["process"]["env"] = image["Env"].clone();
    fs::write(&settings, config.to_string()).unwrap();
    let name = format!("busbar-{}", std::process::id());
    let checked = runc().args(["run", &name]).output().unwrap();
    let [out, err] = [&checked.stdout, &checked.stderr].map(|s| String::from_utf8_lossy(s));
    if err.starts_with("runc run failed") || err.contains("unable to start container") {
        return eprintln!("no container can be made here: {err}");
    }
    assert!(checked.status.success(), "{err}");
    assert!(out.contains("0.0.0.0:7400"), "{out}{err}");
}
