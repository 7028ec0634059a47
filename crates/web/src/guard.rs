//! Who a request may come from, before anybody looks at what it wants.
//!
//! A browser sends requests for any page that it shows. Such a page must not reach this port
//! through its reader's browser: a name that suddenly means 127.0.0.1 is not this server's name
//! (`Host`), and requests that another page has caused say so (`Sec-Fetch-Site`, `Origin`). There
//! are no cookies: nothing that a browser adds by itself lets anyone in, but for a certificate, for
//! which the same check holds.

use crate::problem::Fault;
use crate::strangers::Stranger;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use rustls_pki_types::CertificateDer;
use std::net::IpAddr;
use std::sync::Arc;

/// Who is at the other end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    pub address: String,
    pub certificate: Option<CertificateDer<'static>>,
    /// It is one until it was let in once.
    pub stranger: Option<Arc<Stranger>>,
}

/// The longest token.
const LONGEST: usize = 512;

fn forbidden(detail: &str) -> Fault {
    Fault::new(StatusCode::FORBIDDEN, "origin", detail)
}

/// The host of `HOST` or `HOST:PORT`; nothing of what is neither.
fn host_of(authority: &str) -> Option<&str> {
    let named = authority.parse::<Authority>().ok()?;
    let host = authority.split_at_checked(named.host().len())?.0;
    let whole = match named.port() {
        None => host.len() == authority.len(),
        Some(port) => authority.len() == host.len() + 1 + port.as_str().len(),
    };
    whole.then_some(host)
}

/// Whether a name means this machine alone, whoever is asked.
fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Result<Option<&str>, Fault> {
    let mut all = headers.get_all(&name).iter();
    let (first, more) = (all.next(), all.next());
    match (first.map(|v| v.to_str()), more) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text)),
        _ => Err(Fault::bad(format!("`{name}` is there twice, or no text"))),
    }
}

fn authority(headers: &HeaderMap) -> Result<&str, Fault> {
    let said = text(headers, header::HOST)?;
    said.ok_or_else(|| Fault::bad("the request names no `Host`"))
}

/// Whether a request says how long it is in the one way that all agree on: of another way a proxy
/// may think otherwise, and take a part of one caller's request for another's.
pub(crate) fn length(headers: &HeaderMap) -> Result<(), Fault> {
    match headers.contains_key(header::TRANSFER_ENCODING) {
        true => Err(Fault::new(
            StatusCode::LENGTH_REQUIRED,
            "request",
            "send the body with `Content-Length`, not in chunks",
        )),
        false => Ok(()),
    }
}

/// Whether a request calls this port by a name of its own; `local` is one that only this machine
/// reaches.
pub(crate) fn host(headers: &HeaderMap, local: bool) -> Result<(), Fault> {
    let authority = authority(headers)?;
    if local && !host_of(authority).is_some_and(is_here) {
        return Err(Fault::new(
            StatusCode::MISDIRECTED_REQUEST,
            "host",
            "this port is for its own machine: call it 127.0.0.1 or localhost",
        ));
    }
    Ok(())
}

/// Whether no page of another site has caused a request.
pub(crate) fn site(headers: &HeaderMap) -> Result<(), Fault> {
    let site = text(headers, header::HeaderName::from_static("sec-fetch-site"))?;
    if site.is_some_and(|s| s != "same-origin" && s != "none") {
        return Err(forbidden("another site's page has asked for this"));
    }
    let Some(origin) = text(headers, header::ORIGIN)? else {
        return Ok(());
    };
    let theirs = origin.split_once("://").map(|(_, rest)| rest);
    if theirs != Some(authority(headers)?) {
        return Err(forbidden("a page of another origin has asked for this"));
    }
    Ok(())
}

/// The token that a request shows; empty for none.
pub(crate) fn token(headers: &HeaderMap) -> Result<&str, Fault> {
    let Some(said) = text(headers, header::AUTHORIZATION)? else {
        return Ok("");
    };
    let token = match said.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => "",
    };
    if token.is_empty() || token.len() > LONGEST {
        let how = "send the token as `Authorization: Bearer TOKEN`";
        return Err(Fault::new(StatusCode::UNAUTHORIZED, "token", how));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in all {
            let value = HeaderValue::from_static(value);
            map.append(HeaderName::from_static(name), value);
        }
        map
    }

    #[test]
    fn a_local_port_is_called_by_its_own_names() {
        for good in [
            "localhost:1",
            "LOCALHOST",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:7",
        ] {
            assert!(host(&headers(&[("host", good)]), true).is_ok(), "{good}");
        }
        let bad = [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "10.0.0.1",
            "[::2]",
            "",
            "[",
            "[::1]evil.example",
            "[::1]:7.evil.example",
            "localhost:80@evil.example",
            "evil.example@localhost",
            "localhost:x",
        ];
        for bad in bad {
            let f = host(&headers(&[("host", bad)]), true).expect_err(bad);
            assert_eq!(f.status, StatusCode::MISDIRECTED_REQUEST);
            // Elsewhere a token lets in, and nothing else.
            assert!(host(&headers(&[("host", bad)]), false).is_ok());
        }
        assert!(host(&headers(&[]), true).is_err());
        let twice = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(host(&twice, true).is_err());
    }

    #[test]
    fn pages_of_others_ask_in_vain() {
        let with = |name, value| site(&headers(&[("host", "localhost:8"), (name, value)]));
        for (name, good) in [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
            ("origin", "http://localhost:8"),
        ] {
            assert!(with(name, good).is_ok(), "{name}: {good}");
        }
        for (name, bad) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://localhost:9"),
            ("origin", "http://evil.example"),
            ("origin", "null"),
        ] {
            let fault = with(name, bad).expect_err(bad);
            assert_eq!(fault.status, StatusCode::FORBIDDEN, "{name}: {bad}");
        }
    }

    #[test]
    fn a_token_is_a_bearers() {
        let of = |said| token(&headers(&[("authorization", said)])).map(String::from);
        assert_eq!(of("Bearer abc").expect("good"), "abc");
        assert_eq!(of("bearer  abc ").expect("good"), "abc");
        assert_eq!(token(&headers(&[])).expect("none"), "");
        for bad in ["Basic abc", "Bearer", "Bearer ", "abc"] {
            let fault = of(bad).expect_err(bad);
            assert_eq!(fault.status, StatusCode::UNAUTHORIZED);
        }
    }
}
