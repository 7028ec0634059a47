//! A port with 64 devices and 500 sessions that change, for a look at the page; `./test page` does.

use busbar_control::device::Device;
use busbar_control::gpu::{Gpu, Number};
use busbar_control::hello::{Change, Refusal};
use busbar_control::holding::{Holding, Memory, Traffic};
use busbar_control::status::{Lease, Listed, Session, Status, Time, Waiting};
use busbar_web::{Gate, Overview, Port, View, start};
use rustls_pki_types::CertificateDer;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

struct Many(Instant);

struct Door(Arc<Many>);

impl Gate for Door {
    fn admit(&self, _: &str, _: Option<&CertificateDer<'_>>) -> Result<Arc<dyn View>, Refusal> {
        Ok(self.own())
    }

    fn own(&self) -> Arc<dyn View> {
        self.0.clone()
    }

    fn refused(&self, _: &str, _: &Refusal) {}
}

impl View for Many {
    fn key(&self) -> String {
        "all".into()
    }

    fn over(&self) -> Option<String> {
        None
    }

    fn overview(&self) -> Overview {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |d| d.as_secs());
        many(self.0.elapsed().as_secs(), now)
    }

    fn change(&self, _: &str, _: Change) -> Result<(), Refusal> {
        Err(Refusal::new("policy", "nothing can be changed here"))
    }

    fn end(&self, _: &str) -> Result<(), Refusal> {
        Err(Refusal::new("policy", "nothing can be ended here"))
    }
}

fn device(i: u32, seconds: u64) -> (Listed, Gpu) {
    let mut gpu = Gpu::default();
    let n = u64::from(i);
    for (number, value) in [
        (Number::Busy, (n * 7 + seconds) % 101),
        (Number::MemoryUsed, (n + 1) << 30),
        (Number::Temperature, 40 + n % 40),
        (Number::Power, 200_000 + 1000 * ((n + seconds) % 300)),
    ] {
        gpu.numbers.insert(number.name().into(), value);
    }
    let device = Device {
        api: "cuda".into(),
        ordinal: i,
        kind: "gpu".into(),
        name: "NVIDIA H200".into(),
        memory: 141 << 30,
        uuid: format!("{i:032x}"),
        ..Device::default()
    };
    let listed = Listed {
        device,
        used_by: 500 / 64,
        promised_share: 500,
        promised: 32 << 30,
        yours: true,
        ..Listed::default()
    };
    (listed, gpu)
}

fn session(i: u32, seconds: u64, now: u64) -> Session {
    let n = u64::from(i);
    let memory = Memory {
        pieces: 1,
        bytes: (n + 1) << 24,
        most: (n + 1) << 24,
    };
    Session {
        session: format!("{i:012x}"),
        api: "cuda".into(),
        devices: vec![i % 64],
        connected: i % 50 != 7,
        tenant: ["lab", "art", "ops"][i as usize % 3].into(),
        token: format!("user{}", i % 20),
        user: format!("user{}", i % 20),
        host: "<b>host</b>".into(),
        program: ["python train.py", "jupyter", "serve"][i as usize % 3].into(),
        pid: 1000 + i as i32,
        share: (i < 128).then_some(250),
        promised: i < 64,
        memory_limit: (i < 64).then_some(16 << 30),
        time: vec![(i < 128).then_some(Time {
            minute: 200 + i % 50,
            used_ms: 1000 * seconds / 4,
            waited_ms: 100 * seconds,
            waits: i % 11 == 3,
            ..Time::default()
        })],
        opened: now - seconds - 60 * n,
        holding: Holding {
            memory: [("linear".to_string(), memory)].into(),
            // A fifth of them is at work.
            traffic: Traffic {
                records: if i.is_multiple_of(5) {
                    seconds * 9000
                } else {
                    7
                },
                round_trips: if i.is_multiple_of(5) { seconds * 90 } else { 7 },
                ..Traffic::default()
            },
            ..Holding::default()
        },
        ..Session::default()
    }
}

fn lease(i: u32) -> Lease {
    let part = i.is_multiple_of(2);
    Lease {
        lease: format!("{i:08x}"),
        holder: format!("user{i}@host (python train.py)"),
        tenant: "lab".into(),
        devices: vec![4 * i, 4 * i + 1],
        whole: !part,
        memory: if part { 16 << 30 } else { 0 },
        share: if part { 250 } else { 0 },
        sessions: 2,
        until: part.then_some(3600),
        ..Lease::default()
    }
}

fn waiting(i: usize, now: u64) -> Waiting {
    Waiting {
        lease: format!("{i:08x}"),
        holder: format!("user{i}@host (python train.py)"),
        tenant: "art".into(),
        place: i + 1,
        since: 1000 * (now - 60),
        devices: vec![0, 1, 2, 3],
        wanted: 4,
        whole: true,
        offer: vec![2],
        ahead: (0..i.min(8)).map(|n| format!("user{n}@host")).collect(),
        holders: vec!["user0@host (python train.py)".into()],
        ..Waiting::default()
    }
}

fn many(seconds: u64, now: u64) -> Overview {
    let mut status = Status {
        version: "0.1.0".into(),
        ..Status::default()
    };
    for i in 0..64 {
        let (listed, gpu) = device(i, seconds);
        status.gpus.gpus.insert(listed.device.uuid.clone(), gpu);
        status.devices.push(listed);
    }
    status.leases = (0..16).map(lease).collect();
    status.waiting = (0..8).map(|i| waiting(i, now)).collect();
    status.sessions = (0..500).map(|i| session(i, seconds, now)).collect();
    Overview {
        status,
        host: "gpu-machine".into(),
        address: "10.0.0.7:7400".into(),
        started: now - seconds,
        most_sessions: 1024,
        ..Overview::default()
    }
}

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    start(Port {
        listener,
        tls: None,
        gate: Arc::new(Door(Arc::new(Many(Instant::now())))),
    })?;
    loop {
        std::thread::park();
    }
}
