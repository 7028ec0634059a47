//! Leases, sessions and tenants on devices that nobody has.

use super::*;

fn device(api: &str, ordinal: u32, uuid: &str) -> Device {
    Device {
        api: api.into(),
        ordinal,
        uuid: uuid.into(),
        ..Device::default()
    }
}

fn pool(n: u32) -> Pool {
    let all = (0..n).map(|i| device("cuda", i, ""));
    Pool::new(all.collect(), None, 100).unwrap()
}

fn of(lease: &str) -> Asker<'_> {
    Asker {
        lease,
        ..Asker::default()
    }
}

fn tenant(tenant: &str) -> Asker<'_> {
    Asker {
        tenant,
        ..Asker::default()
    }
}

/// The devices that are a lease's, as every command and library shows them.
fn yours(p: &Pool, api: &str, lease: &str) -> Vec<u32> {
    let listed = p.devices(&of(lease)).into_iter();
    let ours = listed.filter(|l| l.yours && l.device.api == api);
    ours.map(|l| l.device.ordinal).collect()
}

#[test]
fn a_lease_is_exclusive_until_it_ends() {
    let mut p = pool(2);
    assert_eq!(p.lease("a", 1, "ann", "").unwrap(), [0]);
    assert_eq!(p.open("s1", "cuda", &of("")).unwrap().devices, [1]);
    assert_eq!(p.open("s2", "cuda", &of("a")).unwrap().devices, [0]);
    let e = p.lease("b", 1, "bob", "").unwrap_err();
    assert_eq!(
        e,
        Refused::Taken {
            wanted: 1,
            all: 2,
            free: 0,
            holders: vec!["ann".into()]
        }
    );
    p.close("s1");
    assert_eq!(p.lease("b", 1, "bob", "").unwrap(), [1]);
    assert!(matches!(
        p.open("s3", "cuda", &of("")),
        Err(Refused::Taken { .. })
    ));
    p.end_lease("a");
    assert_eq!(p.open("s3", "cuda", &of("a")), Err(Refused::UnknownLease));
    assert_eq!(p.open("s3", "cuda", &of("")).unwrap().devices, [0]);
}

#[test]
fn what_is_not_there_is_said() {
    let mut p = pool(0);
    assert!(matches!(
        p.open("s", "cuda", &of("")),
        Err(Refused::NoDevice { .. })
    ));
    assert!(matches!(
        p.lease("l", 1, "x", ""),
        Err(Refused::NoDevice { .. })
    ));
    let mut p = Pool::new(vec![device("opencl", 0, "")], None, 1).unwrap();
    p.lease("l", 1, "x", "").unwrap();
    assert!(matches!(
        p.open("s", "opencl", &of("")),
        Err(Refused::Taken { .. })
    ));
    p.end_lease("l");
    p.open("s", "opencl", &of("")).unwrap();
    assert_eq!(
        p.open("t", "opencl", &of("")),
        Err(Refused::TooManySessions(1))
    );
    p.close("s");
    assert!(p.sessions.is_empty());
}

/// Two GPUs, which OpenCL counts the other way round, behind a CPU that CUDA does not know.
fn twins() -> Vec<Device> {
    vec![
        device("cuda", 0, "x"),
        device("cuda", 1, "y"),
        device("opencl", 0, ""),
        device("opencl", 1, "y"),
        device("opencl", 2, "x"),
    ]
}

#[test]
fn what_two_apis_reach_is_leased_for_both() {
    let mut p = Pool::new(twins(), None, 100).unwrap();
    assert_eq!(p.lease("a", 1, "ann", "").unwrap(), [0]);
    assert_eq!(p.open("s1", "opencl", &of("a")).unwrap().devices, [2]);
    assert_eq!(p.open("s2", "opencl", &of("")).unwrap().devices, [0, 1]);
    let listed = p.devices(&of(""));
    assert_eq!(listed[4].lease.as_deref(), Some("ann"));
    assert_eq!(listed[3].used_by, 1);
    assert_eq!(p.leases(&of(""))[0].devices, [0]);
    assert_eq!(
        (p.placed("s1").devices, p.placed("s1").lease),
        (vec![2], Some("a".into()))
    );
    // Somebody uses the other GPU through OpenCL.
    assert!(matches!(
        p.lease("b", 1, "bob", ""),
        Err(Refused::Taken { .. })
    ));
    p.close("s2");
    assert_eq!(p.lease("b", 1, "bob", "").unwrap(), [1]);
    assert_eq!(p.open("s3", "opencl", &of("")).unwrap().devices, [0]);
    assert_eq!(
        p.open("s4", "opencl", &of("gone")),
        Err(Refused::UnknownLease)
    );
}

