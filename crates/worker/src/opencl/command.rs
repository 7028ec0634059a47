//! Commands: launches, copies, events.

use super::done::{Answer, Events, Held};
use super::enqueue::packed;
use super::prelude::*;
use crate::turn::kind;
use busbar_wire::codec::Message;
use busbar_wire::pieces::Piece;

/// Where a box without gaps begins.
const ZERO: &[usize; 3] = &[0; 3];
/// The longest pattern of a fill: the longest vector type.
const MOST_PATTERN: usize = 128;

/// Where a piece of a box begins that begins at `origin` itself.
fn begin(origin: &[u64; 3], piece: &Piece) -> [usize; 3] {
    std::array::from_fn(|i| origin[i].wrapping_add(piece.at[i]) as usize)
}

/// Three sizes for the library.
fn sizes(v: &[u64; 3]) -> [usize; 3] {
    v.map(|x| x as usize)
}

impl OpenCl {
    /// Sets the arguments that the client has set since the kernel's last launch.
    pub fn set_args(&self, kernel: Handle, args: &[u8]) -> Result<(), Fail> {
        let mut r = Reader::new(args);
        while r.left() > 0 {
            let (i, tag) = (r.u32()?, r.u8()?);
            let set = self.cl.clSetKernelArg;
            let object = |h: Handle| {
                let place = (&raw const h).cast();
                // SAFETY: a kernel and an object of ours.
                unsafe { set(kernel, i, size_of::<Handle>(), place) }
            };
            let code = if tag == 0 {
                let b = r.bytes()?;
                self.is_value(kernel, i, b)?;
                // SAFETY: a kernel of ours and as many bytes as we say.
                unsafe { set(kernel, i, b.len(), b.as_ptr().cast()) }
            } else {
                let v = r.u64()?;
                match tag {
                    1 => object(self.objects.memory(v as u32)?),
                    2 => object(self.objects.sampler(v as u32)?),
                    3 => object(self.objects.queue(v as u32)?.raw),
                    // SAFETY: a kernel of ours; a size without a value.
                    4 => unsafe { set(kernel, i, v as usize, null()) },
                    // SAFETY: a kernel of ours; the pointer goes to the device as it is.
                    5 => unsafe {
                        (self.cl.clSetKernelArgSVMPointer)(kernel, i, v as *const c_void)
                    },
                    _ => return Err(Fail::Wire(WireError::BadValue("kind of argument"))),
                }
            };
            ok(code)?;
        }
        Ok(())
    }

    /// Checks that an argument which came as bytes is one. Where the kernel takes an object, the
    /// library takes the bytes for its address, and a client's word for an address is never
    /// followed.
    fn is_value(&self, kernel: Handle, i: u32, bytes: &[u8]) -> Result<(), Fail> {
        if bytes.len() != size_of::<Handle>() || bytes.iter().all(|b| *b == 0) {
            return Ok(());
        }
        let info = |param: u32, out: &mut [u8]| {
            let (f, mut n) = (self.cl.clGetKernelArgInfo, 0);
            let (p, len) = (out.as_mut_ptr().cast(), out.len());
            // SAFETY: a kernel of ours, and room for as many bytes as said.
            let code = unsafe { f(kernel, i, param, len, p, &raw mut n) };
            (code == CL_SUCCESS).then_some(n.min(out.len()))
        };
        let mut place = [0; 4];
        let mut name = [0; 64];
        // A library that does not know what its kernels take has to check for itself.
        if info(CL_KERNEL_ARG_ADDRESS_QUALIFIER, &mut place).is_none() {
            return Ok(());
        }
        let n = info(CL_KERNEL_ARG_TYPE_NAME, &mut name).unwrap_or(0);
        let object = [&b"sampler_t\0"[..], b"queue_t\0", b"clk_event_t\0"].contains(&&name[..n]);
        if u32::from_ne_bytes(place) != CL_KERNEL_ARG_ADDRESS_PRIVATE || object {
            return Err(Fail::Code(CL_INVALID_ARG_VALUE));
        }
        Ok(())
    }

