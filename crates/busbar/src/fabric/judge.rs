//! What is wrong with a fabric, and what to do. It knows what was read and measured, and asks
//! nobody.

use super::probe::Measured;
use super::ring::Ring;
use busbar_control::fabric::{Machine, Port, Sight};
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of memory that an end of a session locks.
const LOCKED: u64 = 4 << 20;

/// Something that an operator has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The machine, or two with an arrow between them.
    pub at: String,
    /// Whether the fabric is broken by it. Else it is worth to be known.
    pub fails: bool,
    /// A sentence.
    pub what: String,
    /// Another one.
    pub todo: String,
}

/// All that was read of one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Seen {
    /// How it is called here.
    pub name: String,
    /// Why nothing of the rest is known.
    pub error: Option<String>,
    /// Its devices, before the measurements ...
    pub machine: Machine,
    /// ... and after them.
    pub after: Machine,
    /// By how much its ports' counters of trouble have grown between the two.
    pub grown: BTreeMap<String, u64>,
    /// What a session would find.
    pub sight: Sight,
    /// It is the one where the command runs, which nobody needs to have a device.
    pub here: bool,
}

/// Counters that say of a loss, a collision or a retry, by parts of their names.
const TROUBLE: [&str; 9] = [
    "err",
    "discard",
    "retry",
    "retries",
    "out_of_seq",
    "drop",
    "timeout",
    "link_down",
    "slow_restart",
];

/// Those that only count what congestion control does, ...
const CONGESTION: [&str; 2] = ["cnp", "ecn"];

/// ... and those that say of somebody who was asked to wait (PFC).
const PAUSES: [&str; 2] = ["pause", "pfc"];

impl Seen {
    /// The port that sessions use.
    pub fn port(&self) -> Option<&Port> {
        let (device, number, _) = self.sight.port.as_ref()?;
        let d = self.machine.devices.iter().find(|d| d.name == *device)?;
        d.ports.iter().find(|p| p.number == *number)
    }

    /// Compares the counters with what they are after the measurements.
    pub fn compare(&mut self, after: Machine) {
        let is_one =
            |name: &str| has(name, &TROUBLE) || has(name, &CONGESTION) || has(name, &PAUSES);
        for (was, is) in self.machine.devices.iter().zip(&after.devices) {
            for (was, port) in was.ports.iter().zip(&is.ports) {
                for (name, n) in port.counters.iter().filter(|(n, _)| is_one(n)) {
                    let by = n.saturating_sub(was.counters.get(name).copied().unwrap_or(*n));
                    if by > 0 {
                        self.grown
                            .insert(format!("{}/{} {name}", is.name, port.number), by);
                    }
                }
            }
        }
        self.after = after;
    }
}

/// Whether a counter's name has one of these parts.
fn has(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|p| name.contains(p))
}

/// A packet's bytes for a network whose packets have so many: verbs' own headers take 96.
fn packet(mtu: u32) -> u32 {
    let fits = |b: &&u32| **b + 96 <= mtu;
    *[4096, 2048, 1024, 512].iter().find(fits).unwrap_or(&256)
}

/// Findings at one place.
struct Notes<'a> {
    at: &'a str,
    all: &'a mut Vec<Finding>,
}

impl Notes<'_> {
    fn add(&mut self, fails: bool, what: String, todo: &str) {
        let (at, todo) = (self.at.into(), todo.into());
        self.all.push(Finding {
            at,
            fails,
            what,
            todo,
        });
    }
}

/// Everything, of machines and of what lies between them. Fewer than `least` hundredths of the line
/// rate are too few.
pub fn all(machines: &[Seen], pairs: &[Measured], rings: &[Ring], least: f64) -> Vec<Finding> {
    let mut all = Vec::new();
    for m in machines {
        let at = &*m.name;
        machine(m, &mut Notes { at, all: &mut all });
    }
    widths(machines, &mut all);
    alike(machines, &mut all);
    for p in pairs {
        let at = format!("{} -> {}", p.from, p.to);
        let (at, all) = (&*at, &mut all);
        pair(p, least, &mut Notes { at, all });
    }
    for r in rings {
        let at = format!("NCCL over {}", r.names());
        let (at, all) = (&*at, &mut all);
        ring(r, least, &mut Notes { at, all });
    }
    all
}

