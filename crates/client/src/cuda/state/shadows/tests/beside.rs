//! Accesses beside work that lasts.

use super::*;

/// Work that accesses have waited for in vain.
fn lasting_work(ram: &Ram, wire: &Wire, s: &Shadows) {
    s.areas().work(ram, wire, (3, 1), Touch::All).unwrap();
    s.areas().outlasts(AT, &[(3, 1)], 1);
    said(wire);
}

#[test]
fn beside_work_that_lasts_the_program_is_let_in_for_a_moment() {
    let (ram, wire, s) = managed();
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let fault = |waits| s.areas().fault(&ram, &wire, AT, Some(true), waits);
    assert_eq!(fault(Waits::Yes), wait_for(vec![(3, 1)], 1));
    s.areas().outlasts(AT, &[(3, 1)], 1);
    said(&wire);
    for round in 0..3 {
        assert_eq!(fault(Waits::Yes), Outcome::Retry, "nobody waits again");
        let read = format!("read 3 {AT:#x} 65536");
        let mut asked = said(&wire);
        if round == 0 {
            assert_eq!(asked.remove(0), "apart");
        }
        assert_eq!(asked, [read.clone(), read], "it is twice the same");
        ram.write(AT + 8, b"x");
        s.late().end_late(&ram, &wire).unwrap();
        let sent = format!("push 3 {:#x} 1 120", AT + 8);
        assert_eq!(said(&wire), [sent, "fence".to_string()]);
        let closed = ram.rights.borrow().last().map(|(.., rights)| *rights);
        assert_eq!(closed, Some(libc::PROT_NONE));
        assert!(!s.areas().sees_late());
    }
    // What comes later is waited for, though not for as long.
    s.areas().over(me(), 3, Some(1), 1);
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let again = fault(Waits::Yes);
    assert!(matches!(again, Outcome::Wait { patience, .. } if patience < PATIENCE));
    // Not for ever more waits, each of which has a thread.
    for _ in 0..61 {
        assert_ne!(fault(Waits::Yes), Outcome::Retry);
    }
    assert_eq!(
        fault(Waits::Yes),
        Outcome::Wait {
            owed: vec![(3, 1)],
            mark: 2,
            patience: PATIENCE / 2
        }
    );
    assert_eq!(
        fault(Waits::Yes),
        Outcome::Retry,
        "there are as many as may be"
    );
    (0..64).for_each(|_| s.areas().wait_ends());
    s.late().end_late(&ram, &wire).unwrap();
    assert_ne!(fault(Waits::Yes), Outcome::Retry);
    // A function in stream order goes on seeing what it saw.
    s.areas().outlasts(AT, &[(3, 1)], 2);
    assert_eq!(fault(Waits::Never), Outcome::Retry);
    assert!(!s.areas().sees_late());
}

#[test]
fn beside_work_that_lasts_the_device_does_what_is_atomic() {
    use busbar_wire::atomics::Operation;
    let (ram, wire, s) = managed();
    let is_beside = |waits| s.areas().is_beside(AT, waits);
    assert!(!is_beside(Waits::Yes), "there is no work");
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    assert!(!is_beside(Waits::Yes), "it may be over soon");
    lasting_work(&ram, &wire, &s);
    assert!(is_beside(Waits::Yes) && is_beside(Waits::NoMore));
    assert!(!is_beside(Waits::Never), "a function sees what it saw");
    let add = |at, operand| Atomic {
        at,
        width: 4,
        operation: Operation::Add,
        operand,
        expected: 0,
    };
    let done = |atomic: &Atomic, store| s.areas().atomic(&ram, &wire, atomic, store).unwrap();
    assert_eq!(done(&add(AT + 8, 1), true), None, "a store is let in");
    // It has seen something, and changed it: the device has that before.
    let fault = || s.areas().fault(&ram, &wire, AT, Some(true), Waits::Yes);
    assert_eq!(fault(), Outcome::Retry);
    assert!(is_beside(Waits::Yes), "it sees it still");
    ram.write(AT + 40, b"x");
    said(&wire);
    assert_eq!(done(&add(AT + 8, 5), false), Some(0));
    let sent = format!("push 3 {:#x} 1 120", AT + 40);
    let asked = format!("atomic 3 {:#x} 5", AT + 8);
    assert_eq!(said(&wire), [sent, "fence".into(), asked]);
    assert!(!s.areas().sees_late(), "it sees what comes of it");
    assert_eq!(done(&add(AT + 16, 6), true), Some(0), "stores near it, too");
    assert_eq!(done(&add(AT + 8192, 6), true), None, "and no others");
    said(&wire);
    wire.1.set(NO_ATOMICS);
    assert_eq!(done(&add(AT + 8, 7), false), None, "the device does none");
    assert_eq!(said(&wire), [format!("atomic 3 {:#x} 7", AT + 8)]);
    assert_eq!(done(&add(AT + 8, 7), false), None);
    assert!(said(&wire).is_empty(), "it is not asked again");
}