#[test]
fn only_what_is_offered_is_there() {
    let p = Pool::new(twins(), Some(&[1]), 100).unwrap();
    assert_eq!(yours(&p, "cuda", ""), [1]);
    assert_eq!(yours(&p, "opencl", ""), [0, 1], "the CPU and its twin");
    assert_eq!(Pool::new(twins(), Some(&[1, 7]), 100).err(), Some(7));
    let opencl = Pool::new(twins().split_off(2), Some(&[2]), 100).unwrap();
    assert_eq!(yours(&opencl, "opencl", ""), [2], "without CUDA it leads");
}

#[test]
fn what_is_shown_is_what_a_session_gets() {
    // All of few devices, APIs and leases, in orders that a generator gives.
    let mut seed = 7u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % n
    };
    let mut p = Pool::new(twins(), None, 4).unwrap();
    let mut opened = 0;
    for step in 0..20_000 {
        let (name, lease) = (
            format!("s{}", below(5)),
            ["", "a", "b", "gone"][below(4) as usize],
        );
        match below(4) {
            0 => drop(p.lease(
                ["a", "b"][below(2) as usize],
                below(2) as usize + 1,
                "h",
                "",
            )),
            1 => p.end_lease(lease),
            2 => p.close(&name),
            _ => {
                let api = ["cuda", "opencl"][below(2) as usize];
                let shown = yours(&p, api, lease);
                p.close(&name);
                let shown_after = yours(&p, api, lease);
                assert_eq!(shown, shown_after, "sessions share, they do not hide");
                match p.open(&name, api, &of(lease)) {
                    Ok(got) => {
                        assert_eq!(got.devices, shown, "step {step}");
                        opened += 1;
                    }
                    Err(Refused::TooManySessions(_)) => {}
                    Err(_) => assert!(shown.is_empty(), "step {step}"),
                }
            }
        }
    }
    assert!(opened > 1000, "{opened}");
}

#[test]
fn a_server_with_64_devices_has_room() {
    let both = |i| {
        let uuid = format!("{i:032x}");
        [device("cuda", i, &uuid), device("opencl", i, &uuid)]
    };
    let mut p = Pool::new((0..64).flat_map(both).collect(), None, 2000).unwrap();
    for n in 0..2000 {
        let got = p.open(&format!("s{n}"), "cuda", &of("")).unwrap().devices;
        assert_eq!(got.len(), 64);
    }
    assert!(p.devices(&of("")).iter().all(|d| d.yours));
    for n in 0..2000 {
        p.close(&format!("s{n}"));
    }
    assert_eq!(p.lease("all", 64, "ann", "").unwrap().len(), 64);
    assert_eq!(yours(&p, "opencl", "all").len(), 64);
    assert!(yours(&p, "opencl", "").is_empty());
}

