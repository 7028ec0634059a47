//! What the device prints: texts that have come and are not written yet.

use super::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A text, and where it goes.
#[derive(Debug)]
pub enum Text {
    /// To the standard output.
    Out(Vec<u8>),
    /// To the standard error.
    Err(Vec<u8>),
}

#[derive(Debug, Default)]
struct State {
    writer: Option<Sender<Text>>,
    /// Texts that are not written yet, and their bytes.
    left: usize,
    waiting: usize,
    /// Bytes that there was no room for.
    dropped: usize,
}

/// The most bytes that wait to be written: a server may send what it likes, and nobody may be
/// reading what the program prints. The device's own buffer has 1 MiB unless a program asks for
/// more.
const MOST: usize = 64 << 20;

impl Text {
    fn len(&self) -> usize {
        let (Self::Out(b) | Self::Err(b)) = self;
        b.len()
    }
}

/// Texts of a client.
#[derive(Debug, Default)]
pub struct Output {
    state: Mutex<State>,
    written: Condvar,
    /// Whether kernels of this program print, as far as is known.
    prints: AtomicBool,
}

impl Output {
    /// A text has come, for the writer, whom `start` starts where there is none. False when there
    /// is no room for it, the first time since there was.
    pub fn add(&self, text: Text, start: impl FnOnce(Receiver<Text>)) -> bool {
        self.expect();
        let mut s = lock(&self.state);
        let len = text.len();
        if s.waiting + len > MOST {
            s.dropped += len;
            return s.dropped > len;
        }
        let tx = s.writer.get_or_insert_with(|| {
            let (tx, rx) = channel();
            start(rx);
            tx
        });
        if tx.send(text).is_ok() {
            s.left += 1;
            s.waiting += len;
        }
        true
    }

    /// A text of so many bytes is written. Says how many there was no room for, once there is.
    pub fn done(&self, len: usize) -> usize {
        let mut s = lock(&self.state);
        s.left -= 1;
        s.waiting -= len;
        self.written.notify_all();
        match s.waiting {
            0 => std::mem::take(&mut s.dropped),
            _ => 0,
        }
    }

    /// Waits until all that has come is written.
    pub fn wait_until_written(&self) {
        if !self.expected() {
            return;
        }
        let mut s = lock(&self.state);
        while s.left > 0 {
            s = self.written.wait(s).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether kernels of this program may print: then a copy that waits for them must also fetch
    /// what they have printed.
    pub fn expected(&self) -> bool {
        self.prints.load(Ordering::Acquire)
    }

    /// They may, from now on.
    pub fn expect(&self) {
        self.prints.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_takes_no_more_than_its_room() {
        let (output, mut texts) = (Output::default(), None);
        let mut add = |len| output.add(Text::Out(vec![b'x'; len]), |rx| texts = Some(rx));
        assert!(add(MOST - 10) && add(10));
        assert!(!add(7), "it is told of once");
        assert!(add(5));
        let texts = texts.expect("a writer");
        let lens: Vec<_> = texts.try_iter().map(|t| t.len()).collect();
        assert_eq!(lens, [MOST - 10, 10]);
        assert_eq!((output.done(MOST - 10), output.done(10)), (0, 12));
        assert!(output.add(Text::Err(vec![b'x']), |_| unreachable!()));
        assert_eq!((output.done(1), lock(&output.state).left), (0, 0));
    }
}