#[test]
fn beside_work_that_lasts_nothing_is_seen_that_is_older_than_its_flag() {
    let (ram, wire, s) = managed();
    lasting_work(&ram, &wire, &s);
    const BLOCK: u64 = 64 << 10;
    let fault = |p| s.areas().fault(&ram, &wire, p, Some(true), Waits::Yes);
    assert_eq!(fault(AT + BLOCK), Outcome::Retry);
    ram.write(AT + BLOCK, &[7; 100]);
    assert_eq!(fault(AT), Outcome::Retry);
    let read = |at: u64| format!("read 3 {at:#x} 65536");
    let push = |at: u64, n| format!("push 3 {at:#x} {n} 7");
    // The flag's block, and that of the data again, into which the program has written.
    let (first, flag) = (read(AT + BLOCK), read(AT));
    let asked = said(&wire);
    assert_eq!(asked[..3], ["apart".into(), first.clone(), first.clone()]);
    assert_eq!(asked[3..5], [push(AT + BLOCK, 100), "fence".into()]);
    let twice = [first.clone(), flag.clone(), first, flag];
    assert_eq!(asked[5..], twice, "both, until they are twice the same");
    // The program's flag goes last.
    ram.write(AT, &[7]);
    assert_eq!(fault(AT + BLOCK), Outcome::Retry, "it may be read already");
    ram.write(AT + BLOCK, &[7; 90]);
    s.late().end_late(&ram, &wire).unwrap();
    let sent = [push(AT + BLOCK, 90), push(AT, 1), "fence".into()];
    assert_eq!(said(&wire), sent);
    // Of a few bytes, too, the fewest are taken for the flag.
    for p in [AT, AT + BLOCK, AT] {
        assert_eq!(fault(p), Outcome::Retry);
    }
    said(&wire);
    ram.write(AT, &[7]);
    ram.write(AT + BLOCK, &[7; 5]);
    s.late().end_late(&ram, &wire).unwrap();
    let sent = [push(AT + BLOCK, 5), push(AT, 1), "fence".into()];
    assert_eq!(said(&wire), sent);
}

#[test]
fn what_a_device_writes_all_the_time_is_not_read_for_ever() {
    let (ram, wire, s) = managed();
    lasting_work(&ram, &wire, &s);
    let reads = |still_written: u8| {
        wire.1.set(still_written);
        let fault = s.areas().fault(&ram, &wire, AT, None, Waits::Yes);
        assert_eq!(fault, Outcome::Retry);
        s.late().end_late(&ram, &wire).unwrap();
        wire.1.set(0);
        let asked = said(&wire);
        (
            asked.iter().filter(|a| a.starts_with("read")).count(),
            ram.get(AT),
        )
    };
    // The second one that is as the device leaves it is the same as the one before.
    assert_eq!([reads(0), reads(1), reads(3)], [(2, 9), (3, 9), (5, 9)]);
    assert_eq!(reads(200), (8, 9 + 200 - 7));
}
