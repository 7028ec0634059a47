//! Servers that DNS names: `srv:example.org` stands for those of the SRV records (RFC 2782) of
//! `_busbar._tcp.example.org`. The name servers of this machine are asked, for a bounded time.

use anyhow::{Context, Result, anyhow, bail};
use simple_dns::rdata::{RData, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long a name server has for an answer.
const TRY: Duration = Duration::from_millis(1500);
/// How often each of them is asked.
const ROUNDS: usize = 2;
/// How long it takes at most, however many there are.
const LONGEST: Duration = Duration::from_secs(5);
/// The longest answer over UDP, and over TCP.
const MOST: usize = 65_535;
/// The most servers of one domain.
const SERVERS: usize = 1024;
/// The port of DNS.
const DNS: u16 = 53;

/// A server that DNS names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    priority: u16,
    weight: u16,
    address: String,
}

/// The addresses (`HOST:PORT`) of a domain's servers, those first that are to be used first.
pub fn servers(domain: &str) -> Result<Vec<String>> {
    let name = format!("_busbar._tcp.{domain}");
    let found = ask(&name, &name_servers()?)?;
    let mut bytes = [0; 8];
    let mut dice = move || {
        getrandom::fill(&mut bytes).context("there are no random numbers")?;
        Ok::<_, anyhow::Error>(u64::from_ne_bytes(bytes))
    };
    in_order(found, &mut dice)
}

/// The lowest priority first; of one priority at random, by weight.
fn in_order(mut all: Vec<Found>, dice: &mut impl FnMut() -> Result<u64>) -> Result<Vec<String>> {
    all.sort_by_key(|f| f.priority);
    let mut list = Vec::new();
    while let Some(first) = all.first().map(|f| f.priority) {
        let same = all.iter().take_while(|f| f.priority == first);
        // One without weight has a small chance, too.
        let weights: Vec<_> = same.map(|f| u64::from(f.weight) * 16 + 1).collect();
        let mut left = dice()? % weights.iter().sum::<u64>();
        let chosen = weights.iter().position(|w| {
            let here = left < *w;
            left = left.saturating_sub(*w);
            here
        });
        list.push(all.remove(chosen.unwrap_or(0)).address);
    }
    list.dedup();
    Ok(list)
}

/// Whom this machine asks for names.
fn name_servers() -> Result<Vec<SocketAddr>> {
    let said = std::env::var("BUSBAR_DNS").unwrap_or_default();
    if !said.is_empty() {
        let one = |text: &str| {
            let text = text.trim();
            let whole = text.parse::<SocketAddr>();
            let bare = || text.parse::<IpAddr>().map(|ip| (ip, DNS).into());
            whole
                .or_else(|_| bare())
                .map_err(|_| anyhow!("BUSBAR_DNS: `{text}` is no ADDRESS or ADDRESS:PORT"))
        };
        return said.split(',').map(one).collect();
    }
    let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    Ok(listed(&text))
}

/// The name servers of a `resolv.conf`; the machine's own where it has none.
fn listed(text: &str) -> Vec<SocketAddr> {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let server = words.next() == Some("nameserver");
        let ip = words.next().filter(|_| server)?.parse::<IpAddr>().ok()?;
        Some(SocketAddr::from((ip, DNS)))
    };
    let all: Vec<_> = text.lines().filter_map(of).collect();
    match all.is_empty() {
        true => vec![(Ipv4Addr::LOCALHOST, DNS).into()],
        false => all,
    }
}

/// The SRV records of a name.
fn ask(name: &str, of: &[SocketAddr]) -> Result<Vec<Found>> {
    let until = Instant::now() + LONGEST;
    let mut why = anyhow!("there is no name server");
    for server in std::iter::repeat_n(of, ROUNDS).flatten() {
        let left = until.saturating_duration_since(Instant::now()).min(TRY);
        if left.is_zero() {
            break;
        }
        match exchange(name, *server, Instant::now() + left) {
            Ok(Some(found)) if !found.is_empty() => return Ok(found),
            Ok(_) => bail!(
                "DNS has no servers at {name}: it takes SRV records of that name, one for each \
                 server with its host and port"
            ),
            Err(e) => why = e.context(format!("the name server {server}")),
        }
    }
    Err(why.context(format!("cannot ask DNS for {name}")))
}

