//! What is read as text: documents of strangers, of servers and of workers, files of the server's
//! operator and of a client's user, and what stands in variables and on command lines.
#![no_main]

use busbar_client::servers::Server;
use busbar_control::attach::{Order, Report};
use busbar_control::device::Found;
use busbar_control::gpu;
use busbar_control::hello::{Hello, Welcome};
use busbar_control::lease::{Standing, Word};
use busbar_control::status::Status;
use busbar_control::succession::{ToHeir, ToPredecessor};
use busbar_control::{read, share, size, text};
use busbar_transport::tls::{Fingerprint, certificates, private_key};
use libfuzzer_sys::fuzz_target;

/// A document that is understood is written so that it is understood alike.
macro_rules! again {
    ($type:ty, $data:expr) => {
        if let Ok(one) = read::<$type>("it", $data) {
            let written = serde_json::to_vec(&one).expect("JSON");
            let other: $type = read("it", &written).expect("its own words");
            assert_eq!(serde_json::to_vec(&other).expect("JSON"), written);
        }
    };
}

fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else {
        return;
    };
    match which % 16 {
        0 => again!(Hello, data),
        1 => again!(Welcome, data),
        2 => again!(Order, data),
        3 => again!(Report, data),
        4 => again!(Found, data),
        5 => again!(Status, data),
        6 => again!(gpu::Gpus, data),
        7 => {
            let _ = certificates(data);
            let _ = private_key(data);
        }
        12 => again!(ToHeir, data),
        13 => again!(ToPredecessor, data),
        14 => again!(Word, data),
        15 => again!(Standing, data),
        _ => words(which % 16, &String::from_utf8_lossy(data)),
    }
});

fn words(which: u8, words: &str) {
    match which {
        8 => {
            let _ = busbar_policy::parse(words);
        }
        9 => {
            if let Ok(s) = words.parse::<Server>() {
                let _ = s.line().parse::<Server>();
            }
            let _ = words.parse::<Fingerprint>();
        }
        10 => {
            if let Ok(n) = size::parse(words) {
                let _ = size::parse(&size::show(n)).expect("its own words");
            }
            if let Ok(n) = share::parse(words) {
                let _ = share::show(n);
            }
            let _ = gpu::plain_uuid(words);
            if let Some(b) = text::from_hex(words) {
                assert_eq!(text::from_hex(&text::to_hex(&b)), Some(b));
            }
        }
        _ => {
            let line = text::one_line(words, 100);
            assert!(line.chars().all(text::is_plain), "{line:?}");
            assert!(line.len() <= 100 + 8, "{} bytes", line.len());
        }
    }
}
