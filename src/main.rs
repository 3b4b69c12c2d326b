//! args -> config -> run -> exit code.
//!
//! The keeper comes before all: a process that is to outlive the agent must not first become
//! one. So does the stage of the sandbox, which has to have one thread and nothing open.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = rewake::command::keeper::keep_if_asked() {
        return code;
    }
    if let Some(code) = rewake::command::server::keep_if_asked() {
        return code;
    }
    if let Some(code) = rewake::command::on_terminal::become_if_asked() {
        return code;
    }
    if let Some(code) = rewake::command::limited::become_if_asked() {
        return code;
    }
    if let Some(code) = rewake::sandbox::stage::become_if_asked() {
        return code;
    }
    rewake::sandbox::conceal();
    // Commands are settled without it too.
    let _ = rewake::command::hear_of_children();
    ExitCode::from(rewake::cli::main())
}
