//! Addresses that a client names, and whether they may go to the driver.
//!
//! The driver takes an address of its own process wherever it takes one of a device: page-locked
//! memory always, any memory where the GPU can reach it. This process's memory is none of the
//! client's business, so an address passes only if it lies where sessions put device memory, if the
//! driver gave it to this session, or if the driver says that it is a device's.

use super::driver::{kind_of, of_device};
use super::prelude::*;
use super::state::execs::Allocator;
use super::state::mapped::in_ranges;

impl Cuda {
    /// An address from the client, if it may go to the driver. Null may: it means nothing anywhere.
    #[inline]
    pub fn address(&self, va: CUdeviceptr) -> Result<CUdeviceptr> {
        let known = || self.given.has(va) || self.shared.twins.has(va);
        if in_ranges(va) || va == 0 || known() || of_device(self.driver, va) {
            Ok(va)
        } else {
            Err(CUDA_ERROR_INVALID_VALUE)
        }
    }

    /// Whether an address is of what a node of a graph that is there allocates, or a capture that
    /// goes on: the driver keeps it for that, launched or not.
    fn is_a_graphs(&self, va: u64, capture: Option<u64>) -> bool {
        let before = self.graphs.allocated.range(..=va).next_back();
        before.is_some_and(|(at, (size, by))| {
            let goes_on = match by {
                Allocator::Node(node) => self.handles.get(Kind::GraphNode, *node).is_ok(),
                Allocator::Capture(number) => Some(*number) == capture,
            };
            goes_on && va - at < *size
        })
    }

    /// Puts the machine's own ordinal where the program's was.
    pub fn locate(&self, at: &mut CUmemLocation) -> Result {
        if at.r#type == CU_MEM_LOCATION_TYPE_DEVICE {
            at.id = self.device(at.id)?;
        }
        Ok(())
    }

    /// A texture or surface object from the client, if it is one of the session's.
    pub fn object(&self, object: u64) -> Result<u64> {
        if self.given.objects.contains(&object) {
            Ok(object)
        } else {
            Err(CUDA_ERROR_INVALID_VALUE)
        }
    }

    /// Checks the addresses of memory operations of a stream.
    pub fn operations(&self, all: &[CUstreamBatchMemOpParams]) -> Result {
        for op in all {
            match op.u[0] as u32 {
                CU_STREAM_MEM_OP_BARRIER | CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES => {}
                // Kind, address, value, flags, and an address that tools know the first by.
                _ => {
                    self.address(op.u[1])?;
                }
            }
        }
        Ok(())
    }

    /// An attribute of a stream or node, unless it is one whose value is an event: only a launch
    /// puts the driver's handle in the place of the client's id.
    pub fn attribute(&self, id: CUlaunchAttributeID) -> Result<CUlaunchAttributeID> {
        match id {
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
            | CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT => Err(CUDA_ERROR_INVALID_VALUE),
            _ => Ok(id),
        }
    }

    /// Remembers a texture or surface object. One that is destroyed is the driver's to refuse.
    pub fn gave_object(&mut self, object: u64) {
        self.given.objects.insert(object);
    }
}

/// One end of a copy of rows.
struct End {
    kind: CUmemorytype,
    device: CUdeviceptr,
    array: CUarray,
    at: [usize; 3],
    pitch: usize,
    height: usize,
}

impl End {
    fn check(&self, w: &Cuda, capture: Option<u64>) -> Result {
        match self.kind {
            CU_MEMORYTYPE_ARRAY if !self.array.is_null() => Ok(()),
            CU_MEMORYTYPE_DEVICE | CU_MEMORYTYPE_UNIFIED => {
                let [x, y, z] = self.at.map(|n| n as u64);
                let pitch = self.pitch as u64;
                let first = pitch
                    .checked_mul(self.height as u64)
                    .and_then(|slice| slice.checked_mul(z))
                    .and_then(|n| n.checked_add(pitch.checked_mul(y)?))
                    .and_then(|n| n.checked_add(x))
                    .and_then(|n| n.checked_add(self.device))
                    .ok_or(CUDA_ERROR_INVALID_VALUE)?;
                w.address(self.device)?;
                w.address(first)?;
                // What the driver does not know it takes for memory of this process's.
                let unified = self.kind == CU_MEMORYTYPE_UNIFIED;
                let known = |va| kind_of(w.driver, va).is_some() || w.is_a_graphs(va, capture);
                let good = !unified || known(self.device) && known(first);
                good.then_some(()).ok_or(CUDA_ERROR_INVALID_VALUE)
            }
            // The program's own memory is somewhere else.
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// Checks that the source of a copy is on a device.
pub fn check_source(w: &Cuda, c: &CUDA_MEMCPY3D) -> Result {
    check_captured_source(w, c, None)
}

/// The same in a capture, which has a number.
pub fn check_captured_source(w: &Cuda, c: &CUDA_MEMCPY3D, capture: Option<u64>) -> Result {
    End {
        kind: c.srcMemoryType,
        device: c.srcDevice,
        array: c.srcArray,
        at: [c.srcXInBytes, c.srcY, c.srcZ],
        pitch: c.srcPitch,
        height: c.srcHeight,
    }
    .check(w, capture)
}

/// Checks that the destination of a copy is on a device.
pub fn check_destination(w: &Cuda, c: &CUDA_MEMCPY3D) -> Result {
    check_captured_destination(w, c, None)
}

/// The same in a capture, which has a number.
pub fn check_captured_destination(w: &Cuda, c: &CUDA_MEMCPY3D, capture: Option<u64>) -> Result {
    End {
        kind: c.dstMemoryType,
        device: c.dstDevice,
        array: c.dstArray,
        at: [c.dstXInBytes, c.dstY, c.dstZ],
        pitch: c.dstPitch,
        height: c.dstHeight,
    }
    .check(w, capture)
}
