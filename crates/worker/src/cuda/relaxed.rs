//! Captures and the threads of this process.

use busbar_abi::cuda::*;

/// Every capture is relaxed here: this process's threads serve many of the program's, and what one
/// of those may not do during a capture is not for the others to suffer from.
pub(super) const RELAXED: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_RELAXED;

/// Makes calls of the calling thread harmless to captures that are under way.
pub(super) fn relax(d: &Driver) {
    let mut mode = RELAXED;
    // SAFETY: a pointer to a live number. Before its first capture no thread minds if this fails.
    unsafe { d.cuThreadExchangeStreamCaptureMode(&mut mode) };
}