#[test]
fn a_tenant_gets_what_the_policy_says_and_sees_its_own() {
    let mut found = twins();
    found[2].kind = "cpu".into();
    let mut p = Pool::new(found, None, 100).unwrap();
    p.open("before", "cuda", &tenant("lab")).unwrap();
    let text = "[default]\nsessions = 0\n[tenant.lab]\ndevices = [1]\nsessions = 2\n\
                leases = 1\ncpu = false\n[tenant.cpu]\nsessions = 9\ndevices = []\n\
                [tenant.ops]\nadmin = true";
    p.set_policy(busbar_policy::parse(text).unwrap()).unwrap();
    let lab = tenant("lab");
    assert_eq!(p.placed("before").devices, [0, 1], "what it had it keeps");
    assert_eq!(p.open("s1", "cuda", &lab).unwrap().devices, [1]);
    let e = p.open("s2", "opencl", &lab).unwrap_err();
    assert!(
        e.may_pass() && e.to_string().contains("2 session(s)"),
        "{e}"
    );
    p.close("before");
    assert_eq!(
        p.open("s2", "opencl", &lab).unwrap().devices,
        [1],
        "no CPU, and the one GPU"
    );
    let said = p.open("s3", "cuda", &tenant("x")).unwrap_err();
    assert!(
        !said.may_pass() && said.to_string().contains("no session"),
        "{said}"
    );
    assert_eq!(p.open("s3", "opencl", &tenant("cpu")).unwrap().devices, [0]);
    let said = p.open("s4", "cuda", &tenant("cpu")).unwrap_err();
    assert!(said.to_string().contains("no cuda device"), "{said}");
    let said = p.lease("b", 1, "bob", "cpu").unwrap_err();
    assert!(said.to_string().contains("no GPU device"), "{said}");
    p.close("s1");
    p.close("s2");
    assert_eq!(p.lease("a", 1, "ann", "lab").unwrap(), [1]);
    let e = p.lease("a2", 1, "ann", "lab").unwrap_err();
    assert!(e.to_string().contains("has 1"), "{e}");
    // Another tenant neither is in the lease nor learns whose it is.
    let thief = Asker {
        lease: "a",
        ..tenant("other")
    };
    p.set_policy(busbar_policy::parse("[tenant.ops]\nadmin = true").unwrap())
        .unwrap();
    assert_eq!(p.open("s5", "cuda", &thief), Err(Refused::UnknownLease));
    let listed = |asker: &Asker<'_>| p.devices(asker)[1].lease.clone().unwrap();
    assert_eq!(listed(&tenant("other")), ANOTHER);
    assert_eq!(
        (listed(&lab), listed(&tenant("ops"))),
        ("ann".into(), "ann".into())
    );
    assert!(p.leases(&tenant("other")).is_empty() && p.leases(&lab).len() == 1);
    let token = Asker {
        admin: true,
        ..tenant("other")
    };
    assert!(p.shows(&token, "lab") && !p.shows(&tenant("other"), "lab"));
    let e = p.lease("c", 2, "eve", "other").unwrap_err();
    assert!(
        e.to_string().contains(ANOTHER) && !e.to_string().contains("ann"),
        "{e}"
    );
    assert_eq!((p.forbids(&lab), p.forbids(&thief)), (None, None));
    let unknown = busbar_policy::parse("[tenant.z]\ndevices = [7]").unwrap();
    assert_eq!(p.set_policy(unknown), Err(("z".into(), 7)));
    p.set_policy(busbar_policy::parse("[default]\napi = []").unwrap())
        .unwrap();
    let said = p.forbids(&lab).unwrap().to_string();
    assert!(said.contains("may not use cuda"), "{said}");
}

