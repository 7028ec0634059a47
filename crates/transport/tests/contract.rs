//! What every transport must do, over each of them.

use busbar_transport::fault::Fault;
use busbar_transport::tcp::Address;
use busbar_transport::{Acceptor, Alarm, Connection, Dialer, mem};
use std::io::{ErrorKind, IoSlice};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(10);

/// A dialer that wraps what it dials in a fault that never comes, but for short receives.
struct Halting<D>(D);

impl<D: Dialer> Dialer for Halting<D> {
    fn dial(&self, limit: Duration) -> std::io::Result<Arc<dyn Connection>> {
        Ok(Arc::new(Fault::new(self.0.dial(limit)?, -1)))
    }

    fn peer(&self) -> String {
        self.0.peer()
    }
}

fn each(test: impl Fn(&dyn Dialer, &dyn Acceptor)) {
    let listen = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = Address::new(&listener.local_addr().unwrap().to_string());
        (at, listener)
    };
    let (dialer, acceptor) = listen();
    test(&dialer, &acceptor);
    let (dialer, acceptor) = listen();
    test(&Halting(dialer), &acceptor);
    let (dialer, acceptor) = mem::address();
    test(&dialer, &acceptor);
    let (dialer, acceptor) = mem::address();
    test(&Halting(dialer), &acceptor);
}

#[test]
fn bytes_arrive_in_order_both_ways() {
    each(|dialer, acceptor| {
        let a = dialer.dial(LONG).unwrap();
        let b = acceptor.accept(LONG).unwrap();
        for (from, to) in [(&a, &b), (&b, &a)] {
            let bytes: Vec<u8> = (0..200_000u32).map(|i| (i / 7) as u8).collect();
            let (x, y) = bytes.split_at(77);
            std::thread::scope(|s| {
                s.spawn(|| {
                    let parts = &mut [IoSlice::new(x), IoSlice::new(&[]), IoSlice::new(y)];
                    from.send(parts).unwrap();
                });
                let mut got = vec![0; bytes.len()];
                to.recv_exact(&mut got).unwrap();
                assert!(got == bytes);
            });
        }
        assert!(!a.peer().is_empty() && !dialer.peer().is_empty());
    });
}

#[test]
fn nobody_dials_for_as_long_as_was_said() {
    each(|_, acceptor| {
        let e = acceptor.accept(SHORT).err().expect("nobody has dialed");
        assert_eq!(e.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn a_wait_ends_with_bytes_or_with_an_alarm() {
    each(|dialer, acceptor| {
        let a = dialer.dial(LONG).unwrap();
        let b = acceptor.accept(LONG).unwrap();
        let alarm = Alarm::new().unwrap();
        alarm.ring();
        a.wait(Some(alarm.as_fd()), None).unwrap();
        alarm.silence();
        b.send(&mut [IoSlice::new(b"x")]).unwrap();
        assert!(a.wait(Some(alarm.as_fd()), None).unwrap());
        assert!(a.wait(None, Some(LONG)).unwrap());
        assert_eq!(a.recv(&mut [0; 8]).unwrap(), 1);
    });
}

#[test]
fn a_shutdown_ends_it_for_both() {
    each(|dialer, acceptor| {
        let a = dialer.dial(LONG).unwrap();
        let b = acceptor.accept(LONG).unwrap();
        std::thread::scope(|s| {
            let waits = s.spawn(|| a.recv(&mut [0; 8]));
            let peer = s.spawn(|| b.recv(&mut [0; 8]));
            a.shutdown();
            assert!(matches!(waits.join().unwrap(), Ok(0) | Err(_)));
            assert!(matches!(peer.join().unwrap(), Ok(0) | Err(_)));
        });
        assert!(a.send(&mut [IoSlice::new(b"x")]).is_err());
    });
}
