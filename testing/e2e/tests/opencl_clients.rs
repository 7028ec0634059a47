//! Two clients of two servers in one process: each thread uses the one that it is bound to, and
//! what becomes of one is nothing to the other.

use busbar_abi::opencl::*;
use busbar_client::config::{Config, Sharing};
use busbar_client::opencl::call::Client;
use busbar_client::opencl::generated::{
    self, context, device, event, image, map, memory, platform, queue, svm, transfer,
};
use busbar_client::opencl::life;
use busbar_e2e::opencl::Server;
use busbar_e2e::until;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn client(server: &Server) -> &'static Client {
    let config = Config {
        servers: vec![server.address.clone()],
        resume_timeout: Duration::from_secs(2),
        ..Config::from_env()
    };
    Box::leak(Box::new(life::open(&config, generated::functions())))
}

/// The handle or code of a call that creates something.
fn made(call: impl FnOnce(*mut i32) -> Handle) -> Result<Handle, i32> {
    let mut code = -9999;
    let handle = call(&raw mut code);
    match code {
        CL_SUCCESS => Ok(handle),
        e => Err(e),
    }
}

fn ok(code: i32) -> Result<(), i32> {
    match code {
        CL_SUCCESS => Ok(()),
        e => Err(e),
    }
}

/// The first platform and device of this thread's client.
fn first() -> Result<(Handle, Handle), i32> {
    let (mut p, mut d) = (null_mut(), null_mut());
    // SAFETY: places for one handle each.
    unsafe {
        ok(platform::clGetPlatformIDs(1, &raw mut p, null_mut()))?;
        let all = CL_DEVICE_TYPE_ALL;
        ok(device::clGetDeviceIDs(p, all, 1, &raw mut d, null_mut()))?;
    }
    Ok((p, d))
}

fn name(d: Handle) -> String {
    let (mut text, mut n) = ([0u8; 256], 0);
    // SAFETY: a device, and room of the size given.
    let code = unsafe {
        let room = text.as_mut_ptr().cast();
        device::clGetDeviceInfo(d, CL_DEVICE_NAME, text.len(), room, &raw mut n)
    };
    assert_eq!(code, CL_SUCCESS);
    String::from_utf8_lossy(&text[..n - 1]).into_owned()
}

/// A queue and a buffer of `LEN` bytes.
fn prepare(d: Handle) -> Result<(Handle, Handle), i32> {
    // SAFETY: handles of the API, and no callbacks.
    unsafe {
        let c = made(|e| context::clCreateContext(null(), 1, &raw const d, null(), null_mut(), e))?;
        let q = made(|e| queue::clCreateCommandQueue(c, d, 0, e))?;
        let b = made(|e| memory::clCreateBuffer(c, CL_MEM_READ_WRITE, LEN, null_mut(), e))?;
        Ok((q, b))
    }
}

const LEN: usize = 3 << 20;

/// Writes bytes that only `seed` makes, and reads them back.
fn echo(q: Handle, b: Handle, seed: u8) -> Result<bool, i32> {
    let sent: Vec<u8> = (0..LEN)
        .map(|i| (i as u8).wrapping_mul(31) ^ seed)
        .collect();
    let mut got = vec![0u8; LEN];
    let none = null_mut();
    // SAFETY: as many bytes as the buffer has, until the blocking read is over.
    unsafe {
        let (from, to) = (sent.as_ptr().cast(), got.as_mut_ptr().cast());
        ok(transfer::clEnqueueWriteBuffer(
            q,
            b,
            0,
            0,
            LEN,
            from,
            0,
            null(),
            none,
        ))?;
        ok(transfer::clEnqueueReadBuffer(
            q,
            b,
            1,
            0,
            LEN,
            to,
            0,
            null(),
            none,
        ))?;
    }
    Ok(got == sent)
}

