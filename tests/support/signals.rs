//! The signals that a shell makes its background jobs ignore. A child inherits what is ignored, so
//! tests of signals would fail in `cargo test &` of a script, and in `nohup cargo test`.
//!
//! A handler ends at `exec`: with one that does nothing, the test process ignores these signals
//! still, and every child starts with the default. It is set before `main`, because tests start
//! children in many ways and on many threads.
#![allow(
    unsafe_code,
    reason = "nothing of the standard library runs before main or sets a handler"
)]

use libc::{SIG_DFL, SIG_IGN, SIGHUP, SIGINT, SIGQUIT, c_int, sighandler_t};

// SAFETY: the section holds pointers to functions of C, which the system calls before `main`.
#[used]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
static BEFORE_MAIN: extern "C" fn() = ignore_in_this_process_alone;

extern "C" fn ignore_in_this_process_alone() {
    let nothing: extern "C" fn(c_int) = do_nothing;
    for signal in [SIGHUP, SIGINT, SIGQUIT] {
        // SAFETY: there is one thread, and the handler does nothing.
        unsafe {
            if libc::signal(signal, nothing as sighandler_t) != SIG_IGN {
                libc::signal(signal, SIG_DFL);
            }
        }
    }
}

extern "C" fn do_nothing(_signal: c_int) {}
