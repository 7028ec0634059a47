//! One relayed connection: for each direction a thread that reads, stamps and queues, and one that
//! writes what the shaper releases.
//!
//! A writer sleeps while the next release is far off and spins through the last stretch, so a
//! release is late by about a microsecond where there is a core to spin on.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::ring::{Consumer, Producer, ring};
use crate::shaper::{End, FlowId, Nanos, Release, Shaper};
use crate::sock;
use crate::stats::DirectionStats;
use crate::units::LinkSpec;

/// Bytes read at once: large enough to be cheap, small enough for reading and writing to overlap.
const READ_SIZE: usize = 256 << 10;
/// How long a writer waits for a full socket before it looks whether the connection is over.
const BLOCKED_TICK: Duration = Duration::from_millis(20);
/// Longest sleep towards a release: a stall that ends early is noticed after this.
const SLEEP_TICK: Nanos = 50_000_000;
/// The relay's threads need little.
const STACK: usize = 256 << 10;

/// A lock is poisoned only by a panic, after which no number of this relay is worth having.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("another thread of the relay has panicked")
}

/// How threads wait.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// A release this close is waited for by spinning.
    pub spin: Nanos,
    /// After activity, look for more this long before sleeping.
    pub poll: Nanos,
}

/// One direction of the link, shared by all connections.
pub struct Direction {
    pub shaper: Mutex<Shaper>,
    pub stats: DirectionStats,
}

/// One direction of one connection.
struct Pipe {
    id: FlowId,
    /// Signalled to the writer; its mutex is the direction's shaper.
    wake: Condvar,
    /// Signalled to the reader when the ring has space; same mutex.
    space: Condvar,
    /// Counts arrivals, so that an idle writer sees one without taking the lock.
    arrivals: AtomicU32,
    writer_idles: AtomicBool,
    reader_waits: AtomicBool,
}

/// A pair of sockets and what goes between them.
pub struct Conn {
    directions: Arc<[Direction; 2]>,
    waiting: Waiting,
    capacity: usize,
    /// The side that connected to us, and the side that we connected to.
    sockets: [TcpStream; 2],
    /// Pipe 0 carries bytes from socket 0 to socket 1, pipe 1 back.
    pipes: [Pipe; 2],
    aborted: AtomicBool,
    ended: AtomicUsize,
}

/// Bytes a connection may have in the relay in one direction: what is in flight, and slack for
/// 16 ms (a few scheduler ticks) in which a thread may not run.
fn ring_capacity(link: &LinkSpec) -> usize {
    let bytes_per_second = link.rate_bps.unwrap_or(100_000_000_000) as f64 / 8.0;
    let in_flight = bytes_per_second * (link.delay_ns + link.jitter_ns) as f64 / 1e9;
    let slack = (bytes_per_second * 16e-3).clamp((1 << 20) as f64, (8 << 20) as f64);
    (in_flight.min((256 << 20) as f64) + slack) as usize
}

impl Conn {
    /// A connection from `sockets[0]`, whose bytes count as sent no earlier than `not_before`.
    pub fn new(
        directions: Arc<[Direction; 2]>,
        waiting: Waiting,
        link: &LinkSpec,
        sockets: [TcpStream; 2],
        not_before: Nanos,
    ) -> Arc<Conn> {
        let pipe = |way: usize| Pipe {
            id: lock(&directions[way].shaper).open(if way == 0 { not_before } else { 0 }),
            wake: Condvar::new(),
            space: Condvar::new(),
            arrivals: AtomicU32::new(0),
            writer_idles: AtomicBool::new(false),
            reader_waits: AtomicBool::new(false),
        };
        let pipes = [pipe(0), pipe(1)];
        Arc::new(Conn {
            directions,
            waiting,
            capacity: ring_capacity(link),
            sockets,
            pipes,
            aborted: AtomicBool::new(false),
            ended: AtomicUsize::new(0),
        })
    }

