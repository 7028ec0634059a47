//! Rules of shadowed memory, on memory of tests and a device that notes what it is asked.

use super::super::area::tests::ram::Ram;
use super::super::area::{Attach, Beside, Evidence, PATIENCE};
use super::*;
use busbar_wire::atomics::Atomic;
use std::cell::{Cell, RefCell};

mod beside;

impl Areas {
    /// How many areas there are.
    pub fn len(&self) -> usize {
        self.areas.len()
    }
}

const AT: u64 = 0x10_0000;
const LEN: u64 = 128 << 10;

/// What was asked, and how many reads long the device goes on writing.
#[derive(Default)]
struct Wire(RefCell<Vec<String>>, Cell<u8>);

impl Far for Wire {
    fn push(&self, context: u32, dst: u64, bytes: &[u8]) -> Result<()> {
        let said = format!("push {context} {dst:#x} {} {}", bytes.len(), bytes[0]);
        self.0.borrow_mut().push(said);
        Ok(())
    }
    fn push_parts(&self, context: u32, changed: &Beside) -> Result<u64> {
        let Beside { dst, bytes, runs } = changed;
        match &runs[..] {
            [r] => self.push(context, dst + r.start as u64, &bytes[r.clone()])?,
            _ => self.0.borrow_mut().push(format!("parts {dst:#x} {runs:?}")),
        }
        Ok(1)
    }
    fn atomic(&self, context: u32, atomic: &Atomic) -> Result<u64> {
        let Atomic { at, operand, .. } = atomic;
        let said = format!("atomic {context} {at:#x} {operand}");
        self.0.borrow_mut().push(said);
        match self.1.get() {
            NO_ATOMICS => Err(CUDA_ERROR_NOT_SUPPORTED),
            n => Ok(n.into()),
        }
    }
    fn apart(&self) -> Result<()> {
        self.0.borrow_mut().push("apart".into());
        Ok(())
    }
    fn fence(&self) -> Result<()> {
        self.0.borrow_mut().push("fence".into());
        Ok(())
    }
    fn read(&self, context: u32, src: u64, to: &mut [u8], older: bool) -> Result<u64> {
        let left = self.1.get();
        self.1.set(left.saturating_sub(1));
        let same = older && to.iter().all(|b| *b == 9 + left);
        to.fill(9 + left);
        let said = format!("read {context} {src:#x} {}", to.len());
        self.0.borrow_mut().push(said);
        Ok(if same { 0 } else { to.len() as u64 })
    }
    fn suspects(&self) -> Suspects {
        Suspects {
            host: (0x77, 1),
            ..Suspects::default()
        }
    }
    fn open(&self, src: u64, len: usize, host: (u64, Heard), to: Option<&mut [u8]>) -> Result<()> {
        if let Some(to) = to {
            to.fill(9);
        }
        let said = format!("open {src:#x} {len} {:#x} {:?}", host.0, host.1);
        self.0.borrow_mut().push(said);
        Ok(())
    }
    fn look(&self, all: bool) -> Result<bool> {
        self.0.borrow_mut().push(format!("look {all}"));
        Ok(false)
    }
}

/// A device that is said to write so often does no atomic operations.
const NO_ATOMICS: u8 = u8::MAX;

/// The thread of a test.
fn me() -> ThreadId {
    std::thread::current().id()
}

/// An access has to wait for work.
fn wait_for(owed: Vec<(u32, u32)>, mark: u64) -> Outcome {
    Outcome::Wait {
        owed,
        mark,
        patience: PATIENCE,
    }
}

/// The worker tells of bytes from an address on, when so much has come of what was sent.
fn tell(s: &Shadows, heard: u64, at: u64, bytes: &[u8]) {
    let m = msg::MemoryTold {
        heard,
        at: vec![at],
        lens: vec![bytes.len() as u32],
        bytes,
    };
    s.told(&m).unwrap();
}

