//! Leases, sessions and tenants on devices that nobody has.

use super::*;
use crate::queue::Standing;

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

/// Who asks for a lease, with what there is of it at once.
fn ask(name: &'static str, n: usize, want: Want) -> Ask<'static> {
    Ask {
        name,
        holder: name,
        devices: &[],
        least: n,
        most: n,
        want,
        since: 0,
    }
}

/// Has whole devices reserved at once, or says who is in the way.
fn lease(p: &mut Pool, name: &str, n: usize, holder: &str, of: &str) -> Result<Vec<u32>, String> {
    let ask = Ask {
        name,
        holder,
        ..ask("", n, Want::Whole)
    };
    p.stand(&tenant(of), &ask).map_err(|e| e.to_string())?;
    let State::Waits(Standing { offer, holders, .. }) = p.state(name) else {
        panic!("it stands in line");
    };
    if offer.len() < n {
        p.leave(name);
        return Err(format!("held by {}", holders.join(", ")));
    }
    match p.take(name, &offer).map_err(|e| e.to_string())? {
        State::Has(devices) => Ok(devices),
        other => panic!("{other:?}"),
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
    assert_eq!(lease(&mut p, "a", 1, "ann", "").unwrap(), [0]);
    assert_eq!(p.open("s1", "cuda", &of("")).unwrap().devices, [1]);
    assert_eq!(p.open("s2", "cuda", &of("a")).unwrap().devices, [0]);
    let said = lease(&mut p, "b", 1, "bob", "").unwrap_err();
    assert_eq!(said, format!("held by ann, {SHARERS}"));
    p.close("s1");
    assert_eq!(lease(&mut p, "b", 1, "bob", "").unwrap(), [1]);
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
    let said = lease(&mut p, "l", 1, "x", "").unwrap_err();
    assert!(said.contains("no GPU to offer"), "{said}");
    let mut p = Pool::new(vec![device("opencl", 0, "")], None, 1).unwrap();
    lease(&mut p, "l", 1, "x", "").unwrap();
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
    assert_eq!(lease(&mut p, "a", 1, "ann", "").unwrap(), [0]);
    assert_eq!(p.open("s1", "opencl", &of("a")).unwrap().devices, [2]);
    assert_eq!(p.open("s2", "opencl", &of("")).unwrap().devices, [0, 1]);
    let listed = p.devices(&of(""));
    assert_eq!(listed[4].lease.as_deref(), Some("ann"));
    assert_eq!(listed[3].used_by, 1);
    assert_eq!(p.leases(&of(""), Duration::ZERO)[0].devices, [0]);
    assert_eq!(
        (p.placed("s1").devices, p.placed("s1").lease),
        (vec![2], Some("a".into()))
    );
    // Somebody uses the other GPU through OpenCL.
    assert!(lease(&mut p, "b", 1, "bob", "").is_err());
    p.close("s2");
    assert_eq!(lease(&mut p, "b", 1, "bob", "").unwrap(), [1]);
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
            0 => {
                let name = ["a", "b"][below(2) as usize];
                drop(super::tests::lease(
                    &mut p,
                    name,
                    below(2) as usize + 1,
                    "h",
                    "",
                ));
            }
            1 => drop(p.end_lease(lease)),
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
    assert_eq!(lease(&mut p, "all", 64, "ann", "").unwrap().len(), 64);
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
    let said = lease(&mut p, "b", 1, "bob", "cpu").unwrap_err();
    assert!(said.contains("no GPU device"), "{said}");
    p.close("s1");
    p.close("s2");
    assert_eq!(lease(&mut p, "a", 1, "ann", "lab").unwrap(), [1]);
    let e = lease(&mut p, "a2", 1, "ann", "lab").unwrap_err();
    assert!(e.contains("has 1"), "{e}");
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
    assert!(
        p.leases(&tenant("other"), Duration::ZERO).is_empty()
            && p.leases(&lab, Duration::ZERO).len() == 1
    );
    let token = Asker {
        admin: true,
        ..tenant("other")
    };
    assert!(p.shows(&token, "lab") && !p.shows(&tenant("other"), "lab"));
    let e = lease(&mut p, "c", 2, "eve", "other").unwrap_err();
    assert!(e.contains(ANOTHER) && !e.contains("ann"), "{e}");
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

fn part(memory: u64, share: Share) -> Want {
    Want::Part { memory, share }
}

fn standing(p: &Pool, name: &str) -> Standing {
    match p.state(name) {
        State::Waits(s) => s,
        other => panic!("{name} {other:?}"),
    }
}

fn take(p: &mut Pool, name: &'static str, n: usize, want: Want) -> Vec<u32> {
    p.stand(&of(""), &ask(name, n, want)).unwrap();
    let offer = standing(p, name).offer;
    assert_eq!(p.take(name, &offer), Ok(State::Has(offer.clone())));
    offer
}

#[test]
fn there_are_only_so_many_leases_however_little_each_of_them_has() {
    let mut p = pool(1);
    let kept = |p: &mut Pool, name: &str| {
        let nothing = ask("", 1, part(0, 0));
        p.stand(&of(""), &Ask { name, ..nothing })?;
        let taken = p.take(name, &[0]);
        p.keep(name, Duration::MAX);
        taken.inspect_err(|_| p.leave(name))
    };
    let names = (0..2000).map(|n| format!("lease{n}"));
    let had = names.map(|n| kept(&mut p, &n)).take_while(Result::is_ok);
    assert_eq!(had.count(), 1024);
    let full = kept(&mut p, "another").unwrap_err();
    assert!(
        full.to_string().contains("already has 1024 leases"),
        "{full}"
    );
    p.end_lease("lease7").unwrap();
    assert_eq!(kept(&mut p, "another"), Ok(State::Has(vec![0])));
}

#[test]
fn the_line_is_shown_to_those_whom_it_concerns() {
    let mut p = pool(2);
    take(&mut p, "first", 1, Want::Whole);
    let wants = |name, since, want| Ask {
        since,
        ..ask(name, 2, want)
    };
    p.stand(&tenant("lab"), &wants("second", 7, Want::Whole))
        .unwrap();
    p.stand(&tenant("art"), &wants("third", 8, part(0, 250)))
        .unwrap();
    let admin = Asker {
        admin: true,
        ..of("")
    };
    let (all, left) = p.waiting(&admin);
    assert_eq!((all.len(), left), (2, 0));
    assert_eq!((all[0].place, &all[0].offer[..]), (1, &[1][..]));
    assert_eq!(all[0].holders, ["first"]);
    assert!(all[0].whole && all[0].ahead.is_empty() && all[0].wanted == 2);
    let third = &all[1];
    assert_eq!((third.memory, third.share, third.since), (0, 250, 8));
    assert_eq!((third.place, &third.ahead[..]), (2, &["second".into()][..]));
    // Others' places are counted, and their names are not said.
    let (own, _) = p.waiting(&tenant("art"));
    assert_eq!((own.len(), own[0].place), (1, 2));
    assert_eq!(own[0].ahead, ["another tenant"]);
    assert!(p.waiting(&tenant("ops")).0.is_empty());
    // Of a long line the first are shown, and how many more there are.
    let names: Vec<_> = (0..300).map(|n| format!("waits{n:03}")).collect();
    for name in &names {
        let ask = Ask {
            name,
            ..ask("", 1, Want::Whole)
        };
        p.stand(&of(""), &Ask { since: 9, ..ask }).unwrap();
    }
    let (all, left) = p.waiting(&admin);
    assert_eq!(all.len() + left, 302);
    assert!(left > 0 && all.iter().all(|w| w.ahead.len() <= 8));
}

#[test]
fn who_waits_knows_for_whom_and_gets_what_becomes_free() {
    let mut p = pool(2);
    assert_eq!(take(&mut p, "first", 2, Want::Whole), [0, 1]);
    for (name, since) in [("second", 7), ("third", 8)] {
        let ask = Ask {
            since,
            ..ask(name, 1, Want::Whole)
        };
        p.stand(&of(""), &ask).unwrap();
    }
    let third = standing(&p, "third");
    assert_eq!((third.place, third.offer.len()), (2, 0));
    assert_eq!(third.ahead, ["second"]);
    assert_eq!(third.holders, ["first"]);
    // Somebody who began to wait before, at another server.
    p.stand(&of(""), &ask("older", 2, Want::Whole)).unwrap();
    assert_eq!(standing(&p, "third").ahead, ["older", "second"]);
    let ended = p.end_lease("first").unwrap();
    assert_eq!(
        (ended.holder.as_str(), ended.devices),
        ("first", vec![0, 1])
    );
    assert_eq!(standing(&p, "older").offer, [0, 1]);
    assert!(standing(&p, "second").offer.is_empty());
    // What is not on offer is not had, and what is on offer nobody else is placed on.
    assert!(matches!(p.take("second", &[0]), Ok(State::Waits(_))));
    let e = p.open("s", "cuda", &of("")).unwrap_err();
    assert!(e.may_pass() && e.to_string().contains("older"), "{e}");
    p.leave("older");
    assert_eq!(standing(&p, "second").offer, [0]);
    assert_eq!(standing(&p, "third").offer, [1]);
    assert!(matches!(p.take("second", &[1]), Ok(State::Waits(_))));
    assert_eq!(p.take("second", &[0]), Ok(State::Has(vec![0])));
    // What is given back is the first's in line again, which it is itself.
    assert!(matches!(p.give_back("second"), State::Waits(s) if s.offer == [0] && s.place == 1));
    assert_eq!(p.state("older"), State::Over);
    assert_eq!(p.take("older", &[0]), Ok(State::Over));
    let again = p.stand(&of(""), &ask("second", 1, Want::Whole));
    assert_eq!(again, Err(Refused::NameTaken));
}

#[test]
fn a_priority_goes_first_and_a_policy_bounds_it() {
    let mut p = pool(1);
    let rules = "[default]\npriority = 1\nleases = 1\nmemory = \"1KiB\"\nshare = 0.5";
    p.set_policy(busbar_policy::parse(rules).unwrap()).unwrap();
    take(&mut p, "has", 1, Want::Whole);
    let with = |priority, tenant| Asker {
        priority,
        tenant,
        ..Asker::default()
    };
    let mut stand = |priority, name, want| p.stand(&with(priority, "x"), &ask(name, 1, want));
    assert_eq!(stand(0, "low", Want::Whole), Ok(()));
    assert_eq!(stand(1, "high", Want::Whole), Ok(()));
    for (priority, want, said) in [
        (2, Want::Whole, "priority 1 at most"),
        (0, part(2000, 0), "1.0 KiB of device memory"),
        (0, part(0, 501), "0.5 of a device's time"),
    ] {
        let e = stand(priority, "no", want).unwrap_err().to_string();
        assert!(e.contains(said), "{e}");
    }
    assert_eq!(standing(&p, "low").ahead, ["high"]);
    assert_eq!(standing(&p, "low").holders, [ANOTHER]);
    let two = Ask {
        least: 2,
        ..ask("two", 2, Want::Whole)
    };
    let e = p.stand(&with(0, "x"), &two).unwrap_err().to_string();
    assert!(e.contains("may have 1 GPU(s) reserved"), "{e}");
    p.end_lease("has");
    assert_eq!(p.take("high", &[0]), Ok(State::Has(vec![0])));
    p.end_lease("high");
    // It is asked again when something is taken.
    p.set_policy(busbar_policy::parse("[default]\nleases = 0").unwrap())
        .unwrap();
    assert!(matches!(p.take("low", &[0]), Err(Refused::Forbidden(_))));
    assert_eq!(standing(&p, "low").place, 1);
}

fn of_100(n: u32) -> Pool {
    let all = (0..n).map(|i| Device {
        memory: 100,
        ..device("cuda", i, "")
    });
    Pool::new(all.collect(), None, 100).unwrap()
}

#[test]
fn a_lease_of_parts_is_promised_to_its_sessions_and_to_nobody_else() {
    let mut p = of_100(2);
    assert_eq!(take(&mut p, "a", 2, part(60, 500)), [0, 1]);
    let listed = p.devices(&of(""));
    assert_eq!((listed[0].promised, listed[0].promised_share), (60, 500));
    assert_eq!((listed[0].lease.as_deref(), listed[0].yours), (None, true));
    let with = |memory, lease| Asker {
        memory: Some(memory),
        ..of(lease)
    };
    let e = p.open("x", "cuda", &with(41, "")).unwrap_err();
    assert!(matches!(e, Refused::Full { free: 40, .. }), "{e}");
    assert_eq!(p.open("x", "cuda", &with(40, "")).unwrap().devices, [0]);
    p.stand(&of(""), &ask("whole", 1, Want::Whole)).unwrap();
    assert!(standing(&p, "whole").offer.is_empty(), "nobody is idle");
    p.leave("whole");
    // A session of the lease has its part of each device, the next nothing.
    let all = p.open("all", "cuda", &of("a")).unwrap();
    assert_eq!(
        (all.devices, all.memory, all.part.share),
        (vec![0, 1], Some(60), Some(500))
    );
    assert_eq!(
        p.open("s1", "cuda", &of("a")).unwrap_err(),
        Refused::Drawn(60)
    );
    // To whoever has it the devices are shown as before.
    let shown = |served| p.devices(&Asker { served, ..of("a") })[0].yours;
    assert_eq!([shown(false), shown(true)], [false, true]);
    p.close("all");
    // One that is a rank has one device's, the next what is left.
    let of = |lease| Asker {
        parts: 1,
        ..of(lease)
    };
    let with = |memory, lease| Asker {
        memory: Some(memory),
        ..of(lease)
    };
    let s1 = p.open("s1", "cuda", &of("a")).unwrap();
    assert_eq!(
        (s1.devices, s1.memory, s1.part.share),
        (vec![0], Some(60), Some(500))
    );
    let s2 = p.open("s2", "cuda", &with(20, "a")).unwrap();
    assert_eq!((s2.devices, s2.memory), (vec![1], Some(20)));
    let s3 = p.open("s3", "cuda", &of("a")).unwrap();
    assert_eq!(
        (s3.devices, s3.memory, s3.part.share),
        (vec![1], Some(40), None)
    );
    assert_eq!(
        p.open("s4", "cuda", &of("a")).unwrap_err(),
        Refused::Drawn(60)
    );
    assert!(p.forbids(&of("a")).is_some());
    // More than is left is found beside the lease, or not at all.
    assert_eq!(p.open("s4", "cuda", &with(40, "a")).unwrap().devices, [1]);
    assert!(matches!(
        p.open("s5", "cuda", &with(1, "a")),
        Err(Refused::Full { .. })
    ));
    let promised = |p: &Pool| [0, 1].map(|i| p.devices(&of(""))[i].promised);
    assert_eq!(promised(&p), [100, 100], "once, whether it is used or not");
    p.close("s2");
    assert_eq!(promised(&p), [100, 100]);
    // What runs goes on with what it has.
    p.end_lease("a");
    assert_eq!(promised(&p), [100, 80]);
    for s in ["s1", "s3", "s4", "x"] {
        p.close(s);
    }
    assert_eq!(promised(&p), [0, 0]);
    // A part of nothing is a device to share.
    assert_eq!(take(&mut p, "shared", 1, part(0, 0)), [0]);
    assert_eq!(p.open("s1", "cuda", &of("shared")).unwrap().devices, [0]);
    assert_eq!(p.open("s2", "cuda", &of("")).unwrap().devices, [0, 1]);
    // Time alone is had of all devices at once.
    assert_eq!(take(&mut p, "time", 2, part(0, 250)), [0, 1]);
    let all = Asker {
        parts: 0,
        ..of("time")
    };
    let s3 = p.open("s3", "cuda", &all).unwrap();
    assert_eq!((s3.devices, s3.part.share), (vec![0, 1], Some(250)));
    let e = p.stand(&of(""), &ask("big", 1, part(101, 0))).unwrap_err();
    assert!(!e.may_pass(), "{e}");
}

#[test]
fn the_share_of_an_idle_session_is_others_until_it_works_again_and_there_is_room() {
    let mut p = of_100(1);
    let with = |share, lease| Asker {
        share: Some(share),
        ..of(lease)
    };
    let share = |p: &Pool, s: &str| (p.placed(s).part.share, p.placed(s).lent);
    p.open("a", "cuda", &with(700, "")).unwrap();
    let late = p.open("b", "cuda", &with(500, "")).unwrap_err();
    assert!(matches!(late, Refused::Late { free: 300, .. }), "{late}");
    assert!(p.lend("a", true) && !p.lend("a", true));
    assert_eq!(share(&p, "a"), (None, Some(700)));
    // Whoever stands in line is offered it, too.
    p.stand(&of(""), &ask("line", 1, part(0, 900))).unwrap();
    assert_eq!(standing(&p, "line").offer, [0]);
    p.leave("line");
    p.open("b", "cuda", &with(500, "")).unwrap();
    assert_eq!(p.devices(&of(""))[0].promised_share, 500);
    // It works as one without a promise until there is room.
    assert!(!p.lend("a", false));
    assert_eq!(share(&p, "a"), (None, Some(700)));
    p.close("b");
    assert!(p.lend("a", false));
    assert_eq!(share(&p, "a"), (Some(700), None));
    assert_eq!(p.devices(&of(""))[0].promised_share, 700);
    p.close("a");
    // What a lease has is lent when all of its sessions are idle, and memory is not.
    assert_eq!(take(&mut p, "l", 1, part(60, 800)), [0]);
    let half = Asker {
        memory: Some(20),
        ..with(400, "l")
    };
    p.open("l1", "cuda", &half).unwrap();
    p.open("l2", "cuda", &half).unwrap();
    let promised = |p: &Pool| {
        let d = &p.devices(&of(""))[0];
        (d.promised, d.promised_share)
    };
    p.lend("l1", true);
    assert_eq!(promised(&p), (60, 800));
    p.lend("l2", true);
    assert_eq!(promised(&p), (60, 0));
    assert!(p.lend("l1", false));
    assert_eq!(promised(&p), (60, 800));
    // Who has no share has none to lend.
    p.open("c", "cuda", &of("")).unwrap();
    assert!(!p.lend("c", true) && !p.lend("nobody", true));
}

#[test]
fn a_lease_that_is_kept_lasts_for_a_time_and_as_long_as_its_sessions() {
    let mut p = pool(2);
    let at = Duration::from_secs;
    take(&mut p, "a", 1, Want::Whole);
    take(&mut p, "b", 1, Want::Whole);
    p.keep("a", at(10));
    p.open("s", "cuda", &of("a")).unwrap();
    let left = |p: &Pool, now| p.leases(&of("a"), at(now))[0].seconds_left;
    assert_eq!((left(&p, 4), left(&p, 40)), (Some(6), Some(0)));
    assert!(p.expire(at(9)).is_empty() && p.expire(at(11)).is_empty());
    let all = p.leases(&of("a"), at(0));
    assert_eq!(
        (all[0].sessions, all[0].yours, all[0].whole),
        (1, true, true)
    );
    assert_eq!((all[1].seconds_left, all[1].yours), (None, false));
    p.close("s");
    let over: Vec<_> = p.expire(at(11)).into_iter().map(|e| e.name).collect();
    assert_eq!(over, ["a"]);
    assert_eq!(p.state("a"), State::Over);
}

#[test]
fn a_tenant_releases_its_own_leases_and_an_admin_any() {
    let mut p = pool(4);
    for (name, whose) in [
        ("0123456789", "lab"),
        ("1123456789", "lab"),
        ("2123456789", "school"),
    ] {
        lease(&mut p, name, 1, "h", whose).unwrap();
    }
    let (lab, school) = (tenant("lab"), tenant("school"));
    let no = p.release(&school, "01234567").unwrap_err();
    assert_eq!(no, Refused::NoLease("01234567".into()));
    assert!(
        p.release(&lab, "0123456").is_err(),
        "not just any beginning"
    );
    let names = |ended: Vec<Ended>| ended.into_iter().map(|e| e.name).collect::<Vec<_>>();
    assert_eq!(names(p.release(&lab, "01234567").unwrap()), ["0123456789"]);
    assert_eq!(names(p.release(&lab, "").unwrap()), ["1123456789"]);
    assert!(p.release(&lab, "").unwrap().is_empty());
    let admin = Asker {
        admin: true,
        ..tenant("ops")
    };
    assert_eq!(
        names(p.release(&admin, "2123456789").unwrap()),
        ["2123456789"]
    );
    assert_eq!(lease(&mut p, "again", 4, "h", "").unwrap(), [0, 1, 2, 3]);
}
