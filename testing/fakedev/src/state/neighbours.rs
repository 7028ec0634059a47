//! Other processes that have memory of the same devices: those whose `FAKEDEV_TOGETHER` names the
//! same folder. Each keeps a file there that says what it has, locked for as long as it lives.

use crate::config;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};

struct Own {
    folder: PathBuf,
    name: String,
    file: File,
    /// Who has it locked may take and give back.
    all: Mutex<File>,
    /// This process has been checkpointed: it has nothing.
    away: AtomicBool,
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
        away: AtomicBool::new(false),
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

    /// Says what this process has of each device.
    fn say(&self, used: &[usize]) {
        let here = !self.away.load(Ordering::Acquire);
        let each = used.iter().map(|n| if here { *n } else { 0 });
        let text: String = each.map(|n| format!("{n:20} ")).collect();
        self.file
            .write_all_at(text.as_bytes(), 0)
            .expect("it is written");
    }
}

/// This process has what it has taken of its devices no more, or again; before [`alone`] is over.
pub fn be_away(yes: bool) {
    if let Some(own) = OWN.as_ref() {
        own.away.store(yes, Ordering::Release);
    }
}

/// What others have of a device.
pub fn has(ordinal: usize) -> usize {
    OWN.as_ref().map_or(0, |own| own.others(ordinal))
}

/// Does something while nobody takes or gives back, told what others have of a device; `used` says
/// what this process has of each afterwards.
pub fn alone<T>(
    used: impl FnOnce() -> Vec<usize>,
    what: impl FnOnce(&dyn Fn(usize) -> usize) -> T,
) -> T {
    let Some(own) = OWN.as_ref() else {
        return what(&|_| 0);
    };
    let all = own.all.lock().unwrap();
    all.lock().expect("the lock of all");
    let done = what(&|ordinal| own.others(ordinal));
    own.say(&used());
    all.unlock().expect("the lock of all");
    done
}
