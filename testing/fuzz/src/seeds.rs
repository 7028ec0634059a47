//! First inputs of targets whose inputs no session has: documents and images.

use busbar_control::attach::{Order, Report};
use busbar_control::device::{Device, Found};
use busbar_control::gpu::Gpus;
use busbar_control::hello::{Hello, Intent, Refusal, Welcome};
use busbar_control::status::Status;
use serde_json::to_vec;

/// Documents, each behind the byte that says what it is: see `targets/documents.rs`.
pub fn documents() -> Vec<Vec<u8>> {
    let mut refused = Welcome::refuse(Refusal::new("token", "the server asks for a token"));
    refused.features = vec!["patience".into()];
    let mut found = Found::default();
    found.devices.push(Device::default());
    let policy = "[default]\nsessions = 4\ncpu = false\n\n[tenant.lab]\napi = [\"cuda\"]\n\
                  devices = [0, 1]\nsessions = \"unlimited\"\nmemory = \"40GiB\"\nshare = 0.5\n\n\
                  [tenant.ops]\nadmin = true\n";
    let line = format!("busbar://TOKEN@10.0.0.7:7400?key={}", "ab".repeat(32));
    let attach = r#"{"kind":"attach","hello":{"intent":"open"},"session":"s","secret":"x",
        "protocol":2,"devices":[0],"resume_seconds":60,"keys":"00ff"}"#;
    let news = Order::News {
        text: "it".into(),
        loss: true,
    };
    let ended = Report::Ended { why: "over".into() };
    let all = [
        (0, to_vec(&Hello::new(Intent::Resume)).unwrap_or_default()),
        (1, to_vec(&refused).unwrap_or_default()),
        (1, to_vec(&crate::server::welcome()).unwrap_or_default()),
        (2, attach.into()),
        (2, news.to_json().to_vec()),
        (3, ended.to_json()),
        (4, to_vec(&found).unwrap_or_default()),
        (5, to_vec(&Status::default()).unwrap_or_default()),
        (6, to_vec(&Gpus::default()).unwrap_or_default()),
        (
            7,
            b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n".into(),
        ),
        (8, policy.into()),
        (9, line.into()),
        (
            12,
            br#"{"kind":"session","session":"s","tenant":"lab","devices":[0]}"#.into(),
        ),
        (
            12,
            br#"{"kind":"passed","hello":{"intent":"open"},"protocol":2,"who":{}}"#.into(),
        ),
        (
            13,
            br#"{"kind":"list","hello":{"intent":"status"},"who":{"tenant":"lab"}}"#.into(),
        ),
        (
            13,
            br#"{"kind":"changed","session":"s","share":500,"promised":true}"#.into(),
        ),
        (14, br#"{"take":[0,1]}"#.into()),
        (15, br#"{"place":1,"offer":[0],"has":[1],"since":5}"#.into()),
        (10, b"1.5GiB".into()),
        (10, b"0.25".into()),
        (10, b"00ffab".into()),
        (11, b"a line\x1b[2J of text\n".into()),
    ];
    all.map(|(what, text)| [vec![what], text].concat()).into()
}

/// Images: a text, an ELF with a section and a segment, and a fat binary with a text in it.
pub fn images() -> Vec<Vec<u8>> {
    let text = b"fakedev-module 1\nkernel nop nop\nkernel big nop ptr bytes:4000\nglobal v 64\n\0";
    let mut elf = vec![0; 64 + 64 + 56 + 16];
    fill(
        &mut elf,
        &[(0, 4, 0x464c_457f), (4, 1, 2), (32, 8, 128), (40, 8, 64)],
    );
    fill(
        &mut elf,
        &[(54, 2, 56), (56, 2, 1), (58, 2, 64), (60, 2, 1)],
    );
    fill(
        &mut elf,
        &[(88, 8, 184), (96, 8, 16), (136, 8, 184), (160, 8, 16)],
    );
    let mut fat = vec![0; 16 + 64];
    let (whole, inside) = (64 + text.len() as u64, text.len() as u64);
    fill(
        &mut fat,
        &[(0, 4, 0xba55_ed50), (4, 2, 1), (6, 2, 16), (8, 8, whole)],
    );
    fill(
        &mut fat,
        &[(16, 2, 2), (20, 4, 64), (24, 8, inside), (44, 4, 90)],
    );
    fat.extend(text);
    vec![text.to_vec(), elf, fat]
}

/// Writes numbers of so many bytes at these places.
fn fill(bytes: &mut [u8], numbers: &[(usize, usize, u64)]) {
    for (at, n, value) in numbers {
        bytes[*at..at + n].copy_from_slice(&value.to_le_bytes()[..*n]);
    }
}

/// Requests of the HTTP port.
pub fn requests() -> Vec<Vec<u8>> {
    let host = "HTTP/1.1\r\nhost: localhost\r\n";
    let patch = "{\"share\":0.5,\"memory\":4096,\"priority\":1}";
    [
        format!("GET / {host}\r\n"),
        format!("GET /v1/sessions {host}authorization: Bearer t\r\n\r\n"),
        format!("GET /v1/openapi.json {host}sec-fetch-site: none\r\n\r\n"),
        format!("GET /metrics {host}origin: http://localhost\r\n\r\n"),
        format!("DELETE /v1/sessions/abc {host}content-length: 0\r\n\r\n"),
        format!(
            "PATCH /v1/sessions/abc {host}content-length: {}\r\n\r\n{patch}",
            patch.len()
        ),
        format!(
            "PATCH /v1/sessions/abc {host}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
        ),
    ]
    .map(String::into_bytes)
    .into()
}
