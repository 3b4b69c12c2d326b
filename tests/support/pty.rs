//! The real binary on a terminal of its own: keys go in, and what its screen shows comes out.
//!
//! The terminal is no process's controlling one, so job control is not part of what can be
//! shown here; everything else is as in a window.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A child with its screen.
pub struct Pty {
    child: Child,
    keys: File,
    seen: Arc<Seen>,
}

struct Seen {
    screen: Mutex<vt100::Parser>,
    more: Condvar,
}

impl Pty {
    #[track_caller]
    pub fn spawn(mut command: Command, columns: u16, rows: u16) -> Pty {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("a terminal that may be used");
        unlockpt(&ours).expect("an open terminal");
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size).expect("the size of the terminal");
        let name = ptsname(&ours, Vec::new()).expect("the terminal's name");
        let open = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(&name, flags, Mode::empty()).expect("open the terminal")
        };
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        // The command holds the other ends: without it the end of the child is seen.
        drop(command);
        let keys = File::from(ours);
        let lines = NonZeroU16::new(rows).expect("a height");
        let columns = NonZeroU16::new(columns).expect("a width");
        let seen = Arc::new(Seen {
            screen: Mutex::new(vt100::Parser::new(lines, columns, 0)),
            more: Condvar::new(),
        });
        let shows = keys.try_clone().expect("the terminal a second time");
        read(shows, Arc::clone(&seen));
        Pty { child, keys, seen }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Keys as a terminal sends them.
    #[track_caller]
    pub fn send(&mut self, keys: &str) {
        self.keys
            .write_all(keys.as_bytes())
            .expect("type into the terminal");
    }

    /// The text of the screen.
    pub fn text(&self) -> String {
        self.with(|screen| screen.contents())
    }

    pub fn with<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.seen.screen.lock().unwrap().screen())
    }

    /// Until the screen shows it; the test fails with the screen when it does not.
    #[track_caller]
    pub fn wait_for(&self, limit: Duration, what: &str) {
        self.wait_until(limit, what, |text| text.contains(what));
    }

    #[track_caller]
    pub fn wait_until(&self, limit: Duration, what: &str, holds: impl Fn(&str) -> bool) {
        let end = Instant::now() + limit;
        let mut screen = self.seen.screen.lock().unwrap();
        loop {
            let text = screen.screen().contents();
            if holds(&text) {
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(screen);
                panic!("not seen in {limit:?}: {what}\n{text}");
            }
            screen = self.seen.more.wait_timeout(screen, left).unwrap().0;
        }
    }

    /// SIGKILL, and the end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its exit code, or `None` when it was killed or does not end.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads until the terminal is closed by everyone who had it.
fn read(mut shows: File, seen: Arc<Seen>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 64 * 1024];
        while let Ok(count @ 1..) = shows.read(&mut bytes) {
            seen.screen.lock().unwrap().process(&bytes[..count]);
            seen.more.notify_all();
        }
    });
}