#[test]
fn what_is_not_protected_comes_unasked_until_no_work_is_left() {
    let (ram, wire, s) = (Ram::new(AT, 4096), Wire::default(), Shadows::default());
    s.insert(&ram, Area::open_wide(Sort::Host, AT, 8, AT, 3))
        .unwrap();
    assert!(s.needs_to_hear() && s.begin_watch() && !s.begin_watch());
    for stream in [1, 2] {
        s.areas()
            .work(&ram, &wire, (3, stream), Touch::All)
            .unwrap();
    }
    let opened = format!("open {AT:#x} 8 {AT:#x} WithAnswers");
    let push = format!("push 3 {AT:#x} 8 0");
    assert_eq!(said(&wire), [push, opened, "fence".into()]);
    for (stream, left) in [(1, 1), (2, 0)] {
        tell(&s, 2, AT, &[stream; 8]);
        let mut all = s.due();
        all.over(me(), 3, Some(stream.into()), 2);
        all.hear(&ram, &wire);
        assert_eq!(all.looks().len(), left, "after stream {stream}");
        assert_eq!(ram.get(AT + 7), stream);
    }
    assert!(said(&wire).is_empty(), "nothing was asked");
    // It came from there, and is not news.
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    assert!(said(&wire).is_empty());
}

#[test]
fn of_what_a_function_saw_while_work_ran_only_its_own_bytes_are_sent() {
    let (ram, wire, s) = managed();
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let fault = |waits| s.areas().fault(&ram, &wire, AT + 100, Some(true), waits);
    assert!(matches!(fault(Waits::Yes), Outcome::Wait { .. }));
    assert_eq!(fault(Waits::Never), Outcome::Retry);
    said(&wire);
    ram.write(AT + 100, &[1, 2]);
    ram.write(AT + 5000, &[3]);
    // The program hears of other work: the block is closed, and what it changed has gone.
    s.areas().hear(&ram, &wire);
    let sent = [(AT + 100, 2, 1), (AT + 5000, 1, 3)];
    let sent = sent.map(|(at, n, first)| format!("push 3 {at:#x} {n} {first}"));
    assert_eq!(said(&wire), [&sent[..], &["fence".into()]].concat());
    assert!(
        matches!(fault(Waits::Yes), Outcome::Wait { .. }),
        "it is closed"
    );
    // Once no work is left, all of a block is the program's again.
    s.areas().over(me(), 3, None, u64::MAX);
    assert_eq!(fault(Waits::Yes), Outcome::Retry);
    said(&wire);
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    assert_eq!(
        said(&wire),
        [format!("push 3 {AT:#x} 65536 9"), "fence".into()]
    );
}

#[test]
fn addresses_among_what_is_sent_are_found() {
    let len = 2 * LEN as usize;
    let (ram, wire, s) = (Ram::new(AT, len), Wire::default(), Shadows::default());
    let mut a = Area::new(Sort::Managed, AT, LEN / 2, AT, 3);
    a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
    s.insert(&ram, a).unwrap();
    s.insert(&ram, Area::open_wide(Sort::Host, AT + LEN, 64, AT + LEN, 3))
        .unwrap();
    ram.write(AT + 4096, &[0x77]);
    ram.write(AT + LEN + 9, &[0x77]);
    let work = || s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    work();
    assert_eq!(s.areas().take_found(), [0x77], "at a multiple of its size");
    // Of the word only one byte is new.
    ram.write(AT + LEN + 16, &[0x78]);
    work();
    ram.write(AT + LEN + 16, &[0x77]);
    work();
    assert_eq!(s.areas().take_found(), [0x77]);
    work();
    assert!(s.areas().take_found().is_empty());
}

#[test]
fn words_that_stand_alone_go_behind_longer_pieces() {
    let (ram, wire, s) = (Ram::new(AT, 8192), Wire::default(), Shadows::default());
    for at in [AT, AT + 4096] {
        s.insert(&ram, Area::open_wide(Sort::Host, at, 64, at, 3))
            .unwrap();
    }
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    said(&wire);
    ram.write(AT, &[1; 4]);
    ram.write(AT + 4096, &[2; 32]);
    s.areas().push_edges(&ram, &wire).unwrap();
    let (flag, data) = (format!("push 3 {AT:#x} 4 1"), AT + 4096);
    let data = format!("push 3 {data:#x} 32 2");
    assert_eq!(said(&wire), [data, flag, "fence".into()]);
}