    pub fn launch_kernel(&mut self, m: wire::LaunchKernel<'_>) -> Result<(), Fail> {
        let args = self
            .objects
            .kernel(m.kernel)
            .map_err(Fail::Code)
            .and_then(|k| self.set_args(k, m.args).map(|()| k));
        let kernel = match args {
            Ok(k) => Ok(k),
            Err(Fail::Code(e)) => Err(e),
            Err(wire) => return Err(wire),
        };
        let dims = m.dims & 3;
        if dims == 0 || m.dims > 7 {
            return Err(Fail::Wire(WireError::BadValue("number of dimensions")));
        }
        if self.native {
            self.content.clients_code_runs();
        }
        let (offset, global, local) = (sizes(&m.offset), sizes(&m.global), sizes(&m.local));
        if !self.turn.is_free() {
            self.work = Some(kind((m.kernel, global, local)));
        }
        let chosen = if m.dims & 4 != 0 {
            null()
        } else {
            local.as_ptr()
        };
        self.command(m.queue, m.event, &m.waits, |this, q, n, list, e| {
            let f = this.cl.clEnqueueNDRangeKernel;
            let (o, g) = (offset.as_ptr(), global.as_ptr());
            // SAFETY: objects of ours and three sizes each.
            Ok(unsafe { f(q, kernel?, dims, o, g, chosen, n, list, e) })
        })
    }

    pub fn share_memory(&mut self, m: wire::ShareMemory) -> Result<(), Fail> {
        self.shared.share(m.number, m.size)?;
        Ok(())
    }

    pub fn unshare_memory(&mut self, m: wire::UnshareMemory) -> Result<(), Fail> {
        self.shared.unshare(m.number);
        Ok(())
    }

    /// Answers once the command has run, and keeps the memory until then.
    pub fn copy_shared(&mut self, m: wire::CopyShared) -> Result<Answered, Fail> {
        let buffer = self.objects.memory(m.buffer);
        let (mapping, at) = match self.shared.part(m.memory, m.at, m.size) {
            Ok((mapping, at)) => (Some(mapping), Ok(at)),
            Err(e) => (None, Err(e)),
        };
        let (offset, size) = (m.offset as usize, m.size as usize);
        let e = self.enqueue(m.queue, m.event, &m.waits, true, |this, q, n, list, e| {
            let (read, write) = (this.cl.clEnqueueReadBuffer, this.cl.clEnqueueWriteBuffer);
            let (b, at) = (buffer?, at? as *mut c_void);
            // SAFETY: objects of ours; the memory is kept until the command has run.
            Ok(unsafe {
                match m.to_buffer {
                    0 => read(q, b, 0, offset, size, at, n, list, e),
                    _ => write(q, b, 0, offset, size, at, n, list, e),
                }
            })
        })?;
        // SAFETY: an event of ours, now with one more owner.
        unsafe { (self.cl.clRetainEvent)(e) };
        self.completer.keep(Events::one(e), Held::Mapping(mapping));
        Ok(self.answer_after(Some(Events::one(e)), Answer::Strict))
    }

    pub fn write_buffer_rect(&mut self, m: wire::WriteBufferRect<'_>) -> Result<(), Fail> {
        let data = self.data(m.blob, m.data)?;
        if packed(&m.region) != Some(data.bytes().len() as u64) {
            return Err(Fail::Wire(WireError::BadValue("size of a box")));
        }
        let buffer = self.objects.memory(m.buffer);
        let (origin, region) = (sizes(&m.origin), sizes(&m.region));
        let [row, slice] = m.pitch.map(|p| p as usize);
        self.enqueue_from(
            (m.queue, m.event),
            &m.waits,
            data,
            |this, q, b, n, list, e| {
                let f = this.cl.clEnqueueWriteBufferRect;
                let (o, z, r) = (origin.as_ptr(), ZERO.as_ptr(), region.as_ptr());
                let (m, p) = (buffer?, b.as_ptr().cast());
                // SAFETY: objects of ours; the box without gaps is as long as the bytes, which are
                // kept.
                Ok(unsafe { f(q, m, 0, o, z, r, row, slice, 0, 0, p, n, list, e) })
            },
        )
    }

