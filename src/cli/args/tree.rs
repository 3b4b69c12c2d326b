//! The command tree as `--help` shows it: subcommands under headings, and global options only in
//! the main help.

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// Headings of the main help with their subcommands.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Sessions",
        &[
            "history", "show", "fork", "compact", "export", "import", "stats", "dismiss", "purge",
        ],
    ),
    ("Files", &["diff", "rewind", "restore", "gc", "fetch"]),
    (
        "Control",
        &[
            "send",
            "stop",
            "pause",
            "unblock",
            "set",
            "approvals",
            "allow",
            "deny",
            "answer",
            "ps",
        ],
    ),
    (
        "Setup",
        &[
            "key",
            "models",
            "trust",
            "permissions",
            "sandbox",
            "doctor",
            "update",
            "demo",
            "completion",
            "man",
        ],
    ),
    (
        "Integrations",
        &["acp", "mcp", "hooks", "serve", "fleet", "submit", "worker"],
    ),
];

/// Returns the command tree that the program parses and documents.
pub(crate) fn command() -> Command {
    let tree = Cli::command();
    let global = tree.get_arguments().filter(|arg| arg.is_global_set());
    let hidden: Vec<Arg> = global.map(|arg| arg.clone().hide(true)).collect();
    let tree = tree.mut_subcommands(|subcommand| with_arguments(subcommand, &hidden));
    let template = template(&tree);
    tree.help_template(template)
}

/// Adds the arguments to a command and to all commands below it.
fn with_arguments(command: Command, arguments: &[Arg]) -> Command {
    command
        .args(arguments)
        .mut_subcommands(|below| with_arguments(below, arguments))
}

fn template(tree: &Command) -> String {
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        text.push_str(&format!("\n{heading}:\n"));
        for name in names {
            let found = tree.get_subcommands().find(|s| s.get_name() == *name);
            let about = found.and_then(Command::get_about);
            // `None` if its feature is disabled.
            if let Some(about) = about {
                text.push_str(&format!("  {name:<12} {about}\n"));
            }
        }
    }
    text.push_str("\nArguments:\n{positionals}\n\nOptions:\n{options}{after-help}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subcommand_has_one_heading() {
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        grouped.sort_unstable();
        let tree = command();
        let mut names: Vec<&str> = tree.get_subcommands().map(Command::get_name).collect();
        names.sort_unstable();
        if cfg!(all(feature = "serve", feature = "fleet")) {
            assert_eq!(grouped, names);
        }
    }

    /// Calls `check` with the path and the help of each subcommand and argument.
    fn each_help(command: &Command, path: &str, check: &mut impl FnMut(&str, &str)) {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            check(&format!("{path} {}", arg.get_id()), &help);
        }
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name());
            let about = below.get_about().map(ToString::to_string);
            check(&path, &about.unwrap_or_default());
            each_help(below, &path, check);
        }
    }

    #[test]
    fn each_help_is_one_short_clause() {
        let mut tree = command();
        tree.build();
        each_help(&tree, "rewake", &mut |path, help| {
            assert!(!help.is_empty(), "{path} has no help");
            assert!(help.chars().count() <= 70, "{path}: {help}");
            assert!(!help.contains(';'), "{path}: {help}");
        });
    }

    #[test]
    fn subcommands_do_not_list_global_options() {
        let mut tree = command();
        let show = tree.find_subcommand_mut("show").unwrap();
        let help = show.render_long_help().to_string();
        assert!(!help.contains("--set") && !help.contains("--cd"), "{help}");
        let main = tree.render_long_help().to_string();
        assert!(main.contains("--set") && main.contains("--cd"), "{main}");
    }
}