#[test]
fn memory_is_promised_once() {
    let mut found = twins();
    for d in &mut found {
        d.memory = 100;
    }
    let mut p = Pool::new(found, None, 100).unwrap();
    let with = |memory| Asker {
        memory: Some(memory),
        ..Asker::default()
    };
    let free = p.open("free", "cuda", &of("")).unwrap();
    assert_eq!(
        (free.devices, free.memory, free.promised),
        (vec![0, 1], None, false)
    );
    let a = p.open("a", "cuda", &with(60)).unwrap();
    assert_eq!((a.devices, a.memory, a.promised), (vec![0], Some(60), true));
    // OpenCL reaches the same device by another number.
    assert_eq!(p.open("b", "opencl", &with(41)).unwrap().devices, [0]);
    p.close("b");
    assert_eq!(p.open("b", "cuda", &with(60)).unwrap().devices, [1]);
    let e = p.open("c", "cuda", &with(60)).unwrap_err();
    assert_eq!(
        (e.clone(), e.may_pass()),
        (
            Refused::Full {
                wanted: 60,
                free: 40,
                all: 100
            },
            true
        )
    );
    assert_eq!(p.forbids(&with(60)), Some(e.clone()));
    assert!(
        e.to_string().contains("60 bytes of device memory wanted"),
        "{e}"
    );
    assert!(!p.open("c", "cuda", &with(101)).unwrap_err().may_pass());
    assert_eq!(p.open("c", "opencl", &with(40)).unwrap().devices, [0]);
    assert_eq!(
        p.open("d", "opencl", &with(70)).unwrap_err(),
        Refused::Full {
            wanted: 70,
            free: 60,
            all: 100
        }
    );
    let promised: Vec<_> = p.devices(&of("")).iter().map(|d| d.promised).collect();
    assert_eq!(promised, [60, 60, 40, 60, 60]);
    p.close("a");
    assert_eq!(p.open("d", "cuda", &with(100)).unwrap().devices, [0]);
    let rules = busbar_policy::parse("[default]\nmemory = \"1KiB\"").unwrap();
    p.set_policy(rules).unwrap();
    assert_eq!(p.open("e", "cuda", &of("")).unwrap().memory, Some(1024));
    let said = p.forbids(&with(1025)).unwrap().to_string();
    assert!(said.contains("1.0 KiB of device memory"), "{said}");
}

#[test]
fn time_is_promised_once() {
    let mut p = Pool::new(twins(), None, 100).unwrap();
    let with = |share, parts| Asker {
        share: Some(share),
        parts,
        ..Asker::default()
    };
    let free = p.open("free", "cuda", &of("")).unwrap();
    assert_eq!((free.devices, free.part.share), (vec![0, 1], None));
    let a = p.open("a", "cuda", &with(600, 0)).unwrap();
    assert_eq!((a.devices, a.part.share), (vec![0], Some(600)));
    // OpenCL reaches the same device by another number, and its turns are among the same.
    assert_eq!(p.open("z", "opencl", &with(1000, 0)).unwrap().devices, [0]);
    assert_eq!(p.open("y", "opencl", &with(1000, 0)).unwrap().devices, [1]);
    let b = p.open("b", "opencl", &with(400, 0)).unwrap();
    assert_eq!((b.devices, b.places), (vec![2], a.places));
    p.close("z");
    p.close("y");
    assert_eq!(p.open("c", "cuda", &with(300, 0)).unwrap().devices, [1]);
    let few = p.open("d", "cuda", &with(100, 2)).unwrap_err();
    let said = Refused::Few {
        wanted: 2,
        free: 1,
        all: 2,
    };
    assert_eq!((few.clone(), few.may_pass()), (said, true));
    assert!(!p.open("d", "cuda", &with(100, 3)).unwrap_err().may_pass());
    let late = p.open("d", "cuda", &with(701, 0)).unwrap_err();
    let said = Refused::Late {
        wanted: 701,
        free: 700,
    };
    assert_eq!((late.clone(), late.may_pass()), (said, true));
    assert!(
        late.to_string().contains("0.701 of a device's time"),
        "{late}"
    );
    p.close("b");
    assert_eq!(p.open("d", "cuda", &with(400, 2)).unwrap().devices, [0, 1]);
    let promised: Vec<_> = p
        .devices(&of(""))
        .iter()
        .map(|d| d.promised_share)
        .collect();
    assert_eq!(promised[..2], [1000, 700]);
    // What a session has is not in its own way.
    let change = |share| Change {
        share: Some(share),
        ..Change::default()
    };
    p.close("d");
    assert!(p.set("a", &of(""), change(1000)).is_ok());
    assert!(p.set("a", &of(""), change(0)).unwrap().part.share.is_none());
    assert!(p.set("c", &of(""), change(1000)).is_ok());
    assert!(matches!(
        p.set("free", &of(""), change(1)),
        Err(Refused::Few { .. })
    ));
    let other = tenant("other");
    assert_eq!(
        p.set("a", &other, change(1)).unwrap_err(),
        Refused::NoSession("a".into())
    );
}
