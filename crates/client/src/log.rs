//! Logs, only where the user asked for them: a shim lives in somebody else's program and owns
//! neither its stdout nor its stderr.
//!
//! `BUSBAR_LOG=LEVEL` (`lost`, `error`, `warn`, `info`, `debug`) writes to stderr;
//! `BUSBAR_LOG=LEVEL:FILE` appends to a file. `lost` is what `busbar run` asks for unless its user
//! says otherwise: one line in the life of a process, when its session is lost or cannot be opened.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A session is over, and its program had not ended it; or there is none.
    Lost = 1,
    /// Something failed.
    Error,
    /// Something is not as the program may expect.
    Warn,
    /// What an operator wants to know.
    Info,
    /// What a developer of Busbar wants to know.
    Debug,
}

/// The level and the file that a value of `BUSBAR_LOG` names; nothing if it is none.
pub fn parse(value: &str) -> Option<(u8, &str)> {
    let (level, path) = value.split_once(':').unwrap_or((value, ""));
    let level = match level {
        "" | "0" | "off" => 0,
        "lost" => 1,
        "error" => 2,
        "warn" => 3,
        "info" => 4,
        "debug" | "1" => 5,
        _ => return None,
    };
    Some((level, path))
}

struct Target {
    level: u8,
    file: Option<Mutex<File>>,
    /// Somebody who asked for lost sessions alone has heard of one.
    told: AtomicBool,
}

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let var = crate::config::var("BUSBAR_LOG").unwrap_or_default();
        let (level, path) = parse(&var).unwrap_or((0, ""));
        let file = (!path.is_empty())
            .then(|| {
                File::options()
                    .create(true)
                    .append(true)
                    .open(path)
                    .ok()
                    .map(Mutex::new)
            })
            .flatten();
        Target {
            level,
            file,
            told: AtomicBool::new(false),
        }
    })
}

/// Whether lines of this level are written.
pub fn enabled(level: Level) -> bool {
    target().level >= level as u8
}

/// Writes one line. Use the [`crate::log!`] macro.
pub fn write(level: Level, line: std::fmt::Arguments<'_>) {
    let t = target();
    let name = ["", "", " error", " warn", " info", " debug"][level as usize];
    let only = t.level == Level::Lost as u8;
    if only && t.told.swap(true, Ordering::AcqRel) {
        return;
    }
    let text = format!("busbar[{}]{name}: {line}\n", std::process::id());
    match &t.file {
        Some(f) => {
            let _ = f
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(text.as_bytes());
        }
        None => {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

/// Logs one formatted line at a [`Level`], when that level is asked for.
#[macro_export]
macro_rules! log {
    ($level:ident, $($arg:tt)*) => {
        if $crate::log::enabled($crate::log::Level::$level) {
            $crate::log::write($crate::log::Level::$level, format_args!($($arg)*));
        }
    };
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_level_may_have_a_file() {
        assert_eq!(parse("off"), Some((0, "")));
        assert_eq!(parse("lost"), Some((1, "")));
        assert_eq!(parse("debug:/tmp/a:b"), Some((5, "/tmp/a:b")));
        assert_eq!(parse("loud"), None);
    }
}
