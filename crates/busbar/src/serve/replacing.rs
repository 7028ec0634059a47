//! One server takes another's place: the old one, told by SIGUSR2, starts the program that lies
//! where its own did, gives it the listening socket, and takes nothing new from then on. Its
//! sessions run to their end there; whatever comes for them the new server passes on. What is
//! promised there the new one knows, and promises to nobody else. See docs/adr/0037-take-over.md.

use super::heritage::{Predecessor, as_json};
use super::identity::{Known, Who};
use super::state::Server;
use super::succession::Heir;
use super::{change, connection, desk, drain, http, notify, report};
use busbar_control::succession::{Passed, ToHeir, ToPredecessor};
use busbar_transport::handover;
use busbar_transport::lock::{lock, write};
use busbar_transport::stream::Stream;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often is looked whether anything keeps a server that has been replaced.
const LOOK: Duration = Duration::from_millis(200);

/// Starts the new server, and gives it what there is once it is ready.
pub(super) fn begin(server: &Arc<Server>) {
    let all = &server.succession;
    if all.yields() || server.drains() || all.starting.swap(true, Ordering::AcqRel) {
        tracing::warn!("told to make room for a new server: another has come, or this one ends");
        return;
    }
    let s = server.clone();
    let run = move || {
        if let Err(why) = succeed(&s) {
            tracing::error!(
                why,
                "the new server has not taken over, and this one goes on"
            );
        }
        s.succession.starting.store(false, Ordering::Release);
    };
    let thread = std::thread::Builder::new().name("heir".into());
    if let Err(e) = thread.stack_size(512 << 10).spawn(run) {
        all.starting.store(false, Ordering::Release);
        tracing::error!(error = %e, "no thread for a new server");
    }
}

/// The next thing that it says, and what comes along; nothing when it has gone.
fn heard(from: &OwnedFd) -> Option<(Option<ToPredecessor>, Option<OwnedFd>)> {
    let (text, fd) = handover::recv(from).ok()??;
    // What an older release does not know says nothing to it.
    let said = busbar_control::read("the new server's word", &text).ok();
    Some((said, fd))
}

/// Until the new server has gone, or this one.
fn succeed(server: &Arc<Server>) -> Result<(), String> {
    let all = &server.succession;
    let (ours, theirs) = handover::pair().map_err(|e| e.to_string())?;
    let fd = theirs.as_raw_fd();
    let started = all.command(fd).and_then(|mut c| c.spawn());
    let mut child = started.map_err(|e| format!("it cannot be started: {e}"))?;
    drop(theirs);
    tracing::info!(pid = child.id(), "a new server is started");
    let begin = ToHeir::Begin {
        version: env!("CARGO_PKG_VERSION").into(),
        listen: server.config.listen.clone(),
        users: server.workers.users(),
    };
    let listener = all.listener.try_clone().map_err(|e| e.to_string())?;
    let sent = handover::send(&ours, &as_json(&begin), Some(&OwnedFd::from(listener)));
    let ended = |child: &mut Child| match child.wait() {
        Ok(status) => format!("it has ended ({status}); its log says why"),
        Err(e) => e.to_string(),
    };
    if sent.is_err() {
        return Err(ended(&mut child));
    }
    loop {
        match heard(&ours) {
            None => return Err(ended(&mut child)),
            Some((Some(ToPredecessor::Ready), _)) => break,
            Some(_) => {}
        }
    }
    let heir = Arc::new(Heir {
        control: ours,
        pid: child.id(),
    });
    give(server, &heir);
    let mut taken = false;
    while let Some((said, fd)) = heard(&heir.control) {
        match said {
            Some(ToPredecessor::Taken) => {
                taken = true;
                replaced(server);
            }
            Some(said) => heed(server, said, fd),
            None => {}
        }
    }
    let why = ended(&mut child);
    take_back(server, taken);
    Err(why)
}

/// Gives up what only one of two servers can have, and says what is left here.
fn give(server: &Arc<Server>, heir: &Arc<Heir>) {
    let all = &server.succession;
    // Whatever is just beginning here is here before that is told.
    let _gate = write(&all.gate);
    server.workers.rest();
    if let Some(http) = lock(&all.http).take() {
        http.stop();
    }
    // What ends from now on is told behind what is told here, and what comes is passed on behind
    // that.
    let mut pool = lock(&server.pool);
    for session in pool.sessions() {
        let _ = heir.tell(&ToHeir::Session(session));
    }
    for mut lease in pool.all_leases(server.started.elapsed()) {
        let kept = lock(&server.kept).remove(&lease.name);
        lease.kept = kept.map(|who| who.bearer());
        if lease.kept.is_some() {
            pool.end_lease(&lease.name);
        }
        let _ = heir.tell(&ToHeir::Lease(lease));
    }
    notify::say(&format!("MAINPID={}", heir.pid));
    let users = server.workers.users();
    let _ = heir.tell(&ToHeir::Done { users });
    all.set_heir(Some(heir.clone()));
    drop(pool);
    let to = heir.clone();
    server.audit.hand_on(move |event, fields| {
        let event = event.into();
        to.tell(&ToHeir::Note { event, fields })
    });
}