/// Asks one name server; nothing if there is no such name.
fn exchange(name: &str, server: SocketAddr, until: Instant) -> Result<Option<Vec<Found>>> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).context("there are no random numbers")?;
    let mut query = Packet::new_query(u16::from_ne_bytes(id));
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let class = QCLASS::CLASS(CLASS::IN);
    let question = Question::new(named(name)?, QTYPE::TYPE(TYPE::SRV), class, false);
    query.questions.push(question);
    let bytes = query.build_bytes_vec()?;
    let any = match server {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.send(&bytes)?;
    let mut room = vec![0; MOST];
    loop {
        socket.set_read_timeout(Some(left(until)?))?;
        let n = socket.recv(&mut room).map_err(late)?;
        // Whatever else comes is no answer to this.
        let Some(said) = answer(&query, &room[..n]) else {
            continue;
        };
        if !said.has_flags(PacketFlag::TRUNCATION) {
            return records(&said);
        }
        let long = over_tcp(&bytes, server, until)?;
        let said = answer(&query, &long).context("it answers something else over TCP")?;
        return records(&said);
    }
}

fn left(until: Instant) -> Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(anyhow!("it does not answer")),
        false => Ok(left),
    }
}

fn late(e: std::io::Error) -> anyhow::Error {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    match e.kind() {
        TimedOut | WouldBlock => anyhow!("it does not answer"),
        _ => e.into(),
    }
}

fn named(name: &str) -> Result<Name<'_>> {
    Name::new(name).map_err(|_| anyhow!("`{name}` is no name of a domain"))
}

fn over_tcp(query: &[u8], server: SocketAddr, until: Instant) -> Result<Vec<u8>> {
    let mut s = TcpStream::connect_timeout(&server, left(until)?)?;
    s.set_write_timeout(Some(left(until)?))?;
    let length = u16::try_from(query.len())?.to_be_bytes();
    s.write_all(&[&length[..], query].concat())?;
    let mut said = Vec::new();
    let mut wanted = 2;
    while said.len() < wanted {
        s.set_read_timeout(Some(left(until)?))?;
        let mut room = [0; 4096];
        let most = room.len().min(wanted - said.len());
        match s.read(&mut room[..most]).map_err(late)? {
            0 => bail!("it ends its answer in the middle"),
            n => said.extend_from_slice(&room[..n]),
        }
        if wanted == 2 && said.len() == 2 {
            wanted += usize::from(u16::from_be_bytes([said[0], said[1]]));
        }
    }
    Ok(said.split_off(2))
}

/// An answer to this question.
fn answer<'a>(query: &Packet<'_>, bytes: &'a [u8]) -> Option<Packet<'a>> {
    let said = Packet::parse(bytes).ok()?;
    let asked = |p: &Packet<'_>| p.questions.first().map(|q| q.qname.to_string());
    let same = asked(&said).map(|n| n.to_lowercase()) == asked(query).map(|n| n.to_lowercase());
    let ours = said.id() == query.id() && said.has_flags(PacketFlag::RESPONSE) && same;
    ours.then_some(said)
}

/// The servers that an answer names; nothing if there is no such name.
fn records(said: &Packet<'_>) -> Result<Option<Vec<Found>>> {
    match said.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(None),
        other => bail!("it says {other:?}"),
    }
    let srv = |rdata: &RData<'_>| match rdata {
        RData::SRV(s) => found(s),
        _ => None,
    };
    let all = said.answers.iter().filter_map(|r| srv(&r.rdata));
    Ok(Some(all.take(SERVERS).collect()))
}

