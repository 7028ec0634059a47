//! Servers that DNS names: commands ask for the SRV records of a domain, of a name server in this
//! very test.

use busbar_e2e::authority::Authority;
use busbar_e2e::guarded::{Guarded, refused};
use busbar_e2e::program::{clear, finished, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

/// A name in a message of DNS.
fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').filter(|l| !l.is_empty());
    let each = labels.flat_map(|l| [&[l.len() as u8][..], l.as_bytes()].concat());
    each.chain([0]).collect()
}

/// A name server that knows these addresses, all at this machine, as the servers of one domain.
fn name_server(domain: &str, servers: &[&Server]) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("an address").to_string();
    let wanted = name(&format!("_busbar._tcp.{domain}"));
    let port = |s: &&Server| s.address.rsplit_once(':').and_then(|(_, p)| p.parse().ok());
    let ports: Vec<u16> = servers.iter().filter_map(port).collect();
    thread::spawn(move || {
        let mut room = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut room) {
            let question = &room[12..n];
            let known = question.starts_with(&wanted);
            let answers = if known { ports.len() as u16 } else { 0 };
            // Its number, an answer, and whether there is such a name.
            let mut said = room[..2].to_vec();
            said.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1]);
            said.extend(answers.to_be_bytes());
            said.extend([0; 4]);
            said.extend(&question[..wanted.len().max(question.len())]);
            for port in ports.iter().take(answers.into()) {
                // The name of the question, SRV, IN, a minute.
                said.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 60]);
                let target = name("localhost");
                said.extend((6 + target.len() as u16).to_be_bytes());
                said.extend([0, 1, 0, 1]);
                said.extend(port.to_be_bytes());
                said.extend(target);
            }
            let _ = socket.send_to(&said, from);
        }
    });
    at
}

fn busbar(dns: &str, args: &[&str]) -> Command {
    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(args).env("BUSBAR_DNS", dns);
    c
}

#[test]
fn the_servers_of_a_domain_are_asked_and_used() {
    let servers = [(); 2].map(|()| Options::default().start());
    let dns = name_server("pool.test", &servers.each_ref());
    let all = ["--server", "srv:pool.test"];
    let said = printed(busbar(&dns, &["health"]).args(all));
    for s in &servers {
        let port = s.address.rsplit_once(':').expect("a port").1;
        assert!(said.contains(&format!("localhost:{port}")), "{said}");
    }
    // A device of each, in one program.
    let two = [
        "run",
        "-n",
        "2",
        "--spread",
        "--server",
        "srv:pool.test",
        "--",
    ];
    let random = [PROGRAM, "random-devices", "1", "10", "4096"];
    let out = printed(busbar(&dns, &two).args(random));
    assert!(out.starts_with("devices 2\n"), "{out}");
    let none = ["devices", "--server", "srv:other.test"];
    refused(
        &mut busbar(&dns, &none),
        &["DNS has no servers at _busbar._tcp.other.test"],
    );
    // Nobody answers at the address of a server of Busbar's.
    let silent = UdpSocket::bind("127.0.0.1:0").and_then(|s| Ok((s.local_addr()?, s)));
    let (at, _kept) = silent.expect("a port");
    let asked = busbar(&at.to_string(), &["devices"]).args(all).output();
    let said = String::from_utf8_lossy(&asked.expect("it runs").stderr).into_owned();
    assert!(said.contains("it does not answer"), "{said}");
    // A program alone does not ask DNS, and says what does.
    let mut alone = busbar(&dns, &["doctor", "--server", "srv:"]);
    let said = finished(&mut alone);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("names no domain"), "{said}");
}

#[test]
fn one_login_is_for_all_servers_of_a_domain_that_an_authority_vouches_for() {
    let ours = Authority::new();
    let g = Guarded::certified(&ours, |o| o);
    let dns = name_server("localhost", &[&g.server]);
    let token = g.line("ann", &["--tenant", "lab"]).token;
    let line = format!("busbar://{token}@srv:localhost");
    let ca = g.path("ca.pem").display().to_string();
    let asks = |args: &[&str]| {
        let mut c = g.busbar(args);
        c.env("BUSBAR_DNS", &dns);
        c
    };
    refused(&mut asks(&["login", &line]), &["known by their authority"]);
    printed(&mut asks(&["login", "--ca", &ca, &line]));
    assert!(printed(&mut asks(&["login", "--list"])).contains("srv:localhost"));
    let port = g.server.address.rsplit_once(':').expect("a port").1;
    let said = printed(&mut asks(&["health"]));
    assert!(said.contains(&format!("localhost:{port}")), "{said}");
    assert!(said.contains(" yes "), "it encrypts: {said}");
    // The program has it from the list, too: its token and its authority.
    printed(&mut asks(&["run", "--", PROGRAM, "work", "1"]));
    printed(&mut asks(&["run", "-n", "1", "--", PROGRAM, "work", "1"]));
}
