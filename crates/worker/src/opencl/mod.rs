//! OpenCL: executing calls on the platforms of this machine.
//!
//! [`cl`] loads the library, [`describe`] tells the client what there is, [`objects`] keeps what
//! the session has made, [`done`] is what the completion engine asks of events. The messages are
//! read by `generated/` and executed there, if they are one call of the library, else by `create`,
//! `program`, `command` and `svm`; `enqueue` is how commands go to the library, and `turns` when.

mod built;
mod cache;
mod cl;
mod command;
mod create;
mod describe;
mod done;
mod drivers;
mod enqueue;
mod generated;
mod headers;
mod landing;
mod objects;
mod prelude;
mod program;
mod session;
mod shared;
mod svm;
mod turns;

use crate::done::Probe;
use crate::prelude::*;
use crate::printed::Printed;
use crate::staging::Hold;
use crate::turn::Unmarked;
use crate::{Api, Setup};
use busbar_abi::opencl::ext::*;
use busbar_abi::opencl::*;
use busbar_control::device::Device;
use busbar_control::hello::Refusal;
use busbar_control::text::to_hex;
use busbar_wire::WireError;
use busbar_wire::record::Header;
use cl::Cl;
use done::{Completer, Ends};
use landing::Pool;
use objects::{Object, Objects};
use session::{Made, OpenCl};
use shared::Shared;
use std::ffi::OsString;
use std::path::Path;

/// Loads the library; only the first call's path counts.
fn library(path: Option<&str>) -> Result<&'static Cl, String> {
    static CL: std::sync::OnceLock<Result<Cl, String>> = std::sync::OnceLock::new();
    let load = || {
        keep_off_ourselves();
        drivers::load(path)
    };
    CL.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// A server started from within `busbar run` must not find Busbar's own driver: a worker would then
/// be its own client.
fn keep_off_ourselves() {
    for name in ["OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"] {
        let ours = |v: OsString| {
            let driver = v.to_string_lossy().contains("libbusbar_opencl");
            let path = Path::new(&v);
            driver || path.ends_with("busbar.icd") || path.join("busbar.icd").exists()
        };
        if std::env::var_os(name).is_some_and(ours) {
            // SAFETY: called before the library is loaded, on the one thread that reads or writes
            // the environment at this time.
            unsafe { std::env::remove_var(name) };
        }
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("BUSBAR_IN_WORKER", "1") };
}

/// The OpenCL devices of this machine, in the order of their ordinals.
pub fn probe(path: Option<&str>) -> Result<Vec<Device>, String> {
    let cl = library(path)?;
    let text = |v: Result<Vec<u8>, i32>| {
        String::from_utf8_lossy(&v.unwrap_or_default())
            .trim_end_matches('\0')
            .trim()
            .to_string()
    };
    let mut list = Vec::new();
    for &p in &cl.platforms {
        let platform = text(describe::platform_info(cl, p, CL_PLATFORM_VERSION));
        for d in describe::devices(cl, p) {
            let memory = describe::device_info(cl, d, CL_DEVICE_GLOBAL_MEM_SIZE);
            let uuid = describe::device_info(cl, d, CL_DEVICE_UUID_KHR);
            let driver = text(describe::device_info(cl, d, CL_DRIVER_VERSION));
            list.push(Device {
                api: "opencl".into(),
                ordinal: list.len() as u32,
                kind: match describe::is_processor(cl, d) {
                    true => "cpu".into(),
                    false => "gpu".into(),
                },
                name: text(describe::device_info(cl, d, CL_DEVICE_NAME)),
                memory: memory
                    .ok()
                    .and_then(|v| Some(u64::from_ne_bytes(*v.first_chunk()?)))
                    .unwrap_or(0),
                uuid: to_hex(&uuid.unwrap_or_default()),
                driver: format!("{driver}, {platform}"),
                ..Device::default()
            });
        }
    }
    match list.is_empty() {
        true => Err("no platform has a device".into()),
        false => Ok(list),
    }
}

/// Loads the library and starts its drivers ahead of a session.
pub fn warm(path: Option<&str>) {
    if let Ok(cl) = library(path) {
        for &p in &cl.platforms {
            describe::devices(cl, p);
        }
    }
}

/// Makes OpenCL ready for a session.
pub fn open(setup: Setup) -> Result<Box<dyn Api>, Refusal> {
    let no = |m: String| Refusal::new("no_device", m);
    let cl = library(setup.library.as_deref()).map_err(no)?;
    let printed = Printed::capture(setup.outbox.clone(), false);
    let mut objects = Objects::new(&setup.inventory);
    let mut platforms = Vec::new();
    let (mut ordinal, mut id, mut native) = (0, 0, false);
    for &p in &cl.platforms {
        let mut ids = Vec::new();
        for d in describe::devices(cl, p) {
            if setup.devices.as_ref().is_none_or(|l| l.contains(&ordinal)) {
                id += 1;
                native |= describe::is_processor(cl, d);
                objects.put(id, Object::Device(d, false));
                ids.push(id);
            }
            ordinal += 1;
        }
        if !ids.is_empty() {
            platforms.push((p, ids));
        }
    }
    if platforms.is_empty() {
        return Err(no(
            "the server finds no OpenCL device; is a driver installed there (`clinfo`)?".into(),
        ));
    }
    let pool = Pool::default();
    let (outbox, turn) = (setup.outbox.clone(), setup.turn.clone());
    let ends = Ends::new(cl, outbox, printed.clone(), pool.clone(), turn);
    let completer = Completer::start(ends).map_err(|e| {
        let why = format!("the server's worker cannot start a thread ({e}): try later");
        Refusal::new("internal", why)
    })?;
    Ok(Box::new(OpenCl {
        cl,
        record: Header::default(),
        work: None,
        outbox: setup.outbox,
        content: setup.content,
        native,
        completer,
        printed,
        objects,
        platforms,
        dirty: Vec::new(),
        unmarked: Unmarked::default(),
        blobs: HashMap::new(),
        svm: HashMap::new(),
        gate: setup.inventory.gate.clone(),
        turn: setup.turn,
        handles: Vec::new(),
        pool,
        slab: None,
        shared: Shared::new(setup.shared),
        builds: Arc::new(()),
        header_room: Arc::default(),
    }))
}

impl Api for OpenCl {
    fn execute(
        &mut self,
        h: &Header,
        payload: &[u8],
        hold: &mut Hold<'_>,
    ) -> Result<(), WireError> {
        self.slab = hold.take();
        (self.record, self.work) = (*h, None);
        let done = generated::dispatch(self, payload);
        // Still there when no command reads it.
        self.slab = None;
        self.mark_if_due(false);
        done
    }

    fn poll(&mut self, leisure: bool) -> bool {
        if self.turn.begins() {
            self.mark_found();
        }
        self.mark_if_due(leisure);
        self.objects.flush(self.cl, &mut self.dirty);
        // Where the driver says what has ended nobody need look.
        let looks = !self.completer.probe().is_told();
        (looks && self.completer.glance()) | !self.unmarked.is_empty()
    }

    fn close(&mut self) {
        self.objects.flush(self.cl, &mut self.dirty);
        self.printed.flush();
    }
}
