//! Host memory that the program makes with `cuMemCreate` and maps: host and device use it at one
//! address.

use super::api::{Api, at};

const SIZE: u64 = 2 << 20;
const DEVICE: u32 = 1;
const HOST: u32 = 2;
const NODE: u32 = 3;
const BOTH: u32 = 3;

/// Type, handle types, location, and nothing else.
fn props(location: u32, id: u32, handles: u32) -> [u32; 8] {
    [1, handles, location, id, 0, 0, 0, 0]
}

/// What is refused at the call.
fn mistakes(api: &Api) {
    let mut memory = 0u64;
    for (location, id, handles) in [
        (HOST, 0, 0),
        (HOST, 99, 0),
        (HOST, 0, 1),
        (NODE, 0, 0),
        (NODE, 99, 0),
        (4, 0, 0),
        (5, 0, 0),
        (0, 0, 0),
    ] {
        let mut p = props(location, id, handles);
        let mut grain = 0u64;
        println!("location {location} {id} {handles}");
        api.tell(
            "cuMemGetAllocationGranularity",
            &[at(&mut grain), at(&mut p), 0],
        );
        println!("{grain}");
        let args = [at(&mut memory), SIZE, at(&mut p), 0];
        if api.tell("cuMemCreate", &args) == 0 {
            api.tell("cuMemRelease", &[memory]);
        }
        // A pool of it: type, handle types, location, security attributes, most bytes, and rest.
        let mut pool_props = [0u64; 11];
        pool_props[0] = 1 | u64::from(handles) << 32;
        pool_props[1] = u64::from(location) | u64::from(id) << 32;
        let mut pool = 0u64;
        if api.tell("cuMemPoolCreate", &[at(&mut pool), at(&mut pool_props)]) == 0 {
            api.tell("cuMemPoolDestroy", &[pool]);
        }
    }
    let mut p = props(HOST, 0, 0);
    for (size, flags) in [(0, 0), (4096, 0), (SIZE, 1)] {
        api.tell("cuMemCreate", &[at(&mut memory), size, at(&mut p), flags]);
    }
}

struct Place<'a> {
    api: &'a Api,
    va: u64,
}

impl Place<'_> {
    fn words(&self) -> &'static mut [u32] {
        // SAFETY: memory that is mapped, and that no work uses while the program looks.
        unsafe { std::slice::from_raw_parts_mut(self.va as *mut u32, SIZE as usize / 4) }
    }

    fn map(&self, memory: u64) {
        self.api.tell("cuMemMap", &[self.va, SIZE, 0, memory, 0]);
    }

    fn allow(&self, who: &mut [[u32; 3]]) {
        let n = who.len() as u64;
        self.api
            .tell("cuMemSetAccess", &[self.va, SIZE, at(&mut who[0]), n]);
    }

    fn access(&self, kind: u32) {
        let (mut flags, mut location) = (9u64, [kind, 0]);
        let args = [at(&mut flags), at(&mut location), self.va];
        self.api.tell("cuMemGetAccess", &args);
        println!("{flags}");
    }

    fn attributes(&self) {
        for which in [1, 2, 4, 8, 10, 16] {
            let mut got = 0u64;
            let args = [at(&mut got), which, self.va + 64];
            self.api.tell("cuPointerGetAttribute", &args);
            println!("{which}: {}", if which == 4 { got - self.va } else { got });
        }
    }
}

