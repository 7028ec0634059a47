//! The page on the wire format, held against the code; and documents of other releases.

use busbar_control::attach::{Attach, Hidden, Place, Report};
use busbar_control::device::{Device, Found};
use busbar_control::gpu::{Gpu, Gpus, Link, Number, Question, Said};
use busbar_control::hello::{Hello, Job, Refusal, Welcome};
use busbar_control::lease::{Reserve, Standing};
use busbar_control::read;
use busbar_control::status::{Lease, Listed, Session, Status, Waiting};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Every key of a document, those of the documents inside it too.
fn keys(v: &Value, into: &mut BTreeSet<String>) {
    for (key, value) in v.as_object().into_iter().flatten() {
        into.insert(key.clone());
        keys(value, into);
    }
    for value in v.as_array().into_iter().flatten() {
        keys(value, into);
    }
}

fn json_of(v: &impl Serialize) -> Value {
    serde_json::to_value(v).unwrap()
}

/// The names in backticks in the first columns of a page's tables that begin so.
fn tables(page: &str, first: &[&str]) -> BTreeSet<String> {
    let (mut inside, mut names) = (false, BTreeSet::new());
    for line in page.lines() {
        if line.starts_with("|-") {
            continue;
        }
        let Some(row) = line.strip_prefix("| ") else {
            inside = false;
            continue;
        };
        let column = row.split(" |").next().unwrap_or_default();
        if !inside && first.contains(&column) {
            inside = true;
        } else if inside {
            let words = column.split('`').skip(1).step_by(2);
            names.extend(words.map(String::from));
            // What is inside a field stands in its explanation.
            let nested = ["`client`", "`change`", "`refusal`", "`gpus`", "`traffic`"];
            if nested.contains(&column) {
                let words = row.split('`').skip(3).step_by(2);
                names.extend(words.map(String::from));
            }
        }
    }
    names
}

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire-format.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_page_names_every_field_of_hello_and_welcome() {
    let refusal = Refusal::new("token", "");
    let welcome = Welcome {
        refusal: Some(refusal),
        ..Welcome::default()
    };
    let mut names = BTreeSet::new();
    let hello = Hello {
        ask: Some(Question::default()),
        reserve: Some(Reserve::default()),
        ..Hello::default()
    };
    keys(&json_of(&hello), &mut names);
    keys(&json_of(&welcome), &mut names);
    assert!(names.len() > 20);
    keys(&json_of(&Standing::default()), &mut names);
    let first = [
        "hello",
        "checkpoint",
        "ask",
        "link",
        "reserve",
        "standing",
        "welcome",
    ];
    let page = tables(&page(), &first);
    let missing: Vec<_> = names.difference(&page).collect();
    assert!(missing.is_empty(), "docs/wire-format.md lacks {missing:?}");
}

fn full() -> Status {
    let device = Device {
        api: "cuda".into(),
        pci: Some([0, 1, 2]),
        compute: Some([9, 0]),
        processors: Some(132),
        ..Device::default()
    };
    let listed = Listed {
        device,
        lease: Some("me".into()),
        ..Listed::default()
    };
    let session = Session {
        session: "s".into(),
        lease: Some("l".into()),
        job: Some(Job::default()),
        rate: Some(0),
        ..Session::default()
    };
    Status {
        devices: vec![listed],
        sessions: vec![session],
        leases: vec![Lease::default()],
        waiting: vec![Waiting::default()],
        missing: vec![("opencl".into(), "none".into())],
        said: Some(Said {
            code: 0,
            bytes: vec!["00ff".into()],
        }),
        ..Status::default()
    }
}

#[test]
fn the_page_names_every_field_of_status_and_no_other() {
    let mut names = BTreeSet::new();
    keys(&json_of(&full()), &mut names);
    let page = page();
    let tables = tables(
        &page,
        &["status", "said", "device", "session", "lease", "waiting"],
    );
    assert_eq!(tables, names, "docs/wire-format.md and the code");
}

/// What is said of a document that lacks a field, or nothing if it can do without.
fn without<T: Serialize + DeserializeOwned>(v: &T, field: &str) -> Option<String> {
    let mut v = json_of(v);
    v.as_object_mut().unwrap().remove(field).expect("a field");
    read::<T>("the document", v.to_string().as_bytes()).err()
}

