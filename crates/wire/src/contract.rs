//! Tests of what is agreed on beside the messages; see `generated/cuda/contract.rs`.

use crate::generated::cuda::contract::{
    DEVICES, GRANULE, HOST, MANAGED, RANGE, RESERVED, SHARED, STARTS, WINDOW, number, span,
};

/// Where Linux puts a program that may lie anywhere, and its heap behind it.
const PROGRAM: std::ops::Range<u64> = 0x5555_0000_0000..0x5700_0000_0000;

#[test]
fn a_server_with_64_devices_has_room() {
    assert_eq!(DEVICES.len(), 64);
    assert_eq!(STARTS.len(), 64 + RESERVED.len() + 4);
}

#[test]
fn every_range_is_whole_and_its_own() {
    for n in 0..STARTS.len() as u32 {
        let addresses = span(n);
        assert_eq!(addresses.end - addresses.start, RANGE);
        assert!(addresses.start.is_multiple_of(GRANULE));
        for other in 0..n {
            let other = span(other);
            assert!(other.end <= addresses.start || addresses.end <= other.start);
        }
        assert_eq!(number(addresses.start), Some(n));
        assert_eq!(number(addresses.end - 1), Some(n));
    }
}

#[test]
fn what_is_nobodys_is_in_no_range() {
    let theirs = [
        0,
        0x5400_0000_0000,
        0x5555_5555_4000,
        0x7fff_ffff_f000,
        u64::MAX,
    ];
    for address in theirs {
        assert_eq!(number(address), None, "{address:#x}");
    }
}

/// The driver was seen to honour wishes in these stretches; the first 16 devices, reservations and
/// what the program has mapped as well lie in the first of them.
#[test]
fn addresses_are_where_the_driver_puts_what_is_wished_there() {
    let measured = 0x3000_0000_0000..0x5400_0000_0000;
    let often = (0..16)
        .chain(RESERVED)
        .chain([MANAGED, HOST, WINDOW, SHARED]);
    for n in often {
        assert!(measured.contains(&span(n).start) && span(n).end <= measured.end);
    }
    // It moved what was wished at 1 TiB.
    for n in 0..STARTS.len() as u32 {
        assert!(span(n).start >= 0x1000_0000_0000 && span(n).end <= 0x7000_0000_0000);
    }
}

#[test]
fn a_program_is_not_in_a_range() {
    for n in 0..STARTS.len() as u32 {
        assert!(span(n).end <= PROGRAM.start || PROGRAM.end <= span(n).start);
    }
}

#[test]
fn what_all_devices_may_use_has_the_last_numbers() {
    let last = [MANAGED, HOST, WINDOW, SHARED];
    assert!(
        last.iter()
            .all(|n| !DEVICES.contains(n) && !RESERVED.contains(n))
    );
    assert!(last.into_iter().min() >= Some(DEVICES.end.max(RESERVED.end)));
}
