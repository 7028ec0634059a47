//! Somebody who speaks HTTP with a server.

use crate::guarded::Guarded;
use crate::patient;
use crate::program::LIMIT;
use crate::server::Server;
use crate::until;
use busbar_client::servers;
use busbar_transport::Connection;
use busbar_transport::stream::Stream;
use busbar_transport::tcp::Tcp;
use busbar_transport::tls::{self, Trust};
use serde_json::Value;
use std::io::IoSlice;
use std::net::TcpStream;

/// What came back.
#[derive(Debug)]
pub struct Said {
    /// The status.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// What is behind them.
    pub body: String,
}

impl Said {
    /// The body.
    ///
    /// # Panics
    /// When it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// Somebody who asks.
#[derive(Clone)]
pub struct Caller {
    /// Where the port is.
    pub address: String,
    key: Option<String>,
    own: Option<String>,
    token: String,
}

/// Where a server says that it serves HTTP.
pub fn address(server: &Server) -> String {
    until("a port for HTTP", || {
        let log = server.log();
        let (_, rest) = log.split_once("serving HTTP at=\"http")?;
        let (_, rest) = rest.split_once("://")?;
        Some(rest.split_once('"')?.0.to_string())
    })
}

impl Caller {
    /// Somebody who shows nothing, in clear.
    pub fn of(server: &Server) -> Self {
        Self {
            address: address(server),
            key: None,
            own: None,
            token: String::new(),
        }
    }

    /// Somebody who has been told a line.
    pub fn with(g: &Guarded, line: &servers::Server) -> Self {
        Self {
            key: Some(line.key.clone()),
            token: line.token.clone(),
            ..Self::of(&g.server)
        }
    }

    /// Shows this token from now on.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.token = token.into();
        self
    }

    /// Shows this certificate, with its key in one text, from now on.
    #[must_use]
    pub fn certificate(mut self, pem: String) -> Self {
        self.own = Some(pem);
        self
    }

    /// A connection.
    ///
    /// # Panics
    /// When there is none.
    pub fn connect(&self) -> Stream {
        let tcp = TcpStream::connect(&self.address).expect("it listens");
        let tcp = Tcp::new(tcp).expect("a connection");
        let Some(key) = &self.key else {
            return Stream::Clear(tcp);
        };
        let own = self.own.as_ref().map(|pem| {
            let own = tls::certificates(pem.as_bytes()).expect("certificates");
            (own, tls::private_key(pem.as_bytes()).expect("a key"))
        });
        let trust = Trust::Key(key.parse().expect("a key"));
        let client = tls::Client::new("127.0.0.1", trust, own).expect("a client");
        let conn = client.connect(tcp, patient(LIMIT)).expect("a handshake");
        Stream::Encrypted(Box::new(conn))
    }

    /// Sends a request, and leaves the answer to be read.
    ///
    /// # Panics
    /// When there is no connection.
    pub fn send(&self, method: &str, path: &str, body: &str) -> Stream {
        let conn = self.connect();
        conn.recv_timeout(Some(patient(LIMIT))).expect("a timeout");
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        if !self.token.is_empty() {
            text += &format!("authorization: Bearer {}\r\n", self.token);
        }
        text += &format!("\r\n{body}");
        // One that finds no place is closed; that shows when the answer is read.
        let _ = conn.send(&mut [IoSlice::new(text.as_bytes())]);
        conn
    }

    /// Asks, and reads the whole answer.
    ///
    /// # Panics
    /// When it is none.
    pub fn call(&self, method: &str, path: &str, body: &str) -> Said {
        let said = self.ask(method, path, body);
        said.unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// As [`Caller::call`]; nothing where there is no place for another connection.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Option<Said> {
        let conn = self.send(method, path, body);
        let (mut said, mut room) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(n @ 1..) = conn.recv(&mut room) {
            said.extend_from_slice(&room[..n]);
        }
        let said = String::from_utf8_lossy(&said).into_owned();
        let (head, body) = said.split_once("\r\n\r\n").unwrap_or((&said, ""));
        Some(Said {
            status: head.split(' ').nth(1)?.parse().ok()?,
            head: head.into(),
            body: body.into(),
        })
    }

    /// Asks for a document.
    pub fn get(&self, path: &str) -> Said {
        self.call("GET", path, "")
    }
}
