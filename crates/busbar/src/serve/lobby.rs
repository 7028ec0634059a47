//! Connections whose first words are not there yet. The thread that takes clients keeps all of
//! them: each costs a descriptor, and no thread before there is something for it to do. That is
//! when the first record of TLS, or the whole hello of a client in clear, has come.
//!
//! There is a most of them, and each has a deadline. When there are too many, one of the network
//! that has the most of them makes room. Some there have said nothing yet, others only the
//! beginning of something: of these two kinds it is the one that has more, and of that the one that
//! has been here longest. So whoever keeps connections open only to hold places loses those, and
//! not others', and not those of a client of the same network that takes a moment to speak, or to
//! end: it is of the other kind than a flood, whichever that is.

use super::refusals::Network;
use busbar_transport::tls::begins_with_tls;
use busbar_transport::{Readiness, tcp};
use busbar_wire::frame::{self, Header, Kind};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long a stranger may take to say hello, from its connection to the last byte.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// The most that wait.
const MOST: usize = 512;
/// A record of TLS begins with its type, its version and its length.
const TLS_HEAD: usize = 5;
/// What is longer gets its thread when so much of it is there.
const ENOUGH: usize = 16 << 10;

/// How many bytes make the first words whole, as far as the beginning of them tells: more than it
/// has while they are not.
fn wanted(first: &[u8]) -> usize {
    let rest = |head: usize, len: usize| head + len.min(ENOUGH);
    match first {
        [] => 1,
        _ if begins_with_tls(first) => match first {
            [_, _, _, a, b, ..] => rest(TLS_HEAD, usize::from(u16::from_be_bytes([*a, *b]))),
            _ => TLS_HEAD,
        },
        // What cannot be a hello is refused without delay.
        [_, _, _, _, kind, ..] if *kind != Kind::Hello as u8 => first.len(),
        _ => match first.first_chunk().map(Header::parse) {
            None => frame::HEADER,
            Some(Ok(h)) => rest(frame::HEADER, h.len as usize),
            Some(Err(_)) => first.len(),
        },
    }
}

struct Waiting {
    stream: TcpStream,
    network: Network,
    until: Instant,
    /// From how many bytes on it is looked at again: more than one if it has said something.
    wants: usize,
}

impl Waiting {
    /// Whether it has come, and no byte of it.
    fn is_silent(&self) -> bool {
        !matches!(tcp::peek_now(&self.stream, &mut [0]), Ok(1..))
    }
}

/// What there is to do about somebody.
enum Next {
    /// Its first words are there.
    Serve,
    /// It is looked at again from so many bytes on.
    Wait(usize),
    /// It has gone.
    Forget,
}

/// Looks at what somebody has said; `before` is from how many bytes on it was to be looked at.
fn look(stream: &TcpStream, before: usize) -> Next {
    let mut first = [0; frame::HEADER];
    let there = match tcp::peek_now(stream, &mut first) {
        Ok(0) => return Next::Forget,
        Ok(n) => n,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
        Err(_) => return Next::Forget,
    };
    let wanted = wanted(&first[..there]);
    if wanted <= there || wanted <= tcp::unread(stream) {
        return Next::Serve;
    }
    // The system may call for less than was asked for: where it has no room for that, or at the
    // end of what comes. Both are for a thread to deal with.
    match wanted > before {
        true => Next::Wait(wanted),
        false => Next::Serve,
    }
}

/// Those of one network.
#[derive(Default)]
struct Crowd {
    /// Of whom no byte was seen yet.
    silent: BTreeSet<u64>,
    /// Who have said the beginning of something.
    begun: BTreeSet<u64>,
}

impl Crowd {
    /// By this the one that makes room is the last: the largest, of those the one that has been
    /// here longest.
    fn rank(&self) -> Option<(usize, Reverse<u64>)> {
        let oldest = [&self.silent, &self.begun]
            .into_iter()
            .filter_map(|s| s.first());
        Some((
            self.silent.len() + self.begun.len(),
            Reverse(*oldest.min()?),
        ))
    }
}

/// Those that wait. Whoever comes while it is full costs no look at all of them: a flood is let in
/// as fast as the system has it, or the system drops others' connections for it.
pub(super) struct Lobby {
    readiness: Readiness,
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    networks: HashMap<Network, Crowd>,
    /// The networks by rank; the second number is one of theirs.
    ranks: BTreeSet<(usize, Reverse<u64>)>,
}

/// Somebody who has spoken, and by when all must be said.
pub(super) type Speaker = (TcpStream, Instant);

