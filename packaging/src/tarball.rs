//! The tarball, which is unpacked anywhere.

use crate::archive::{gzip, tar};
use crate::files::below;
use crate::{Product, layout};
use anyhow::Result;

/// The `.tar.gz`.
pub fn make(product: &Product) -> Result<(String, Vec<u8>)> {
    let name = format!("busbar-{}-linux-x86_64", product.version);
    let files = below(&name, layout::relocatable(product));
    let bytes = gzip(&tar(&files, product.time)?)?;
    Ok((format!("{name}.tar.gz"), bytes))
}
