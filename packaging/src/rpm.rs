//! A package for Fedora, RHEL, SUSE and their kin.

use crate::files::Item;
use crate::{Product, layout};
use anyhow::{Context as _, Result};
use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

const LICENCE: &str = "usr/share/licenses/busbar/LICENSE";
/// Of the third part of the package's name: which package of this version.
const RELEASE: &str = "1";

/// The `.rpm`.
pub fn make(product: &Product) -> Result<(String, Vec<u8>)> {
    let version = &product.version;
    let config = BuildConfig::v4()
        .source_date(product.time)
        .compression(CompressionWithLevel::Gzip(9));
    let summary = "Plugs any machine into any accelerator";
    let mut package = PackageBuilder::new("busbar", version, "Apache-2.0", "x86_64", summary);
    package
        .using_config(config)
        .release(RELEASE)
        .description(
            "Runs unmodified CUDA and OpenCL programs of this machine on the GPUs of another, and \
             offers GPUs of this machine to others.",
        )
        .post_install_script(include_str!("../files/rpm/post"))
        .pre_uninstall_script(include_str!("../files/rpm/preun"))
        .post_uninstall_script(include_str!("../files/rpm/postun"));
    let glibc = product.needs.least_glibc();
    let glibc = format!("libc.so.6(GLIBC_{glibc})(64bit)");
    let libraries = product.needs.libraries.iter();
    for needed in libraries.map(|l| format!("{l}()(64bit)")).chain([glibc]) {
        package.requires(Dependency::any(needed));
    }
    let files = layout::system(product, "usr/share/zsh/site-functions", LICENCE)?;
    for (path, item) in files {
        let to = format!("/{path}");
        let failed = || to.clone();
        match item {
            Item::File(mode, bytes) => {
                let mut options = FileOptions::new(&to).permissions(mode as u16);
                if path == layout::SETTINGS {
                    options = options.config().noreplace();
                } else if path == LICENCE {
                    options = options.license();
                } else if path.starts_with("usr/share/man/") || path.contains("/doc/") {
                    options = options.doc();
                }
                package.with_file_contents(bytes, options).map(drop)
            }
            Item::Link(target) => package
                .with_symlink(FileOptions::symlink(&to, target))
                .map(drop),
            Item::Folder(mode) => package
                .with_dir_entry(FileOptions::dir(&to).permissions(mode as u16))
                .map(drop),
        }
        .with_context(failed)?;
    }
    let mut bytes = Vec::new();
    package.build()?.write(&mut bytes)?;
    Ok((format!("busbar-{version}-{RELEASE}.x86_64.rpm"), bytes))
}