impl Lobby {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            readiness: Readiness::new()?,
            next: 0,
            waiting: BTreeMap::new(),
            networks: HashMap::new(),
            ranks: BTreeSet::new(),
        })
    }

    /// Changes what is known of a network.
    fn change(&mut self, network: Network, change: impl FnOnce(&mut Crowd)) {
        let crowd = self.networks.entry(network).or_default();
        let before = crowd.rank();
        change(crowd);
        let after = crowd.rank();
        if before != after {
            before.map(|r| self.ranks.remove(&r));
            self.ranks.extend(after);
        }
        if after.is_none() {
            self.networks.remove(&network);
        }
    }

    /// For how long nothing happens here unless this can be read: [`AsFd`].
    pub(super) fn quiet_for(&self) -> Option<Duration> {
        let (_, first) = self.waiting.first_key_value()?;
        Some(first.until.saturating_duration_since(Instant::now()))
    }

    /// Takes somebody in; gives back one who has spoken already.
    pub(super) fn enter(
        &mut self,
        stream: TcpStream,
        from: SocketAddr,
    ) -> io::Result<Option<Speaker>> {
        self.enter_from(stream, Network::of(from.ip()))
    }

    fn enter_from(&mut self, stream: TcpStream, network: Network) -> io::Result<Option<Speaker>> {
        let until = Instant::now() + HELLO_TIME;
        let wants = match look(&stream, 0) {
            Next::Serve => return Ok(Some((stream, until))),
            Next::Forget => return Ok(None),
            Next::Wait(wants) => wants,
        };
        while self.waiting.len() >= MOST {
            self.make_room();
        }
        if wants > 1 {
            tcp::readable_from(&stream, wants)?;
        }
        self.readiness.add(stream.as_fd(), self.next)?;
        let somebody = Waiting {
            stream,
            network,
            until,
            wants,
        };
        let number = self.next;
        self.waiting.insert(number, somebody);
        self.change(network, |crowd| {
            let kind = match wants {
                1 => &mut crowd.silent,
                _ => &mut crowd.begun,
            };
            kind.insert(number);
        });
        self.next += 1;
        Ok(None)
    }

    /// Those who have spoken since. Who has not in time goes.
    pub(super) fn spoken(&mut self) -> Vec<Speaker> {
        let mut speakers = Vec::new();
        for number in self.readiness.now() {
            let Some(w) = self.waiting.get_mut(&number) else {
                continue;
            };
            match look(&w.stream, w.wants) {
                Next::Wait(wants) if tcp::readable_from(&w.stream, wants).is_ok() => {
                    w.wants = wants;
                    let network = w.network;
                    self.change(network, |crowd| {
                        crowd.silent.remove(&number);
                        crowd.begun.insert(number);
                    });
                }
                Next::Serve => speakers.extend(self.leave(number)),
                _ => drop(self.leave(number)),
            }
        }
        let now = Instant::now();
        while let Some((number, w)) = self.waiting.first_key_value()
            && w.until <= now
        {
            let number = *number;
            self.leave(number);
        }
        speakers
    }

    /// One goes; whether there was one.
    pub(super) fn make_room(&mut self) -> bool {
        self.who_goes().is_some_and(|n| self.leave(n).is_some())
    }

    /// Who makes room for the next.
    fn who_goes(&self) -> Option<u64> {
        let (_, Reverse(oldest)) = *self.ranks.last()?;
        let crowd = &self.networks[&self.waiting[&oldest].network];
        // What one has said a moment ago may not have been looked at yet.
        let mut silent = crowd.silent.iter();
        let silent = silent.find(|n| self.waiting[*n].is_silent()).copied();
        let begun = crowd.begun.first().copied();
        let (first, second) = match crowd.silent.len() > crowd.begun.len() {
            true => (silent, begun),
            false => (begun, silent),
        };
        first.or(second).or(Some(oldest))
    }

    fn leave(&mut self, number: u64) -> Option<Speaker> {
        let w = self.waiting.remove(&number)?;
        self.change(w.network, |crowd| {
            crowd.silent.remove(&number);
            crowd.begun.remove(&number);
        });
        self.readiness.remove(w.stream.as_fd());
        if w.wants > 1 {
            // Whoever receives next takes what there is.
            tcp::readable_from(&w.stream, 1).ok()?;
        }
        Some((w.stream, w.until))
    }
}

impl AsFd for Lobby {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readiness.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const HERE: Network = Network::V4([127, 0, 0]);

    struct Place {
        listener: TcpListener,
        lobby: Lobby,
    }

    impl Place {
        fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let lobby = Lobby::new().unwrap();
            Self { listener, lobby }
        }

        /// Somebody who has said this before it is taken in; what the lobby gives back at once.
        fn comes(&mut self, network: Network, said: &[u8]) -> (TcpStream, Option<Speaker>) {
            let mut theirs = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
            let ours = self.listener.accept().unwrap().0;
            theirs.write_all(said).unwrap();
            while tcp::unread(&ours) < said.len() {
                std::thread::yield_now();
            }
            let spoken = self.lobby.enter_from(ours, network).unwrap();
            (theirs, spoken)
        }

