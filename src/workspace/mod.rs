//! The workspace: the folder of the work, its git repository, its files, and its texts for the
//! model.
//!
//! Invariant: nothing here runs a program, git included, and nothing is written.

mod agents;
pub mod attributes;
pub mod beside;
mod branch;
mod commands;
mod definitions;
pub mod files;
pub mod handle;
mod head;
mod here;
pub mod hooks;
pub mod ignored;
mod instructions;
pub mod regular;
mod repository;
mod skills;
mod worktrees;
pub mod writers;

pub use agents::{Agent, Agents, agents};
pub use branch::branch;
pub use commands::{CustomCommand, CustomCommands, commands};
pub use head::{HeadMoved, head_commit, head_moved_since};
pub use here::{HereError, StartFolder, here, root_text};
pub use instructions::{Instructions, instructions};
pub use repository::TrackedFiles;
pub use repository::{
    GitSetting, git_settings_of_user, is_inert, is_inert_folder, is_plain, is_repository_of,
    names_program, obeyed_by_git, unwritten_files,
};
pub use skills::{Skill, Skills, skill_folders_of_user, skills};
pub use worktrees::worktrees;