#[test]
fn a_page_that_the_program_touches_while_work_runs_is_opened_and_watched() {
    let (ram, wire, s) = named(Evidence::Sure);
    let fault = |p| s.areas().fault(&ram, &wire, p, None, Waits::Yes);
    for i in 0..16 {
        assert_eq!(fault(AT + i * 4096 + 5), Outcome::Retry);
        assert_eq!(
            fault(AT + i * 4096 + 6),
            Outcome::Retry,
            "it is open already"
        );
    }
    let opened = said(&wire);
    assert_eq!(opened.len(), 16);
    assert!(opened.iter().all(|o| o.ends_with("WithAnswers")));
    assert_eq!(ram.get(AT + 4096), 9);
    let (owed, mark) = (vec![(3, 1)], 1);
    assert_eq!(fault(AT + 16 * 4096), wait_for(owed, mark));
    assert!(s.areas().has_open());
    assert_eq!(s.due().looks(), [(AT, 16 * 4096)]);
}

#[test]
fn what_the_worker_told_before_a_push_came_does_not_undo_it() {
    let (ram, wire, s) = (Ram::new(AT, 4096), Wire::default(), Shadows::default());
    s.insert(&ram, Area::open_wide(Sort::Host, AT, 8, AT, 3))
        .unwrap();
    // A number for the bytes, and one for the word that they are open.
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    ram.write(AT, &[5]);
    assert_eq!(s.areas().push_edges(&ram, &wire), Ok(true));
    let arrive = |heard, at, bytes: &[u8]| {
        tell(&s, heard, at, bytes);
        s.areas().arrive(&ram)
    };
    let now = || (0..4).map(|i| ram.get(AT + i)).collect::<Vec<_>>();
    assert!(!arrive(0, AT, &[9; 8]), "of what was here before");
    assert!(arrive(2, AT, &[1, 1, 0]), "the program's byte is newer");
    assert_eq!(now(), [5, 1, 0, 0]);
    assert!(arrive(3, AT, &[6]));
    assert_eq!(now(), [6, 1, 0, 0]);
    // Another push of the same byte covers the first.
    ram.write(AT, &[7, 7]);
    s.areas().push_edges(&ram, &wire).unwrap();
    ram.write(AT, &[8, 8]);
    s.areas().push_edges(&ram, &wire).unwrap();
    assert!(!arrive(4, AT, &[1, 1]) && arrive(5, AT, &[2, 2]));
    assert_eq!(now(), [2, 2, 0, 0]);
    // What came is not news, and what was written beside it is.
    said(&wire);
    ram.write(AT + 2, &[3]);
    assert!(arrive(5, AT + 3, &[4]));
    s.areas().push_edges(&ram, &wire).unwrap();
    let p = AT + 2;
    assert_eq!(said(&wire), [format!("push 3 {p:#x} 1 3"), "fence".into()]);
    assert!(!arrive(9, AT + 6, &[1; 3]), "beyond what is open");
    assert!(!arrive(9, AT + 4096, &[1]) && !arrive(9, 0, &[1]));
}

#[test]
fn what_is_too_much_to_compare_for_every_answer_is_asked_for() {
    const N: u64 = 40;
    let size = 4096 * N;
    let (ram, wire, s) = (
        Ram::new(AT, size as usize),
        Wire::default(),
        Shadows::default(),
    );
    let small = |i| Area::open_wide(Sort::Host, AT + i * 4096, 4096, AT + i * 4096, 3);
    for i in 0..N {
        s.insert(&ram, small(i)).unwrap();
    }
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let opened = |how: &str| said(&wire).iter().filter(|w| w.ends_with(how)).count();
    assert_eq!(opened("WithAnswers"), MOST_TOLD / 4096);
    let hear = || s.areas().hear(&ram, &wire);
    hear();
    assert_eq!(said(&wire), ["look true"]);
    // There is room again.
    for i in 0..N {
        s.forget_host(&ram, AT + i * 4096);
    }
    s.insert(&ram, small(0)).unwrap();
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    assert_eq!(opened("WithAnswers"), 1);
    hear();
    assert!(said(&wire).is_empty());
}

#[test]
fn a_server_that_tells_without_end_is_found_out() {
    let s = Shadows::default();
    let bytes = vec![1; 1 << 20];
    let told = (0..300).map(|_| {
        s.told(&msg::MemoryTold {
            heard: 0,
            at: vec![AT],
            lens: vec![1 << 20],
            bytes: &bytes,
        })
    });
    assert!(told.filter(Result::is_err).count() > 0);
    // Lengths that do not fit are of nothing.
    let s = Shadows::default();
    let odd = msg::MemoryTold {
        heard: 0,
        at: vec![AT; 2],
        lens: vec![u32::MAX, 1],
        bytes: &[1],
    };
    s.told(&odd).unwrap();
    assert!(!s.areas().arrive(&Ram::new(AT, 8)));
}