    /// Starts the connection's four threads.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        for way in 0..2 {
            let (producer, consumer) = ring(self.capacity);
            let conn = self.clone();
            thread::Builder::new()
                .name(format!("link-read-{way}"))
                .stack_size(STACK)
                .spawn(move || conn.read_side(way, producer))?;
            let conn = self.clone();
            thread::Builder::new()
                .name(format!("link-write-{way}"))
                .stack_size(STACK)
                .spawn(move || Writer::new(&conn, way, consumer).run())?;
        }
        Ok(())
    }

    fn over(&self) -> bool {
        self.aborted.load(Ordering::Acquire) || self.ended.load(Ordering::Acquire) == 2
    }

    /// Resets both sides. The sockets close, and so send their resets, when the last of the
    /// connection's threads lets go of it.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::SeqCst);
        for (way, socket) in self.sockets.iter().enumerate() {
            sock::reset_on_close(socket);
            // Wakes a reader blocked in the kernel; an error means that there is none.
            let _ = socket.shutdown(Shutdown::Read);
            self.wake_all(way);
        }
    }

    fn wake_all(&self, way: usize) {
        let pipe = &self.pipes[way];
        let _shaper = lock(&self.directions[way].shaper);
        pipe.wake.notify_all();
        pipe.space.notify_all();
    }

    /// Wakes the writer of a pipe if it has had nothing to do.
    fn announce(&self, way: usize) {
        let pipe = &self.pipes[way];
        pipe.arrivals.fetch_add(1, Ordering::SeqCst);
        if pipe.writer_idles.load(Ordering::SeqCst) {
            let _shaper = lock(&self.directions[way].shaper);
            pipe.wake.notify_all();
        }
    }

    fn finish(&self, way: usize, end: End) {
        lock(&self.directions[way].shaper).finish(self.pipes[way].id, sock::now(), end);
        self.announce(way);
    }

    fn read_side(&self, way: usize, mut producer: Producer) {
        // Bytes that waited for the ring did not wait on the link.
        let mut not_before = 0;
        while !self.over() {
            if producer.free() == 0 {
                not_before = self.wait_for_space(way, &producer);
                continue;
            }
            let space = producer.space();
            let len = space.len().min(READ_SIZE);
            match self.receive(way, &mut space[..len]) {
                Ok((0, _)) => return self.finish(way, End::Fin),
                Ok((len, at)) => {
                    producer.put(len);
                    let at = at.max(not_before);
                    lock(&self.directions[way].shaper).arrive(self.pipes[way].id, at, len);
                    self.announce(way);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.finish(way, End::Reset),
            }
        }
    }

    /// Waits for free space in the ring; returns when it was found. It waits for a quarter of the
    /// ring, so that a full link does not wake the reader for each segment.
    fn wait_for_space(&self, way: usize, producer: &Producer) -> Nanos {
        let pipe = &self.pipes[way];
        let mut guard = lock(&self.directions[way].shaper);
        pipe.reader_waits.store(true, Ordering::SeqCst);
        while producer.free() < self.capacity / 4 && !self.over() {
            guard = pipe
                .space
                .wait(guard)
                .expect("another thread of the relay has panicked");
        }
        pipe.reader_waits.store(false, Ordering::SeqCst);
        sock::now()
    }

    /// Reads, first looking without sleeping for as long as is asked for.
    fn receive(&self, way: usize, space: &mut [u8]) -> io::Result<(usize, Nanos)> {
        if self.waiting.poll > 0 {
            let until = sock::now() + self.waiting.poll;
            while sock::now() < until && !self.over() {
                match sock::receive(&self.sockets[way], space, false) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                    other => return other,
                }
            }
        }
        sock::receive(&self.sockets[way], space, true)
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        for (direction, pipe) in self.directions.iter().zip(&self.pipes) {
            // A poisoned lock needs no second panic here.
            if let Ok(mut shaper) = direction.shaper.lock() {
                shaper.close(pipe.id);
            }
        }
    }
}

/// The thread that delivers one direction.
struct Writer<'a> {
    conn: &'a Conn,
    way: usize,
    consumer: Consumer,
    /// The receiver took nothing until then, so bytes due earlier are not late.
    blocked_until: Nanos,
    /// Nothing was under way before what comes next.
    idle: bool,
    /// The far side is gone; what still comes is dropped until the connection ends.
    broken: bool,
}

impl<'a> Writer<'a> {
    fn new(conn: &'a Conn, way: usize, consumer: Consumer) -> Self {
        Writer {
            conn,
            way,
            consumer,
            blocked_until: 0,
            idle: true,
            broken: false,
        }
    }