fn machine(m: &Seen, notes: &mut Notes<'_>) {
    if let Some(why) = &m.error {
        let todo = "`busbar doctor --server HOST` says more; only admins may check a fabric";
        return notes.add(true, why.clone(), todo);
    }
    if m.machine.devices.is_empty() {
        let todo = "load the adapter's driver, after which `rdma link show` has it; sessions are \
                    on TCP meanwhile";
        let what = "there is no RDMA device (/sys/class/infiniband is empty)";
        return notes.add(!m.here, what.into(), todo);
    }
    if let Some(why) = &m.sight.no_library {
        let todo = "install rdma-core's libibverbs and its drivers (Debian: apt-get install \
                    libibverbs1 ibverbs-providers)";
        notes.add(true, why.clone(), todo);
    }
    if m.machine.rdma == "off" {
        let todo = "start `busbar serve` with `--rdma auto`";
        notes.add(false, "the server moves no session to RDMA".into(), todo);
    }
    if let Some(limit) = m.sight.memlock {
        let what = format!(
            "{} KiB of memory can be locked, and each end of a session locks {} KiB",
            limit >> 10,
            LOCKED >> 10
        );
        let todo = "raise the limit: `ulimit -l unlimited`, or LimitMEMLOCK=infinity in the \
                    service, and `memlock` in /etc/security/limits.conf";
        notes.add(limit < LOCKED, what, todo);
    }
    let up = |p: &Port| p.state == "ACTIVE";
    let any = m.machine.devices.iter().flat_map(|d| &d.ports).any(up);
    for d in &m.machine.devices {
        for p in &d.ports {
            let name = format!("port {} of {}", p.number, d.name);
            match up(p) {
                true => settings(&name, p, d.driver.as_deref(), notes),
                false => down(&name, p, !any, notes),
            }
        }
    }
    if let (true, Some(why)) = (any && m.sight.no_library.is_none(), &m.sight.no_port) {
        let todo = "give the port an address, or name another one with `--rdma-device`; a server \
                    with `--rdma off` may have no right to use any";
        notes.add(true, why.clone(), todo);
    }
    let grew = |is_one: &dyn Fn(&str) -> bool| {
        let of = m.grown.iter().filter(|(name, _)| is_one(name));
        let of: Vec<_> = of.map(|(name, by)| format!("{name} by {by}")).collect();
        (!of.is_empty()).then(|| format!("while it was measured there grew {}", of.join(", ")))
    };
    if let Some(what) = grew(&|n| !has(n, &CONGESTION) && !has(n, &PAUSES)) {
        let todo = "packets were lost or late: look at PFC and ECN at the switch's ports, and at \
                    cables";
        notes.add(false, what, todo);
    }
    if let Some(what) = grew(&|n| has(n, &PAUSES)) {
        let todo = "somebody was told to wait: received pauses say of a congested switch, sent \
                    ones that this machine takes packets too slowly (its slot's lanes of PCIe, a \
                    card on another socket than its memory)";
        notes.add(false, what, todo);
    }
}

fn down(name: &str, p: &Port, fails: bool, notes: &mut Notes<'_>) {
    let net = p.net.as_ref().map_or("DEV", |n| &n.name);
    let todo = match (&*p.physical, &*p.state) {
        ("LinkUp", "INIT") => "start a subnet manager (`opensm`) on this fabric".into(),
        ("Polling", _) => "nothing answers at the other end of its cable: look at both".into(),
        _ => format!("set it up with `ip link set {net} up`, and look at its cable"),
    };
    let state = format!("{name} is down ({}, {})", p.state, p.physical);
    notes.add(fails, state, &todo);
}

