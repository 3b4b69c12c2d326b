//! Protected files. They are never changed without a question, whatever the mode and the rules
//! allow, except in `bypassPermissions`.
//!
//! The table names files that other programs run, obey or trust without a request: by opening a
//! folder, logging in, committing, pushing, or starting a tool. Ordinary source that is run too
//! (`Makefile`, `package.json`, `build.rs`, tests) is deliberately absent: somebody runs it on
//! purpose, and changing it is the daily work.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::core::path;
use crate::core::rule::Bases;

/// A name, or consecutive names, at any depth of a path; with `~/` only in the user's home.
/// Everything below is protected too. `*` is any part of a name. Case does not count.
#[rustfmt::skip]
const PROTECTED: &[&str] = &[
    // Version control: its hooks, filters and addresses. `x.git` is a bare repository.
    "*.git", ".gitmodules", ".gitattributes", ".gitconfig", ".config/git", ".githooks", ".hg", ".hgrc", ".jj", ".sl",
    ".lfsconfig",
    // What managers of git hooks run at a commit or a push.
    ".husky", ".huskyrc*", ".pre-commit-config.y*ml", "prek.toml", "lefthook.*", "lefthook-local.*", ".lefthook*",
    ".config/lefthook*", ".overcommit.y*ml", ".local-overcommit.y*ml", ".git-hooks", "simple-git-hooks.*",
    ".simple-git-hooks.*", ".lintstagedrc*", "lint-staged.config.*", ".commitlintrc*", "commitlint.config.*", "captainhook.json",
    "grumphp.y*ml*", ".rusty-hook.toml", ".cargo-husky", "hk.pkl", ".hk*.pkl", "hk.local.pkl", ".config/hk*.pkl",
    "husky.config.*", ".trunk", ".moon",
    // Coding agents: their rules, commands, servers and instructions; rewake's own of another start.
    ".rewake", ".config/rewake", ".local/share/rewake", ".local/state/rewake", ".mcp.json*", ".agent", ".agents", "agent.md",
    "agents.*md", ".aider.conf.y*ml", ".aider.model.*", ".aiassistant", ".amazonq", ".amp", ".config/amp", ".antigravity", ".augment",
    ".augment-guidelines", ".augment*rules", ".claude", ".claude.json", ".claude-plugin", "claude.*md", ".cline*", ".codebuddy",
    "codebuddy.*md", ".codebuff", "codebuff.json", ".codeium", ".codex", ".cody", ".continue", ".continuerc.json", ".continuerules",
    ".copilot", ".github/agents", ".github/chatmodes", ".github/copilot*", ".github/hooks", ".github/instructions", ".github/mcp.json",
    ".github/prompts", ".github/skills", ".crush", "crush.json", ".crush.json", "crush.*md", ".config/crush",
    ".local/share/crush", ".cursor", ".cursorrules", ".devin", ".droid*", ".factory", ".forge", "forge.yaml", ".gemini", "gemini.*md",
    ".goose", ".goosehints*", "goose.md", ".config/goose", ".grok", "grok.*md", ".idx", ".iflow", "iflow.*md", ".junie", ".kilo", "kilo.json*",
    ".config/kilo", ".kilocode*", ".kimi", ".kiro", ".lingma", ".opencode", ".opencode.json*", "opencode.json*", ".config/opencode",
    ".openhands", ".openhands_instructions", ".pi", ".qoder", ".qwen", "qwen.*md", ".replit", "replit.md", "replit.nix", ".roo",
    ".roomodes", ".roorules*", ".rovodev", ".rules", ".ruler", ".rulesync", ".tabnine", ".trae", ".vibe", ".warp", "warp.*md",
    ".windsurf", ".windsurfrules", ".zencoder", ".github/lsp.json", ".github/extensions", "agents.config.json", "conductor.json", ".eca",
    ".emdash.json", "firebender.json", ".firebender", "gptme*.toml", ".hermes.md", "hermes.*md", "knowledge.md", ".kode", ".kode.json", "kode.*md", ".letta",
    ".llxprt", "llxprt.*md", ".mux", ".nanocoder", ".omp", ".omp-plugin", ".openclaw", "soul.md", ".superset",
    // Editors: tasks, settings and plugins that run when a folder is opened.
    ".vscode", "*.code-workspace", ".vs", ".idea", ".run", "*.ipr", "*.iws", "*.sublime-project", ".zed", ".config/zed", ".fleet",
    ".helix", ".config/helix", ".vimrc", ".gvimrc", ".exrc", ".lvimrc", ".local.vimrc", ".nvimrc", ".nvim", ".nvim.lua", ".lazy.lua",
    ".neoconf.json", ".vim", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".dir-locals*.el", ".nova", ".devcontainer",
    ".devcontainer.json", ".gitpod.yml", ".gitpod", ".ona",
    // CI: it runs with the repository's secrets.
    ".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows", ".gitlab-ci.yml", ".circleci",
    ".buildkite", ".travis.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "jenkinsfile",
    // Settings of build tools, packages and interpreters that name programs, servers or code to load.
    ".cargo/config.toml", ".cargo/config", ".cargo/bin", ".cargo/env*", ".npmrc", ".yarnrc*", ".yarn/releases",
    ".yarn/plugins", ".pnpmfile.*js", ".pypirc", "pip.conf", ".config/pip", ".condarc", ".gemrc", ".bundle/config",
    ".gradle/init.d", ".m2/settings.xml", ".mvn", "sitecustomize.py", "usercustomize.py", "*.pth", ".pdbrc",
    ".gdbinit", ".lldbinit", ".irbrc", ".pryrc", ".ghci", ".rprofile", ".psqlrc", ".sqliterc", ".curlrc", ".wgetrc",
    ".ripgreprc", ".docker/config.json", ".bazelrc", "bunfig.toml",
    // Environments that a shell enters with a folder.
    ".envrc*", ".direnv", ".direnvrc", ".config/direnv", "mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml", ".mise",
    "mise/config*.toml", "mise/conf.d", ".config/mise", ".config/mise*.toml", ".rtx*.toml", ".tool-versions", ".autoenv*",
    ".env.leave", ".shadowenv.d", ".rvmrc",
    // Shells, terminals and logins.
    ".profile", ".login", ".logout", ".bash*", ".zsh*", ".zlogin", ".zlogout", ".zprofile", ".kshrc", ".cshrc",
    ".tcshrc", ".inputrc", ".pam_environment", ".config/fish", "config.fish", "conf.d", ".config/nushell", ".tmux.conf",
    ".config/tmux", ".screenrc", ".xinitrc", ".xprofile", ".xsession*", ".config/sway", ".config/i3", ".config/hypr",
    ".oh-my-zsh", ".config/zsh", ".config/starship.toml", ".config/alacritty", ".config/ghostty", ".config/kitty",
    ".config/wezterm", ".wezterm.lua", ".config/zellij",
    // Programs that a session or a machine starts by itself, and folders that are searched first
    // for programs.
    ".config/systemd", ".local/share/systemd", ".config/environment.d", "autostart", "launchagents",
    ".local/share/applications", ".local/share/dbus-1", "cron.d", "crontab", ".local/bin", "~/bin", "~/go/bin",
    "~/.asdf", "~/.bun/bin", "~/.deno/bin", "~/.nvm", "~/.pyenv", "~/.rbenv", "~/.rustup",
    // Keys, and lists of who may log in.
    ".ssh", "authorized_keys", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".netrc",
    ".git-credentials", ".password-store",
];