#[test]
fn documents_of_other_releases_are_read() {
    // A newer one says more, in places that exist and in new ones.
    let mut newer = json_of(&full());
    newer["later"] = json!({ "x": [1] });
    newer["devices"][0]["slice"] = json!(3);
    newer["sessions"][0]["colour"] = json!("t");
    let said: Status = read("it", newer.to_string().as_bytes()).unwrap();
    assert_eq!(said, full());
    // An older one says less.
    let older = json!({ "devices": [
        { "api": "cuda", "ordinal": 0, "name": "G", "sessions": ["a"], "lease": null },
    ], "sessions": [{ "session": "a" }], "leases": [{ "lease": "x" }] });
    let said: Status = read("it", older.to_string().as_bytes()).unwrap();
    assert!(said.devices[0].yours && said.devices[0].device.name == "G");
    assert_eq!(said.sessions_left_out, 0);
    let hello: Hello = read("it", br#"{"intent":"status","later":1}"#).unwrap();
    assert_eq!(hello.api, "");
    for round in [json_of(&full()), json_of(&Hello::default())] {
        assert!(read::<Value>("it", round.to_string().as_bytes()).is_ok());
    }
}

#[test]
fn a_field_that_one_cannot_do_without_is_missed_in_one_sentence() {
    let attach = Attach {
        hello: Hello::default(),
        session: "s".into(),
        secret: "x".into(),
        protocol: 1,
        devices: vec![0],
        memory: None,
        of_each: false,
        swaps: false,
        resume_seconds: 60,
        keys: Hidden::default(),
        place: Place::default(),
    };
    let said = [
        (without(&Lease::default(), "lease"), "lease"),
        (without(&Session::default(), "session"), "session"),
        (without(&Listed::default(), "api"), "api"),
        (without(&Device::default(), "ordinal"), "ordinal"),
        (without(&Found::default(), "devices"), "devices"),
        (without(&attach, "secret"), "secret"),
        (without(&Report::Ended { why: "x".into() }, "why"), "why"),
    ];
    for (said, field) in said {
        let said = said.expect(field);
        let wanted = format!("the document makes no sense: missing field `{field}`");
        assert!(said.starts_with(&wanted), "{said}");
        assert!(said.ends_with("?") && said.lines().count() == 1, "{said}");
    }
    for field in ["devices", "gpus", "sessions_left_out"] {
        assert_eq!(without(&full(), field), None);
    }
    // Whatever is quoted, it is one line of a bounded length.
    let long = json!({ "intent": format!("{}\n", "x".repeat(60_000)) });
    let said = read::<Hello>("the hello", long.to_string().as_bytes()).unwrap_err();
    assert!(said.len() < 400 && said.lines().count() == 1, "{said}");
}

#[test]
fn a_status_of_64_devices_has_room_for_sessions_and_one_of_many_sessions_says_so() {
    let uuid = |i: u32| format!("{i:032x}");
    let numbers = Number::ALL
        .iter()
        .map(|(_, n)| (n.to_string(), u64::from(u32::MAX)));
    let numbers: std::collections::BTreeMap<_, _> = numbers.collect();
    let link = Link {
        ancestor: Some(20),
        p2p: vec![Some(0); 5],
    };
    let gpu = |i: u32| Gpu {
        numbers: numbers.clone(),
        links: (0..64)
            .filter(|o| *o != i)
            .map(|o| (uuid(o), link.clone()))
            .collect(),
        ..Gpu::default()
    };
    let device = |i: u32| {
        let mut all = full().devices;
        all[0].device.name = "NVIDIA H100 80GB HBM3".into();
        all[0].device.uuid = uuid(i);
        all.swap_remove(0)
    };
    let session = Session {
        session: "0123456789ab".into(),
        program: "\"ä".repeat(42),
        host: "h\"".repeat(64),
        user: "u\"".repeat(64),
        devices: (0..64).collect(),
        ..Session::default()
    };
    const MOST: usize = 1 << 20;
    let mut s = Status {
        devices: (0..128).map(|i| device(i % 64)).collect(),
        gpus: Gpus {
            gpus: (0..64).map(|i| (uuid(i), gpu(i))).collect(),
            ..Gpus::default()
        },
        sessions: vec![session; 2000],
        ..Status::default()
    };
    s.fit(MOST);
    assert!(s.sessions.len() > 300, "{}", s.sessions.len());
    assert_eq!(s.sessions.len() + s.sessions_left_out, 2000);
    let w = Welcome::with(1, &s);
    assert!(serde_json::to_vec(&w).unwrap().len() <= MOST);
    assert_eq!(w.read::<Status>("x").unwrap(), s);
    s.sessions.truncate(300);
    s.fit(MOST);
    assert_eq!((s.sessions.len(), s.sessions_left_out), (300, 0));
}
