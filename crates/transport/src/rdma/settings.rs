//! What somebody wants of RDMA.

use super::ib::{self, Choice, Port};
use super::setup::{self, Means, Outcome};
use super::verbs::Device;
use crate::Connection;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

/// Whether connections move to a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
    /// If they can.
    #[default]
    Auto,
    /// A session that cannot is none.
    On,
    /// Never.
    Off,
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" | "" => Ok(Self::Auto),
            "on" | "1" => Ok(Self::On),
            "off" | "0" | "no" => Ok(Self::Off),
            other => Err(format!("`{other}` is none of auto, on and off")),
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether.
    pub wish: Wish,
    /// Over which port.
    pub choice: Choice,
    /// Bytes may go in clear over it, if the peer says so, too.
    pub plain: bool,
}

impl Settings {
    /// The port for a connection, if its end here is known, or why there is none.
    pub fn port(&self, near: Option<IpAddr>) -> Result<Port, String> {
        match self.wish {
            Wish::Off => Err("RDMA is switched off".into()),
            _ => ib::find(&self.choice, near),
        }
    }

    /// The worker's part in moving a connection.
    pub fn offer(&self, conn: Arc<dyn Connection>) -> Outcome {
        self.part(conn, setup::offer)
    }

    /// The client's.
    pub fn take(&self, conn: Arc<dyn Connection>) -> Outcome {
        self.part(conn, setup::take)
    }

    fn part(
        &self,
        conn: Arc<dyn Connection>,
        run: fn(Arc<dyn Connection>, &Means<'_>) -> Outcome,
    ) -> Outcome {
        let port = self.port(conn.ends().map(|[near, _]| near.ip()));
        let device = port.as_ref().map(|p| p as &dyn Device);
        let means = Means {
            device: device.map_err(Clone::clone),
            plain: self.plain,
        };
        run(conn, &means)
    }
}