/// Beside `objects` and `refs`, this file makes any folder a repository, whose settings can name
/// programs.
const HEAD: &str = "head";

/// Returns whether a clean absolute path may not be changed without a question.
pub fn is_protected(spot: &str, bases: &Bases) -> bool {
    let folded = path::fold(spot);
    let parts: Vec<&str> = parts(&folded).collect();
    let own = own_depth(spot, bases);
    if parts.len() > own && parts.last() == Some(&HEAD) {
        return true;
    }
    let homes: Vec<String> = bases.homes.iter().map(|home| path::fold(home)).collect();
    PROTECTED
        .iter()
        .any(|written| match written.strip_prefix("~/") {
            Some(names) => homes.iter().any(|home| {
                let home: Vec<&str> = self::parts(home).collect();
                parts.starts_with(&home) && begins(&parts, names, home.len(), own)
            }),
            None => (0..parts.len()).any(|at| begins(&parts, written, at, own)),
        })
}

/// Returns whether [`is_protected`] may be true for a path with this last name and false for its
/// folder. It is fast, for scans of whole trees.
pub fn may_be_protected(name: &str) -> bool {
    static LAST: OnceLock<(HashSet<&str>, Vec<&str>)> = OnceLock::new();
    let (names, patterns) = LAST.get_or_init(|| {
        let last = PROTECTED
            .iter()
            .map(|names| names.rsplit('/').next().unwrap_or(names));
        let (patterns, names): (Vec<&str>, Vec<&str>) = last.partition(|name| name.contains('*'));
        (names.into_iter().chain([HEAD]).collect(), patterns)
    });
    let folded = path::fold(name);
    names.contains(folded.as_str()) || patterns.iter().any(|pattern| is(&folded, pattern))
}

