//! What a machine's kernel tells of its RDMA devices. What it does not tell is absent.

use busbar_control::fabric::{Device, Gid, Machine, Net, Port};
use busbar_control::text::host_name;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where it is told.
pub struct Sources {
    /// `/sys`.
    sys: PathBuf,
    /// Runs a program of the system: what it prints, if it is there and succeeds.
    run: fn(&str, &[&str]) -> Option<String>,
}

/// Where programs of the system lie, whatever the service's environment says.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

fn run(program: &str, args: &[&str]) -> Option<String> {
    let paths = FOLDERS.map(|f| Path::new(f).join(program));
    let found = paths.iter().find(|p| p.exists())?;
    let mut c = Command::new(found);
    let out = c.args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    out.status.success().then_some(text)
}

fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_string()).filter(|t| !t.is_empty())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    line(path)?.parse().ok()
}

/// What lies in a folder, in the order of its names.
fn inside(folder: &Path) -> Vec<(String, PathBuf)> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<_> = all
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.path()))
        .collect();
    all.sort();
    all
}

impl Sources {
    /// Those of this machine.
    pub fn here() -> Self {
        Self {
            sys: "/sys".into(),
            run,
        }
    }

    /// Everything; `rdma` is whether the server moves sessions.
    pub fn machine(&self, rdma: String) -> Machine {
        let all = inside(&self.sys.join("class/infiniband"));
        Machine {
            host: host_name(),
            rdma,
            devices: all.into_iter().map(|(n, p)| self.device(n, &p)).collect(),
        }
    }

    fn device(&self, name: String, at: &Path) -> Device {
        let driver = at.join("device/driver");
        // A device of software belongs to no bus, and says so by its parent alone.
        let of_software = || line(&at.join("parent")).map(|_| "rdma_rxe or siw".into());
        let linked = fs::read_link(&driver).ok();
        let named = linked.and_then(|l| Some(l.file_name()?.to_string_lossy().into_owned()));
        let functions = |what: &str| number(&at.join("device").join(what));
        let has = functions("sriov_numvfs").zip(functions("sriov_totalvfs"));
        let ports = inside(&at.join("ports"));
        let ports = ports.into_iter().filter_map(|(n, p)| {
            let number = n.parse().ok()?;
            Some(self.port(number, &p))
        });
        Device {
            driver: named.or_else(of_software),
            version: line(&driver.join("module/version")),
            firmware: line(&at.join("fw_ver")),
            functions: has.map(|(now, most)| [now, most]),
            ports: ports.collect(),
            name,
        }
    }

    fn port(&self, number: u32, at: &Path) -> Port {
        // `4: ACTIVE`, `5: LinkUp`.
        let word = |file: &str| {
            let text = line(&at.join(file)).unwrap_or_default();
            let after = text.split_once(": ").map_or(&*text, |(_, after)| after);
            after.to_string()
        };
        // `100 Gb/sec (4X EDR)`.
        let rate = line(&at.join("rate"));
        let rate = rate.and_then(|r| r.split(' ').next()?.parse().ok());
        let mut counters = BTreeMap::new();
        for folder in ["counters", "hw_counters"] {
            let all = inside(&at.join(folder)).into_iter();
            counters.extend(all.filter_map(|(name, p)| Some((name, self::number(&p)?))));
        }
        let nets = inside(&at.join("gid_attrs/ndevs"));
        let net = nets.iter().find_map(|(_, p)| line(p));
        if let Some(net) = &net {
            counters.extend(self.pauses(net));
        }
        Port {
            number,
            state: word("state"),
            physical: word("phys_state"),
            link: line(&at.join("link_layer")).unwrap_or_default(),
            rate,
            gids: gids(at),
            net: net.map(|name| self.net(name)),
            counters,
        }
    }

    /// What a network device has counted of pauses and losses, which its driver alone tells.
    fn pauses(&self, name: &str) -> Vec<(String, u64)> {
        let text = (self.run)("ethtool", &["-S", name]).unwrap_or_default();
        let of = |l: &str| {
            let (name, n) = l.trim().split_once(": ")?;
            let wanted = ["pause", "pfc", "discard", "drop", "out_of_buffer"];
            let wanted = wanted.iter().any(|part| name.contains(part));
            Some((format!("net.{name}"), n.trim().parse().ok()?)).filter(|_| wanted)
        };
        text.lines().filter_map(of).collect()
    }

    fn net(&self, name: String) -> Net {
        let at = self.sys.join("class/net").join(&name);
        let said = |object: &str| {
            let text = (self.run)("dcb", &[object, "show", "dev", &name])?;
            // `prio-pfc 0:off 3:on`, `dscp-prio 26:3`: one of the lines.
            let mark = format!("{}-", if object == "pfc" { "prio" } else { "dscp" });
            let found = text.lines().map(str::trim).find(|l| l.starts_with(&mark));
            let words = found.map_or("", |l| l.split_once(' ').map_or("", |(_, rest)| rest));
            let on = words.split_whitespace().filter(|w| !w.ends_with(":off"));
            let on: Vec<_> = on.map(|w| w.strip_suffix(":on").unwrap_or(w)).collect();
            Some(on.join(" "))
        };
        Net {
            mtu: number(&at.join("mtu")),
            pfc: said("pfc"),
            dscp: said("app"),
            ecn: ecn(&at.join("ecn")),
            name,
        }
    }
}

/// Priorities on which the receiver notices congestion, and the sender reacts to that.
fn ecn(at: &Path) -> Option<String> {
    let on = |who: &str| {
        let all = inside(&at.join(who).join("enable"));
        let on = all.iter().filter(|(_, p)| number::<u8>(p) == Some(1));
        (!all.is_empty()).then(|| on.map(|(n, _)| n.clone()).collect::<Vec<_>>().join(" "))
    };
    let (np, rp) = (on("roce_np")?, on("roce_rp")?);
    Some(match np.is_empty() && rp.is_empty() {
        true => String::new(),
        false => format!("np {np}, rp {rp}"),
    })
}