/// Kernels and copies use it, and the program does.
fn used(api: &Api, p: &Place<'_>, round: u32) {
    let [fill, mark] = ["fill", "mark"].map(|n| api.kernel(n));
    let ends = |w: &[u32]| [w[0], w[1], w[w.len() - 1]];
    let words = p.words();
    println!("as it was: {:?}", ends(words));
    words.fill(round);
    // Through an address on the device that is no parameter.
    let cell = api.made("cuMemAlloc_v2", &[8]);
    let mut word = p.va + 4;
    api.tell("cuMemcpyHtoD_v2", &[cell, at(&mut word), 8]);
    api.launch(mark, 0, &[cell, u64::from(1000 + round)]);
    api.tell("cuCtxSynchronize", &[]);
    println!("marked: {:?}", ends(words));
    api.launch(fill, 0, &[p.va, u64::from(round + 7), SIZE / 4]);
    api.tell("cuCtxSynchronize", &[]);
    println!("filled: {:?}", ends(words));
    words[1] = 5;
    let there = api.made("cuMemAlloc_v2", &[SIZE]);
    api.tell("cuMemcpyHtoD_v2", &[there, p.va, SIZE]);
    api.tell("cuMemsetD8_v2", &[p.va, 1, SIZE]);
    api.tell("cuCtxSynchronize", &[]);
    println!("set: {:?}", ends(words));
    api.tell("cuMemcpyDtoH_v2", &[p.va, there, SIZE]);
    println!("back: {:?}", ends(words));
    api.tell("cuMemcpy", &[p.va + 8, p.va, 8]);
    api.tell("cuCtxSynchronize", &[]);
    println!("moved: {:?}", &words[..4]);
    let mut own = vec![0u32; 4];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut own[0]), p.va, 16]);
    println!("own: {own:?}");
    // What a stream waits for, the program writes later, and sees what the stream writes.
    let s = api.made("cuStreamCreate", &[1]);
    words[5000] = 0;
    api.tell("cuStreamWaitValue32_v2", &[s, p.va + 20_000, 3, 1]);
    api.tell("cuStreamWriteValue32_v2", &[s, p.va + 20_004, 4, 0]);
    words[5000] = 3;
    api.tell("cuStreamSynchronize", &[s]);
    println!("waited: {:?}", &words[5000..5002]);
    for freed in [cell, there] {
        api.tell("cuMemFree_v2", &[freed]);
    }
    api.tell("cuStreamDestroy_v2", &[s]);
}

/// The program.
pub fn created(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    mistakes(api);
    for location in [HOST, NODE] {
        let mut p = props(location, 0, 0);
        let memory = api.made("cuMemCreate", &[SIZE, at(&mut p), 0]);
        let mut told = [9u32; 8];
        let args = [at(&mut told), memory];
        api.tell("cuMemGetAllocationPropertiesFromHandle", &args);
        println!("{:?}", &told[..4]);
        // Device memory in the same reservation.
        let mut of_device = props(DEVICE, 0, 0);
        let other = api.made("cuMemCreate", &[SIZE, at(&mut of_device), 0]);
        let va = api.made("cuMemAddressReserve", &[3 * SIZE, 0, 0, 0]);
        api.tell("cuMemMap", &[va + SIZE, SIZE, 0, other, 0]);
        let place = Place { api, va };
        place.map(memory);
        place.access(HOST);
        let mut both = [[DEVICE, 0, BOTH], [HOST, 0, BOTH]];
        place.allow(&mut [[DEVICE, 0, 7]]);
        place.allow(&mut [[DEVICE, 99, BOTH]]);
        // The program reaches no memory of devices.
        api.tell("cuMemSetAccess", &[va, 2 * SIZE, at(&mut both), 2]);
        api.tell("cuMemSetAccess", &[va, 2 * SIZE, at(&mut both), 1]);
        api.tell("cuMemSetAccess", &[va, 3 * SIZE, at(&mut both), 1]);
        place.allow(&mut both);
        for kind in [HOST, DEVICE] {
            place.access(kind);
        }
        place.attributes();
        used(api, &place, 10);
        api.tell("cuMemFreeHost", &[va]);
        // Mapped elsewhere it has the bytes that kernels left last.
        let fill = api.kernel("fill");
        api.launch(fill, 0, &[va, 77, SIZE / 4]);
        api.tell("cuMemUnmap", &[va, SIZE]);
        let place = Place {
            api,
            va: va + 2 * SIZE,
        };
        place.map(memory);
        // It lives as long as it is mapped.
        api.tell("cuMemRelease", &[memory]);
        place.allow(&mut both[1..]);
        println!("elsewhere: {:?}", &place.words()[..2]);
        place.words()[0] = 78;
        place.allow(&mut both);
        used(api, &place, 20);
        api.tell("cuMemUnmap", &[va, 3 * SIZE]);
        api.tell("cuMemAddressFree", &[va, 3 * SIZE]);
        api.tell("cuMemRelease", &[other]);
    }
    println!("done");
}
