//! Images of device code from a client: what passes the worker's check, the driver can read to the
//! end that it says it has. The driver here is the simulated one; the bytes behind an image are
//! none of its memory, which AddressSanitizer sees. What an image needs of a device is read from
//! it, unpacked where it is packed, and ends whatever it says.
#![no_main]

use busbar_fuzz::worker;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: worker::warm("cuda"), |data: &[u8]| {
    if let Ok(image) = busbar_worker::cuda::image::checked(data.to_vec()) {
        let _ = busbar_worker::cuda::image::on_device(&image.bytes, true);
        worker::load(&image.bytes);
    }
});