/// What a record says; nothing where that is no host (`.` stands for none).
fn found(s: &SRV<'_>) -> Option<Found> {
    let host = s.target.to_string().to_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = !host.is_empty() && host.chars().all(plain) && s.port > 0;
    good.then(|| Found {
        priority: s.priority,
        weight: s.weight,
        address: format!("{host}:{}", s.port),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::ResourceRecord;
    use std::net::TcpListener;
    use std::thread;

    /// What a name server has to say to a question, made of it.
    type Says = fn(&Packet<'_>) -> Vec<u8>;

    /// A name server, until the test ends; over TCP it says the second, if there is one.
    fn name_server(udp: Says, tcp: Option<Says>) -> SocketAddr {
        let (u, t) = loop {
            let u = UdpSocket::bind("127.0.0.1:0").unwrap();
            // The port may be somebody else's for TCP.
            if let Ok(t) = TcpListener::bind(u.local_addr().unwrap()) {
                break (u, t);
            }
        };
        let at = u.local_addr().unwrap();
        thread::spawn(move || {
            let mut room = [0; 512];
            while let Ok((n, from)) = u.recv_from(&mut room) {
                let said = udp(&Packet::parse(&room[..n]).unwrap());
                let _ = u.send_to(&said, from);
            }
        });
        thread::spawn(move || {
            for s in t.incoming() {
                let (mut s, mut length) = (s.unwrap(), [0; 2]);
                s.read_exact(&mut length).unwrap();
                let mut asked = vec![0; usize::from(u16::from_be_bytes(length))];
                s.read_exact(&mut asked).unwrap();
                let said = tcp.expect("TCP")(&Packet::parse(&asked).unwrap());
                s.write_all(&(said.len() as u16).to_be_bytes()).unwrap();
                s.write_all(&said).unwrap();
            }
        });
        at
    }

    fn reply<'a>(q: &Packet<'a>) -> Packet<'a> {
        let mut p = Packet::new_reply(q.id());
        p.set_flags(PacketFlag::RESPONSE);
        p.questions = q.questions.clone();
        p
    }

    fn with(q: &Packet<'_>, all: &[(u16, u16, u16, &str)]) -> Vec<u8> {
        let mut p = reply(q);
        for (priority, weight, port, target) in all {
            let srv = SRV {
                priority: *priority,
                weight: *weight,
                port: *port,
                target: Name::new_unchecked(target),
            };
            let name = q.questions[0].qname.clone();
            let record = ResourceRecord::new(name, CLASS::IN, 60, RData::SRV(srv));
            p.answers.push(record);
        }
        p.build_bytes_vec().unwrap()
    }

    fn two(q: &Packet<'_>) -> Vec<u8> {
        assert_eq!(
            q.questions[0].qname.to_string(),
            "_busbar._tcp.pool.example"
        );
        with(
            q,
            &[
                (20, 0, 7400, "B.pool.example"),
                (10, 0, 7401, "a.pool.example"),
            ],
        )
    }

    const NAME: &str = "_busbar._tcp.pool.example";

    fn addresses(at: SocketAddr) -> Result<Vec<String>> {
        in_order(ask(NAME, &[at])?, &mut || Ok(0))
    }

    #[test]
    fn the_records_of_a_domain_are_its_servers_by_priority() {
        let all = addresses(name_server(two, None)).unwrap();
        assert_eq!(all, ["a.pool.example:7401", "b.pool.example:7400"]);
    }

    #[test]
    fn an_answer_that_is_cut_comes_whole_over_tcp() {
        let cut: Says = |q| {
            let mut p = reply(q);
            p.set_flags(PacketFlag::TRUNCATION);
            p.build_bytes_vec().unwrap()
        };
        let all = addresses(name_server(cut, Some(two))).unwrap();
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn what_is_no_answer_is_said_in_a_sentence() {
        let none: Says = |q| {
            let mut p = reply(q);
            *p.rcode_mut() = RCODE::NameError;
            p.build_bytes_vec().unwrap()
        };
        let empty: Says = |q| reply(q).build_bytes_vec().unwrap();
        // A target of `.` says that there is no such service.
        let dot: Says = |q| with(q, &[(0, 0, 0, "")]);
        for says in [none, empty, dot] {
            let e = addresses(name_server(says, None)).unwrap_err();
            assert!(
                format!("{e:#}").contains("DNS has no servers at _busbar._tcp"),
                "{e:#}"
            );
        }
        let broken: Says = |q| {
            let mut p = reply(q);
            *p.rcode_mut() = RCODE::ServerFailure;
            p.build_bytes_vec().unwrap()
        };
        let e = addresses(name_server(broken, None)).unwrap_err();
        assert!(format!("{e:#}").contains("ServerFailure"), "{e:#}");
        // One who says something else is not heard, and not waited for longer than that.
        let other: Says = |q| {
            let mut p = reply(q);
            p.set_id(q.id().wrapping_add(1));
            p.build_bytes_vec().unwrap()
        };
        let e = addresses(name_server(other, None)).unwrap_err();
        assert!(format!("{e:#}").contains("it does not answer"), "{e:#}");
        // The next one is asked.
        let all = ask(NAME, &[name_server(broken, None), name_server(two, None)]);
        assert_eq!(all.unwrap().len(), 2);
    }

    #[test]
    fn of_one_priority_the_weightier_comes_first_more_often() {
        let of = |weight, host: &str| Found {
            priority: 1,
            weight,
            address: host.into(),
        };
        let all = vec![of(1, "light"), of(3, "heavy"), of(0, "none")];
        let mut first = std::collections::BTreeMap::new();
        for n in 0..(17 + 49 + 1) {
            let list = in_order(all.clone(), &mut || Ok(n)).unwrap();
            assert_eq!(list.len(), 3);
            *first.entry(list[0].clone()).or_insert(0) += 1;
        }
        assert_eq!((first["light"], first["heavy"], first["none"]), (17, 49, 1));
    }

    #[test]
    fn name_servers_are_those_of_the_machine() {
        let text = "# me\nsearch a\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\n nameserver ::1";
        let all: Vec<_> = listed(text).iter().map(ToString::to_string).collect();
        assert_eq!(all, ["10.0.0.1:53", "[::1]:53"]);
        assert_eq!(listed("")[0].to_string(), "127.0.0.1:53");
    }
}
