//! A TCP proxy between a worker and the server: it passes bytes on, holds them back, or cuts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
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
    /// A request with this text and all after it are held back.
    holds: Arc<Mutex<Option<&'static [u8]>>>,
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
            holds: Arc::default(),
            open: Arc::default(),
            dropped: Arc::default(),
        };
        let (mode, holds, open, dropped) = (
            proxy.mode.clone(),
            proxy.holds.clone(),
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
                    let (mode, dropped, holds) = (mode.clone(), dropped.clone(), holds.clone());
                    std::thread::spawn(move || pass(from, to, is_answer, &mode, &dropped, &holds));
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

    /// Requests with this text wait from now on.
    pub fn hold(&self, text: Option<&'static [u8]>) {
        *self.holds.lock().unwrap() = text;
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

/// A port at which no connection is accepted or refused, as of a machine that is switched off.
pub struct Silent {
    listener: OwnedFd,
    waiting: Vec<OwnedFd>,
}

impl Silent {
    pub fn new() -> Silent {
        use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
        let socket = |flags| {
            let tcp = SocketType::STREAM;
            net::socket_with(AddressFamily::INET, tcp, flags, None).unwrap()
        };
        let listener = socket(SocketFlags::empty());
        net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        net::listen(&listener, 0).unwrap();
        let mut silent = Silent {
            listener,
            waiting: Vec::new(),
        };
        // They fill its queue.
        for _ in 0..4 {
            let waiting = socket(SocketFlags::NONBLOCK);
            let _ = net::connect(&waiting, &silent.address());
            silent.waiting.push(waiting);
        }
        silent
    }

    pub fn address(&self) -> SocketAddr {
        let address = rustix::net::getsockname(&self.listener).unwrap();
        address.try_into().unwrap()
    }
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    is_answer: bool,
    mode: &AtomicU8,
    dropped: &AtomicU64,
    holds: &Mutex<Option<&'static [u8]>>,
) {
    let mut bytes = [0; 16 * 1024];
    loop {
        let read = match from.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        let is_held = || {
            let held = *holds.lock().unwrap();
            held.is_some_and(|text| bytes[..read].windows(text.len()).any(|part| part == text))
        };
        while mode.load(Ordering::SeqCst) == STALL || (!is_answer && is_held()) {
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
