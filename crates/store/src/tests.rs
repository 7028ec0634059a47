//! What the store keeps, gives, counts and removes.

use super::*;
use std::io::Write;
use std::time::Duration;

fn named(bytes: &[u8]) -> Name {
    let hash = *blake3::hash(bytes).as_bytes();
    Name { hash, made: false }
}

fn made(n: u8) -> Name {
    Name {
        hash: [n; 32],
        made: true,
    }
}

fn memory(bytes: &[u8]) -> OwnedFd {
    // SAFETY: a C string; the descriptor that comes is ours.
    let fd = unsafe {
        use std::os::fd::FromRawFd;
        OwnedFd::from_raw_fd(libc::memfd_create(c"piece".as_ptr(), libc::MFD_CLOEXEC))
    };
    let mut file = File::from(fd);
    file.write_all(bytes).unwrap();
    file.into()
}

/// As a worker of nobody in particular names it.
fn piece(name: Name) -> Piece {
    Piece::of("", name)
}

/// What the store gives for a name.
fn got(store: &Store, name: Name) -> Option<Vec<u8>> {
    got_of(store, "", name)
}

/// What it gives a tenant.
fn got_of(store: &Store, tenant: &str, name: Name) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::from(store.get(Piece::of(tenant, name))?)
        .read_to_end(&mut bytes)
        .unwrap();
    content(name, bytes)
}

/// What a worker is answered: an error, and whether a file came.
fn asked(store: &OwnedFd, ask: Ask, bytes: Option<&[u8]>) -> (Option<String>, bool) {
    handover::send(store, &ask.to_json(), bytes.map(memory).as_ref()).unwrap();
    let (said, file) = handover::recv(store).unwrap().expect("an answer");
    let answer: Answer = busbar_control::read("the answer", &said).unwrap();
    (answer.error, file.is_some())
}

#[test]
fn what_is_put_is_there_for_the_next_store_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), 1 << 20).unwrap();
    let image = b"an image".as_slice();
    store.put(piece(named(image)), Some(memory(image))).unwrap();
    store.put(piece(made(1)), Some(memory(b"my code"))).unwrap();
    for store in [store, Store::open(dir.path(), 1 << 20).unwrap()] {
        assert_eq!(got(&store, named(image)).as_deref(), Some(image));
        assert_eq!(got(&store, made(1)).as_deref(), Some(&b"my code"[..]));
        assert_eq!(got(&store, made(2)), None);
    }
}

#[test]
fn nothing_is_kept_under_a_name_that_it_does_not_have() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), 1 << 20).unwrap();
    assert!(
        store
            .put(piece(named(b"one")), Some(memory(b"other")))
            .is_err()
    );
    assert!(store.put(piece(named(b"one")), None).is_err());
    let (pipe, _end) = io::pipe().unwrap();
    assert!(store.put(piece(named(b"one")), Some(pipe.into())).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let left = entries(&entries(dir.path()).next().unwrap().path()).count();
    assert_eq!(left, 0, "nothing is left of it");
    // What was made, copied or linked under another name.
    let at = |n| store.path(piece(made(n)).place);
    store.put(piece(made(1)), Some(memory(b"my code"))).unwrap();
    std::fs::create_dir_all(at(2).parent().unwrap()).unwrap();
    std::fs::copy(at(1), at(2)).unwrap();
    assert_eq!(got(&store, made(2)), None);
    store.check(piece(made(2))).unwrap();
    assert!(!at(2).exists(), "it is of no use to anybody");
    std::os::unix::fs::symlink(at(1), at(2)).unwrap();
    assert!(store.get(piece(made(2))).is_none(), "no link is followed");
    store.check(piece(made(1))).unwrap();
    assert!(got(&store, made(1)).is_some(), "a good one stays");
}

#[test]
fn blocks_and_entries_are_counted_and_not_lengths() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 64 << 10;
    let store = Store::open(dir.path(), limit).unwrap();
    for n in 0..200u8 {
        store.put(piece(made(n)), Some(memory(&[n]))).unwrap();
    }
    let files = || -> Vec<_> {
        let folders = entries(dir.path()).flat_map(|f| entries(&f.path()));
        folders.map(|f| f.metadata().unwrap()).collect()
    };
    let taken: u64 = files().iter().map(|m| m.blocks() * 512).sum();
    assert!(taken <= limit, "{taken} bytes of the disk");
    assert!(files().len() <= 64, "{} files", files().len());
    assert!(got(&store, made(199)).is_some() && got(&store, made(0)).is_none());
    // What could never have room does not push out what is there.
    let before = files().len();
    let long = vec![1; limit as usize];
    store.put(piece(named(&long)), Some(memory(&long))).unwrap();
    assert_eq!(files().len(), before);
}

