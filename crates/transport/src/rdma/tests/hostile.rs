//! Peers that do as they like.

use super::super::verbs::{Access, Pair, Read, Region, Room, Write};
use super::super::{block, ring};
use super::*;
use std::time::Instant;

/// How many writes a peer floods with: ten times what a ring is ready for.
const FLOOD: usize = 3000;
/// What a read is called.
const READ: u64 = 1;

/// Asks until there is an answer.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(it) = ask() {
            return it;
        }
        assert!(Instant::now() < end, "{what}: it goes on");
        std::thread::yield_now();
    }
}

/// A peer that does as it likes: a queue pair of its own, connected to a ring.
struct Hostile {
    ring: Conn,
    /// Before the memory that it reads and writes.
    other: Box<dyn Pair>,
    place: ring::Place,
    bytes: Vec<u8>,
    /// What the ring writes into, and where reads go.
    came: (Vec<u8>, Region),
    read: (Vec<u8>, Region),
    _control: Conn,
}

impl Hostile {
    fn new(d: &Arc<dyn Device>) -> Self {
        let half = ring::Half::new(&**d).unwrap();
        let room = Room {
            sends: 4096,
            receives: 4096,
            inline: 16,
        };
        let other = d.pair(room).unwrap();
        other.connect(&half.address()).unwrap();
        other.receive(4096).unwrap();
        let registered = |access| {
            let mut bytes = vec![0; block::RING + 4096];
            let (start, len) = (bytes.as_mut_ptr(), bytes.len());
            // SAFETY: dropped after the queue pair.
            let region = unsafe { other.register(Memory { start, len }, access).unwrap() };
            (bytes, region)
        };
        let (came, read) = (registered(Access::Written), registered(Access::Lent));
        let (control, kept) = sockets();
        let place = half.place();
        let theirs = ring::Place {
            at: came.0.as_ptr() as u64,
            key: came.1.keys.remote,
        };
        let ring = half.connect(control, &other.address(), theirs).unwrap();
        Self {
            ring: Arc::new(ring),
            other,
            place,
            bytes: vec![1; 64],
            came,
            read,
            _control: kept,
        }
    }

    fn write(&self, at: u64, key: u32, n: usize, immediate: u32) {
        self.write_of(&self.bytes[..n], (at, key), immediate);
    }

    fn write_of(&self, bytes: &[u8], (to, remote): (u64, u32), immediate: u32) {
        // SAFETY: inline.
        let queued = unsafe {
            self.other.write(&Write {
                id: 0,
                from: bytes.as_ptr(),
                len: bytes.len(),
                local: 0,
                to,
                remote,
                immediate,
                signalled: true,
                inline: true,
            })
        };
        queued.unwrap();
    }

    /// Reads from the other end: whether that went well.
    fn reads(&mut self, from: u64, remote: u32, len: usize) -> bool {
        let (bytes, region) = &mut self.read;
        // SAFETY: as many bytes as there are, which the device alone writes now.
        let queued = unsafe {
            self.other.read(&Read {
                id: READ,
                to: bytes.as_mut_ptr(),
                len,
                local: region.keys.local,
                from,
                remote,
            })
        };
        let mut ids = [0; 8];
        let done = || match self.other.sent(&mut ids) {
            Ok(n) => ids[..n].contains(&READ).then_some(true),
            Err(_) => Some(false),
        };
        queued.is_ok() && until("a read", done)
    }

    /// Has the ring lend `what`, and takes the reference.
    fn borrow(&self, what: &Stays) -> block::Reference {
        self.ring.attend(&what.kept);
        send(&self.ring, &what.bytes).unwrap();
        let mut said = [0; 4];
        let came = || Some(self.other.received(&mut said).unwrap()).filter(|n| *n > 0);
        assert_eq!(until("a reference", came), 1);
        assert_eq!(said[0], ring::LENDS | block::Reference::SIZE as u32);
        let bytes = self.came.0[4096..][..block::Reference::SIZE].try_into();
        block::Reference::of(bytes.unwrap())
    }

    /// Says that so many bytes have been taken, in as many writes.
    fn took(&self, bytes: u64, writes: u64) {
        let word = [bytes.to_le_bytes(), writes.to_le_bytes()].concat();
        self.write_of(&word, (self.place.at, self.place.key), 1 << 31);
    }

    /// Waits for the ring to find that it cannot go on.
    fn ends(&self, what: &str) {
        // Not every device tells a ring of a read that was refused; that its peer does not answer
        // any more, each does.
        let _ = send(&self.ring, b"x");
        let mut room = vec![0; 64 << 10];
        let why = until(what, || self.ring.try_recv(&mut room).err());
        assert!(!why.to_string().is_empty());
    }
}

