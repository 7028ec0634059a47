//! The OpenAPI document: what can be asked for, and what comes back, from the types themselves.

use crate::api::{Device, History, Lease, Patch, Problem, Quota, Server, Session, Waiting};
use crate::problem::PROBLEM;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// Something that can be asked for.
pub(crate) struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    summary: &'static str,
    /// What an answer says, and its status.
    answer: Option<fn(&mut SchemaGenerator) -> Schema>,
    status: u16,
    body: Option<fn(&mut SchemaGenerator) -> Schema>,
}

fn one<T: JsonSchema>(g: &mut SchemaGenerator) -> Schema {
    g.subschema_for::<T>()
}

const fn get(
    path: &'static str,
    summary: &'static str,
    answer: fn(&mut SchemaGenerator) -> Schema,
) -> Operation {
    Operation {
        method: "GET",
        path,
        summary,
        answer: Some(answer),
        status: 200,
        body: None,
    }
}

/// All that a caller can ask for.
pub(crate) const OPERATIONS: &[Operation] = &[
    get("/v1/server", "The server itself.", one::<Server>),
    get(
        "/v1/devices",
        "The devices that the caller sees.",
        one::<Vec<Device>>,
    ),
    get(
        "/v1/sessions",
        "The sessions that the caller sees: those of its tenant, of an admin all.",
        one::<Vec<Session>>,
    ),
    get("/v1/sessions/{name}", "One session.", one::<Session>),
    Operation {
        method: "PATCH",
        path: "/v1/sessions/{name}",
        summary: "Changes what a running session is promised.",
        answer: Some(one::<Session>),
        status: 200,
        body: Some(one::<Patch>),
    },
    Operation {
        method: "DELETE",
        path: "/v1/sessions/{name}",
        summary: "Ends a session; its program hears why. It is gone within a second.",
        answer: None,
        status: 202,
        body: None,
    },
    get(
        "/v1/leases",
        "Devices that are reserved.",
        one::<Vec<Lease>>,
    ),
    get(
        "/v1/waiting",
        "Who stands in line for devices, the first first.",
        one::<Vec<Waiting>>,
    ),
    get(
        "/v1/history",
        "The last day of the devices that the caller sees.",
        one::<History>,
    ),
    get(
        "/v1/quotas",
        "What tenants have, and may have by the server's policy.",
        one::<Vec<Quota>>,
    ),
];

fn content(kind: &str, schema: Schema) -> Value {
    json!({ kind: { "schema": schema } })
}

fn operation(o: &Operation, g: &mut SchemaGenerator) -> Value {
    let mut done = json!({ "description": "It is so." });
    if let Some(answer) = o.answer {
        done["content"] = content("application/json", answer(g));
    }
    let problem = json!({
        "description": "Why it is not so.",
        "content": content(PROBLEM, one::<Problem>(g)),
    });
    let mut all = json!({
        "summary": o.summary,
        "responses": { o.status.to_string(): done, "default": problem },
    });
    if o.path.contains("{name}") {
        let text = json!({ "type": "string" });
        let name = json!({ "name": "name", "in": "path", "required": true, "schema": text });
        all["parameters"] = json!([name]);
    }
    if let Some(body) = o.body {
        all["requestBody"] = json!({
            "required": true,
            "content": content("application/json", body(g)),
        });
    }
    all
}

/// What is told as it changes; nobody's types say that.
fn events() -> Value {
    let told = "Server-sent events named `change`: an object of `server`, `devices`, `sessions`, \
                `leases`, `waiting` and `quotas`, each with the things that have become another, \
                by name, and `null` for one that is gone. The first has all there is.";
    let text = json!({ "text/event-stream": { "schema": { "type": "string" } } });
    json!({ "get": {
        "summary": "What changes, as it does.",
        "responses": { "200": { "description": told, "content": text } },
    }})
}

/// The document.
pub(crate) fn document() -> Value {
    let mut g = SchemaSettings::openapi3().into_generator();
    let mut paths = Map::new();
    for o in OPERATIONS {
        let path = paths.entry(o.path).or_insert_with(|| json!({}));
        path[o.method.to_ascii_lowercase()] = operation(o, &mut g);
    }
    paths.insert("/v1/events".into(), events());
    let about = "Callers show a token of the server's as a bearer, or a certificate of its \
                 authority; a server that asks nobody who they are asks for neither.";
    json!({
        "openapi": "3.0.3",
        "info": {
            "title": "Busbar",
            "version": "1",
            "description": about,
            "license": { "name": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": g.take_definitions(true),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
            },
        },
        "security": [{ "token": [] }, {}],
    })
}
