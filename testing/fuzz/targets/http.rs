//! The HTTP port: whatever comes, it goes on answering, and does no more than was asked.
#![no_main]

use busbar_control::hello::{Change, Refusal};
use busbar_web::{Gate, Overview, Port, View};
use libfuzzer_sys::fuzz_target;
use rustls_pki_types::CertificateDer;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// What was changed or ended.
static DONE: AtomicUsize = AtomicUsize::new(0);

/// A server that lets in whoever shows a token of one letter, or none.
struct Server;

impl Gate for Server {
    fn admit(&self, token: &str, _: Option<&CertificateDer<'_>>) -> Result<Arc<dyn View>, Refusal> {
        match token.len() {
            0 | 1 => Ok(Arc::new(Self)),
            _ => Err(Refusal::new("token", "the server knows another token")),
        }
    }

    fn own(&self) -> Arc<dyn View> {
        Arc::new(Self)
    }

    fn refused(&self, _: &str, _: &Refusal) {}
}

impl View for Server {
    fn key(&self) -> String {
        "all".into()
    }

    fn over(&self) -> Option<String> {
        None
    }

    fn overview(&self) -> Overview {
        Overview::default()
    }

    fn change(&self, _: &str, _: Change) -> Result<(), Refusal> {
        DONE.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn end(&self, _: &str) -> Result<(), Refusal> {
        DONE.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// The port, for as long as the process lives.
static PORT: LazyLock<SocketAddr> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("it is bound");
    let port = Port {
        listener,
        tls: None,
        gate: Arc::new(Server),
    };
    std::mem::forget(busbar_web::start(port).expect("it is served"));
    at
});

fn said(request: &[u8]) -> Vec<u8> {
    let mut to = TcpStream::connect(*PORT).expect("it listens");
    to.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    // It may have been refused before all of it was sent.
    let _ = to.write_all(request);
    let _ = to.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    let _ = to.read_to_end(&mut said);
    said
}

fuzz_target!(|data: &[u8]| {
    let before = DONE.load(Ordering::SeqCst);
    let answer = said(data);
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1."),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    let done = DONE.load(Ordering::SeqCst) - before;
    let asked = ["PATCH", "DELETE"].map(|m| data.windows(m.len()).filter(|w| *w == m.as_bytes()));
    let asked: usize = asked.into_iter().map(Iterator::count).sum();
    assert!(done <= asked, "{done} of {asked}");
});