fn said(w: &Wire) -> Vec<String> {
    std::mem::take(&mut w.0.borrow_mut())
}

fn managed() -> (Ram, Wire, Shadows) {
    let (ram, wire, s) = (
        Ram::new(AT, LEN as usize),
        Wire::default(),
        Shadows::default(),
    );
    s.insert(&ram, Area::new(Sort::Managed, AT, LEN, AT, 3))
        .unwrap();
    (ram, wire, s)
}

#[test]
fn what_the_program_writes_goes_ahead_of_work_and_comes_back_after_it() {
    let (ram, wire, s) = managed();
    assert!(s.active());
    let fault = |waits| s.areas().fault(&ram, &wire, AT + 5, Some(true), waits);
    assert_eq!(fault(Waits::Yes), Outcome::Retry);
    ram.write(AT, &[7]);
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    assert_eq!(
        said(&wire),
        [format!("push 3 {AT:#x} 131072 7"), "fence".into()]
    );
    let (owed, mark) = (vec![(3, 1)], 1);
    assert_eq!(fault(Waits::Yes), wait_for(owed, mark));
    s.areas().over(me(), 3, Some(2), mark);
    assert_ne!(fault(Waits::Yes), Outcome::Retry, "another stream");
    s.areas().over(me(), 3, Some(1), mark);
    assert_eq!(fault(Waits::Yes), Outcome::Retry);
    assert_eq!(said(&wire), [format!("read 3 {AT:#x} 65536")]);
    assert_eq!(ram.get(AT), 9);
    // Written, so that it is pushed again.
    s.areas().work(&ram, &wire, (3, 1), Touch::Nothing).unwrap();
    assert_eq!(said(&wire).len(), 2);
}

/// Page-locked memory that a launch has the address of, or seems to.
fn named(e: Evidence) -> (Ram, Wire, Shadows) {
    let (ram, wire, s) = (
        Ram::new(AT, LEN as usize),
        Wire::default(),
        Shadows::default(),
    );
    let mut a = Area::new(Sort::Host, AT, LEN, AT, 3);
    a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
    a.is_named(e);
    s.insert(&ram, a).unwrap();
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    said(&wire);
    (ram, wire, s)
}

#[test]
fn what_was_named_by_mistake_is_given_up_once_copies_alone_use_it() {
    let (ram, wire, s) = named(Evidence::Passing);
    ram.write(AT, &[9; LEN as usize]);
    let copied = |n| (0..n).find_map(|_| s.copied(AT + 70, false));
    assert_eq!(copied(4), None);
    assert_eq!(
        s.named(AT + 1, Evidence::Passing),
        Some(AT + 1),
        "it is named again"
    );
    assert_eq!(copied(4), None);
    assert_eq!(copied(1), None, "work is under way");
    s.areas().over(me(), 3, Some(1), u64::MAX);
    assert_eq!(copied(1), Some(AT));
    // A launch that names it at this moment comes first.
    s.named(AT, Evidence::Passing);
    assert_eq!(s.give_up(&ram, &wire, AT), None);
    assert_eq!(copied(5), Some(AT));
    let left = s.give_up(&ram, &wire, AT).unwrap();
    assert!(left.start == AT && left.over && !s.active());
    let rights = ram.rights.borrow().last().copied();
    assert_eq!(rights, Some((AT, LEN, libc::PROT_READ | libc::PROT_WRITE)));
}

#[test]
fn what_is_meant_or_lies_in_a_graph_is_never_given_up() {
    for (first, then, in_graph) in [
        (Evidence::Sure, Evidence::Passing, false),
        (Evidence::Passing, Evidence::Sure, false),
        (Evidence::Lasting, Evidence::Passing, false),
        (Evidence::Passing, Evidence::Passing, true),
    ] {
        let (_, _, s) = named(first);
        s.named(AT, then);
        s.copied(AT, in_graph);
        s.areas().over(me(), 3, None, u64::MAX);
        assert!((0..20).all(|_| s.copied(AT, false).is_none()));
    }
}

