//! Connections: who may have one, and for how long.

use crate::app::App;
use crate::backend::Gate;
use crate::guard::Peer;
use crate::patient::Patient;
use crate::routes;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The most connections, and those of one network.
const MOST: usize = 256;
const MOST_OF_ONE: usize = 64;
/// How long a handshake may take, a request's head, and a peer to take what it is sent.
const HANDSHAKE: Duration = Duration::from_secs(5);
const HEAD_TIME: Duration = Duration::from_secs(10);
const TAKE_TIME: Duration = Duration::from_secs(10);
/// The longest head of a request, and its most lines.
const HEAD: usize = 16 << 10;
const LINES: usize = 64;
/// The first byte of TLS.
const TLS: u8 = 22;
/// What somebody hears who speaks HTTP to a port that encrypts.
const ENCRYPTED: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    connection: close\r\n\r\nthis port encrypts: say https://\n";

/// What to serve, and where.
pub struct Port {
    /// Where callers come.
    pub listener: std::net::TcpListener,
    /// What is shown to them, if connections are encrypted.
    pub tls: Option<Arc<ServerConfig>>,
    /// Who lets them in.
    pub gate: Arc<dyn Gate>,
}

/// Addresses that count as one: an IPv4 network of 256, an IPv6 site.
fn network(ip: IpAddr) -> [u8; 6] {
    match ip.to_canonical() {
        IpAddr::V4(a) => {
            let [a, b, c, _] = a.octets();
            [0, 0, 0, a, b, c]
        }
        IpAddr::V6(a) => *a.octets().first_chunk().unwrap_or(&[0; 6]),
    }
}

/// The connections that there are.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<HashMap<[u8; 6], usize>>>);

/// One of them; it ends when this is dropped.
struct Place(Places, [u8; 6]);

impl Places {
    /// A place for somebody, if there is one.
    fn enter(&self, ip: IpAddr) -> Option<Place> {
        let of = network(ip);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there = all.values().sum::<usize>();
        let theirs = all.get(&of).copied().unwrap_or_default();
        if there >= MOST || theirs >= MOST_OF_ONE {
            return None;
        }
        all.insert(of, theirs + 1);
        Some(Place(self.clone(), of))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = all.get_mut(&self.1) {
            *n -= 1;
            if *n == 0 {
                all.remove(&self.1);
            }
        }
    }
}

/// A port that is served.
pub struct Running {
    stop: Arc<Notify>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Serves it no more: connections end, and others can listen there.
    pub fn stop(self) {
        self.stop.notify_one();
        let _ = self.thread.join();
    }
}

/// Serves the port, in a thread of its own, until it is stopped.
pub fn start(port: Port) -> io::Result<Running> {
    port.listener.set_nonblocking(true)?;
    let local = port.listener.local_addr()?.ip().is_loopback();
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Those that ask the server.
        .max_blocking_threads(4)
        .thread_name("http-asks")
        .build()?;
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let run = move || {
        runtime.block_on(async move {
            match TcpListener::from_std(port.listener) {
                Ok(listener) => {
                    let app = Arc::new(App::new(port.gate, local));
                    let router = routes::routes(app.clone());
                    tokio::spawn(async move { app.remember().await });
                    let tls = port.tls.map(TlsAcceptor::from);
                    tokio::spawn(async move { accept(&listener, tls, &router).await });
                    stopped.notified().await;
                }
                Err(e) => tracing::error!(error = %e, "the HTTP port cannot be served"),
            }
        });
        // Whoever still asks the server is not waited for.
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("http".into());
    let thread = thread.spawn(run)?;
    Ok(Running { stop, thread })
}

async fn accept(listener: &TcpListener, tls: Option<TlsAcceptor>, router: &Router) {
    let places = Places::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(new) => new,
            Err(e) => {
                // Too many files are open: sessions matter more.
                tracing::debug!(error = %e, "no HTTP connection");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // One that finds no place is closed.
        if let Some(place) = places.enter(from.ip()) {
            let (tls, router) = (tls.clone(), router.clone());
            tokio::spawn(async move {
                serve(stream, from, tls, router).await;
                drop(place);
            });
        }
    }
}

async fn serve(mut stream: TcpStream, from: SocketAddr, tls: Option<TlsAcceptor>, router: Router) {
    let _ = stream.set_nodelay(true);
    let mut peer = Peer {
        address: from.to_string(),
        certificate: None,
    };
    let Some(tls) = tls else {
        return talk(stream, peer, router).await;
    };
    let mut first = [0];
    match timeout(HANDSHAKE, stream.peek(&mut first)).await {
        Ok(Ok(1)) if first[0] == TLS => {}
        Ok(Ok(1)) => {
            let _ = timeout(TAKE_TIME, stream.write_all(ENCRYPTED)).await;
            return;
        }
        _ => return,
    }
    if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await {
        let shown = stream.get_ref().1.peer_certificates();
        let first = shown.and_then(|all| all.first());
        peer.certificate = first.map(|c| c.clone().into_owned());
        talk(stream, peer, router).await;
    }
}

async fn talk<S>(stream: S, peer: Peer, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(Patient::new(stream, TAKE_TIME));
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(LINES)
        .max_buf_size(HEAD);
    if let Err(e) = http.serve_connection(io, service).await {
        tracing::debug!(error = %e, "an HTTP connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_does_not_take_all_places() {
        let places = Places::default();
        let ip = |n: u8, host: u8| IpAddr::from([10, 0, n, host]);
        let mut held: Vec<_> = (0..=255).filter_map(|h| places.enter(ip(1, h))).collect();
        assert_eq!(held.len(), MOST_OF_ONE);
        for n in 2..=9 {
            held.extend((0..=255).filter_map(|h| places.enter(ip(n, h))));
        }
        assert_eq!(held.len(), MOST);
        assert!(places.enter(ip(99, 1)).is_none());
        held.pop();
        assert!(places.enter(ip(99, 1)).is_some());
        drop(held);
        assert!(places.0.lock().expect("no panic").is_empty());
    }
}
