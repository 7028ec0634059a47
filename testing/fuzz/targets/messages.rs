//! What both ends do with any bytes: frames, records, and every message and reply of every API. A
//! message that is understood is written again as it came.
#![no_main]

use busbar_wire::codec::{Message, Reader, Writer};
use busbar_wire::frame;
use busbar_wire::record::Records;
use libfuzzer_sys::fuzz_target;

include!(concat!(env!("OUT_DIR"), "/decoders.rs"));

fn again<'a, M: Message<'a>>(body: &'a [u8]) {
    let mut r = Reader::new(body);
    let Ok(m) = M::decode(&mut r) else { return };
    let read = body.len() - r.left();
    let mut out = Vec::new();
    m.encode(&mut Writer::new(&mut out));
    assert_eq!(out, &body[..read], "another message than came");
}

fuzz_target!(|data: &[u8]| {
    if let Some(h) = data.first_chunk::<{ frame::HEADER }>()
        && let Ok(h) = frame::Header::parse(h)
    {
        assert_eq!(&h.to_bytes()[..], &data[..frame::HEADER]);
        assert!(h.executed() <= h.ack);
    }
    for (h, payload) in Records::new(data).flatten() {
        for reply in [false, true] {
            match h.api {
                0 => cuda(h.op, payload, reply),
                1 => opencl(h.op, payload, reply),
                _ => collectives(h.op, payload, reply),
            }
        }
    }
});
