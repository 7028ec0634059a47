//! Where what there is to install goes.

use crate::Product;
use crate::archive::gzip;
use crate::files::{Files, Item, below, plain};
use anyhow::Result;

/// Where the server's settings are, without the slash at the beginning.
pub const SETTINGS: &str = "etc/busbar/serve.toml";

const SERVICE: &str = include_str!("../files/busbar.service");
const USERS: &str = include_str!("../files/sysusers.conf");
/// The server's settings that come with it.
pub const EXAMPLE: &str = include_str!("../files/serve.toml");

/// The tree as it is, with all else beside it: for any folder, `/opt/busbar` if nothing speaks
/// against it.
pub fn relocatable(product: &Product) -> Files {
    let mut files = product.tree.clone();
    files.insert("LICENSE".into(), plain(product.licence.clone()));
    files.insert("README.md".into(), plain(product.readme.clone()));
    files.extend(for_shells(product, "share", "share/zsh/site-functions"));
    for (name, page) in &product.pages {
        files.insert(format!("share/man/man1/{name}"), plain(page.clone()));
    }
    files.insert(
        "lib/systemd/system/busbar.service".into(),
        service("/opt/busbar/bin/busbar"),
    );
    files.insert("lib/sysusers.d/busbar.conf".into(), plain(USERS));
    files.insert(SETTINGS.into(), plain(EXAMPLE));
    files
}

/// The tree in a folder that is always the same, with what `busbar run` would make there for root:
/// the file that registers the OpenCL driver, the names of libraries without a number, those of
/// CUPTI, and that of NVIDIA's program.
pub fn fixed(product: &Product, home: &str) -> Files {
    let mut files = product.tree.clone();
    let driver = format!("/{home}/lib/opencl/libbusbar_opencl.so\n");
    files.insert("lib/opencl/vendors/busbar.icd".into(), plain(driver));
    for name in ["libcuda.so", "libnvidia-ml.so"] {
        let to = Item::Link(format!("/{home}/lib/cuda/{name}.1"));
        files.insert(format!("lib/cuda/unnumbered/{name}"), to);
    }
    let cupti = "lib/cupti/libbusbar_cupti.so.1";
    if files.contains_key(cupti) {
        for name in ["libcupti.so", "libcupti.so.12", "libcupti.so.13"] {
            let to = Item::Link(format!("/{home}/{cupti}"));
            files.insert(format!("lib/cupti/names/{name}"), to);
        }
    }
    let program = Item::Link(format!("/{home}/bin/busbar"));
    files.insert("lib/cuda/programs/nvidia-smi".into(), program);
    below(home, files)
}

/// As a distribution's package has it. `zsh` is where completions of packages are; the licence goes
/// to `licence`.
pub fn system(product: &Product, zsh: &str, licence: &str) -> Result<Files> {
    // The program finds its libraries from where it lies, whatever leads there.
    let mut files = fixed(product, "usr/lib/busbar");
    let program = Item::Link("../lib/busbar/bin/busbar".into());
    files.insert("usr/bin/busbar".into(), program);
    files.insert(licence.into(), plain(product.licence.clone()));
    files.insert(
        "usr/share/doc/busbar/README.md".into(),
        plain(product.readme.clone()),
    );
    files.extend(for_shells(product, "usr/share", zsh));
    for (name, page) in &product.pages {
        let path = format!("usr/share/man/man1/{name}.gz");
        files.insert(path, plain(gzip(page)?));
    }
    files.insert(
        "usr/lib/systemd/system/busbar.service".into(),
        service("/usr/bin/busbar"),
    );
    files.insert("usr/lib/sysusers.d/busbar.conf".into(), plain(USERS));
    files.insert(SETTINGS.into(), plain(EXAMPLE));
    Ok(files)
}

fn service(program: &str) -> Item {
    plain(SERVICE.replace("@BUSBAR@", program))
}

fn for_shells(product: &Product, share: &str, zsh: &str) -> Files {
    let one = |(shell, text): (&&str, &Vec<u8>)| {
        let path = match *shell {
            "bash" => format!("{share}/bash-completion/completions/busbar"),
            "zsh" => format!("{zsh}/_busbar"),
            _ => format!("{share}/{shell}/vendor_completions.d/busbar.{shell}"),
        };
        (path, plain(text.clone()))
    };
    product.completions.iter().map(one).collect()
}