#[test]
fn a_peer_reads_what_is_lent_to_it_and_nothing_else_and_not_later() {
    let d = device();
    let len = ring::LEND;
    let secret = Stays::new(pattern(3 * len, 9));
    type Act<'a> = (&'a str, &'a dyn Fn(&mut Hostile, block::Reference) -> bool);
    let acts: [Act<'_>; 6] = [
        ("what is lent", &|h, r| h.reads(r.at, r.key, len)),
        ("what is before it", &|h, r| !h.reads(r.at - 8, r.key, 16)),
        ("what is behind it", &|h, r| {
            !h.reads(r.at + 8, r.key, r.len as usize)
        }),
        ("with another key", &|h, r| !h.reads(r.at, r.key + 1, 16)),
        ("what it had before", &|h, r| {
            let before = h.reads(r.at, r.key, 16);
            h.took(block::Reference::SIZE as u64, 1);
            until("what was lent", || {
                assert_eq!(h.ring.try_recv(&mut [0]).unwrap(), None);
                (!h.reads(r.at, r.key, 16)).then_some(())
            });
            before
        }),
        ("by the key of the ring", &|h, r| {
            !h.reads(r.at, h.place.key, 16)
        }),
    ];
    for (what, act) in acts {
        let mut h = Hostile::new(&d);
        let (a, b) = pair_on(&d);
        let middle = Stays::new(secret.bytes[..len].to_vec());
        let reference = h.borrow(&middle);
        assert!(act(&mut h, reference), "{what}");
        if what == "what is lent" {
            assert!(h.read.0[..len] == middle.bytes);
        } else {
            h.ends(what);
        }
        drop(h);
        echo(&a, &b, b"others do not notice");
    }
}

#[test]
fn a_peer_that_lends_what_there_is_none_of_loses_its_connection_and_no_more() {
    let d = device();
    let lends = |at, key, len| block::Reference { at, key, len }.to_bytes();
    let nothing = lends(1 << 40, 7, 0);
    let elsewhere = lends(1 << 40, 7, 1 << 20);
    for (what, bytes, immediate) in [
        ("nothing", &nothing[..], ring::LENDS | 16),
        ("elsewhere", &elsewhere, ring::LENDS | 16),
        ("half a reference", &elsewhere[..8], ring::LENDS | 8),
        ("no bytes at all", &[], ring::LENDS),
        ("more than fits", &elsewhere, u32::MAX >> 1),
    ] {
        let h = Hostile::new(&d);
        let (a, b) = pair_on(&d);
        h.write_of(bytes, (h.place.at + 4096, h.place.key), immediate);
        h.ends(what);
        echo(&a, &b, b"others do not notice");
    }
    // Of its own memory, where that ends.
    let mut h = Hostile::new(&d);
    h.bytes.resize(8, 0);
    let at = h.bytes.as_ptr() as u64;
    let whole = lends(at, h.came.1.keys.remote, 8);
    h.write_of(&whole, (h.place.at + 4096, h.place.key), ring::LENDS | 16);
    h.ends("memory that is no window");
}

#[test]
fn a_peer_that_writes_elsewhere_or_says_too_much_loses_its_connection_and_no_more() {
    let d = device();
    let end = block::RING as u64 + 4096;
    let (other, gone) = (Hostile::new(&d), Hostile::new(&d).place);
    type Act<'a> = (&'a str, &'a dyn Fn(&Hostile));
    let acts: [Act<'_>; 8] = [
        ("behind the ring", &|h| {
            h.write(h.place.at + end - 4, h.place.key, 8, 8);
        }),
        ("with another key", &|h| {
            h.write(h.place.at, h.place.key + 2, 8, 8);
        }),
        ("into another's ring", &|h| {
            h.write(other.place.at + 4096, other.place.key, 8, 8);
        }),
        ("into a ring that is gone", &|h| {
            h.write(gone.at + 4096, gone.key, 8, 8);
        }),
        ("more than fits", &|h| {
            (0..5).for_each(|_| h.write(h.place.at, h.place.key, 8, 1 << 20));
        }),
        ("more than anything", &|h| {
            h.write(h.place.at, h.place.key, 8, u32::MAX);
        }),
        ("words without end", &|h| {
            (0..FLOOD).for_each(|_| h.write(h.place.at, h.place.key, 0, 1 << 31));
        }),
        ("nothing without end", &|h| {
            (0..FLOOD).for_each(|_| h.write(h.place.at, h.place.key, 0, 0));
        }),
    ];
    for (what, act) in acts {
        let h = Hostile::new(&d);
        let (a, b) = pair_on(&d);
        act(&h);
        h.ends(what);
        echo(&a, &b, b"others do not notice");
    }
    assert_eq!(other.ring.try_recv(&mut [0]).unwrap(), None);
}

#[test]
fn a_word_of_more_than_was_sent_is_not_believed() {
    let h = Hostile::new(&device());
    h.write(h.place.at, h.place.key, 16, 1 << 31);
    until("a word", || send(&h.ring, b"x").err());
}
