//! Peers that do as they like.

use super::super::verbs::{Access, Pair, Read, Region, Room, Write};
use super::super::{block, ring};
use super::*;

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
    fn new(fabric: &Fabric) -> Self {
        let d = fabric.device();
        let half = ring::Half::new(&*d).unwrap();
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
                id: 0,
                to: bytes.as_mut_ptr(),
                len,
                local: region.keys.local,
                from,
                remote,
            })
        };
        queued.is_ok() && self.other.sent(&mut [0; 8]).is_ok_and(|n| n > 0)
    }

    /// Has the ring lend `what`, and takes the reference.
    fn borrow(&self, what: &Stays) -> block::Reference {
        self.ring.attend(&what.kept);
        send(&self.ring, &what.bytes).unwrap();
        let mut said = [0; 4];
        assert_eq!(self.other.received(&mut said).unwrap(), 1);
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
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let mut room = vec![0; 64 << 10];
        let ended = loop {
            match self.ring.try_recv(&mut room) {
                Err(e) => break e,
                Ok(_) => assert!(std::time::Instant::now() < until, "{what}: it goes on"),
            }
        };
        assert!(!ended.to_string().is_empty());
    }
}

#[test]
fn a_peer_reads_what_is_lent_to_it_and_nothing_else_and_not_later() {
    let fabric = Fabric::default();
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
            looks(&h.ring, || fabric.lent() == 0);
            before && !h.reads(r.at, r.key, 16)
        }),
        ("by the key of the ring", &|h, r| {
            !h.reads(r.at, h.place.key, 16)
        }),
    ];
    for (what, act) in acts {
        let mut h = Hostile::new(&fabric);
        let (a, b) = pair_on(&fabric.device());
        let middle = Stays::new(secret.bytes[..len].to_vec());
        let reference = h.borrow(&middle);
        assert_eq!(fabric.lent(), len);
        assert!(act(&mut h, reference), "{what}");
        if what == "what is lent" {
            assert!(h.read.0[..len] == middle.bytes);
        } else {
            h.ends(what);
        }
        drop(h);
        assert_eq!(fabric.lent(), 0);
        echo(&a, &b, b"others do not notice");
    }
}

#[test]
fn a_peer_that_lends_what_there_is_none_of_loses_its_connection_and_no_more() {
    let fabric = Fabric::default();
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
        let h = Hostile::new(&fabric);
        let (a, b) = pair_on(&fabric.device());
        h.write_of(bytes, (h.place.at + 4096, h.place.key), immediate);
        h.ends(what);
        echo(&a, &b, b"others do not notice");
    }
    // Of its own memory, where that ends.
    let mut h = Hostile::new(&fabric);
    h.bytes.resize(8, 0);
    let at = h.bytes.as_ptr() as u64;
    let whole = lends(at, h.came.1.keys.remote, 8);
    h.write_of(&whole, (h.place.at + 4096, h.place.key), ring::LENDS | 16);
    h.ends("memory that is no window");
}

#[test]
fn a_peer_that_writes_elsewhere_or_says_too_much_loses_its_connection_and_no_more() {
    let fabric = Fabric::default();
    let end = block::RING as u64 + 4096;
    type Act<'a> = (&'a str, &'a dyn Fn(&Hostile));
    let acts: [Act<'_>; 6] = [
        ("behind the ring", &|h| {
            h.write(h.place.at + end - 4, h.place.key, 8, 8);
        }),
        ("with another key", &|h| {
            h.write(h.place.at, h.place.key + 2, 8, 8);
        }),
        ("more than fits", &|h| {
            (0..5).for_each(|_| h.write(h.place.at, h.place.key, 8, 1 << 20));
        }),
        ("more than anything", &|h| {
            h.write(h.place.at, h.place.key, 8, u32::MAX);
        }),
        ("words without end", &|h| {
            (0..100).for_each(|_| h.write(h.place.at, h.place.key, 0, 1 << 31));
        }),
        ("nothing without end", &|h| {
            (0..100).for_each(|_| h.write(h.place.at, h.place.key, 0, 0));
        }),
    ];
    for (what, act) in acts {
        let h = Hostile::new(&fabric);
        let (a, b) = pair_on(&fabric.device());
        act(&h);
        h.ends(what);
        echo(&a, &b, b"others do not notice");
    }
}

#[test]
fn a_word_of_more_than_was_sent_is_not_believed() {
    let fabric = Fabric::default();
    let h = Hostile::new(&fabric);
    h.write(h.place.at, h.place.key, 16, 1 << 31);
    assert!(send(&h.ring, b"x").is_err());
}