fn settings(name: &str, p: &Port, driver: Option<&str>, notes: &mut Notes<'_>) {
    if p.link != "Ethernet" {
        return;
    }
    if !p.gids.iter().any(|g| g.kind == "RoCE v2") {
        let what = format!("{name} has no address for RoCE v2, which is the one that is routed");
        let todo =
            "give its network device an IP address, and the driver RoCE v2 (`cma_roce_mode`)";
        notes.add(true, what, todo);
    }
    let Some(net) = &p.net else { return };
    if let Some(mtu) = net.mtu.filter(|m| packet(*m) < 4096) {
        let what = format!(
            "{} ({name}) has an MTU of {mtu}, so packets carry {} bytes and not 4096",
            net.name,
            packet(mtu)
        );
        let todo = format!(
            "`ip link set {} mtu 4200` or more, on all machines and at the switch",
            net.name
        );
        notes.add(false, what, &todo);
    }
    // A device of software has no buffers of its own that could be full.
    if driver.is_some_and(|d| d.contains("rxe")) {
        return;
    }
    if net.pfc.as_deref() == Some("") && net.ecn.as_deref().is_none_or(str::is_empty) {
        let what = format!(
            "{} ({name}) has neither PFC nor ECN on any priority",
            net.name
        );
        let todo = "switch one of them on, for the priority of RDMA, here and at the switch: \
                    packets that are lost cost RoCE most of its rate";
        notes.add(false, what, todo);
    }
}

/// Networks whose packets differ in size.
fn widths(machines: &[Seen], all: &mut Vec<Finding>) {
    let of = |m: &Seen| Some((m.name.clone(), m.port()?.net.as_ref()?.mtu?));
    let known: Vec<_> = machines.iter().filter_map(of).collect();
    let Some((most_at, most)) = known.iter().max_by_key(|(_, mtu)| *mtu) else {
        return;
    };
    for (at, mtu) in known.iter().filter(|(_, mtu)| packet(*mtu) < packet(*most)) {
        all.push(Finding {
            at: at.clone(),
            fails: true,
            what: format!("its MTU is {mtu}, and that of {most_at} is {most}"),
            todo: "set the same MTU on all machines and at the switch between them".into(),
        });
    }
}

/// Settings of the ports in use that differ: packets are treated by those of each hop.
fn alike(machines: &[Seen], all: &mut Vec<Finding>) {
    type Of = fn(&Port) -> Option<String>;
    let settings: [(&str, Of); 4] = [
        ("PFC", |p| p.net.as_ref()?.pfc.clone()),
        ("ECN", |p| p.net.as_ref()?.ecn.clone()),
        ("DSCP", |p| p.net.as_ref()?.dscp.clone()),
        ("rate", |p| p.rate.map(|r| format!("{r} Gb/s"))),
    ];
    for (name, of) in settings {
        let told = |m: &Seen| Some((m.name.clone(), of(m.port()?)?));
        let mut told = machines.iter().filter_map(told);
        let Some((first_at, first)) = told.next() else {
            continue;
        };
        for (at, other) in told.filter(|(_, other)| *other != first) {
            let shown = |s: &str| {
                if s.is_empty() {
                    "off".into()
                } else {
                    s.to_string()
                }
            };
            let what = format!(
                "its {name} is {}, and that of {first_at} is {}",
                shown(&other),
                shown(&first)
            );
            let todo = match name {
                "rate" => {
                    "nothing, if the cards differ: the slower one bounds what lies between \
                           them; else look at its cable and at the switch's port"
                }
                _ => "set the same on all machines and at the switch between them",
            };
            let (fails, todo) = (false, todo.into());
            all.push(Finding {
                at,
                fails,
                what,
                todo,
            });
        }
    }
}

fn pair(p: &Measured, least: f64, notes: &mut Notes<'_>) {
    if let Some(why) = &p.why_not {
        let todo = match p.mtu {
            None => {
                "see what was found at both ends; UDP port 4791 must pass between them, and \
                     `rping` says whether anything gets there"
            }
            Some(_) => "try again: the path was lost while it was measured",
        };
        notes.add(true, format!("RDMA does not work: {why}"), todo);
    }
    if let (Some(mtu), Some(wanted)) = (p.mtu, p.mtu_wanted)
        && mtu < wanted
    {
        let what = format!(
            "packets of {wanted} bytes get lost on the way, and those of {mtu} arrive: something \
             between the two has a smaller MTU than both"
        );
        let todo = format!(
            "raise the MTU of the switch, or send smaller packets (`--rdma-device ,mtu={mtu}`)"
        );
        notes.add(true, what, &todo);
    }
    for (kind, rate) in [("writes", p.write_gbps), ("reads", p.read_gbps)] {
        if let Some(slow) = slow(rate, p.line_gbps, least) {
            let todo = "look for a slot with too few lanes of PCIe, for other traffic, and for a \
                        card on another socket than its memory";
            notes.add(true, format!("{kind} do {slow}"), todo);
        }
    }
}