    fn run(mut self) {
        sock::exact_timers();
        let (conn, way) = (self.conn, self.way);
        while !conn.over() {
            let seen = conn.pipes[way].arrivals.load(Ordering::SeqCst);
            let release = lock(&conn.directions[way].shaper).poll(conn.pipes[way].id, sock::now());
            match release {
                Release::Bytes { bytes, due } => self.deliver(bytes, due),
                Release::NotBefore(due) => self.sleep_towards(due),
                Release::Idle => {
                    self.idle = true;
                    self.wait_for_arrival(seen);
                }
                Release::End(End::Reset) => conn.abort(),
                Release::End(End::Fin) => {
                    // An error means that the far side has gone already.
                    let _ = conn.sockets[1 - way].shutdown(Shutdown::Write);
                    if conn.ended.fetch_add(1, Ordering::SeqCst) == 1 {
                        conn.wake_all(0);
                        conn.wake_all(1);
                    }
                }
            }
        }
    }

    /// Waits until `due`, or less: the caller asks the shaper again.
    fn sleep_towards(&self, due: Nanos) {
        let now = sock::now();
        let sleep = due
            .saturating_sub(now + self.conn.waiting.spin)
            .min(SLEEP_TICK);
        if sleep == 0 {
            while sock::now() < due {
                std::hint::spin_loop();
            }
            return;
        }
        let guard = lock(&self.conn.directions[self.way].shaper);
        if !self.conn.over() {
            let pipe = &self.conn.pipes[self.way];
            drop(pipe.wake.wait_timeout(guard, Duration::from_nanos(sleep)));
        }
    }

    fn wait_for_arrival(&self, seen: u32) {
        let pipe = &self.conn.pipes[self.way];
        let until = sock::now() + self.conn.waiting.poll;
        while sock::now() < until {
            if pipe.arrivals.load(Ordering::SeqCst) != seen || self.conn.over() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.conn.directions[self.way].shaper);
        pipe.writer_idles.store(true, Ordering::SeqCst);
        while pipe.arrivals.load(Ordering::SeqCst) == seen && !self.conn.over() {
            guard = pipe
                .wake
                .wait(guard)
                .expect("another thread of the relay has panicked");
        }
        pipe.writer_idles.store(false, Ordering::SeqCst);
    }

    fn deliver(&mut self, mut bytes: usize, due: Nanos) {
        let stats = &self.conn.directions[self.way].stats;
        if !self.broken {
            let late = sock::now().saturating_sub(due.max(self.blocked_until));
            stats.lateness.add(late);
            if std::mem::take(&mut self.idle) {
                stats.first_lateness.add(late);
            }
            stats.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        while bytes > 0 && !self.conn.over() {
            let front = self.consumer.front(bytes);
            let wanted = front.len();
            let sent = if self.broken {
                Ok(wanted)
            } else {
                sock::send(&self.conn.sockets[1 - self.way], front)
            };
            match sent {
                Ok(sent) => {
                    self.consumer.take(sent);
                    bytes -= sent;
                    self.offer_space();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait_writable(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // The far side was reset: its reset travels back over the link.
                    self.broken = true;
                    self.conn.finish(1 - self.way, End::Reset);
                }
            }
        }
    }

    fn wait_writable(&mut self) {
        let begin = sock::now();
        let socket = &self.conn.sockets[1 - self.way];
        while !self.conn.over() && !sock::wait_writable(socket, BLOCKED_TICK) {}
        self.blocked_until = sock::now();
        let stats = &self.conn.directions[self.way].stats;
        stats
            .receiver_blocked_ns
            .fetch_add(self.blocked_until - begin, Ordering::Relaxed);
    }

    fn offer_space(&self) {
        let pipe = &self.conn.pipes[self.way];
        // Pairs with the reader's store before it looks at the free space.
        fence(Ordering::SeqCst);
        let enough = self.consumer.free() >= self.conn.capacity / 4;
        if enough && pipe.reader_waits.load(Ordering::SeqCst) {
            let _shaper = lock(&self.conn.directions[self.way].shaper);
            pipe.space.notify_all();
        }
    }
}
