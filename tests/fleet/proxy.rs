//! A TCP proxy between a worker and the server: it passes bytes on, holds them back, or cuts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The treatment of a connection.
const PASS: u8 = 0;
const STALL: u8 = 1;
const REFUSE: u8 = 2;
/// The next answer that arrives is dropped, and the connection with it.
const DROP_ANSWER: u8 = 3;

pub struct Proxy {
    pub port: u16,
    mode: Arc<AtomicU8>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// Number of answers that were dropped.
    pub dropped: Arc<AtomicU64>,
}

impl Proxy {
    pub fn to(port: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            mode: Arc::default(),
            open: Arc::default(),
            dropped: Arc::default(),
        };
        let (mode, open, dropped) = (
            proxy.mode.clone(),
            proxy.open.clone(),
            proxy.dropped.clone(),
        );
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if mode.load(Ordering::SeqCst) == REFUSE {
                    continue;
                }
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
                    continue;
                };
                let both = [client.try_clone().unwrap(), server.try_clone().unwrap()];
                open.lock().unwrap().extend(both);
                for (from, to, is_answer) in [
                    (
                        client.try_clone().unwrap(),
                        server.try_clone().unwrap(),
                        false,
                    ),
                    (server, client, true),
                ] {
                    let (mode, dropped) = (mode.clone(), dropped.clone());
                    std::thread::spawn(move || pass(from, to, is_answer, &mode, &dropped));
                }
            }
        });
        proxy
    }

    pub fn pass(&self) {
        self.mode.store(PASS, Ordering::SeqCst);
    }

    /// Bytes wait from now on.
    pub fn stall(&self) {
        self.mode.store(STALL, Ordering::SeqCst);
    }

    /// Cuts all connections. New ones are refused.
    pub fn refuse(&self) {
        self.mode.store(REFUSE, Ordering::SeqCst);
        self.cut();
    }

    /// Cuts all connections. New ones are accepted.
    pub fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Cuts the connection at its next answer, which the client does not get.
    pub fn drop_next_answer(&self) {
        self.mode.store(DROP_ANSWER, Ordering::SeqCst);
    }
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    is_answer: bool,
    mode: &AtomicU8,
    dropped: &AtomicU64,
) {
    let mut bytes = [0; 16 * 1024];
    loop {
        let read = match from.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        while mode.load(Ordering::SeqCst) == STALL {
            std::thread::sleep(Duration::from_millis(5));
        }
        let drops = is_answer
            && mode
                .compare_exchange(DROP_ANSWER, PASS, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok();
        if drops {
            dropped.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
