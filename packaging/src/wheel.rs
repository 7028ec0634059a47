//! A wheel: the tree inside a Python package, which starts it.
//!
//! The program is not one of the wheel's scripts, since it finds its libraries from where it lies:
//! what is in the path is a script of pip's, which becomes the program.

use crate::Product;
use crate::files::{Files, Item, below, plain};
use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipWriter};

const INIT: &str = include_str!("../files/python/__init__.py");
const MAIN: &str = include_str!("../files/python/__main__.py");

/// Its name says with which glibc it runs.
pub fn make(product: &Product) -> Result<(String, Vec<u8>)> {
    let version = &product.version;
    let glibc = product.needs.least_glibc();
    let tag = format!("py3-none-manylinux_{}_{}_x86_64", glibc.0, glibc.1);
    let mut files = below("busbar", product.tree.clone());
    files.insert("busbar/__init__.py".into(), plain(INIT));
    files.insert("busbar/__main__.py".into(), plain(MAIN));
    let info = format!("busbar-{version}.dist-info");
    let mut metadata = format!(
        "Metadata-Version: 2.1\n\
         Name: busbar\n\
         Version: {version}\n\
         Summary: Plugs any machine into any accelerator\n\
         License: Apache-2.0\n\
         Platform: linux\n\
         Classifier: Environment :: GPU :: NVIDIA CUDA\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Requires-Python: >=3.7\n\
         Description-Content-Type: text/markdown\n\n"
    )
    .into_bytes();
    metadata.extend(&product.readme);
    let wheel = format!(
        "Wheel-Version: 1.0\n\
         Generator: busbar {version}\n\
         Root-Is-Purelib: false\n\
         Tag: {tag}\n"
    );
    let commands = "[console_scripts]\nbusbar = busbar.__main__:main\n";
    for (name, bytes) in [
        ("LICENSE", product.licence.clone()),
        ("METADATA", metadata),
        ("WHEEL", wheel.into()),
        ("entry_points.txt", commands.into()),
    ] {
        files.insert(format!("{info}/{name}"), plain(bytes));
    }
    let record = record(&files, &info);
    files.insert(format!("{info}/RECORD"), plain(record));
    let bytes = zip(&files)?;
    Ok((format!("busbar-{version}-{tag}.whl"), bytes))
}

/// Each file with its digest and size, and at the end itself without.
fn record(files: &Files, info: &str) -> String {
    let mut record = String::new();
    for (path, item) in files {
        if let Item::File(_, bytes) = item {
            let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
            let _ = writeln!(record, "{path},sha256={digest},{}", bytes.len());
        }
    }
    record + &format!("{info}/RECORD,,\n")
}

/// What is installed has the time of its installation, so that here is none.
fn zip(files: &Files) -> Result<Vec<u8>> {
    let mut out = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, item) in files {
        let Item::File(mode, bytes) = item else {
            bail!("{path}: a wheel has files alone");
        };
        let options = SimpleFileOptions::DEFAULT
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(9))
            .system(System::Unix)
            .unix_permissions(*mode)
            .last_modified_time(DateTime::DEFAULT);
        out.start_file(path, options)
            .with_context(|| path.clone())?;
        out.write_all(bytes)?;
    }
    Ok(out.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_the_standard_has_them() {
        let files = Files::from([("a".into(), plain("")), ("b".into(), plain("b"))]);
        let record = record(&files, "x.dist-info");
        let lines: Vec<_> = record.lines().collect();
        let nothing = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
        assert_eq!(lines[0], format!("a,sha256={nothing},0"));
        assert!(lines[1].starts_with("b,sha256=") && lines[1].ends_with(",1"));
        assert_eq!(lines[2], "x.dist-info/RECORD,,");
    }
}
