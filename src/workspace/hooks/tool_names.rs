//! The tools that matchers of hooks are compared with, and the names that other agents have for them.
//!
//! Source of the names: the tool references of Claude Code, Codex, Gemini CLI, Cursor, opencode, Copilot,
//! Cline and Zed.

/// Each tool as hooks read it, and its other names in lowercase: rewake's own first, if it differs.
#[rustfmt::skip]
pub const TOOLS: [(&str, &[&str]); 22] = [
    ("Bash", &[
        "bash", "shell", "local_shell", "shell_command", "exec_command", "unified_exec", "powershell", "run_shell_command",
        "run_terminal_cmd", "run_terminal_command", "run_in_terminal", "execute_command", "execute_bash", "run_command", "terminal",
    ]),
    ("Read", &["read", "read_file", "read_many_files", "view", "view_image", "notebookread", "fs_read"]),
    ("Write", &["write", "write_file", "create", "create_file", "write_to_file", "apply_patch", "fs_write", "patch"]),
    ("Edit", &[
        "edit", "multiedit", "multi_edit", "notebookedit", "apply_patch", "patch", "replace", "edit_file", "str_replace",
        "strreplace", "search_replace", "replace_in_file", "apply_diff", "insert_edit_into_file", "update", "fs_write",
        "str_replace_editor", "str_replace_based_edit_tool",
    ]),
    ("Glob", &["glob", "ls", "list", "list_dir", "list_directory", "list_files", "file_search", "find_path"]),
    ("Grep", &["grep", "search_file_content", "grep_search", "grep_files", "search_files", "codebase_search"]),
    ("WebFetch", &["web_fetch", "webfetch", "fetch", "fetch_webpage"]),
    ("WebSearch", &["web_search", "websearch", "google_web_search"]),
    ("Task", &["task", "agent", "spawn_agent", "runsubagent"]),
    ("ask_user", &["askuserquestion", "request_user_input", "question"]),
    ("bash_stop", &["killshell", "killbash", "taskstop"]),
    ("bash_wait", &["bashoutput", "taskoutput"]),
    ("mcp", &[]), ("mcp_call", &[]), ("mcp_find", &["toolsearch"]),
    ("memory", &[]), ("memory_insert", &["save_memory"]), ("memory_page", &[]), ("memory_search", &[]),
    ("plan", &["todowrite", "todo_write", "update_plan", "write_todos"]),
    ("review_history", &[]), ("save_skill", &[]),
];

/// Returns the tools that a name means, in any case of its letters.
pub(super) fn tools_named(name: &str) -> impl Iterator<Item = &'static str> {
    let lower = name.to_ascii_lowercase();
    let is_its = move |(tool, others): &&(&str, &[&str])| {
        tool.eq_ignore_ascii_case(&lower) || others.contains(&lower.as_str())
    };
    TOOLS.iter().filter(is_its).map(|(tool, _)| *tool)
}

/// Returns whether a name is that of a tool of a server, or of all its tools (`mcp__server`).
pub(super) fn is_of_server(name: &str) -> bool {
    name.len() > "mcp__".len() && name.starts_with("mcp__")
}
