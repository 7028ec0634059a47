//! Records with marks: how they get to the API, from a connection on.

use busbar_channel::{Keeper, Lost, Verdict};
use busbar_transport::{Connection, mem};
use busbar_wire::WireError;
use busbar_wire::frame::{self, Kind};
use busbar_wire::record::{HEADER, Header, MARKED, OP_GOODBYE};
use busbar_worker::Api;
use busbar_worker::across::{Counters, Links};
use busbar_worker::content::Content;
use busbar_worker::outbox::Outbox;
use busbar_worker::run::{Ends, serve};
use busbar_worker::staging::{Arena, Hold};
use std::io::IoSlice;
use std::sync::Arc;

/// What an API is told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Mark(Option<u64>),
    /// A record's number, the bytes of its payload, the last one, and whether it lies in a slab.
    Record(u16, usize, u8, bool),
    /// Of an API beside.
    Beside(u16, Vec<u8>),
}

#[derive(Default)]
struct Own(Vec<Told>);

impl Api for Own {
    fn execute(&mut self, h: &Header, p: &[u8], hold: &mut Hold<'_>) -> Result<(), WireError> {
        let in_slab = hold.take().is_some();
        let last = p.last().copied().unwrap_or(0);
        self.0.push(Told::Record(h.op, p.len(), last, in_slab));
        Ok(())
    }

    fn marked(&mut self, mark: Option<u64>) {
        self.0.push(Told::Mark(mark));
    }

    fn close(&mut self) {}
}

struct Other;

impl Api for Other {
    fn execute(&mut self, _: &Header, _: &[u8], _: &mut Hold<'_>) -> Result<(), WireError> {
        Err(WireError::BadValue("it is beside another"))
    }

    fn execute_beside(
        &mut self,
        host: &mut dyn Api,
        h: &Header,
        p: &[u8],
    ) -> Result<(), WireError> {
        let host: &mut dyn std::any::Any = host;
        let own = host.downcast_mut::<Own>().expect("the host");
        own.0.push(Told::Beside(h.api, p.to_vec()));
        Ok(())
    }

    fn close(&mut self) {}
}

/// Ends the session when its connection ends.
struct Once;

impl Keeper for Once {
    fn detached(&mut self, _: &Lost) -> Verdict {
        Verdict::End("over".into())
    }
}

fn record(op: u16, api: u16, payload: &[u8]) -> Vec<u8> {
    let h = Header {
        len: (HEADER + payload.len()) as u32,
        op,
        api,
        call: 0,
        aux: 0,
    };
    [&h.to_bytes()[..], payload].concat()
}

fn marked(op: u16, api: u16, mark: u64, payload: &[u8]) -> Vec<u8> {
    let payload = [&mark.to_le_bytes()[..], payload].concat();
    record(op, api | MARKED, &payload)
}

/// What the APIs are told of these frames, and why the session ended.
fn told(frames: Vec<Vec<u8>>) -> (Vec<Told>, String) {
    let outbox = Outbox::default();
    let ends = Ends {
        outbox: outbox.clone(),
        content: Content::new(None, false, outbox),
        callbacks: Default::default(),
        ahead: Default::default(),
        incoming: Arena::new(4).expect("memory"),
        outgoing: Arena::new(4).expect("memory"),
        at_once: Default::default(),
        links: Links::new(Counters::default()).expect("a descriptor"),
        tally: Arc::default(),
        checkpoints: Default::default(),
    };
    let (ours, theirs) = mem::pair();
    let client = std::thread::spawn(move || {
        let end = record(OP_GOODBYE, 0, &[]);
        for (n, body) in frames.into_iter().chain([end]).enumerate() {
            let h = frame::Header {
                seq: n as u64 + 1,
                ..frame::Header::plain(Kind::Data, body.len())
            };
            let bytes = [&h.to_bytes()[..], &body].concat();
            let _ = theirs.send(&mut [IoSlice::new(&bytes)]);
        }
        // Until the other end is done with it.
        while theirs.recv_exact(&mut [0]).is_ok() {}
    });
    let ours: Arc<dyn Connection> = Arc::new(ours);
    let (mut own, mut other) = (Own::default(), Other);
    let apis: &mut [&mut (dyn Api + 'static)] = &mut [&mut own, &mut other];
    let why = serve(ours, Box::new(Once), (ends, None), apis, |_| Ok(()));
    client.join().expect("it has sent all");
    (own.0, why.expect("threads start"))
}

#[test]
fn activity_marks_are_told_around_their_records_whatever_these_are() {
    let bulk = vec![7; 100 << 10];
    let small = [
        record(1, 0, &[1, 2]),
        marked(2, 0, 50, &[3]),
        record(3, 0, &[]),
        marked(4, 0, u64::MAX, &[]),
        marked(5, 1, 52, &[9, 9]),
    ];
    let (told, why) = told(vec![small.concat(), marked(6, 0, 53, &bulk)]);
    assert_eq!(why, "the program ended");
    assert_eq!(
        told,
        [
            Told::Record(1, 2, 2, false),
            Told::Mark(Some(50)),
            Told::Record(2, 1, 3, false),
            Told::Mark(None),
            Told::Record(3, 0, 0, false),
            Told::Mark(Some(u64::MAX)),
            Told::Record(4, 0, 0, false),
            Told::Mark(None),
            Told::Mark(Some(52)),
            Told::Beside(1, vec![9, 9]),
            Told::Mark(None),
            Told::Mark(Some(53)),
            Told::Record(6, bulk.len(), 7, true),
            Told::Mark(None),
        ]
    );
}

#[test]
fn activity_marks_that_are_cut_short_end_the_session() {
    let (told, why) = told(vec![record(1, MARKED, &[0; 7])]);
    assert!(told.is_empty());
    assert!(why.contains("broke the protocol"), "{why}");
}