#[test]
fn two_clients_of_two_servers_live_in_one_process() {
    let (one, mut two) = (Server::start(), Server::start());
    let (a, b) = (client(&one), client(&two));
    let work = |client: &'static Client, address: &str, seed: u8| {
        life::bind(Some(client));
        let (p, d) = first().expect("a device");
        assert!(name(d).ends_with(&format!("@ {address}")));
        let (q, m) = prepare(d).expect("a queue and a buffer");
        for round in 0..4 {
            assert_eq!(echo(q, m, seed ^ round), Ok(true));
        }
        (p as usize, q as usize, m as usize)
    };
    let ((p, q, m), (other_p, other_q, other_m)) = std::thread::scope(|s| {
        let left = s.spawn(|| work(a, &one.address, 7));
        let right = s.spawn(|| work(b, &two.address, 99));
        (left.join().expect("works"), right.join().expect("works"))
    });
    assert_ne!(p, other_p);
    assert_eq!((one.sessions().len(), two.sessions().len()), (1, 1));
    // A handle says where it lives, whichever client its thread is bound to.
    life::bind(Some(a));
    let (other_q, other_m) = (other_q as Handle, other_m as Handle);
    assert_eq!(echo(other_q, other_m, 3), Ok(true));
    // The end of one is nothing to the other.
    two.kill();
    let lost = busbar_e2e::until("the end of a session", || echo(other_q, other_m, 4).err());
    assert_eq!(lost, CL_DEVICE_NOT_AVAILABLE);
    assert_eq!(echo(q as Handle, m as Handle, 5), Ok(true));
    // A thread that is bound to none uses the process's own, which has no server here.
    life::bind(None);
    assert_eq!(first(), Err(ext::CL_PLATFORM_NOT_FOUND_KHR));
}

/// Bytes that only `seed` makes.
fn bytes(len: usize, seed: usize) -> Vec<u8> {
    let byte = |i: usize| (i.wrapping_mul(31) ^ (i / 251) ^ seed) as u8;
    (0..len).map(byte).collect()
}

/// Writes, reads and maps of parts of a buffer by a queue with these properties; panics where a
/// byte is wrong.
fn copies(c: Handle, d: Handle, properties: u64) -> Result<(), i32> {
    const ALL: usize = 34 << 20;
    let mut code = 0;
    let mut model = bytes(ALL, 0);
    // SAFETY: the API's handles, and memory of the sizes given until each command has run.
    unsafe {
        let q = made(|e| queue::clCreateCommandQueue(c, d, properties, e))?;
        let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        let b = made(|e| memory::clCreateBuffer(c, flags, ALL, model.as_mut_ptr().cast(), e))?;
        // Around the least that is worth sharing, and more than all of the shared pieces.
        let least = 256 << 10;
        for (round, size) in [least - 1, least, (5 << 20) + 13, 30 << 20]
            .into_iter()
            .enumerate()
        {
            let at = 77 * round;
            let range = at..at + size;
            // Two writes that wait for the program, and a read behind them.
            let gate = made(|e| event::clCreateUserEvent(c, e))?;
            let (mut first, mut second, mut third) = (null_mut(), null_mut(), null_mut());
            let (old, new) = (bytes(size, 100 + round), bytes(size, round));
            let from = old.as_ptr().cast();
            let (list, done) = (&raw const gate, &raw mut first);
            ok(transfer::clEnqueueWriteBuffer(
                q, b, 0, at, size, from, 1, list, done,
            ))?;
            let from = new.as_ptr().cast();
            let (list, done) = (&raw const first, &raw mut second);
            ok(transfer::clEnqueueWriteBuffer(
                q, b, 0, at, size, from, 1, list, done,
            ))?;
            model[range.clone()].copy_from_slice(&new);
            let mut got = vec![0u8; size];
            let (to, list) = (got.as_mut_ptr().cast(), &raw const second);
            ok(transfer::clEnqueueReadBuffer(
                q,
                b,
                0,
                at,
                size,
                to,
                1,
                list,
                &raw mut third,
            ))?;
            ok(event::clSetUserEventStatus(gate, CL_COMPLETE))?;
            ok(event::clWaitForEvents(1, &raw const third))?;
            assert!(got == model[range.clone()], "a read of {size} bytes");
            // A map to read and write, changed and unmapped; and at once another that sees it.
            for change in [3u8, 5] {
                let both = CL_MAP_READ | CL_MAP_WRITE;
                let p = map::clEnqueueMapBuffer(
                    q,
                    b,
                    1,
                    both,
                    at,
                    size,
                    0,
                    null(),
                    null_mut(),
                    &raw mut code,
                );
                ok(code)?;
                let mapped = std::slice::from_raw_parts_mut(p.cast::<u8>(), size);
                assert!(*mapped == model[range.clone()], "a map of {size} bytes");
                for (m, byte) in mapped.iter_mut().zip(&mut model[range.clone()]) {
                    *byte ^= change;
                    *m = *byte;
                }
                ok(map::clEnqueueUnmapMemObject(q, b, p, 0, null(), null_mut()))?;
                ok(queue::clFinish(q))?;
            }
            let mut got = vec![0u8; size];
            let to = got.as_mut_ptr().cast();
            ok(transfer::clEnqueueReadBuffer(
                q,
                b,
                1,
                at,
                size,
                to,
                0,
                null(),
                null_mut(),
            ))?;
            assert!(got == model[range], "a waiting read of {size} bytes");
            for e in [gate, first, second, third] {
                ok(event::clReleaseEvent(e))?;
            }
        }
        ok(memory::clReleaseMemObject(b))?;
        ok(queue::clReleaseCommandQueue(q))
    }
}

