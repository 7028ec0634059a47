//! Rules of one piece of shadowed memory.

pub mod ram;

use super::*;
use ram::Ram;

const AT: u64 = 0x10_0000;

#[test]
fn what_the_program_wrote_is_pushed_once_and_then_the_devices_to_give() {
    let ram = Ram::new(AT, 40 * 4096);
    ram.write(AT, &[7]);
    let mut a = Area::new(Sort::Host, AT, 40 * 4096, 0x1000, 1);
    a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
    let mut sent = Vec::new();
    a.push(&ram, |dst, b| {
        sent.push((dst, b.len(), b[0]));
        Ok(())
    })
    .unwrap();
    assert_eq!(sent, [(0x1000, 40 * 4096, 7)]);
    assert!(!a.has_news());
    a.leave_to_device(&ram).unwrap();
    assert!(a.is_on_device(0) && a.is_on_device(2));
    assert_eq!(
        ram.rights.borrow().last(),
        Some(&(AT, 40 * 4096, libc::PROT_NONE))
    );
    let n = a.ahead(0);
    a.arrived(&ram, 0, n).unwrap();
    assert!(!a.is_on_device(0) && !a.has_news());
    a.let_in(&ram, 0, true).unwrap();
    assert!(a.has_news());
}

/// What the program has changed, with the device's addresses.
fn news(a: &mut Area, ram: &Ram) -> Vec<(u64, Vec<u8>)> {
    let news = a.edge_news(ram, |_, _| {});
    news.into_iter().map(|n| (n.dst, n.bytes)).collect()
}

/// The device has changed something.
fn told(a: &mut Area, at: u64, new: &[u8]) -> Vec<Change> {
    let new = new.to_vec();
    a.told(0, &Change { at, new })
}

#[test]
fn an_edge_sends_and_takes_only_what_has_changed() {
    let ram = Ram::new(AT, 3 * 4096);
    let at = AT + 4090;
    let mut a = Area::registered(at, 12, 0x2000, 1);
    a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
    assert!(!a.guarded());
    assert_eq!(news(&mut a, &ram), [(0x2000, vec![0; 12])]);
    ram.write(at + 2, &[5]);
    assert_eq!(news(&mut a, &ram), [(0x2002, vec![5])]);
    a.leave_to_device(&ram).unwrap();
    assert_eq!((a.stale_bytes(), a.must_ask()), (12, true));
    // Written while the device works on its neighbour.
    ram.write(at + 4, &[6]);
    told(&mut a, at + 1, &[8]).iter().for_each(|c| ram.merge(c));
    assert_eq!(ram.bytes(at, 6), [0, 8, 5, 0, 6, 0]);
    assert_eq!(news(&mut a, &ram), [(0x2004, vec![6])]);
}

#[test]
fn a_small_area_is_never_closed() {
    let ram = Ram::new(AT, 4096);
    let mut a = Area::open_wide(Sort::Host, AT, 64, AT, 1);
    a.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
    assert_eq!(told(&mut a, AT, &[1]), [], "the device has nothing yet");
    assert_eq!(news(&mut a, &ram), [(AT, vec![0; 64])]);
    assert!(a.will_be_told(1, AT, 64, Heard::WithAnswers));
    assert_eq!(news(&mut a, &ram), []);
    ram.write(AT + 8, &[2; 4]);
    assert_eq!(news(&mut a, &ram), [(AT + 8, vec![2; 4])]);
    a.leave_to_device(&ram).unwrap();
    assert!(ram.rights.borrow().is_empty() && !a.guards(AT) && a.covers(AT));
    assert_eq!((a.stale_bytes(), a.device_of(AT + 5)), (64, AT + 5));
    assert_eq!((a.told_bytes(), a.must_ask()), (64, false));
    assert!(!a.will_be_told(1, AT + 1, 64, Heard::Watched), "no edge");
}

