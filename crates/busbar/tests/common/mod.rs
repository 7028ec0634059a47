//! Servers on the simulated driver, for tests of this program alone.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A library that cargo built next to this program.
pub fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe.with_file_name(name);
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// A server, until this is dropped.
pub struct Server {
    pub child: Child,
    pub address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server with two simulated devices that asks the NVML library of that name.
pub fn serve_with(nvml: &str, env: &[(&str, &str)]) -> Server {
    let mut child = Command::new(env!("CARGO_BIN_EXE_busbar"))
        .args([
            "serve",
            "--listen=127.0.0.1:0",
            "--api=cuda",
            "--cuda-library",
        ])
        .arg(built("libfakedev.so"))
        .arg("--nvml-library")
        .arg(built(nvml))
        .env("FAKEDEV_DEVICES", "2")
        .envs(env.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.next().unwrap().unwrap();
    let address = said.rsplit(' ').next().unwrap().to_string();
    Server { child, address }
}
