//! Entry point: arguments -> config -> run -> exit code.
//!
//! The keeper modes come first: a process that has to outlive the agent must not initialise an
//! agent first. The sandbox stage also comes first, because it needs a single thread and no open
//! files.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = rewake::command::keeper::run_if_keeper() {
        return code;
    }
    if let Some(code) = rewake::command::server::run_if_keeper() {
        return code;
    }
    if let Some(code) = rewake::command::on_terminal::become_if_asked() {
        return code;
    }
    if let Some(code) = rewake::command::limited::become_if_asked() {
        return code;
    }
    if let Some(code) = rewake::command::page::become_if_asked() {
        return code;
    }
    if let Some(code) = rewake::sandbox::stage::become_if_asked() {
        return code;
    }
    rewake::sandbox::conceal();
    #[cfg(target_os = "linux")]
    rewake::sandbox::reaper::reap_if_first();
    rewake::sandbox::raise_limit();
    // Commands are settled without it too.
    let _ = rewake::command::watch_child_exits();
    ExitCode::from(rewake::cli::main())
}