    pub fn read_buffer_rect(&mut self, m: wire::ReadBufferRect) -> Result<Answered, Fail> {
        let buffer = self.objects.memory(m.buffer);
        let [row, slice] = m.pitch.map(|p| p as usize);
        let (ids, area) = ((m.queue, m.event), (m.region, 1));
        self.enqueue_to(ids, &m.waits, area, |this, q, piece, b, n, list, e| {
            let (origin, region) = (begin(&m.origin, piece), sizes(&piece.region));
            let f = this.cl.clEnqueueReadBufferRect;
            let (o, z, r) = (origin.as_ptr(), ZERO.as_ptr(), region.as_ptr());
            let (m, p) = (buffer?, b.as_mut_ptr().cast());
            // SAFETY: objects of ours; the memory has the size of the box and is kept.
            Ok(unsafe { f(q, m, 0, o, z, r, row, slice, 0, 0, p, n, list, e) })
        })
    }

    pub fn fill_buffer(&mut self, m: wire::FillBuffer<'_>) -> Result<(), Fail> {
        let buffer = self.objects.memory(m.buffer);
        let (offset, size) = (m.offset as usize, m.size as usize);
        let (p, len) = (m.pattern.as_ptr().cast(), m.pattern.len());
        refuse_if(!len.is_power_of_two(), CL_INVALID_VALUE)?;
        refuse_if(len > MOST_PATTERN, CL_INVALID_VALUE)?;
        self.command(m.queue, m.event, &m.waits, |this, q, n, list, e| {
            let f = this.cl.clEnqueueFillBuffer;
            // SAFETY: objects of ours; the pattern is copied by the call.
            Ok(unsafe { f(q, buffer?, p, len, offset, size, n, list, e) })
        })
    }

    pub fn write_image(&mut self, m: wire::WriteImage<'_>) -> Result<(), Fail> {
        let data = self.data(m.blob, m.data)?;
        let image = self.objects.memory(m.image);
        let (origin, region) = (sizes(&m.origin), sizes(&m.region));
        let wanted = self.region_bytes(image, &m.region);
        let have = data.bytes().len() as u64;
        self.enqueue_from(
            (m.queue, m.event),
            &m.waits,
            data,
            |this, q, b, n, list, e| {
                refuse_if(wanted? > have, CL_INVALID_VALUE)?;
                let f = this.cl.clEnqueueWriteImage;
                let (o, r, p) = (origin.as_ptr(), region.as_ptr(), b.as_ptr().cast());
                // SAFETY: objects of ours; there are enough bytes, and they are kept.
                Ok(unsafe { f(q, image?, 0, o, r, 0, 0, p, n, list, e) })
            },
        )
    }

    pub fn read_image(&mut self, m: wire::ReadImage) -> Result<Answered, Fail> {
        let image = self.objects.memory(m.image);
        let element = image.and_then(|i| self.element_size(i).ok_or(CL_INVALID_MEM_OBJECT));
        let wanted = self.region_bytes(image, &m.region);
        let ids = (m.queue, m.event);
        let area = (m.region, element.unwrap_or(1) as u64);
        self.enqueue_to(ids, &m.waits, area, |this, q, piece, b, n, list, e| {
            // The client has made room for as many bytes as it said.
            refuse_if(wanted? != m.bytes, CL_INVALID_VALUE)?;
            let (origin, region) = (begin(&m.origin, piece), sizes(&piece.region));
            let f = this.cl.clEnqueueReadImage;
            let (o, r, p) = (origin.as_ptr(), region.as_ptr(), b.as_mut_ptr().cast());
            // SAFETY: objects of ours; the memory has the size of the piece and is kept.
            Ok(unsafe { f(q, image?, 0, o, r, 0, 0, p, n, list, e) })
        })
    }