/// The addresses of a port: those that it has.
fn gids(at: &Path) -> Vec<Gid> {
    let all = inside(&at.join("gids")).into_iter();
    let some = all.filter_map(|(name, p)| {
        let gid: std::net::Ipv6Addr = line(&p)?.parse().ok()?;
        let kind = line(&at.join("gid_attrs/types").join(&name)).unwrap_or_default();
        (gid.octets()[8..] != [0; 8]).then(|| Gid {
            index: name.parse().unwrap_or_default(),
            gid: gid.to_string(),
            kind,
        })
    });
    let mut some: Vec<_> = some.collect();
    some.sort_by_key(|g| g.index);
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files, as the kernel has them.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Sources) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let sources = Sources {
            sys: root.path().into(),
            run: |_, _| None,
        };
        (root, sources)
    }

    const PORT: &str = "class/infiniband/mlx5_0/ports/1";

    fn adapter() -> Vec<(String, &'static str)> {
        let at = |file: &str| format!("{PORT}/{file}");
        vec![
            ("class/infiniband/mlx5_0/fw_ver".into(), "28.39.1002"),
            ("class/infiniband/mlx5_0/device/sriov_numvfs".into(), "2"),
            ("class/infiniband/mlx5_0/device/sriov_totalvfs".into(), "8"),
            (at("state"), "4: ACTIVE"),
            (at("phys_state"), "5: LinkUp"),
            (at("link_layer"), "Ethernet"),
            (at("rate"), "400 Gb/sec (4X NDR)"),
            (at("gids/0"), "fe80:0000:0000:0000:0a5a:00ff:fe09:0001"),
            (at("gids/3"), "0000:0000:0000:0000:0000:ffff:0a09:0001"),
            (at("gids/7"), "0000:0000:0000:0000:0000:0000:0000:0000"),
            (at("gid_attrs/types/0"), "IB/RoCE v1"),
            (at("gid_attrs/types/3"), "RoCE v2"),
            (at("gid_attrs/ndevs/0"), "eth7"),
            (at("counters/port_rcv_errors"), "0"),
            (at("hw_counters/out_of_sequence"), "17"),
            ("class/net/eth7/mtu".into(), "9000"),
            ("class/net/eth7/ecn/roce_np/enable/0".into(), "0"),
            ("class/net/eth7/ecn/roce_np/enable/3".into(), "1"),
            ("class/net/eth7/ecn/roce_rp/enable/3".into(), "1"),
        ]
    }

    #[test]
    fn everything_is_read_that_is_there() {
        let files = adapter();
        let files: Vec<_> = files.iter().map(|(p, t)| (&**p, *t)).collect();
        let (root, mut sources) = tree(&files);
        let driver = root.path().join("class/infiniband/mlx5_0/device/driver");
        std::os::unix::fs::symlink("../../bus/pci/drivers/mlx5_core", driver).unwrap();
        sources.run = |program, args| {
            if program == "ethtool" {
                assert_eq!(args, ["-S", "eth7"]);
                let text = "NIC statistics:\n     rx_prio3_pause: 7\n     rx_bytes: 5\n";
                return Some(text.into());
            }
            assert_eq!((program, args[3]), ("dcb", "eth7"));
            Some(match args[0] {
                "pfc" => "pfc-cap 8 delay 0\nprio-pfc 0:off 1:off 2:off 3:on 4:off\n".into(),
                _ => "dscp-prio 26:3\n".into(),
            })
        };
        let machine = sources.machine("auto".into());
        let [device] = &machine.devices[..] else {
            panic!("{machine:?}")
        };
        assert_eq!(device.driver.as_deref(), Some("mlx5_core"));
        assert_eq!(device.firmware.as_deref(), Some("28.39.1002"));
        assert_eq!((device.functions, &device.version), (Some([2, 8]), &None));
        let port = &device.ports[0];
        assert_eq!((&*port.state, &*port.physical), ("ACTIVE", "LinkUp"));
        assert_eq!((port.number, port.rate), (1, Some(400.0)));
        let gids: Vec<_> = port.gids.iter().map(|g| (g.index, &*g.gid)).collect();
        assert_eq!(gids, [(0, "fe80::a5a:ff:fe09:1"), (3, "::ffff:10.9.0.1")]);
        assert_eq!(port.gids[1].kind, "RoCE v2");
        assert_eq!(port.counters["out_of_sequence"], 17);
        assert_eq!(port.counters["net.rx_prio3_pause"], 7);
        assert!(!port.counters.contains_key("net.rx_bytes"));
        let net = port.net.as_ref().unwrap();
        assert_eq!((&*net.name, net.mtu), ("eth7", Some(9000)));
        let said = [&net.pfc, &net.ecn, &net.dscp].map(|s| s.as_deref());
        assert_eq!(said, [Some("3"), Some("np 3, rp 3"), Some("26:3")]);
    }

    #[test]
    fn what_is_not_told_is_absent() {
        let (_root, sources) = tree(&[("class/infiniband/rxe0/ports/1/state", "1: DOWN")]);
        let machine = sources.machine("off".into());
        let device = &machine.devices[0];
        assert_eq!((&device.driver, device.functions), (&None, None));
        let port = &device.ports[0];
        assert_eq!((&*port.state, port.rate, &port.net), ("DOWN", None, &None));
        let (_root, none) = tree(&[]);
        assert!(none.machine("off".into()).devices.is_empty());
    }
}
