//! A package for Debian and its descendants: an `ar` archive of two tar archives.

use crate::archive::{gzip, tar};
use crate::files::{Files, Item, plain};
use crate::{Product, layout};
use anyhow::Result;
use ar::{Builder, Header};

const LICENCE: &str = "usr/share/doc/busbar/copyright";
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../files/deb/postinst")),
    ("prerm", include_str!("../files/deb/prerm")),
    ("postrm", include_str!("../files/deb/postrm")),
];

/// The `.deb`.
pub fn make(product: &Product) -> Result<(String, Vec<u8>)> {
    let files = layout::system(product, "usr/share/zsh/vendor-completions", LICENCE)?;
    let mut control = Files::from([
        ("control".into(), plain(describe(product, &files))),
        (
            "conffiles".into(),
            plain(format!("/{}\n", layout::SETTINGS)),
        ),
    ]);
    for (name, text) in SCRIPTS {
        control.insert(name.into(), Item::File(0o755, text.into()));
    }
    let mut out = Builder::new(Vec::new());
    for (name, bytes) in [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar(&control, product.time)?)?),
        ("data.tar.gz", gzip(&tar(&files, product.time)?)?),
    ] {
        let mut h = Header::new(name.into(), bytes.len() as u64);
        h.set_mtime(product.time.into());
        h.set_mode(0o100_644);
        out.append(&h, &bytes[..])?;
    }
    Ok((
        format!("busbar_{}_amd64.deb", product.version),
        out.into_inner()?,
    ))
}

fn describe(product: &Product, files: &Files) -> String {
    let bytes: usize = files
        .values()
        .map(|item| match item {
            Item::File(_, bytes) => bytes.len().div_ceil(1024),
            _ => 1,
        })
        .sum();
    let mut depends = format!("libc6 (>= {})", product.needs.least_glibc());
    if product.needs.libgcc() {
        depends += ", libgcc-s1";
    }
    format!(
        "Package: busbar\n\
         Version: {}\n\
         Architecture: amd64\n\
         Maintainer: The Busbar developers <busbar@localhost>\n\
         Installed-Size: {bytes}\n\
         Depends: {depends}\n\
         Section: net\n\
         Priority: optional\n\
         Description: plugs any machine into any accelerator\n \
         Runs unmodified CUDA and OpenCL programs of this machine on the GPUs of another,\n \
         and offers GPUs of this machine to others.\n",
        product.version
    )
}
