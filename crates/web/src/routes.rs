//! What is where.

use crate::api::{Device, History, Lease, Patch, Quota, Server, Session, Waiting};
use crate::app::{App, Seen, ask};
use crate::backend::View;
use crate::events;
use crate::guard::{self, Peer};
use crate::metrics;
use crate::problem::Fault;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// The page.
const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");
/// The longest body of a request.
const BODY: usize = 4096;
/// How long that may take to come.
const BODY_TIME: Duration = Duration::from_secs(10);

/// What every answer says to a browser: load nothing from elsewhere, show this in no frame, keep
/// nothing.
const HEADERS: [(header::HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

type Shared = State<Arc<App>>;
type Answer<T> = Result<Json<T>, Fault>;

/// Somebody who was let in.
pub(crate) struct Caller(pub Arc<dyn View>);

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Fault> {
        guard::site(&parts.headers)?;
        let token = guard::token(&parts.headers)?.to_string();
        let peer = parts.extensions.get::<Peer>().cloned().unwrap_or_default();
        let app = app.clone();
        let admitted = move || {
            let certificate = peer.certificate.as_ref();
            let admitted = app.gate.admit(&token, certificate);
            if let (Ok(_), Some(stranger)) = (&admitted, &peer.stranger) {
                stranger.is_known();
            }
            admitted.inspect_err(|r| app.gate.refused(&peer.address, r))
        };
        Ok(Self(ask(admitted).await??))
    }
}

/// All that this port has.
pub(crate) fn routes(app: Arc<App>) -> Router {
    let one = get(session).patch(change).delete(end);
    Router::new()
        .route("/", get(|| page("text/html; charset=utf-8", PAGE)))
        .route("/page.css", get(|| page("text/css", STYLE)))
        .route("/page.js", get(|| page("text/javascript", SCRIPT)))
        .route("/v1/history", get(history))
        .route("/v1/events", get(told))
        .route("/metrics", get(metrics))
        .route("/v1/openapi.json", get(document))
        .route("/v1/server", get(server))
        .route("/v1/devices", get(devices))
        .route("/v1/sessions", get(sessions))
        .route("/v1/sessions/{name}", one)
        .route("/v1/leases", get(leases))
        .route("/v1/waiting", get(waiting))
        .route("/v1/quotas", get(quotas))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(app.clone(), guarded))
        .with_state(app)
}

/// Lets pass what may have come from where it says, and adds what each answer says.
async fn guarded(State(app): Shared, request: Request, next: Next) -> Response<Body> {
    let headers = request.headers();
    let good = guard::length(headers).and_then(|()| guard::host(headers, app.local));
    let mut r = match good {
        Ok(()) => next.run(request).await,
        Err(fault) => {
            let mut r = fault.into_response();
            // Where its next request begins nobody can know who is not sure of this one.
            let close = HeaderValue::from_static("close");
            r.headers_mut().insert(header::CONNECTION, close);
            r
        }
    };
    for (name, value) in HEADERS {
        r.headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    r
}

async fn nothing() -> Fault {
    let how = "nothing is here: /v1/openapi.json says what there is";
    Fault::new(StatusCode::NOT_FOUND, "path", how)
}

async fn not_so() -> Fault {
    let how = "this cannot be done here: /v1/openapi.json says what can";
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method", how)
}

async fn document(State(app): Shared) -> impl IntoResponse {
    let text = app.document.clone();
    ([(header::CONTENT_TYPE, "application/json")], text)
}

/// A part of the page. It says nothing of the server: what it shows its script asks for.
async fn page(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind)], text)
}

async fn history(State(app): Shared, caller: Caller) -> Answer<History> {
    let seen = app.see(&caller.0).await?;
    Ok(Json(app.history.of(&seen.devices)))
}

async fn told(State(app): Shared, caller: Caller) -> Result<impl IntoResponse, Fault> {
    let place = app.listeners.enter(caller.0.key());
    let full = || Fault::busy("as many listen as the server tells of changes: try later");
    let events = events::start(app.clone(), caller.0, place.ok_or_else(full)?);
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    Ok((kind, Body::new(events)))
}

async fn metrics(State(app): Shared, caller: Caller) -> Result<impl IntoResponse, Fault> {
    let seen = app.see(&caller.0).await?;
    let page = ask(move || metrics::page(seen)).await?;
    let page = page.map_err(|_| Fault::busy("the metrics cannot be written"))?;
    Ok(([(header::CONTENT_TYPE, metrics::KIND)], page))
}

async fn see<T: Serialize>(app: &App, caller: &Caller, what: impl FnOnce(&Seen) -> T) -> Answer<T> {
    let seen = app.see(&caller.0).await?;
    Ok(Json(what(&seen)))
}

async fn server(State(app): Shared, caller: Caller) -> Answer<Server> {
    see(&app, &caller, |s| s.server.clone()).await
}

async fn devices(State(app): Shared, caller: Caller) -> Answer<Vec<Device>> {
    see(&app, &caller, |s| s.devices.clone()).await
}

async fn sessions(State(app): Shared, caller: Caller) -> Answer<Vec<Session>> {
    see(&app, &caller, |s| s.sessions.clone()).await
}

async fn leases(State(app): Shared, caller: Caller) -> Answer<Vec<Lease>> {
    see(&app, &caller, |s| s.leases.clone()).await
}

async fn waiting(State(app): Shared, caller: Caller) -> Answer<Vec<Waiting>> {
    see(&app, &caller, |s| s.waiting.clone()).await
}

async fn quotas(State(app): Shared, caller: Caller) -> Answer<Vec<Quota>> {
    see(&app, &caller, |s| s.quotas.clone()).await
}

/// The session of a name.
async fn find(app: &App, caller: &Caller, name: &str) -> Answer<Session> {
    let seen = app.see(&caller.0).await?;
    let found = seen.sessions.iter().find(|s| s.name == name);
    let none = || {
        let how = "there is no such session that is yours: /v1/sessions lists those that are";
        Fault::new(StatusCode::NOT_FOUND, "session", how)
    };
    found.cloned().map(Json).ok_or_else(none)
}

async fn session(State(app): Shared, caller: Caller, Path(name): Path<String>) -> Answer<Session> {
    find(&app, &caller, &name).await
}

/// A request's body, if it comes in time and is not too long.
async fn body(body: Body) -> Result<Bytes, Fault> {
    match tokio::time::timeout(BODY_TIME, to_bytes(body, BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(Fault::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "request",
            format!("the body did not come whole, or has more than {BODY} bytes"),
        )),
        Err(_) => Err(Fault::new(
            StatusCode::REQUEST_TIMEOUT,
            "request",
            "the body did not come in time",
        )),
    }
}

async fn change(
    State(app): Shared,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Session> {
    let bytes = body(request.into_body()).await?;
    let patch: Patch =
        serde_json::from_slice(&bytes).map_err(|e| Fault::bad(format!("the body: {e}")))?;
    let change = patch.change().map_err(Fault::bad)?;
    let (view, session) = (caller.0.clone(), name.clone());
    ask(move || view.change(&session, change)).await??;
    app.forget();
    find(&app, &caller, &name).await
}

async fn end(
    State(app): Shared,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Fault> {
    let view = caller.0;
    ask(move || view.end(&name)).await??;
    app.forget();
    Ok(StatusCode::ACCEPTED)
}
