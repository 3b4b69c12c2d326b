//! The whole binary as a person and a script meet it: exit codes, what is printed where, and
//! every kind of bad input. After each failure the session can continue.

mod access;
mod action;
mod background;
mod bridge;
mod broken_answers;
mod bundles;
mod checks;
mod children;
mod commands;
mod config;
mod context;
mod custom;
mod damaged;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod disk;
mod documented;
mod figures;
mod files;
mod flags;
mod forks;
mod git_elsewhere;
mod history_forms;
mod hooks;
mod import;
mod install;
mod journal;
mod keeper;
mod keeper_server;
#[cfg(target_os = "linux")]
mod kernels;
mod keys;
mod lost;
mod mcp_servers;
mod mirror;
mod model_asks;
mod models;
mod moved_folder;
mod nasty;
mod network;
mod old_sessions;
mod outages;
mod output;
mod owners;
mod packages;
mod pages;
mod recovered;
mod refused;
mod repeats;
mod results;
mod resume;
mod retries;
mod rewind;
mod served;
mod server_asks;
mod server_offers;
mod server_tools;
mod sessions;
mod start;
mod stats;
mod steer;
mod store;
mod stream_input;
mod structured;
#[cfg(target_os = "linux")]
mod survivors;
mod task_limits;
mod telemetry;
mod tools;
mod traced;
mod unasked;
mod updates;
mod workspace_hooks;
mod worktree_kills;
mod worktree_losses;
mod worktree_tasks;
mod worktrees;

pub use crate::scenes::*;

/// The most memory that a process ever had in use, pages of its program file included.
/// `None` when it is gone.
#[cfg(target_os = "linux")]
pub fn peak_memory_kb(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