#[test]
fn nobody_waits_for_work_because_memory_was_named_by_mistake() {
    let (ram, wire, s) = named(Evidence::Passing);
    let fault = |p| s.areas().fault(&ram, &wire, p, Some(true), Waits::Yes);
    // Some pages are open from the first access on: a program may talk to a kernel by them.
    for page in 0..16 {
        assert_eq!(fault(AT + page * 4096), Outcome::Retry);
        assert_eq!(said(&wire).len(), 1);
    }
    assert_eq!(fault(AT + 16 * 4096), Outcome::Retry);
    let read = format!("read 3 {:#x} 65536", AT + (64 << 10));
    assert_eq!(said(&wire), [read]);
    // What it writes there is all that is sent.
    ram.write(AT + (64 << 10) + 3, &[5, 6]);
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let push = format!("push 3 {:#x} 2 5", AT + (64 << 10) + 3);
    assert_eq!(said(&wire), [push, "fence".into()]);
}

#[test]
fn what_is_in_doubt_is_closed_by_work_that_may_have_its_address_alone() {
    let (ram, wire, s) = named(Evidence::Passing);
    let work = |stream, touch| s.areas().work(&ram, &wire, (3, stream), touch).unwrap();
    let closed = || s.areas().at(AT).unwrap().is_on_device(0);
    let fault = || s.areas().fault(&ram, &wire, AT, Some(true), Waits::Yes);
    let images = || s.areas().at(AT).unwrap().has_images();
    assert!(closed());
    // Work that was queued later may not write it, and is not waited for.
    work(2, Touch::At(&[AT - 1, AT + LEN]));
    s.areas().over(me(), 3, Some(1), 1);
    assert_eq!(fault(), Outcome::Retry);
    assert!(!images() && !closed());
    said(&wire);
    // What the program writes goes ahead of all work all the same.
    ram.write(AT, &[4]);
    work(2, Touch::At(&[]));
    assert_eq!(said(&wire).len(), 2);
    assert!(!closed());
    for touch in [Touch::At(&[AT + 5]), Touch::All] {
        work(2, touch);
        assert!(closed());
        work(1, Touch::At(&[]));
        s.areas().over(me(), 3, Some(1), u64::MAX);
        assert!(closed(), "the other stream may write it");
        s.areas().over(me(), 3, Some(2), u64::MAX);
        assert_eq!(fault(), Outcome::Retry);
        assert!(!images() && !closed());
    }
    // What is meant is closed by all.
    s.named(AT, Evidence::Sure);
    work(1, Touch::At(&[]));
    assert!(closed());
}

#[test]
fn what_has_changed_all_over_is_not_compared_for_a_while() {
    // What kernels use for sure has changed, as a rule.
    for (evidence, has, compared) in [
        (Evidence::Passing, 0, false),
        (Evidence::Passing, 9, true),
        (Evidence::Sure, 9, false),
    ] {
        let (ram, wire, s) = named(evidence);
        ram.write(AT, &[has; LEN as usize]);
        s.areas().over(me(), 3, None, u64::MAX);
        let compares = || s.areas().at(AT).unwrap().compares();
        // It reads nines.
        let fault = s.areas().fault(&ram, &wire, AT, Some(false), Waits::Yes);
        assert_eq!(fault, Outcome::Retry);
        let after: Vec<bool> = (0..15).map(|_| compares()).collect();
        assert_eq!(after[0], compared, "{evidence:?}, {has}");
        assert!(compares(), "once in a while it is tried");
    }
}

#[test]
fn a_function_in_stream_order_does_not_wait_for_itself() {
    let (ram, wire, s) = managed();
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let got = s.areas().fault(&ram, &wire, AT, Some(false), Waits::Never);
    assert_eq!(got, Outcome::Retry);
    assert_eq!(said(&wire), [format!("read 3 {AT:#x} 131072")]);
}