/// Returns the number of parts of the path that name the workspace itself. Its location is the
/// user's choice, so these parts do not protect it.
fn own_depth(spot: &str, bases: &Bases) -> usize {
    let own = bases.folders.iter().chain(&bases.roots);
    let own = own.chain(&bases.added);
    let around = own.filter(|base| path::below(spot, base).is_some());
    around.map(|base| parts(base).count()).min().unwrap_or(0)
}

/// Returns whether the names are in the path from `at` on, the last of them inside the workspace.
fn begins(path: &[&str], names: &str, at: usize, own: usize) -> bool {
    let count = parts(names).count();
    let Some(found) = path.get(at..at + count) else {
        return false;
    };
    at + count > own
        && found
            .iter()
            .zip(parts(names))
            .all(|(part, name)| is(part, name))
}

fn is(part: &str, name: &str) -> bool {
    match name.contains('*') {
        true => path::text_matches(name, part),
        false => name == part,
    }
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn in_workspace(workspace: &str, path: &str) -> bool {
        let bases = Bases {
            folders: vec![workspace.into()],
            roots: vec![workspace.into()],
            homes: vec!["/home/u".into()],
            ..Bases::default()
        };
        is_protected(&path::clean(&path::join(workspace, path)), &bases)
    }

    #[test]
    fn the_table_is_written_as_it_is_compared() {
        for name in PROTECTED {
            assert_eq!(path::fold(name), *name);
        }
    }

    #[test]
    #[rustfmt::skip]
    fn files_that_are_run_or_obeyed_automatically_are_protected() {
        for path in [
            ".git/config", "sub/.git/hooks/x", "bare.git/config", ".rewake/config.toml", ".mcp.json",
            ".agents/skills/x/SKILL.md", ".claude/settings.json", ".cursor/rules/x.mdc", ".codex/config.toml",
            ".gemini/settings.json", ".opencode/x", ".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml",
            ".husky/pre-commit", ".githooks/pre-commit", ".gitmodules", ".gitattributes", ".cargo/config.toml",
            ".cargo/config", "crates/a/.cargo/config.toml", ".github/workflows/ci.yml", ".github/actions/x/action.yml",
            ".gitlab-ci.yml", ".circleci/config.yml", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "mise.toml",
            ".mise.toml", ".mise/config.toml", ".tool-versions", ".envrc", ".direnv/x", ".devcontainer/devcontainer.json",
            ".devcontainer.json", "AGENTS.md", "docs/CLAUDE.md", "GEMINI.md", "AGENTS.override.md", "CLAUDE.local.md",
            ".pre-commit-config.yaml", "lefthook.yml", ".config/systemd/user/x.service", ".config/environment.d/x.conf",
            ".config/autostart/x.desktop", ".config/fish/functions/ls.fish", ".local/bin/ls", ".ssh/config",
            ".gnupg/gpg.conf", ".aws/config", ".netrc", ".git-credentials", ".profile", ".bashrc", ".bash_aliases",
            ".zshenv", ".inputrc", ".vimrc", ".config/nvim/init.lua", ".gitconfig", ".config/git/config", ".pypirc",
            "src/sitecustomize.py", "lib/x.pth", "x/HEAD", ".GIT/config", ".GitHub/Workflows/x.yml", "agents.MD",
            "App.code-workspace", ".config/rewake/config.toml", ".jj/repo/config.toml", ".sl/config", ".lfsconfig",
            ".github/instructions/x.md", ".github/hooks/x.json", ".kiro/steering/x.md", ".junie/guidelines.md", ".bazelrc",
            "bunfig.toml", ".oh-my-zsh/custom/x.zsh", ".config/kitty/kitty.conf", ".pi/extensions/x.ts", "crush.json",
            ".crush.json", "CRUSH.local.md", "QWEN.md", "lefthook-local.yml", "lefthook.toml", ".lefthook-local.json", ".lefthook/x.sh",
            ".config/lefthook.yml", ".goosehints", ".goosehints.local", ".roomodes", ".roorules-code", ".kilocodemodes", ".kilocode/rules/x.md",
            "kilo.jsonc", ".aider.model.settings.yml", ".continuerc.json", ".amp/settings.json", "AGENT.md", ".rules",
            ".github/copilot-instructions.md", ".github/chatmodes/x.md", ".augment/rules/x.md", ".augment-guidelines", ".factory/hooks.json",
            ".droid.yaml", ".trae/rules/x.md", ".clinerules/x.md", ".overcommit.yml", ".simple-git-hooks.cjs", "simple-git-hooks.json",
            "lint-staged.config.mjs", ".lintstagedrc", ".lintstagedrc.json", ".huskyrc.js", ".mise.local.toml", "mise/config.toml", ".envrc.local",
            ".dir-locals-2.el", ".lazy.lua", ".run/x.run.xml", ".vs/tasks.vs.json", "WARP.md", "claude.LOCAL.md", "prek.toml", "hk.pkl",
            ".mcp.jsonc", ".opencode.jsonc", ".github/lsp.json", ".github/extensions/x/extension.mjs", "husky.config.js", ".config/hk.local.pkl",
            "gptme.toml", "gptme.local.toml", ".letta/settings.json", ".omp/extensions/x.ts", "conductor.json", ".superset/config.json",
            ".emdash.json", ".mux/init", ".mux/mcp.jsonc", ".ona/automations.yaml", ".gitpod/automations.yaml", ".llxprt/settings.json",
            "LLXPRT.md", ".eca/config.json", "firebender.json", ".firebender/rules/x.mdc", ".hermes.md", "SOUL.md", "knowledge.md",
            ".nanocoder/commands/x.md", "agents.config.json", ".kode/settings.json", ".kode.json",
        ] {
            assert!(in_workspace("/home/u/w", path), "{path}");
            // Where a walk comes by first, the name alone gives it away.
            let mut above = Path::new(path).ancestors().filter(|p| !p.as_os_str().is_empty());
            let first = above.by_ref().filter(|p| in_workspace("/home/u/w", &p.to_string_lossy()));
            let name = first.last().and_then(Path::file_name).unwrap();
            assert!(may_be_protected(&name.to_string_lossy()), "{path}");
        }
        for name in ["main.rs", "README.md", "src", "x.git.rs"] {
            assert!(!may_be_protected(name), "{name}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn the_daily_work_is_not() {
        for path in [
            "src/main.rs", "Makefile", "package.json", "build.rs", "conftest.py", "Cargo.toml", "README.md", ".gitignore",
            ".github/dependabot.yml", ".github/ISSUE_TEMPLATE/x.md", ".env", ".editorconfig", "bin/run", "src/head/x.rs",
            "docs/agents.md.bak", ".config/app.toml", "config/git/x", "cargo/config.toml", "claude/x", "x.github",
            "tests/bashrc", "widgets.gitx", "src/ssh/mod.rs", "src/agents.rs", "src/claude.rs", "run/x", "rules/x", "mise/src.rs", "pi/x",
            "crush/x.json", "goose/main.go", "src/lefthook/mod.rs", ".aider.chat.history.md", "docs/hooks.md",
            ".github/CODEOWNERS", "husky/config.js", "src/mux/init.rs", "gptme/x.toml", "docs/soul.md.bak", "src/conductor.rs", "eca/x", "hermes/x.md",
        ] {
            assert!(!in_workspace("/home/u/w", path), "{path}");
        }
    }

    #[test]
    fn where_the_workspace_lies_is_the_users_choice() {
        for (workspace, path, want) in [
            ("/home/u/.config/nvim", "init.lua", false),
            ("/home/u/.config/nvim", ".git/config", true),
            ("/home/u/.config", "nvim/init.lua", true),
            ("/home/u/.config", "app/x.toml", false),
            ("/home/u/.claude/worktrees/x", "src/a.rs", false),
            ("/home/u/bin", "run", false),
            ("/home/u", "bin/run", true),
            ("/home/u/w", "/home/u/bin/run", true),
            ("/home/u/w", "/home/v/bin/run", false),
            ("/home/u/w", "/home/u/.ssh/config", true),
            ("/home/u", ".pyenv/shims/ls", true),
            ("/home/u/w", ".pyenv/shims/ls", false),
        ] {
            assert_eq!(in_workspace(workspace, path), want, "{workspace} {path}");
        }
    }
}
