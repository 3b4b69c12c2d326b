//! Resolution of the file or folder that a call leads to, from the permission that it needs.

use std::path::PathBuf;

use super::glob;
use super::paths::{ToolContext, in_workspace, resolve};
use crate::core::permission::Permission;

/// Returns the path of a call that needs this permission, with links followed; `None` when it is
/// not about a path.
///
/// # Errors
/// The reason why that is unknown, for the model.
pub fn resolve_target(
    permission: &Permission,
    ctx: &ToolContext,
) -> Result<Option<PathBuf>, String> {
    let path = match permission {
        Permission::Path { path, .. } => path.clone(),
        Permission::WriteInWorkspace { path } => in_workspace(path, ctx)?,
        Permission::Glob { pattern, path } => glob::start(pattern, path.as_deref()),
        Permission::None
        | Permission::Command { .. }
        | Permission::LookBack { .. }
        | Permission::Wait
        | Permission::Task
        | Permission::Foreign { .. }
        | Permission::Fetch { .. }
        | Permission::Search { .. } => {
            return Ok(None);
        }
    };
    resolve(&path, ctx).map(Some)
}