#[test]
fn of_memory_of_one_stream_no_other_is_waited_for() {
    let (ram, wire, s) = managed();
    s.areas().each(AT, 1, |a| a.attach = Attach::Single(5));
    s.areas().work(&ram, &wire, (3, 4), Touch::All).unwrap();
    let fault = || s.areas().fault(&ram, &wire, AT, Some(true), Waits::Yes);
    assert_eq!(fault(), Outcome::Retry);
    let was_early = |all: &mut Areas| all.at(AT).unwrap().has_images();
    assert!(was_early(&mut s.areas()), "the other may write it");
    ram.write(AT + 8, b"x");
    said(&wire);
    s.areas().work(&ram, &wire, (3, 5), Touch::All).unwrap();
    assert_eq!(said(&wire)[0], format!("push 3 {:#x} 1 120", AT + 8));
    let (owed, mark) = (vec![(3, 5)], 2);
    assert_eq!(fault(), wait_for(owed, mark));
}

#[test]
fn what_was_seen_ahead_of_work_is_fetched_again_once_it_was_sent() {
    let (ram, wire, s) = managed();
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let fault = || s.areas().fault(&ram, &wire, AT, Some(true), Waits::Never);
    assert_eq!(fault(), Outcome::Retry);
    ram.write(AT + 8, b"x");
    said(&wire);
    // The device need not write for it to be old.
    s.areas().push(&ram, &wire, false).unwrap();
    let sent = format!("push 3 {:#x} 1 120", AT + 8);
    assert_eq!(said(&wire), [sent, "fence".to_string()]);
    assert_eq!(fault(), Outcome::Retry);
    assert!(said(&wire)[0].starts_with("read 3 "));
    assert!(s.areas().at(AT).unwrap().has_images());
}

#[test]
fn nothing_is_left_of_a_context_that_is_gone() {
    let (ram, wire, s) = managed();
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    s.forget_context(&ram, 4);
    assert!(s.active());
    s.forget_context(&ram, 3);
    assert!(!s.active() && s.areas().len() == 0 && s.areas().pending.is_empty());
    assert_eq!(
        s.areas().fault(&ram, &wire, AT, None, Waits::Yes),
        Outcome::Refuse
    );
}

fn left(context: u32, start: u64, over: bool) -> Left {
    Left {
        context,
        start,
        over,
    }
}

#[test]
fn freed_memory_is_not_used_by_work_that_was_there_before_it() {
    let (ram, wire, s) = (Ram::new(AT, 8192), Wire::default(), Shadows::default());
    let work = |stream| {
        s.areas()
            .work(&ram, &wire, (3, stream), Touch::All)
            .unwrap()
    };
    let make = |at| {
        s.insert(&ram, Area::open_wide(Sort::Host, at, 8, at, 3))
            .unwrap();
    };
    let free = |at| s.forget_host(&ram, at);
    make(AT);
    work(1);
    // Of this stream nobody waits.
    make(AT + 4096);
    assert_eq!(free(AT + 4096), Some(left(3, AT + 4096, true)));
    make(AT + 4096);
    work(2);
    assert_eq!(free(AT + 4096), Some(left(3, AT + 4096, false)));
    make(AT + 4096);
    work(2);
    let mark = s.mark();
    s.areas().over(me(), 3, Some(2), mark);
    assert_eq!(free(AT + 4096), Some(left(3, AT + 4096, true)));
    // Unless that work can find its address in memory.
    make(AT + 4096);
    s.reaches_running_work(AT + 4096);
    assert_eq!(free(AT + 4096), Some(left(3, AT + 4096, false)));
    assert_eq!(free(AT), Some(left(3, AT, false)));
    make(AT);
    s.streams_will_wait();
    assert_eq!(free(AT), Some(left(3, AT, false)));
}

#[test]
fn registered_memory_comes_home_before_it_is_forgotten() {
    let (ram, wire, s) = (
        Ram::new(AT, LEN as usize),
        Wire::default(),
        Shadows::default(),
    );
    let mut a = Area::registered(AT + 8, LEN - 16, 0x9_0008, 2);
    a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
    s.insert(&ram, a).unwrap();
    s.areas().work(&ram, &wire, (2, 0), Touch::All).unwrap();
    said(&wire);
    let waited = RefCell::new(Vec::new());
    let wait = |owed: &[(u32, u32)], mark| {
        waited.borrow_mut().extend_from_slice(owed);
        tell(&s, 9, AT + 8, &[9; 8]);
        tell(&s, 9, AT + LEN - 16, &[9; 8]);
        s.areas().over(me(), 2, None, mark);
        Ok(())
    };
    let window = s.forget_registered(&ram, &wire, AT + 8, wait);
    assert_eq!(
        (window, &waited.borrow()[..]),
        (Some(left(2, 0x9_0008, true)), &[(2, 0)][..])
    );
    let reads = said(&wire);
    assert!(!reads.is_empty() && reads.iter().all(|r| r.starts_with("read 2 ")));
    assert_eq!(
        [AT + 8, AT + 5000, AT + LEN - 9].map(|p| ram.get(p)),
        [9; 3]
    );
    assert_eq!([AT + 7, AT + LEN - 8].map(|p| ram.get(p)), [0; 2]);
    assert!(!s.active());
}

