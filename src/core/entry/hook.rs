//! Hooks in the log: the ones that are about to run, and their results.

use serde::{Deserialize, Serialize};

use super::call::Output;
use super::call_id::CallId;

/// A fixed point of a session at which hooks run. The names are those of Claude Code and Codex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HookEvent {
    /// A process opened or resumed the session, or its context was compacted.
    SessionStart,
    /// A message of the user was recorded.
    UserPromptSubmit,
    /// The model called a tool, and the call has not started.
    PreToolUse,
    /// A person is about to be asked about a call.
    PermissionRequest,
    /// A call has succeeded.
    PostToolUse,
    /// A call has failed, or was interrupted.
    PostToolUseFailure,
    /// The model ended its turn.
    Stop,
    /// The model of a subagent ended its turn.
    SubagentStop,
    /// The context is about to be compacted.
    PreCompact,
    /// A person is asked something, or the session waits for them.
    Notification,
    /// The process leaves the session.
    SessionEnd,
}

impl HookEvent {
    /// All events, in the order in which they can occur.
    pub const ALL: [HookEvent; 11] = [
        HookEvent::SessionStart,
        HookEvent::UserPromptSubmit,
        HookEvent::PreToolUse,
        HookEvent::PermissionRequest,
        HookEvent::PostToolUse,
        HookEvent::PostToolUseFailure,
        HookEvent::Stop,
        HookEvent::SubagentStop,
        HookEvent::PreCompact,
        HookEvent::Notification,
        HookEvent::SessionEnd,
    ];

    /// Returns the name in files of hooks and in the log.
    pub fn name(self) -> &'static str {
        match self {
            HookEvent::SessionStart => "SessionStart",
            HookEvent::UserPromptSubmit => "UserPromptSubmit",
            HookEvent::PreToolUse => "PreToolUse",
            HookEvent::PermissionRequest => "PermissionRequest",
            HookEvent::PostToolUse => "PostToolUse",
            HookEvent::PostToolUseFailure => "PostToolUseFailure",
            HookEvent::Stop => "Stop",
            HookEvent::SubagentStop => "SubagentStop",
            HookEvent::PreCompact => "PreCompact",
            HookEvent::Notification => "Notification",
            HookEvent::SessionEnd => "SessionEnd",
        }
    }

    /// Returns whether its hooks are guards: their answer decides what happens next, so a failure
    /// of one is not ignored.
    pub fn is_guard(self) -> bool {
        matches!(
            self,
            HookEvent::UserPromptSubmit | HookEvent::PreToolUse | HookEvent::PermissionRequest
        )
    }

    /// Returns whether its hooks decide about a call.
    pub fn decides_about_call(self) -> bool {
        matches!(self, HookEvent::PreToolUse | HookEvent::PermissionRequest)
    }
}

/// A hook that is about to run, with its run folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRun {
    /// The file of the hook and its command, for a person.
    pub hook: String,
    /// The call that it is about. `None`: it is about no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Name of the run folder, unique for ever. Empty if `failed` is set.
    pub run: String,
    /// Id of the boot in which it was prepared. In another boot it is never started.
    pub boot: String,
    /// It is from a file of the user, not of the workspace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_user: bool,
    /// `onFailure: "allow"`: a failure of it changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
    /// Why it failed before it could be prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The answer of a hook, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookVerdict {
    /// It decides nothing.
    #[default]
    None,
    /// The call may run, as far as the rules leave that open.
    Allow,
    /// A person is asked.
    Ask,
    /// Its answer cannot be used: a guard then asks.
    Failed,
    /// The call, the message or the end of the turn is refused.
    Deny,
}

/// The result of one hook.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HookResult {
    /// The same as in [`HookRun`].
    pub hook: String,
    pub verdict: HookVerdict,
    /// Why: the words of the hook, or the cause of the failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The model is told the result without the command line of the hook. In older entries it is told
    /// with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_brief: bool,
    /// The exit code. `None`: it did not run, or did not exit by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Milliseconds from its start to its end.
    #[serde(default)]
    pub took_ms: u64,
    /// Other arguments for the call: JSON, under the tool's own names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Text for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Output>,
    /// A line for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `"continue": false`: the session stops.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// The file of the call, which the hook changed after the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrote: Option<HookWrote>,
    /// The same as in [`HookRun`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_user: bool,
}

/// A file as a hook left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookWrote {
    /// Absolute.
    pub path: String,
    /// blake3 of the content, in hex.
    pub hash: String,
}