    /// Bytes of a region of an image without gaps.
    fn region_bytes(&self, image: Result<Handle, i32>, region: &[u64; 3]) -> Result<u64, i32> {
        let element = self.element_size(image?).ok_or(CL_INVALID_MEM_OBJECT)?;
        packed(region)
            .and_then(|n| n.checked_mul(element as u64))
            .ok_or(CL_INVALID_VALUE)
    }

    pub fn marker(&mut self, m: wire::Marker) -> Result<(), Fail> {
        let done =
            self.enqueue_at_once(m.queue, m.event, &m.waits, false, |this, q, n, list, e| {
                let f = match m.barrier {
                    0 => this.cl.clEnqueueMarkerWithWaitList,
                    _ => this.cl.clEnqueueBarrierWithWaitList,
                };
                // SAFETY: objects of ours.
                Ok(unsafe { f(q, n, list, e) })
            });
        done.map(drop)
    }

    pub fn finish(&mut self, m: wire::Finish) -> Result<Answered, Fail> {
        let e = self.enqueue_at_once(m.queue, 0, &[], true, |this, q, n, list, e| {
            // SAFETY: objects of ours.
            Ok(unsafe { (this.cl.clEnqueueMarkerWithWaitList)(q, n, list, e) })
        })?;
        self.objects.flush(self.cl, &mut self.dirty);
        let times = self.objects.timed(self.cl, &m.profile);
        Ok(self.answer_after(Some(Events::one(e)), Answer::Times(false, times)))
    }

    pub fn wait_for_events(&mut self, m: wire::WaitForEvents) -> Result<Answered, Fail> {
        let mut list = Vec::new();
        for id in &m.events {
            match self.objects.event(*id) {
                Ok(e) => list.push(e),
                Err(_) => return Err(Fail::Code(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)),
            }
        }
        for e in &list {
            // SAFETY: events of ours, each with one more owner now.
            unsafe { (self.cl.clRetainEvent)(*e) };
        }
        self.objects.flush(self.cl, &mut self.dirty);
        let times = self.objects.timed(self.cl, &m.profile);
        Ok(self.answer_after(Events::all(list), Answer::Times(true, times)))
    }

    pub fn event_status(&mut self, m: wire::EventStatus) -> Result<Answered, Fail> {
        self.objects.flush(self.cl, &mut self.dirty);
        let status = match self.objects.event(m.event) {
            Ok(e) => self.cl.status(e),
            Err(code) => code,
        };
        if status <= CL_COMPLETE {
            // What the command brought goes first.
            return Ok(self.answer_after(None, Answer::Status(status)));
        }
        let reply = wire::EventStatusReply { status };
        self.outbox
            .reply(self.record.call, CL_SUCCESS, |w| reply.encode(w));
        Ok(Answered)
    }

    pub fn event_profile(
        &mut self,
        m: wire::EventProfile,
    ) -> Result<wire::EventProfileReply, Fail> {
        let e = self.objects.event(m.event)?;
        let status = self.cl.status(e);
        let times = match status {
            CL_COMPLETE => self.cl.times(e)?,
            _ => [0; 5],
        };
        Ok(wire::EventProfileReply { status, times })
    }

    pub fn event_callback(&mut self, m: wire::EventCallback) -> Result<(), Fail> {
        let e = match self.objects.event(m.event) {
            Ok(e) => e,
            Err(code) => {
                self.outbox.callback(0, code, |w| w.u64(m.token));
                return Ok(());
            }
        };
        // SAFETY: an event of ours, with one more owner now.
        unsafe { (self.cl.clRetainEvent)(e) };
        self.objects.flush(self.cl, &mut self.dirty);
        let events = Events::at(e, m.trigger);
        self.answer_after(Some(events), Answer::Callback(m.token));
        Ok(())
    }
}
