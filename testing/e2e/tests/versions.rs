//! Clients of neighbouring releases: what both sides can is found out at each hello, and what one
//! of them does not know the other does without.

use busbar_control::hello::{PROTOCOL_MAX, PROTOCOL_MIN};
use busbar_e2e::hostile::{frame_of, greet, read_frame, record_of, records};
use busbar_e2e::server::Server;
use busbar_wire::codec::Request;
use busbar_wire::frame::Kind;
use busbar_wire::generated::cuda;
use serde_json::{Value, json};
use std::io::Write;

/// The hello of a client that speaks these protocols, with more fields of its own.
fn hello(protocols: [u32; 2], more: &Value) -> Vec<u8> {
    let mut hello = json!({
        "protocol_min": protocols[0],
        "protocol_max": protocols[1],
        "version": "0.0.1",
        "intent": "open",
        "api": "cuda",
        "client": { "boot_id": "another" },
    });
    let all = hello.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    serde_json::to_vec(&hello).expect("JSON")
}

#[test]
fn what_one_side_does_not_know_the_other_does_without() {
    let server = Server::start();
    for more in [
        // One that knows of no ability, and of no field that has come since.
        json!({}),
        json!({ "features": [] }),
        json!({ "features": ["patience"] }),
        // One that knows more.
        json!({
            "features": ["patience", "of-the-next-release"],
            "of_the_next_release": { "n": [1, 2] },
            "client": { "boot_id": "another", "colour": "red", "job": { "size": 3 } },
        }),
    ] {
        for protocols in [
            [PROTOCOL_MIN, PROTOCOL_MAX],
            [PROTOCOL_MIN - 1, PROTOCOL_MAX],
            [PROTOCOL_MIN, PROTOCOL_MAX + 7],
        ] {
            let (mut to, welcome) = greet(&server.address, &hello(protocols, &more)).expect("both");
            assert!(welcome.refusal.is_none(), "{more}: {welcome:?}");
            assert_eq!(welcome.protocol, PROTOCOL_MAX);
            let next = welcome.features.iter().find(|f| f.contains("next-release"));
            assert_eq!(next, None, "it says what it can itself");
            let record = record_of(cuda::OpenCuda::OP, 1, 0, &[]);
            to.write_all(&frame_of(Kind::Data, 1, 0, &record))
                .expect("it is sent");
            loop {
                let (h, body) = read_frame(&mut to).expect("the session lives");
                if h.kind == Kind::Data && records(&[body]).iter().any(|(r, _)| r.call == 1) {
                    break;
                }
            }
        }
    }
}

#[test]
fn those_who_have_no_protocol_in_common_hear_which_to_upgrade() {
    let server = Server::start();
    for (protocols, words) in [
        ([0, PROTOCOL_MIN - 1], "upgrade the client"),
        ([PROTOCOL_MAX + 1, PROTOCOL_MAX + 2], "upgrade the server"),
    ] {
        let (_, welcome) = greet(&server.address, &hello(protocols, &json!({}))).expect("both");
        let refusal = welcome.refusal.expect("they do not fit");
        assert_eq!(refusal.code, "version");
        assert!(refusal.message.contains(words), "{refusal:?}");
    }
}