#[test]
fn what_a_killed_process_left_goes_and_what_others_put_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("ab");
    std::fs::create_dir_all(&home).unwrap();
    let left = home.join(".999999999-0.part");
    std::fs::write(&left, [0; 100]).unwrap();
    let link = home.join(".1-1.part");
    std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
    let being_written = home.join(".1-0.part");
    let writes = write(&being_written, made(1), &mut memory(b"x").into(), 1).unwrap();
    let foreign = home.join("a-file-of-somebodys");
    std::fs::write(&foreign, [0; 100_000]).unwrap();
    let old = home.join("ab".repeat(32));
    std::fs::write(&old, [0; 300]).unwrap();
    let day = Duration::from_secs(86400);
    let f = File::open(&old).unwrap();
    f.set_modified(SystemTime::now() - day).unwrap();
    let new = home.join(format!("ab{}", "b".repeat(62)));
    std::fs::write(&new, [0; 300]).unwrap();
    Store::open(dir.path(), 8192).unwrap();
    assert!(!left.exists() && being_written.exists() && link.is_symlink());
    assert!(!old.exists() && new.exists() && foreign.exists());
    drop(writes);
    Store::open(dir.path(), 8192).unwrap();
    assert!(!being_written.exists());
}

#[test]
fn a_worker_that_runs_its_clients_code_can_keep_only_what_its_name_proves() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path(), 1 << 20).unwrap());
    let (ours, theirs) = handover::pair().unwrap();
    let served = store.clone();
    let thread = std::thread::spawn(move || served.attend(&theirs, ""));
    let ask = |ask, bytes| asked(&ours, ask, bytes);
    assert_eq!(ask(Ask::Put(made(1)), Some(b"mine")), (None, false));
    assert_eq!(ask(Ask::Distrust, None), (None, false));
    ask(Ask::Put(made(1)), Some(b"forged"));
    ask(Ask::Put(made(2)), Some(b"forged"));
    let image = b"an image".as_slice();
    assert_eq!(ask(Ask::Put(named(image)), Some(image)), (None, false));
    assert!(ask(Ask::Put(named(b"x")), Some(image)).0.is_some());
    assert_eq!(ask(Ask::Get(named(image)), None), (None, true));
    assert_eq!(ask(Ask::Get(made(2)), None), (None, false));
    assert_eq!(got(&store, made(1)).as_deref(), Some(&b"mine"[..]));
    handover::send(&ours, b"nonsense", None).unwrap();
    thread.join().unwrap();
}

#[test]
fn what_was_made_for_one_tenant_is_no_other_ones_and_content_is_everybodys() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path(), 1 << 20).unwrap());
    let (control, theirs) = handover::pair().unwrap();
    let served = store.clone();
    let serves = std::thread::spawn(move || served.serve(&theirs));
    let image = b"an image".as_slice();
    for tenant in ["a", "b", ""] {
        let (ours, worker) = handover::pair().unwrap();
        let comes = Comes {
            tenant: tenant.into(),
        };
        handover::send(&control, &comes.to_json(), Some(&worker)).unwrap();
        drop(worker);
        let ask = |ask, bytes| {
            let (error, found) = asked(&ours, ask, bytes);
            assert_eq!(error, None);
            found
        };
        assert_eq!(ask(Ask::Get(named(image)), None), tenant != "a");
        ask(Ask::Put(named(image)), Some(image));
        assert!(!ask(Ask::Get(made(1)), None), "{tenant:?} finds another's");
        ask(Ask::Put(made(1)), Some(tenant.as_bytes()));
        assert!(ask(Ask::Get(made(1)), None));
        // What a file gave is not what its name says: that removes nothing of anybody else's.
        ask(Ask::Damaged(made(1)), None);
    }
    drop(control);
    serves.join().unwrap();
    for tenant in ["a", "b", ""] {
        let found = got_of(&store, tenant, made(1));
        assert_eq!(found.as_deref(), Some(tenant.as_bytes()));
    }
    // The next store knows whose what is.
    drop(store);
    let store = Store::open(dir.path(), 1 << 20).unwrap();
    assert_eq!(got_of(&store, "b", made(1)).as_deref(), Some(&b"b"[..]));
    assert_eq!(got_of(&store, "c", made(1)), None);
}
