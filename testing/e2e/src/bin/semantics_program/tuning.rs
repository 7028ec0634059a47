//! A library that tries out kernels, as XLA does: a flag in page-locked memory by which each waits
//! for the program, the time that it took, and a word of the device's that says what came of it.

use super::api::{Api, IMAGE, at};
use super::talks::words;
use std::sync::atomic::Ordering;

const PORTABLE: u64 = 1;

/// Where flags are: in CUDA's own page-locked memory, or in a page of the program's, which holds
/// other things, too, and of which each is registered.
struct Place(Option<u64>);

impl Place {
    fn make(&self, api: &Api, round: u32) -> u64 {
        let Some(page) = self.0 else {
            return api.made("cuMemHostAlloc", &[4, PORTABLE]);
        };
        let p = page + u64::from(round % 4) * 256;
        assert_eq!(api.call("cuMemHostRegister_v2", &[p, 4, PORTABLE]), 0);
        p
    }

    fn free(&self, api: &Api, p: u64) {
        let name = match self.0 {
            None => "cuMemFreeHost",
            Some(_) => "cuMemHostUnregister",
        };
        assert_eq!(api.call(name, &[p]), 0, "{name}");
    }
}

/// A page of the program's, for as long as it runs.
fn page() -> u64 {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping where nothing is.
    let p = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0) };
    assert_ne!(p, libc::MAP_FAILED);
    p as u64
}

/// So many kernels are tried, each with a flag of its own.
pub fn tuned(api: &Api, rounds: u32, registered: bool) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    let place = Place(registered.then(page));
    let stream = api.made("cuStreamCreate", &[1]);
    let module = api.made("cuModuleLoadData", &[IMAGE.as_ptr() as u64]);
    let of =
        |name: &std::ffi::CStr| api.made("cuModuleGetFunction", &[module, name.as_ptr() as u64]);
    let (flag, copy) = (of(c"flag"), of(c"copy"));
    let there = api.made("cuMemAlloc_v2", &[64]);
    let call = |name: &str, args: &[u64]| assert_eq!(api.call(name, args), 0, "{name}");
    // A word of the library's own: while work is under way it is looked at.
    let own = api.made("cuMemHostAlloc", &[64, PORTABLE]);
    assert_eq!(api.launch(flag, stream, &[own, 1]), 0);
    // Nobody ever waits for another stream's work.
    let other = api.made("cuStreamCreate", &[1]);
    assert_eq!(api.launch(flag, other, &[there + 32, 1]), 0);
    let tried = (1..=rounds).filter(|round| {
        let p = place.make(api, *round);
        let [word, _] = words(p);
        word.store(1000 + round, Ordering::Release);
        assert_eq!(api.launch(copy, stream, &[there + 4, p, 4]), 0);
        assert_eq!(api.launch(flag, stream, &[p, u64::from(*round)]), 0);
        let [start, stop] = [0, 0].map(|flags| api.made("cuEventCreate", &[flags]));
        call("cuEventRecord", &[start, stream]);
        assert_eq!(api.launch(flag, stream, &[there, u64::from(*round)]), 0);
        call("cuEventRecord", &[stop, stream]);
        call("cuEventSynchronize", &[stop]);
        let mut ms = -1f32;
        call("cuEventElapsedTime", &[at(&mut ms), start, stop]);
        for event in [start, stop] {
            call("cuEventDestroy_v2", &[event]);
        }
        let seen = word.load(Ordering::Acquire) == *round && ms >= 0.0;
        place.free(api, p);
        let mut result = [0u32; 2];
        call("cuMemcpyDtoHAsync_v2", &[at(&mut result), there, 8, stream]);
        call("cuStreamSynchronize", &[stream]);
        // A counter of what is wrong, filled, raised by a kernel and copied out of itself.
        let p = place.make(api, *round + 1);
        call("cuMemsetD8Async", &[p, 0, 4, stream]);
        assert_eq!(api.launch(flag, stream, &[p, u64::from(*round)]), 0);
        let mut wrong = 0u32;
        call("cuMemcpyDtoHAsync_v2", &[at(&mut wrong), p, 4, stream]);
        call("cuStreamSynchronize", &[stream]);
        place.free(api, p);
        seen && result == [*round, 1000 + round] && wrong == *round
    });
    println!("tried: {}", tried.count());
}