#[test]
fn numbers_of_which_few_bytes_change_go_before_a_word_that_stands_alone() {
    let mut pieces: Vec<(u64, usize)> = vec![(8, 4)];
    pieces.extend((0..50).map(|i| (4096 + 4 * i, 1)));
    longest_first(&mut pieces, |p| *p);
    assert_eq!((pieces[0], pieces[50]), ((4096, 1), (8, 4)));
}

#[test]
fn an_open_page_stays_open_and_is_not_part_of_what_is_around_it() {
    const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
    let ram = Ram::new(AT, 4 * 4096);
    let mut a = Area::new(Sort::Host, AT, 4 * 4096, AT, 1);
    a.begin_on_host(RW);
    a.push(&ram, |_, _| Ok(())).unwrap();
    a.leave_to_device(&ram).unwrap();
    let page = AT + 4096;
    assert_eq!(a.page_to_open(page + 9), Some(page));
    a.open_page(&ram, page, &[5; 4096]).unwrap();
    assert!(ram.get(page) == 5 && a.reopen(&ram, page + 9) && !a.reopen(&ram, AT));
    assert_eq!(a.pieces(0, 1), [(0, 4096), (8192, 8192)]);
    ram.write(page + 8, &[6]);
    assert_eq!(news(&mut a, &ram), [(page + 8, vec![6])]);
    // The block around it comes home, and goes again.
    a.arrived(&ram, 0, 1).unwrap();
    a.leave_to_device(&ram).unwrap();
    assert_eq!(ram.rights.borrow().last(), Some(&(page, 4096, RW)));
}

#[test]
fn memory_that_the_device_must_not_write_stays_as_it_is() {
    let ram = Ram::new(AT, 4096);
    let mut a = Area::open_wide(Sort::Registered, AT, 8, 0x2000, 1);
    a.begin_on_host(libc::PROT_READ);
    news(&mut a, &ram);
    assert_eq!(told(&mut a, AT, &[9; 8]), []);
    assert_eq!(
        news(&mut a, &ram),
        [(0x2000, vec![0; 8])],
        "nor does it there"
    );
}

#[test]
fn faults_that_go_upwards_move_more_and_more() {
    let mut a = Area::new(Sort::Managed, AT, 16 * 64 * 4096, AT, 1);
    assert_eq!(a.ahead(5), 1);
    assert_eq!(a.ahead(6), 2);
    assert_eq!(a.ahead(8), 4);
    assert_eq!(a.ahead(3), 1);
    a.eager = true;
    assert_eq!(a.ahead(0), 64);
}

#[test]
fn copies_of_a_page_keep_to_its_variables() {
    let mut a = Area::new(Sort::Managed, 0x1000, PAGE, 0x1000, 1);
    a.of_variables();
    a.add_variable(0x1000, 0x1004);
    a.add_variable(0x1200, 0x3000);
    // A module that comes again brings the same ones.
    a.add_variable(0x1000, 0x1004);
    let mut pieces = a.pieces(0, 1);
    pieces.sort_unstable();
    assert_eq!(pieces, [(0, 4), (0x200, 0xe00)]);
}

#[test]
fn what_is_on_its_way_takes_bounded_room_and_is_known_byte_by_byte() {
    const LEN: usize = 64;
    let mut sent = Sent::default();
    // The number under which each byte went last.
    let mut bytes = [0u64; LEN];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize % n
    };
    let mut heard = 0;
    for number in 1..=20_000u64 {
        let from = random(LEN);
        let to = from + random(LEN - from + 1);
        sent.note(number, from..to);
        bytes[from..to].fill(number);
        assert!(sent.0.len() <= LEN, "{}", sent.0.len());
        if random(10) == 0 {
            heard = number - random(20).min(number as usize - heard as usize) as u64;
            sent.heard(heard);
        }
        for (at, last) in bytes.iter().enumerate() {
            assert_eq!(sent.has(at), *last > heard, "byte {at} after {number}");
        }
    }
    sent.heard(20_000);
    assert!(sent.0.is_empty());
}
