//! Other processes that have memory of the same devices: those whose `FAKEDEV_TOGETHER` names the
//! same folder. Each keeps a file there that says what it has, locked for as long as it lives.

use super::{checkpoint, device};
use crate::config;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

struct Own {
    folder: PathBuf,
    name: String,
    file: File,
    /// Who has it locked may take and give back.
    all: Mutex<File>,
}

static OWN: LazyLock<Option<Own>> = LazyLock::new(|| {
    let folder = PathBuf::from(config::get("FAKEDEV_TOGETHER")?);
    let open = |path: PathBuf| {
        let mut how = OpenOptions::new();
        how.create(true).truncate(false).read(true).write(true);
        how.open(path).expect("a file of FAKEDEV_TOGETHER")
    };
    // Numbers of processes are of a namespace; times are not.
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_nanos());
    let name = format!("{}-{now}", std::process::id());
    let file = open(folder.join(&name));
    file.lock().expect("a lock of its own");
    Some(Own {
        all: Mutex::new(open(folder.join("lock"))),
        folder,
        name,
        file,
    })
});

impl Own {
    /// What others have of a device.
    fn others(&self, ordinal: usize) -> usize {
        let each = std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten();
        let theirs = each.filter(|f| {
            let name = f.file_name();
            name != "lock" && name.to_str() != Some(&self.name)
        });
        let has = |f: std::fs::DirEntry| {
            let mut file = File::open(f.path()).ok()?;
            // Nobody else has it locked: its process has ended.
            if file.try_lock_shared().is_ok() {
                return None;
            }
            let mut text = String::new();
            file.read_to_string(&mut text).ok()?;
            text.split_whitespace().nth(ordinal)?.parse::<usize>().ok()
        };
        theirs.filter_map(has).sum()
    }

    /// Says what this process has.
    fn say(&self) {
        let here = checkpoint::is_here();
        let each = device::all_used().into_iter();
        let text: String = each
            .map(|n| format!("{:20} ", if here { n } else { 0 }))
            .collect();
        self.file
            .write_all_at(text.as_bytes(), 0)
            .expect("it is written");
    }
}

/// What others have of a device.
pub fn has(ordinal: usize) -> usize {
    OWN.as_ref().map_or(0, |own| own.others(ordinal))
}

/// Does something while nobody takes or gives back, told what others have of a device.
pub fn alone<T>(what: impl FnOnce(&dyn Fn(usize) -> usize) -> T) -> T {
    let Some(own) = OWN.as_ref() else {
        return what(&|_| 0);
    };
    let all = own.all.lock().unwrap();
    all.lock().expect("the lock of all");
    let done = what(&|ordinal| own.others(ordinal));
    own.say();
    all.unlock().expect("the lock of all");
    done
}