        /// The next who speaks.
        fn speaker(&mut self) -> TcpStream {
            loop {
                busbar_transport::wait_readable(&[self.lobby.as_fd()], None).unwrap();
                if let Some((stream, _)) = self.lobby.spoken().pop() {
                    return stream;
                }
            }
        }
    }

    fn is_gone(mut theirs: &TcpStream) -> bool {
        theirs.set_nonblocking(true).unwrap();
        match theirs.read(&mut [0]) {
            Ok(n) => n == 0,
            Err(e) => e.kind() != io::ErrorKind::WouldBlock,
        }
    }

    fn hello(body: usize) -> Vec<u8> {
        let mut all = Header::plain(Kind::Hello, body).to_bytes().to_vec();
        all.resize(frame::HEADER + body, b' ');
        all
    }

    fn client_hello(body: usize) -> Vec<u8> {
        let mut all = vec![22, 3, 1];
        all.extend((body as u16).to_be_bytes());
        all.resize(TLS_HEAD + body, 1);
        all
    }

    #[test]
    fn first_words_that_are_whole_wait_for_nothing() {
        let mut p = Place::new();
        let long = client_hello(300);
        for said in [&hello(300)[..], &long, b"GET / HTTP/1.0", &[0xff; 24]] {
            assert!(p.comes(HERE, said).1.is_some(), "{said:?}");
        }
        assert!(p.lobby.waiting.is_empty() && p.lobby.networks.is_empty());
    }

    #[test]
    fn part_of_them_waits_for_the_rest_and_loses_nothing() {
        let mut p = Place::new();
        for said in [hello(300), client_hello(600), hello(60_000)] {
            for part in [0, 1, 4, 5, 23, 24, 200] {
                let (mut theirs, spoken) = p.comes(HERE, &said[..part]);
                assert!(spoken.is_none(), "{part} bytes");
                assert!(p.lobby.spoken().is_empty(), "{part} bytes");
                // In two pieces, of which the first is looked at.
                let half = part.midpoint(said.len().min(ENOUGH));
                theirs.write_all(&said[part..half]).unwrap();
                p.lobby.spoken();
                theirs.write_all(&said[half..]).unwrap();
                drop(theirs);
                let mut all = Vec::new();
                p.speaker().read_to_end(&mut all).unwrap();
                assert!(all == said, "{part} bytes");
            }
        }
        assert!(p.lobby.waiting.is_empty() && p.lobby.networks.is_empty());
    }

    #[test]
    fn whoever_goes_is_forgotten_and_whoever_ends_in_the_midst_is_told() {
        let mut p = Place::new();
        drop(p.comes(HERE, b""));
        while !p.lobby.waiting.is_empty() {
            assert!(p.lobby.spoken().is_empty());
        }
        let (theirs, _) = p.comes(HERE, &hello(9)[..9]);
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(tcp::unread(&p.speaker()), 9);
        assert!(p.lobby.networks.is_empty());
    }

    #[test]
    fn silent_ones_push_out_each_other_and_none_that_greets() {
        let mut p = Place::new();
        let part = p.comes(HERE, b"\x16\x03\x01").0;
        let far = p.comes(Network::Unknown, b"").0;
        let crowd: Vec<_> = (0..2 * MOST).map(|_| p.comes(HERE, b"").0).collect();
        assert_eq!(p.lobby.waiting.len(), MOST);
        assert!(!is_gone(&part) && !is_gone(&far));
        let gone = crowd.iter().filter(|c| is_gone(c)).count();
        assert_eq!(gone, MOST + 2);
        assert!(crowd[..gone].iter().all(is_gone), "the oldest ones");
        // Nor does a crowd that begins to speak push out one that has not yet, ...
        let mut late = p.comes(HERE, b"").0;
        let loud: Vec<_> = (0..2 * MOST).map(|_| p.comes(HERE, b"\x16").0).collect();
        assert!(is_gone(&part) && !is_gone(&late) && !is_gone(&far));
        late.write_all(&hello(2)).unwrap();
        assert_eq!(tcp::unread(&p.speaker()), frame::HEADER + 2);
        // ... of whatever network.
        let mut speaker = &far;
        speaker.write_all(&hello(1)).unwrap();
        assert_eq!(tcp::unread(&p.speaker()), frame::HEADER + 1);
        drop((loud, crowd));
    }

    #[test]
    fn whoever_has_not_spoken_in_time_goes() {
        let mut p = Place::new();
        let late = p.comes(HERE, b"").0;
        let before = p.lobby.quiet_for().unwrap();
        assert!(before <= HELLO_TIME && !before.is_zero());
        p.lobby.waiting.get_mut(&0).unwrap().until = Instant::now();
        assert_eq!(p.lobby.quiet_for(), Some(Duration::ZERO));
        assert!(p.lobby.spoken().is_empty());
        assert!(is_gone(&late) && p.lobby.quiet_for().is_none());
    }
}
