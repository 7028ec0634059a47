//! How much of each kind is live: leaks show as numbers that do not return.

use super::array::{ARRAYS, MIPMAPPED, SURFACES, TEXTURES};
use super::event::EVENTS;
use super::exec::EXECS;
use super::function::KERNELS;
use super::graph::GRAPHS;
use super::module::{LIBRARIES, MODULES};
use super::stream::STREAMS;
use super::user_object::OBJECTS;
use super::vmm::{CREATED, RESERVED};
use super::{context, device, memory, pool};
use crate::config;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::{LazyLock, Mutex};

/// The file of this process in the folder that `FAKEDEV_LIVE` names.
static FILE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let path = format!("{}/{}", config::get("FAKEDEV_LIVE")?, std::process::id());
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(path);
    file.ok().map(Mutex::new)
});

/// Room for all counts in the file, whose length stays.
const ROOM: usize = 400;

/// How many there are of each kind, but for what a device comes with.
pub fn counts() -> [(&'static str, usize); 15] {
    let ranges = memory::all();
    let host = ranges.iter().filter(|range| range.is_host()).count();
    [
        ("contexts", context::live()),
        ("streams", STREAMS.len()),
        ("events", EVENTS.len()),
        ("modules", MODULES.len()),
        ("libraries", LIBRARIES.len()),
        ("kernels", KERNELS.len()),
        ("graphs", GRAPHS.len()),
        ("execs", EXECS.len()),
        ("host_ranges", host),
        ("device_ranges", ranges.len() - host),
        ("pools", pool::live()),
        ("reserved", RESERVED.lock().unwrap().len()),
        ("created", CREATED.len()),
        (
            "arrays",
            ARRAYS.len() + MIPMAPPED.len() + TEXTURES.len() + SURFACES.len(),
        ),
        ("user_objects", OBJECTS.len()),
    ]
}

/// Writes the counts to the file, if there is one, as JSON: what a process leaves whichever way it
/// ends is what was written last.
pub fn keep() {
    let (Ok(()), Some(file)) = (device::initialized(), &*FILE) else {
        return;
    };
    // One thread at a time counts and writes: older counts must not be written last.
    let file = file.lock().unwrap();
    let counts: Vec<_> = counts()
        .iter()
        .map(|(k, n)| format!("\"{k}\": {n}"))
        .collect();
    let text = format!("{{{}}}", counts.join(", "));
    // What cannot be written must not change what the program sees.
    let _ = file.write_all_at(format!("{text:ROOM$}").as_bytes(), 0);
}
