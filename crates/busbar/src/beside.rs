//! Folders that programs look into and that no package can bring: what lies in them tells where
//! Busbar was installed. They are beside Busbar's own libraries or, where its user may not write
//! there, in a folder of the user's own.

use crate::folder::Folder;
use anyhow::{Context, Result, ensure};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// What lies under a name.
pub enum Item {
    File(Vec<u8>),
    /// A link to this path.
    Link(PathBuf),
}

impl Item {
    fn lies_at(&self, path: &Path) -> bool {
        match self {
            Self::File(bytes) => std::fs::read(path).is_ok_and(|b| b == *bytes),
            Self::Link(to) => std::fs::read_link(path).is_ok_and(|l| l == *to),
        }
    }

    /// Puts it there whole: others may read it meanwhile.
    fn put(&self, path: &Path) -> io::Result<()> {
        let aside = path.with_extension(format!("new-{}", std::process::id()));
        match self {
            Self::File(bytes) => std::fs::write(&aside, bytes)?,
            Self::Link(to) => symlink(to, &aside)?,
        }
        std::fs::rename(aside, path)
    }
}

/// A folder `name` beside `library` with these items. They depend on the library's path alone, so
/// all runs share them.
pub fn folder(library: &Path, name: &str, items: &[(&str, Item)]) -> Result<PathBuf> {
    let beside = library.parent().unwrap_or(Path::new("/")).join(name);
    let ready = |dir: &Path| items.iter().all(|(n, item)| item.lies_at(&dir.join(n)));
    if ready(&beside) {
        return Ok(beside);
    }
    let write = |dir: &Path| -> io::Result<()> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(dir)?;
        items
            .iter()
            .try_for_each(|(n, item)| item.put(&dir.join(n)))
    };
    if write(&beside).is_ok() {
        return Ok(beside);
    }
    // An installed tree is read-only for its users.
    // SAFETY: getuid has no preconditions.
    let uid = unsafe { libc::getuid() };
    let home = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(
        || std::env::temp_dir().join(format!("busbar-{uid}")),
        PathBuf::from,
    );
    // One for each tree: programs of several may run at a time.
    let mut tree = DefaultHasher::new();
    library.as_os_str().as_bytes().hash(&mut tree);
    let own = make_own(&home, &format!("{name}-{:016x}", tree.finish()))?;
    if !ready(&own) {
        write(&own).with_context(|| format!("cannot write {}", own.display()))?;
    }
    Ok(own)
}

/// A folder in `home` that nobody else can write to: programs will load what lies there. Others may
/// have put something in its place, so nothing is written before each part of it is known.
fn make_own(home: &Path, name: &str) -> Result<PathBuf> {
    let ours = home.join("busbar-libraries");
    let own = ours.join(name);
    for dir in [home, &ours, &own] {
        let made = Folder::make(dir).and_then(|f| f.guarded(false));
        ensure!(
            made.with_context(|| format!("cannot make {}", dir.display()))?,
            "{} can be written to by other users: make it yours alone, or set XDG_RUNTIME_DIR",
            dir.display()
        );
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_put_right_when_a_tree_has_moved() {
        let tree = tempfile::tempdir().unwrap();
        let make = |to: &str| {
            let items = [
                ("text", Item::File(to.into())),
                ("link.so", Item::Link(to.into())),
            ];
            folder(&tree.path().join("lib.so.1"), "names", &items).unwrap()
        };
        for to in ["/before", "/after", "/after"] {
            let dir = make(to);
            assert_eq!(dir, tree.path().join("names"));
            assert_eq!(std::fs::read_to_string(dir.join("text")).unwrap(), to);
            let link = std::fs::read_link(dir.join("link.so")).unwrap();
            assert_eq!(link, Path::new(to));
            assert_eq!(std::fs::read_dir(dir).unwrap().count(), 2);
        }
    }

    #[test]
    fn nothing_is_written_where_others_can_write() {
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let all = tempfile::tempdir().unwrap();
        let mode = |p: &Path, m| {
            std::fs::set_permissions(p, std::os::unix::fs::PermissionsExt::from_mode(m)).unwrap();
        };
        mode(all.path(), 0o1777);
        let files = |p: &Path| std::fs::read_dir(p).unwrap().count();
        // Another user was there first, with a folder or a link to one of ours.
        let theirs = all.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        assert!(make_own(&theirs, "loader").is_err());
        assert_eq!(files(&theirs), 0);
        let (target, link) = (all.path().join("target"), all.path().join("link"));
        std::fs::create_dir(&target).unwrap();
        symlink(&target, &link).unwrap();
        assert!(make_own(&link, "loader").is_err());
        assert_eq!(files(&target), 0);
        // Or one that all can write to lies in the midst.
        let open = target.join("busbar-libraries");
        std::fs::create_dir(&open).unwrap();
        mode(&open, 0o777);
        assert!(make_own(&target, "loader").is_err());
        assert_eq!(files(&open), 0);
        mode(&open, 0o755);
        assert_eq!(make_own(&target, "loader").unwrap(), open.join("loader"));
    }
}