#[test]
fn copies_are_the_same_with_and_without_shared_memory() {
    let server = Server::start();
    for sharing in [Sharing::Never, Sharing::Direct] {
        let config = Config {
            servers: vec![server.address.clone()],
            sharing,
            ..Config::from_env()
        };
        let client: &'static Client =
            Box::leak(Box::new(life::open(&config, generated::functions())));
        life::bind(Some(client));
        let (_, d) = first().expect("a device");
        // SAFETY: a device, and no callback.
        let c = unsafe {
            made(|e| context::clCreateContext(null(), 1, &raw const d, null(), null_mut(), e))
        };
        let c = c.expect("a context");
        let (loose, timed) = (
            CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
            CL_QUEUE_PROFILING_ENABLE,
        );
        for properties in [0, loose, timed] {
            let code = copies(c, d, properties);
            assert_eq!(code, Ok(()), "{sharing:?}, queue of {properties:#x}");
        }
        let sent = client.servers[0].session.counters().sent.load(Relaxed);
        assert_eq!(
            sent < 500 << 20,
            sharing == Sharing::Direct,
            "{sent} bytes sent"
        );
    }
    life::bind(None);
}

#[test]
fn objects_and_device_memory_are_counted_until_they_are_released() {
    let server = Server::start();
    life::bind(Some(client(&server)));
    let (_, d) = first().expect("a device");
    let number = |what: &str, kind: &str, field: &str| {
        let session = &server.sessions()[0];
        let found = &session[what][kind];
        let found = if field.is_empty() {
            found
        } else {
            &found[field]
        };
        found.as_u64().unwrap_or(0)
    };
    let bytes = |kind: &str| number("memory", kind, "bytes");
    let objects = |kind: &str| number("objects", kind, "");
    let format = ImageFormat {
        order: CL_RGBA,
        data_type: CL_UNORM_INT8,
    };
    let region = BufferRegion {
        origin: 0,
        size: 4096,
    };
    // SAFETY: the API's handles, structures that live through their calls, and no callback.
    unsafe {
        let (q, b) = prepare(d).expect("a queue and a buffer");
        let mut c: Handle = null_mut();
        let room = (&raw mut c).cast();
        let asked = queue::clGetCommandQueueInfo(q, CL_QUEUE_CONTEXT, 8, room, null_mut());
        assert_eq!(asked, CL_SUCCESS);
        let info = (&raw const region).cast();
        let kind = CL_BUFFER_CREATE_TYPE_REGION;
        let part = made(|e| memory::clCreateSubBuffer(b, CL_MEM_READ_WRITE, kind, info, e));
        let form = (&raw const format).cast();
        let flags = CL_MEM_READ_WRITE;
        let picture = made(|e| image::clCreateImage2D(c, flags, form, 64, 32, 0, null_mut(), e));
        let p = svm::clSVMAlloc(c, flags, 1 << 20, 0);
        let (part, picture) = (part.expect("a part"), picture.expect("an image"));
        assert!(!p.is_null());
        assert_eq!(queue::clFinish(q), CL_SUCCESS);
        assert_eq!(bytes("buffer"), LEN as u64, "and nothing for a part of it");
        assert_eq!(bytes("image"), 64 * 32 * 4);
        // The client asks for a page more, to have the same address.
        assert!((1 << 20..1 << 21).contains(&bytes("svm")));
        assert_eq!(
            (objects("Memory"), objects("Queue"), objects("Context")),
            (3, 1, 1)
        );
        svm::clSVMFree(c, p);
        for m in [part, picture, b] {
            assert_eq!(memory::clReleaseMemObject(m), CL_SUCCESS);
        }
        assert_eq!(queue::clFinish(q), CL_SUCCESS);
        // The server is told of a release; nobody waits for its answer.
        until("all memory is given back", || {
            let left = [bytes("buffer"), bytes("image"), bytes("svm")];
            (left == [0; 3]).then_some(())
        });
        assert_eq!((objects("Memory"), objects("Queue")), (0, 1));
    }
    life::bind(None);
}