#[test]
fn work_looks_only_at_what_it_has_something_to_do_with() {
    const MANY: u64 = 5000;
    let len = 4096;
    let (ram, wire, s) = (
        Ram::new(AT, MANY as usize * len),
        Wire::default(),
        Shadows::default(),
    );
    for i in 0..MANY {
        let at = AT + i * len as u64;
        let mut a = Area::new(Sort::Host, at, len as u64, at, 3);
        a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
        s.insert(&ram, a).unwrap();
    }
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    assert_eq!(said(&wire).len() as u64, MANY + 1);
    assert!(s.areas().lively.is_empty());
    // What the program touches is looked at again.
    s.areas().over(me(), 3, None, 1);
    let p = AT + 77 * len as u64;
    let fault = s.areas().fault(&ram, &wire, p, Some(true), Waits::Yes);
    assert_eq!((fault, s.areas().lively.len()), (Outcome::Retry, 1));
    said(&wire);
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let sent = [format!("push 3 {p:#x} {len} 9"), "fence".into()];
    assert_eq!(said(&wire), sent);
    assert!(s.areas().lively.is_empty());
}

#[test]
fn what_others_see_is_compared_and_fetched_and_not_watched() {
    let len = 2 * LEN;
    let (ram, wire, s) = (
        Ram::new(AT, len as usize),
        Wire::default(),
        Shadows::default(),
    );
    let mut a = Area::open_wide(Sort::Registered, AT, len, AT, 3);
    a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
    s.insert(&ram, a).unwrap();
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    assert_eq!(said(&wire).len(), 9, "in pieces, and a fence");
    assert!(s.areas().looks().is_empty() && ram.rights.borrow().is_empty());
    s.areas().over(me(), 3, None, 1);
    tell(&s, 8, AT, &[9]);
    tell(&s, 8, AT + len - 1, &[9]);
    s.areas().hear(&ram, &wire);
    assert_eq!(said(&wire), ["look true"]);
    assert_eq!([AT, AT + len - 1].map(|p| ram.get(p)), [9, 9]);
    // No work is under way: what has changed travels as one piece, with what lies between.
    ram.write(AT + LEN, &[1]);
    ram.write(AT + LEN + 900, &[1]);
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    let p = AT + LEN;
    assert_eq!(
        said(&wire),
        [format!("push 3 {p:#x} 901 1"), "fence".into()]
    );
    // Now the device may be writing.
    ram.write(AT + LEN, &[2]);
    ram.write(AT + LEN + 900, &[2]);
    s.areas().work(&ram, &wire, (3, 1), Touch::All).unwrap();
    assert_eq!(said(&wire).len(), 3);
}

#[test]
fn of_many_words_those_are_found_that_may_be_addresses() {
    let s = Suspects {
        host: (0x1000, 0x100),
        registered: (0x9000, 8),
    };
    let all: Vec<u64> = (0..1000u64)
        .map(|i| match i {
            3 => 0x10ff,
            300 => 0x9007,
            301 => 0x9008,
            999 => 0x1000,
            _ => i * 2,
        })
        .filter(|w| !(0x1000..0x1100).contains(w) || *w == 0x10ff || *w == 0x1000)
        .collect();
    let bytes: Vec<u8> = all.iter().flat_map(|w| w.to_le_bytes()).collect();
    let found: Vec<u64> = s.among(words(0, &bytes)).collect();
    assert_eq!(found, [0x10ff, 0x9007, 0x1000]);
    // Words lie where the device has them: behind three bytes that end another one.
    let shifted: Vec<u8> = [&[1, 2, 3], &bytes[..]].concat();
    assert_eq!(s.among(words(5, &shifted)).count(), 3);
    assert_eq!(Suspects::default().among(words(0, &bytes)).count(), 0);
}
