//! Errors as problem objects (RFC 9457).

use crate::api::Problem;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use busbar_control::hello::Refusal;

/// The type of a problem's document.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// Why a request is not done.
#[derive(Debug)]
pub(crate) struct Fault {
    pub status: StatusCode,
    pub code: String,
    pub detail: String,
}

impl Fault {
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code: code.into(),
            detail: detail.into(),
        }
    }

    /// The request makes no sense.
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "request", detail)
    }

    /// The server cannot do it now.
    pub fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    }
}

impl From<Refusal> for Fault {
    fn from(r: Refusal) -> Self {
        let status = match r.code.as_str() {
            "token" => StatusCode::UNAUTHORIZED,
            "session" => StatusCode::NOT_FOUND,
            "policy" => StatusCode::FORBIDDEN,
            "internal" => StatusCode::INTERNAL_SERVER_ERROR,
            // Others have what is asked for.
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, &r.code, r.message)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response<Body> {
        let body = Problem {
            r#type: "about:blank".into(),
            title: self.status.canonical_reason().unwrap_or_default().into(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code,
        };
        let text = serde_json::to_vec(&body).unwrap_or_default();
        let mut r = Response::new(Body::from(text));
        *r.status_mut() = self.status;
        let headers = r.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
        if self.status == StatusCode::UNAUTHORIZED {
            let ask = HeaderValue::from_static("Bearer realm=\"busbar\"");
            headers.insert(header::WWW_AUTHENTICATE, ask);
        }
        r
    }
}
