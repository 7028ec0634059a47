//! Images of device code from a client: what passes the worker's check, the driver can read to the
//! end that it says it has. The driver here is the simulated one; the bytes behind an image are
//! none of its memory, which AddressSanitizer sees.
#![no_main]

use busbar_fuzz::worker;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: worker::warm("cuda"), |data: &[u8]| {
    if let Ok(image) = busbar_worker::cuda::image::checked(data.to_vec()) {
        worker::load(&image.bytes);
    }
});