/// The new server has all there is to have: this one waits for its sessions.
fn replaced(server: &Arc<Server>) {
    let sessions = lock(&server.sessions).len();
    tracing::info!(sessions, "another server has taken over");
    let text = format!(
        "busbar: another server has taken over; this one ends with the last of {sessions} sessions"
    );
    let _ = writeln!(std::io::stdout(), "{text}");
    let s = server.clone();
    let run = move || {
        loop {
            std::thread::sleep(LOOK);
            desk::expire(&s);
            let busy = s.busy.load(Ordering::Acquire) > 0;
            let held = !lock(&s.pool).is_unused() || !lock(&s.sessions).is_empty();
            if s.succession.yields() && !busy && !held {
                drain::end(
                    &s,
                    "another server has taken over, and all sessions have ended",
                );
            }
        }
    };
    let thread = std::thread::Builder::new().name("replaced".into());
    let _ = thread.stack_size(256 << 10).spawn(run);
}

/// The new server has gone. If it never took over, all is as before. Otherwise its sessions went
/// along, and this one still serves its own, and takes nothing new.
fn take_back(server: &Arc<Server>, taken: bool) {
    let all = &server.succession;
    if taken {
        server.told_to_end.fetch_max(1, Ordering::AcqRel);
    } else {
        server.workers.wake();
    }
    if let Some(path) = &server.config.audit
        && let Err(e) = server.audit.take_back(path)
    {
        tracing::error!(why = format!("{e:#}"), "the audit cannot be gone on with");
    }
    let http = http::bind(&server.config).and_then(|l| match l {
        Some(l) => http::serve(server, l).map(drop),
        None => Ok(()),
    });
    if let Err(e) = http {
        tracing::error!(why = format!("{e:#}"), "there is no HTTP port");
    }
    notify::say(&format!("MAINPID={}", std::process::id()));
    all.set_heir(None);
}

/// Does what the new server says.
fn heed(server: &Arc<Server>, said: ToPredecessor, fd: Option<OwnedFd>) {
    match (said, fd) {
        (ToPredecessor::Passed(passed), Some(fd)) => serve_passed(server, *passed, fd, true),
        (ToPredecessor::List { hello, who }, Some(fd)) => {
            let s = server.clone();
            let run = move || {
                let who = Who::of_bearer(&who);
                let list = report::sessions(&s, &hello, &who);
                let _ = File::from(fd).write_all(&as_json(&list));
            };
            let thread = std::thread::Builder::new().name("list".into());
            let _ = thread.stack_size(256 << 10).spawn(run);
        }
        (ToPredecessor::Changed(session), _) => {
            lock(&server.pool).adopt_session(&session);
            change::apply(server, &session.session);
            if let Some(before) = &server.succession.predecessor {
                before.changed(&session);
            }
        }
        (ToPredecessor::End { session, why }, _) => change::end(server, &session, why),
        (ToPredecessor::EndLease { lease }, _) => {
            lock(&server.pool).end_lease(&lease);
            if let Some(before) = &server.succession.predecessor {
                before.end_lease(&lease);
            }
        }
        (ToPredecessor::Drain, _) => drain::told_to_end(server),
        _ => {}
    }
}

/// Goes on with a connection that another server has passed on, in a thread of its own.
pub(super) fn serve_passed(server: &Arc<Server>, passed: Passed, fd: OwnedFd, from_heir: bool) {
    let Ok(conn) = Stream::take_over(fd, &passed.keys.0) else {
        return;
    };
    let known = Known {
        conn,
        hello: passed.hello,
        protocol: passed.protocol,
        who: Who::of_bearer(&passed.who),
    };
    let s = server.clone();
    let run = move || connection::serve_passed(&s, known, from_heir);
    let thread = std::thread::Builder::new().name("passed".into());
    let _ = thread.stack_size(256 << 10).spawn(run);
}

/// Takes clients after the server before this one, if there is one, and hears what becomes of what
/// goes on there.
pub(super) fn follow(server: &Arc<Server>) -> anyhow::Result<()> {
    let Some(before) = &server.succession.predecessor else {
        return Ok(());
    };
    lock(&server.kept).extend(before.kept());
    before.is_followed();
    let s = server.clone();
    let run = move || {
        let Some(before) = &s.succession.predecessor else {
            return;
        };
        while let Some((said, fd)) = before.next() {
            hear(&s, before, said, fd);
        }
        for session in before.sessions() {
            session_gone(&s, before, session);
        }
        for lease in before.leases() {
            lease_gone(&s, before, lease);
        }
        s.workers.set_others(Vec::new());
        {
            // Whoever waits for the end of all sessions.
            let _sessions = lock(&s.sessions);
            before.is_gone();
            s.told.notify_all();
        }
        tracing::info!("the server before this one has ended");
    };
    let thread = std::thread::Builder::new().name("before".into());
    thread.stack_size(512 << 10).spawn(run)?;
    Ok(())
}

/// Does what the old server says.
fn hear(server: &Arc<Server>, before: &Predecessor, said: ToHeir, fd: Option<OwnedFd>) {
    match (said, fd) {
        (ToHeir::Gone { session }, _) => session_gone(server, before, session),
        (ToHeir::LeaseGone { lease }, _) => lease_gone(server, before, lease),
        (ToHeir::Note { event, fields }, _) => drop(server.audit.note(&event, fields)),
        (ToHeir::Passed(passed), Some(fd)) => serve_passed(server, *passed, fd, false),
        _ => {}
    }
}

fn session_gone(server: &Server, before: &Predecessor, session: String) {
    if before.forget_session(&session) {
        lock(&server.pool).close(&session);
        server.succession.tell_heir(&ToHeir::Gone { session });
        desk::expire(server);
    }
}

fn lease_gone(server: &Server, before: &Predecessor, lease: String) {
    if before.forget_lease(&lease) {
        lock(&server.pool).end_lease(&lease);
        server.succession.tell_heir(&ToHeir::LeaseGone { lease });
    }
}
