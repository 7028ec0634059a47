//! The packages of Busbar, made of a tree that is built.
//!
//! A [`Product`] is what there is to install; [`layout`] says where each file of it goes, and a
//! module for each format writes that down. The same product gives the same bytes on every machine:
//! entries are sorted, belong to root, and all have the time of the commit.

mod archive;
mod deb;
mod files;
mod layout;
mod needs;
mod oci;
mod product;
mod rpm;
mod tarball;
mod wheel;

use files::sha256;
pub use needs::Needs;
pub use product::Product;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};

/// What can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A `.tar.gz` for any folder.
    Tarball,
    /// A wheel for pip.
    Wheel,
    /// A package for Debian and Ubuntu.
    Deb,
    /// A package for Fedora, RHEL and SUSE.
    Rpm,
    /// OCI images of the client's part and of the server.
    Oci,
}

impl Format {
    /// Each of them.
    pub fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// The names and contents of the files of this format.
    fn make(self, product: &Product) -> Result<Vec<(String, Vec<u8>)>> {
        Ok(match self {
            Self::Tarball => vec![tarball::make(product)?],
            Self::Wheel => vec![wheel::make(product)?],
            Self::Deb => vec![deb::make(product)?],
            Self::Rpm => vec![rpm::make(product)?],
            Self::Oci => vec![oci::client(product)?, oci::server(product)?],
        })
    }
}

/// Writes packages into a folder, beside them `SHA256SUMS`, and returns their paths.
pub fn pack(product: &Product, out: &Path, formats: &[Format]) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    let mut sums = Vec::new();
    for format in formats {
        let files = format
            .make(product)
            .with_context(|| format!("{format:?}"))?;
        for (name, bytes) in files {
            sums.push(format!("{}  {name}\n", sha256(&bytes)));
            let path = out.join(name);
            fs::write(&path, bytes).with_context(|| path.display().to_string())?;
            made.push(path);
        }
    }
    sums.sort_by(|a, b| a[66..].cmp(&b[66..]));
    fs::write(out.join("SHA256SUMS"), sums.concat())?;
    Ok(made)
}
