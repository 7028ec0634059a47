//! The port for people and programs that speak HTTP: what `busbar_web` serves is asked for here.

use super::change;
use super::config::Config;
use super::identity::Who;
use super::report;
use super::state::Server;
use anyhow::{Context, Result};
use busbar_control::hello::{Change, HOLDINGS, Hello, Intent, Refusal};
use busbar_control::share::WHOLE;
use busbar_control::text::host_name;
use busbar_pool::Asker;
use busbar_pool::quota::Quota;
use busbar_transport::lock::lock;
use busbar_transport::tcp;
use busbar_transport::tls::Certificate;
use busbar_web::api::{self, Used};
use busbar_web::{Gate, Overview, Port, Row, View};
use rustls_pki_types::CertificateDer;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::SystemTime;

/// Listens where it is to be served.
pub(super) fn bind(config: &Config) -> Result<Option<TcpListener>> {
    let Some((at, _)) = &config.http else {
        return Ok(None);
    };
    let listener = TcpListener::bind(at);
    listener
        .map(Some)
        .with_context(|| format!("cannot listen on {at} for HTTP (--http)"))
}

/// Serves it, until another server does; says at what address.
pub(super) fn serve(server: &Arc<Server>, listener: TcpListener) -> Result<String> {
    let encrypts = server.config.http.as_ref().is_some_and(|(_, tls)| *tls);
    let scheme = if encrypts { "https" } else { "http" };
    let at = format!("{scheme}://{}", listener.local_addr()?);
    let tls = server.tls.as_ref().filter(|_| encrypts);
    tcp::hold_many(&listener);
    let running = busbar_web::start(Port {
        listener,
        tls: tls.map(|t| t.config()),
        gate: Arc::new(Door {
            server: server.clone(),
            started: report::unix(SystemTime::now()),
        }),
    })?;
    *lock(&server.succession.http) = Some(running);
    tracing::info!(at, "serving HTTP");
    Ok(at)
}

struct Door {
    server: Arc<Server>,
    /// When the server was, in seconds since 1970.
    started: u64,
}

impl Gate for Door {
    fn admit(
        &self,
        token: &str,
        certificate: Option<&CertificateDer<'_>>,
    ) -> Result<Arc<dyn View>, Refusal> {
        let read = |c| Certificate::read(c).map_err(|e| Refusal::new("token", e.to_string()));
        let certificate = certificate.map(read).transpose()?;
        let who = self.server.identities.admit(token, certificate.as_ref())?;
        Ok(Arc::new(Caller {
            server: self.server.clone(),
            started: self.started,
            who,
        }))
    }

    fn own(&self) -> Arc<dyn View> {
        Arc::new(Caller {
            server: self.server.clone(),
            started: self.started,
            who: Who::server(),
        })
    }

    fn refused(&self, peer: &str, why: &Refusal) {
        self.server.refusals.log(peer, why);
    }
}

/// Somebody who was let in.
struct Caller {
    server: Arc<Server>,
    started: u64,
    who: Who,
}

impl Caller {
    fn asker(&self) -> Asker<'_> {
        Asker {
            tenant: &self.who.tenant,
            admin: self.who.admin,
            ..Asker::default()
        }
    }
}

impl Caller {
    /// What tenants have and have done, and whether all of them are seen.
    fn counted(&self) -> (Vec<Quota>, Vec<Row>, bool) {
        let (server, asker) = (&self.server, self.asker());
        let (pool, mut sessions) = (lock(&server.pool), lock(&server.sessions));
        for (name, s) in sessions.iter_mut() {
            s.keep_time(&pool.placed(name).devices, &server.time.had(name));
        }
        let mut rows = server.counts.rows(sessions.values());
        rows.retain(|r| pool.shows(&asker, &r.tenant));
        (pool.quotas(&asker), rows, pool.sees_all(&asker))
    }
}

/// What `busbar_web` says of a quota.
fn shown(q: Quota) -> api::Quota {
    let r = q.rules;
    api::Quota {
        tenant: q.tenant,
        admin: r.admin,
        sessions: Used {
            used: q.sessions,
            most: r.sessions,
        },
        leases: Used {
            used: q.leased,
            most: r.leases,
        },
        memory: Used {
            used: 0,
            most: r.memory,
        },
        share: r.share.map(|s| f64::from(s) / f64::from(WHOLE)),
        priority: r.priority,
        opens: r.opens,
        apis: r.apis,
        devices: r.devices,
    }
}

impl View for Caller {
    fn key(&self) -> String {
        // What was shown is in it as a hash.
        format!("{:?}", self.who)
    }

    fn over(&self) -> Option<String> {
        self.server.identities.over(&self.who)
    }

    fn overview(&self) -> Overview {
        let server = &self.server;
        let mut hello = Hello::new(Intent::Status);
        hello.features = vec![HOLDINGS.into()];
        let status = report::status(server, &hello, &self.who);
        let (quotas, rows, all) = self.counted();
        let isolation = server.workers.isolation().line(server.config.isolation);
        Overview {
            status,
            quotas: quotas.into_iter().map(shown).collect(),
            host: host_name(),
            address: server.address.to_string(),
            started: self.started,
            draining: server.drains(),
            isolation,
            most_sessions: server.config.max_sessions,
            rows,
            refusals: if all {
                server.refusals.counts()
            } else {
                BTreeMap::new()
            },
        }
    }

    fn change(&self, session: &str, change: Change) -> Result<(), Refusal> {
        let mut hello = Hello::new(Intent::Set);
        (hello.session, hello.change) = (session.into(), change);
        change::change(&self.server, &hello, &self.who)
    }

    fn end(&self, session: &str) -> Result<(), Refusal> {
        let server = &self.server;
        let theirs = {
            let (pool, sessions) = (lock(&server.pool), lock(&server.sessions));
            let before = server.succession.predecessor.as_ref();
            let before = before.filter(|b| b.has(session));
            let there = before.and_then(|_| pool.session(session));
            let own = sessions.get(session).map(|s| &s.who.tenant);
            let tenant = own.or(there.as_ref().map(|s| &s.tenant));
            tenant.is_some_and(|tenant| pool.shows(&self.asker(), tenant))
        };
        let unknown = "there is no such session that is yours: /v1/sessions lists those that are";
        if !theirs {
            return Err(Refusal::new("session", unknown));
        }
        let Who { name, tenant, .. } = &self.who;
        let note = json!({ "session": session, "token": name, "tenant": tenant });
        let noted = server.audit.note("session is ended", note);
        noted.map_err(|why| Refusal::new("internal", why))?;
        tracing::info!(session, token = name, tenant, "session is ended");
        let by = match name.as_str() {
            "" => String::new(),
            name => format!(" by `{name}`"),
        };
        let why = format!("it was ended{by} through the server's HTTP port");
        change::end(server, session, why);
        Ok(())
    }
}