/// A rate in words, if it is below so many hundredths of the line rate.
fn slow(rate: Option<f64>, line: Option<f64>, least: f64) -> Option<String> {
    let (rate, line) = rate.zip(line).filter(|(r, l)| *r < l * least / 100.0)?;
    Some(format!(
        "{rate:.2} Gb/s, which is {:.0} % of {line} Gb/s, and {least} % are expected",
        100.0 * rate / line
    ))
}

fn ring(r: &Ring, least: f64, notes: &mut Notes<'_>) {
    if let Some(why) = &r.refused {
        let todo = "try again when its GPUs are free, or leave it out with `--ring off`";
        return notes.add(false, format!("no ring was run: {why}"), todo);
    }
    if let Some(why) = &r.why_not {
        let todo = "`NCCL_DEBUG=INFO busbar run -n 2 -- CMD` shows what NCCL tries; \
                    `busbar serve --fabric` says at which address workers are reached, and its \
                    environment what NCCL takes there (NCCL_SOCKET_IFNAME, NCCL_IB_HCA)";
        return notes.add(true, format!("no bytes came around: {why}"), todo);
    }
    if r.wrong > 0 {
        let what = format!("{} sums are wrong", r.wrong);
        let todo = "take these GPUs out of use: one of them, or what connects them, changes bytes \
                    (`nvidia-smi -q` shows errors of memory and of NVLink)";
        notes.add(true, what, todo);
    }
    if r.line_gbps.is_some() && r.network == "socket" {
        let todo = "see whether NCCL at the servers finds an adapter (NCCL_DEBUG=INFO, \
                    NCCL_IB_HCA), and whether NCCL_IB_DISABLE is set";
        let what = "gradients go over sockets, though there are RDMA devices";
        return notes.add(false, what.into(), todo);
    }
    if let Some(slow) = slow(r.bus_gbps, r.line_gbps, least) {
        let todo = "if writes between two machines reach the line rate, look at the way from GPU \
                    to adapter: same PCIe switch, nvidia-peermem or dmabuf (NCCL_DEBUG=INFO says \
                    GDRDMA)";
        notes.add(true, format!("each rank sends {slow}"), todo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::fabric::{Device, Gid, Net};

    /// A machine that nothing is wrong with.
    fn good(name: &str) -> Seen {
        let port = Port {
            number: 1,
            state: "ACTIVE".into(),
            physical: "LinkUp".into(),
            link: "Ethernet".into(),
            rate: Some(100.0),
            gids: vec![Gid {
                index: 3,
                gid: "::ffff:10.9.0.1".into(),
                kind: "RoCE v2".into(),
            }],
            net: Some(Net {
                name: "eth7".into(),
                mtu: Some(9000),
                pfc: Some("3".into()),
                ecn: None,
                dscp: None,
            }),
            counters: BTreeMap::from([("out_of_sequence".into(), 5), ("rx_bytes".into(), 5)]),
        };
        let device = Device {
            name: "mlx5_0".into(),
            driver: Some("mlx5_core".into()),
            ports: vec![port],
            ..Device::default()
        };
        Seen {
            name: name.into(),
            machine: Machine {
                rdma: "auto".into(),
                devices: vec![device],
                ..Machine::default()
            },
            sight: Sight {
                port: Some(("mlx5_0".into(), 1, 3)),
                ..Sight::default()
            },
            ..Seen::default()
        }
    }

    fn port(m: &mut Seen) -> &mut Port {
        &mut m.machine.devices[0].ports[0]
    }

    fn between(mtu: u32, write_gbps: f64) -> Measured {
        Measured {
            from: "a".into(),
            to: "b".into(),
            mtu: Some(mtu),
            mtu_wanted: Some(4096),
            line_gbps: Some(100.0),
            write_gbps: Some(write_gbps),
            ..Measured::default()
        }
    }

    /// The one thing that is found.
    fn only(machines: &[Seen], pairs: &[Measured]) -> Finding {
        let mut found = all(machines, pairs, &[], 92.0);
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        let machines = [good("a"), good("b")];
        assert_eq!(all(&machines, &[between(4096, 92.0)], &[], 92.0), []);
    }

    #[test]
    fn each_fault_of_a_machine_is_named_and_says_what_to_do() {
        type Break = fn(&mut Seen);
        let cases: [(Break, bool, &str, &str); 13] = [
            (
                |m| m.error = Some("b went away".into()),
                true,
                "went away",
                "busbar doctor",
            ),
            (
                |m| m.machine.devices.clear(),
                true,
                "no RDMA device",
                "driver",
            ),
            (
                |m| m.sight.no_library = Some("libibverbs.so.1 cannot be loaded".into()),
                true,
                "libibverbs.so.1",
                "ibverbs-providers",
            ),
            (
                |m| m.machine.rdma = "off".into(),
                false,
                "no session",
                "--rdma auto",
            ),
            (
                |m| m.sight.memlock = Some(64 << 10),
                true,
                "64 KiB of memory",
                "ulimit -l",
            ),
            (
                |m| m.sight.memlock = Some(8 << 20),
                false,
                "8192 KiB",
                "LimitMEMLOCK",
            ),
            (
                |m| port(m).state = "DOWN".into(),
                true,
                "port 1 of mlx5_0 is down",
                "ip link set eth7 up",
            ),
            (
                |m| (port(m).state, port(m).physical) = ("DOWN".into(), "Polling".into()),
                true,
                "DOWN, Polling",
                "other end of its cable",
            ),
            (
                |m| port(m).gids[0].kind = "IB/RoCE v1".into(),
                true,
                "no address for RoCE v2",
                "IP address",
            ),
            (
                |m| m.sight.no_port = Some("port 1 of mlx5_0 has no address 200".into()),
                true,
                "address 200",
                "--rdma-device",
            ),
            (
                |m| port(m).net.as_mut().unwrap().pfc = Some(String::new()),
                false,
                "neither PFC nor ECN",
                "switch one of them on",
            ),
            (
                |m| {
                    let mut after = m.machine.clone();
                    let counters = &mut after.devices[0].ports[0].counters;
                    counters.values_mut().for_each(|n| *n += 7);
                    m.compare(after);
                    assert_eq!(port(m).counters["out_of_sequence"], 5);
                    assert_eq!(m.after.devices[0].ports[0].counters["out_of_sequence"], 12);
                },
                false,
                "mlx5_0/1 out_of_sequence by 7",
                "PFC and ECN",
            ),
            (
                |m| {
                    let name = || "net.rx_prio3_pause".to_string();
                    port(m).counters.insert(name(), 1);
                    let mut after = m.machine.clone();
                    after.devices[0].ports[0].counters.insert(name(), 4);
                    m.compare(after);
                },
                false,
                "net.rx_prio3_pause by 3",
                "told to wait",
            ),
        ];
        for (spoil, fails, what, todo) in cases {
            let mut bad = good("b");
            spoil(&mut bad);
            let found = only(&[bad], &[]);
            assert_eq!((&*found.at, found.fails), ("b", fails), "{found:?}");
            assert!(found.what.contains(what), "{found:?}");
            assert!(found.todo.contains(todo), "{found:?}");
        }
    }

    #[test]
    fn where_the_command_runs_no_device_has_to_be() {
        let mut here = good("here");
        here.machine.devices.clear();
        here.here = true;
        assert!(!only(&[here], &[]).fails);
    }

    #[test]
    fn a_port_that_is_down_beside_one_that_is_up_is_only_told() {
        let mut m = good("a");
        let mut second = m.machine.devices[0].clone();
        second.name = "mlx5_1".into();
        second.ports[0].state = "DOWN".into();
        m.machine.devices.push(second);
        let found = only(&[m], &[]);
        assert!(
            !found.fails && found.what.contains("mlx5_1 is down"),
            "{found:?}"
        );
    }

    #[test]
    fn machines_with_other_packets_than_the_rest_are_named() {
        let mut small = good("b");
        port(&mut small).net.as_mut().unwrap().mtu = Some(1500);
        let found = all(&[good("a"), small], &[], &[], 92.0);
        let failing: Vec<_> = found.iter().filter(|f| f.fails).collect();
        assert_eq!(failing.len(), 1, "{found:?}");
        assert_eq!(failing[0].what, "its MTU is 1500, and that of a is 9000");
        assert!(found.iter().any(|f| f.what.contains("carry 1024 bytes")));
    }

    #[test]
    fn settings_that_differ_between_machines_are_named() {
        type Set = fn(&mut Port);
        let cases: [(Set, &str); 3] = [
            (
                |p| p.net.as_mut().unwrap().pfc = Some("4".into()),
                "its PFC is 4, and that of a is 3",
            ),
            (
                |p| p.net.as_mut().unwrap().pfc = Some(String::new()),
                "its PFC is off, and that of a is 3",
            ),
            (
                |p| p.rate = Some(25.0),
                "its rate is 25 Gb/s, and that of a is 100 Gb/s",
            ),
        ];
        for (set, what) in cases {
            let mut other = good("b");
            set(port(&mut other));
            let found = all(&[good("a"), other], &[], &[], 92.0);
            let of = found.iter().find(|f| f.what == what);
            assert!(of.is_some_and(|f| f.at == "b" && !f.fails), "{found:?}");
        }
        // What one of them does not tell differs from nothing.
        let mut silent = good("b");
        port(&mut silent).net.as_mut().unwrap().pfc = None;
        assert_eq!(all(&[good("a"), silent], &[], &[], 92.0), []);
    }

    #[test]
    fn what_lies_between_two_is_held_against_what_both_can_do() {
        let machines = [good("a"), good("b")];
        let slow = only(&machines, &[between(4096, 91.0)]);
        assert!(
            slow.fails && slow.what.contains("91 % of 100 Gb/s"),
            "{slow:?}"
        );
        let slow_reads = Measured {
            read_gbps: Some(60.0),
            ..between(4096, 95.0)
        };
        let slow = only(&machines, &[slow_reads]);
        assert!(
            slow.fails && slow.what.contains("reads do 60.00 Gb/s, which is 60 %"),
            "{slow:?}"
        );
        let narrow = only(&machines, &[between(1024, 95.0)]);
        assert!(
            narrow.fails && narrow.what.contains("those of 1024 arrive"),
            "{narrow:?}"
        );
        assert!(narrow.todo.contains("mtu=1024"), "{narrow:?}");
        let none = Measured {
            why_not: Some("a: the peer does not answer".into()),
            mtu: None,
            write_gbps: None,
            ..between(0, 0.0)
        };
        let none = only(&machines, &[none]);
        assert!(none.fails && none.todo.contains("4791"), "{none:?}");
        assert_eq!(none.at, "a -> b");
    }

    #[test]
    fn a_ring_is_held_against_the_slowest_port() {
        let good = || Ring {
            servers: vec!["a".into(), "b".into()],
            network: "ib".into(),
            time_us: Some(1.0),
            bus_gbps: Some(95.0),
            line_gbps: Some(100.0),
            ..Ring::default()
        };
        let found = |spoil: fn(&mut Ring)| {
            let mut ring = good();
            spoil(&mut ring);
            all(&[], &[], &[ring], 92.0)
        };
        assert_eq!(found(|_| ()), []);
        // Within one server, or where a machine has no port, nothing is known to hold it against.
        assert_eq!(found(|r| (r.line_gbps, r.bus_gbps) = (None, Some(1.0))), []);
        type Spoil = fn(&mut Ring);
        let cases: [(Spoil, bool, &str, &str); 5] = [
            (
                |r| r.bus_gbps = Some(60.0),
                true,
                "60 % of 100 Gb/s",
                "GDRDMA",
            ),
            (
                |r| r.network = "socket".into(),
                false,
                "over sockets",
                "NCCL_IB_HCA",
            ),
            (|r| r.wrong = 7, true, "7 sums are wrong", "out of use"),
            (
                |r| r.why_not = Some("no route".into()),
                true,
                "around: no route",
                "--fabric",
            ),
            (
                |r| r.refused = Some("leased".into()),
                false,
                "run: leased",
                "--ring off",
            ),
        ];
        for (spoil, fails, what, todo) in cases {
            let found = found(spoil);
            let [f] = &found[..] else { panic!("{found:?}") };
            assert_eq!((f.fails, &*f.at), (fails, "NCCL over a, b"));
            assert!(f.what.contains(what) && f.todo.contains(todo), "{f:?}");
        }
    }
}
