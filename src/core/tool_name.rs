//! Finds the tool that a model means by a name that is not in its list: a name from another agent,
//! another spelling, or a slip.

use super::text::nearest;

/// Names of tools in other agents, in lower case without `_` and `-`. Sources: the tool lists of
/// Codex, Claude Code, Gemini CLI, OpenCode, Cline and Aider.
const OTHERS: [(&str, &[&str]); 9] = [
    (
        "edit",
        &[
            "applypatch",
            "strreplace",
            "strreplaceeditor",
            "strreplacebasededittool",
            "texteditor",
            "multiedit",
            "editfile",
            "patch",
            "replace",
            "replaceinfile",
            "searchreplace",
        ],
    ),
    (
        "write",
        &[
            "create",
            "createfile",
            "writefile",
            "writetofile",
            "savefile",
        ],
    ),
    (
        "read",
        &[
            "readfile",
            "readmanyfiles",
            "view",
            "viewimage",
            "viewfile",
            "cat",
            "openfile",
        ],
    ),
    (
        "bash",
        &[
            "shell",
            "sh",
            "terminal",
            "run",
            "runcommand",
            "runshellcommand",
            "runterminalcmd",
            "exec",
            "execcommand",
            "executecommand",
            "localshell",
            "shellcommand",
        ],
    ),
    ("bash_stop", &["killbash", "killshell", "taskstop"]),
    (
        "grep",
        &[
            "search",
            "rg",
            "ripgrep",
            "grepsearch",
            "searchfiles",
            "searchfilecontent",
            "codesearch",
        ],
    ),
    (
        "glob",
        &[
            "ls",
            "list",
            "listdir",
            "listdirectory",
            "listfiles",
            "find",
            "findfiles",
            "filesearch",
        ],
    ),
    ("web_fetch", &["fetch", "fetchurl", "urlfetch", "browse"]),
    (
        "plan",
        &[
            "todowrite",
            "todo",
            "todos",
            "updateplan",
            "updatetodolist",
            "writetodos",
        ],
    ),
];

/// Returns the tool of the list that `name` means, in any case. `None`: no name is similar.
pub(crate) fn meant<'a>(name: &str, listed: &[&'a str]) -> Option<&'a str> {
    let bare = |name: &str| name.replace(['_', '-', '.', ' '], "").to_lowercase();
    // No agent has a tool with a longer name.
    let given = bare(name.get(..name.len().min(64))?);
    let same = |tool: &&&str| bare(tool) == given;
    if let Some(tool) = listed.iter().find(same) {
        return Some(tool);
    }
    let other = OTHERS
        .iter()
        .find(|(_, names)| names.contains(&given.as_str()));
    if let Some((right, _)) = other {
        return listed.iter().find(|tool| *tool == right).copied();
    }
    nearest(name, listed.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_agents_and_slips_lead_to_a_tool_of_the_list() {
        let listed = [
            "read",
            "write",
            "edit",
            "bash",
            "bash_stop",
            "grep",
            "glob",
            "plan",
            "memory_search",
        ];
        for (name, tool) in [
            ("Read", "read"),
            ("BASH", "bash"),
            ("BashStop", "bash_stop"),
            ("apply_patch", "edit"),
            ("str_replace", "edit"),
            ("MultiEdit", "edit"),
            ("str_replace_based_edit_tool", "edit"),
            ("run_shell_command", "bash"),
            ("KillShell", "bash_stop"),
            ("list_dir", "glob"),
            ("TodoWrite", "plan"),
            ("update_plan", "plan"),
            ("raed", "read"),
            ("memory_serach", "memory_search"),
        ] {
            assert_eq!(meant(name, &listed), Some(tool), "{name}");
        }
        let long = "é".repeat(100_000);
        for name in ["", "launch_rocket", "mcp__files__read", &long] {
            assert_eq!(meant(name, &listed), None, "{name}");
        }
    }

    #[test]
    fn no_tool_outside_of_the_list_is_named() {
        assert_eq!(meant("apply_patch", &["read", "grep"]), None);
    }
}
