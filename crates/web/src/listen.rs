//! Connections: who may have one, and for how long.

use crate::app::App;
use crate::backend::Gate;
use crate::guard::Peer;
use crate::patient::Patient;
use crate::places::Places;
use crate::routes;
use crate::strangers::{Network, Strangers};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::yield_now;
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
fn network(ip: IpAddr) -> Network {
    match ip.to_canonical() {
        IpAddr::V4(a) => {
            let [a, b, c, _] = a.octets();
            [0, 0, 0, a, b, c]
        }
        IpAddr::V6(a) => *a.octets().first_chunk().unwrap_or(&[0; 6]),
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
    let (places, strangers) = (Places::new(MOST, MOST_OF_ONE), Strangers::default());
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
        let of = network(from.ip());
        let place = match places.enter(of) {
            Some(place) => Some(place),
            None => {
                strangers.make_room(places.has_all_of_one(&of).then_some(of));
                // It goes when its task has its turn.
                yield_now().await;
                places.enter(of)
            }
        };
        // One that finds no place is closed.
        if let Some(place) = place {
            let (tls, router) = (tls.clone(), router.clone());
            let stranger = strangers.enter(of);
            let peer = Peer {
                address: from.to_string(),
                certificate: None,
                stranger: Some(stranger.clone()),
            };
            let task = tokio::spawn(async move {
                serve(stream, peer, tls, router).await;
                drop(place);
            });
            stranger.is_served_by(task.abort_handle());
        }
    }
}

async fn serve(mut stream: TcpStream, mut peer: Peer, tls: Option<TlsAcceptor>, router: Router) {
    let _ = stream.set_nodelay(true);
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
    fn addresses_of_one_network_count_as_one() {
        let of = |ip: &str| network(ip.parse().expect("an address"));
        assert_eq!(of("10.0.0.7"), of("::ffff:10.0.0.200"));
        assert_ne!(of("10.0.0.7"), of("10.0.1.7"));
        assert_eq!(of("2001:db8:7:1::1"), of("2001:db8:7:2::2"));
        assert_ne!(of("2001:db8:7::1"), of("2001:db8:8::1"));
    }
}
