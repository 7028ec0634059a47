//! OCI images, written as archives of their layout: no daemon, no base image.
//!
//! An archive holds what the standard says, and `manifest.json` besides, which older versions of
//! `docker load` look for.

use crate::archive::{gzip, tar};
use crate::files::{Files, Item, plain, sha256};
use crate::{Product, layout};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const HOME: &str = "opt/busbar";
/// The dynamic loader, where programs expect it.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// What drivers of accelerators load, and glibc itself when it looks up a name, though nothing of
/// ours is linked with it.
const ALSO: [&str; 8] = [
    "libdl.so.2",
    "libm.so.6",
    "libnss_dns.so.2",
    "libnss_files.so.2",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libgcc_s.so.1",
];

/// `/opt/busbar` and nothing else: to be copied into images that have programs.
pub fn client(product: &Product) -> Result<(String, Vec<u8>)> {
    let config = json!({
        "Entrypoint": ["/opt/busbar/bin/busbar"],
        "Env": ["PATH=/opt/busbar/bin"],
        "Labels": labels(product),
    });
    image(product, "busbar", installed(product), config)
}

/// The server, with the C library of the machine that packs it, and no shell.
pub fn server(product: &Product) -> Result<(String, Vec<u8>)> {
    let mut files = installed(product);
    files.extend(c_library(product)?);
    for (path, item) in [
        (layout::SETTINGS, plain(layout::EXAMPLE)),
        ("etc/passwd", plain("root:x:0:0:root:/root:/sbin/nologin\n")),
        ("etc/group", plain("root:x:0:\n")),
        ("etc/nsswitch.conf", plain("hosts: files dns\n")),
        ("tmp", Item::Folder(0o1777)),
        ("proc", Item::Folder(0o555)),
        ("sys", Item::Folder(0o555)),
        ("dev", Item::Folder(0o755)),
        ("var/lib/busbar", Item::Folder(0o700)),
        ("var/cache/busbar", Item::Folder(0o700)),
    ] {
        files.insert(path.into(), item);
    }
    let config = json!({
        "Entrypoint": ["/opt/busbar/bin/busbar"],
        "Cmd": ["serve", "--config", format!("/{}", layout::SETTINGS)],
        "Env": [
            "PATH=/opt/busbar/bin",
            "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ],
        "ExposedPorts": { "7400/tcp": {} },
        "Volumes": { "/var/lib/busbar": {} },
        "Labels": labels(product),
    });
    image(product, "busbar-server", files, config)
}

fn labels(product: &Product) -> Value {
    json!({
        "org.opencontainers.image.title": "Busbar",
        "org.opencontainers.image.version": product.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

fn installed(product: &Product) -> Files {
    let mut files = layout::fixed(product, HOME);
    files.insert(format!("{HOME}/LICENSE"), plain(product.licence.clone()));
    files
}

/// The loader, and each library that the tree or a driver needs, at the paths that they have here.
fn c_library(product: &Product) -> Result<Files> {
    let cannot = "the server's image takes the C library of this machine, and there is none";
    let out = Command::new(LOADER)
        .arg("--list")
        .arg(std::env::current_exe()?)
        .env_clear()
        .output();
    let out = out.with_context(|| format!("{cannot}: {LOADER}"))?;
    let text = String::from_utf8(out.stdout)?;
    let path = |line: &str| {
        line.split_once("=> ")?
            .1
            .split(' ')
            .next()
            .map(String::from)
    };
    let libc = text
        .lines()
        .filter_map(path)
        .find(|p| p.ends_with("/libc.so.6"));
    let libc = libc.context(cannot)?;
    let folder = Path::new(&libc).parent().context(cannot)?;
    let mut names: BTreeSet<_> = ALSO.map(String::from).into();
    names.insert("libc.so.6".into());
    names.extend(product.needs.libraries.iter().cloned());
    let mut files = Files::new();
    let mut add = |path: &Path, mode| -> Result<()> {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let to = path.to_string_lossy().trim_start_matches('/').to_string();
        files.insert(to, Item::File(mode, bytes));
        Ok(())
    };
    add(Path::new(LOADER), 0o755)?;
    for name in names.iter().filter(|n| !LOADER.ends_with(*n)) {
        let path = folder.join(name);
        match path.exists() {
            true => add(&path, 0o644)?,
            // Newer versions of glibc have these in libc.so.6.
            false if !product.needs.libraries.contains(name) => {}
            false => bail!("{}: the tree needs it", path.display()),
        }
    }
    // What the licence of glibc asks for, where the distribution has it.
    for package in ["libc6", "glibc"] {
        let path = format!("/usr/share/doc/{package}/copyright");
        if Path::new(&path).exists() {
            add(Path::new(&path), 0o644)?;
        }
    }
    Ok(files)
}

/// The archive of an image with one layer.
fn image(product: &Product, name: &str, files: Files, config: Value) -> Result<(String, Vec<u8>)> {
    let version = &product.version;
    let layer = tar(&files, product.time)?;
    let diff = format!("sha256:{}", sha256(&layer));
    let mut blobs = Files::new();
    let mut blob = |bytes: Vec<u8>, kind: &str| {
        let (digest, size) = (sha256(&bytes), bytes.len());
        blobs.insert(format!("blobs/sha256/{digest}"), plain(bytes));
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{digest}"),
            "size": size,
        })
    };
    let layer = blob(gzip(&layer)?, "layer.v1.tar+gzip");
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [diff] },
    });
    let config = blob(serde_json::to_vec(&config)?, "config.v1+json");
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
    });
    let mut described = blob(serde_json::to_vec(&manifest)?, "manifest.v1+json");
    described["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    described["annotations"] = json!({
        "org.opencontainers.image.ref.name": "latest",
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    let place = |blob: &Value| {
        let digest = blob["digest"].as_str().unwrap_or_default();
        digest.replace("sha256:", "blobs/sha256/")
    };
    let docker = json!([{
        "Config": place(&config),
        "RepoTags": [format!("{name}:latest"), format!("{name}:{version}")],
        "Layers": [place(&layer)],
    }]);
    for (path, text) in [
        ("index.json", serde_json::to_vec(&index)?),
        ("manifest.json", serde_json::to_vec(&docker)?),
        ("oci-layout", b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec()),
    ] {
        blobs.insert(path.into(), plain(text));
    }
    let bytes = tar(&blobs, product.time)?;
    Ok((format!("{name}-{version}-oci.tar"), bytes))
}
