//! Protected files. They are never changed without a question, whatever the mode and the rules
//! allow, except in `bypassPermissions`.
//!
//! The table names files that other programs run, obey or trust without a request: by opening a
//! folder, logging in, committing, pushing, or starting a tool. Ordinary source that is run too
//! (`Makefile`, `package.json`, `build.rs`, tests) is deliberately absent: somebody runs it on
//! purpose, and changing it is the daily work.

use std::collections::HashSet;
use std::sync::{LazyLock, OnceLock};

use crate::core::path;
use crate::core::rule::Bases;

/// Files that other programs run or obey by themselves. The sandbox undoes those that a command
/// makes. A name, or consecutive names, at any depth of a path, as they are usually written; below
/// them all is protected too. `*` is any part of a name. Case does not count.
#[rustfmt::skip]
pub const OBEYED: &[&str] = &[
    // Version control: its hooks, filters and addresses. `x.git` is a bare repository.
    ".gitmodules", ".hg/hgrc", ".jj/repo/config.toml", ".sl/config", ".githooks", ".lfsconfig",
    // What managers of git hooks run at a commit or a push.
    ".husky", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".huskyrc*", "prek.toml", "lefthook.*", "lefthook-local.*",
    ".lefthook*", ".config/lefthook*", ".overcommit.y*ml", ".local-overcommit.y*ml", ".git-hooks", "simple-git-hooks.*",
    ".simple-git-hooks.*", ".lintstagedrc*", "lint-staged.config.*", ".commitlintrc*", "commitlint.config.*", "captainhook.json",
    "grumphp.y*ml*", ".rusty-hook.toml", ".cargo-husky", "hk.pkl", ".hk*.pkl", ".config/hk.pkl", ".trunk", "husky.config.*",
    "hk.local.pkl", ".config/hk.local.pkl", ".moon", ".vite-hooks", ".nano-staged*", ".quickhook", "cog.toml", ".monk.yaml",
    "whisky.json", ".gitlint", ".czrc",
    // Coding agents: their rules, commands, servers and instructions; rewake's own of another start.
    ".rewake", ".mcp.json", ".agents", ".claude", ".cursor", ".cursorrules", ".codex", ".gemini", "AGENTS.md", "CLAUDE.md",
    "GEMINI.md", ".opencode", "opencode.json", "opencode.jsonc", ".kiro", ".roo", ".windsurf", ".windsurfrules", ".junie",
    ".amazonq", ".continue", ".qwen", ".trae", "CLAUDE.local.md", "AGENTS.override.md", "AGENTS.local.md", ".github/hooks",
    ".github/instructions", ".github/prompts", ".github/agents", ".mcp.jsonc", ".agent", "AGENT.md", ".rules", ".pi",
    "crush.json", ".crush.json", "CRUSH.md", "CRUSH.local.md", "QWEN.md", "QWEN.local.md", "GEMINI.local.md", ".goose",
    ".goosehints*", ".roomodes", ".roorules*", ".kilo", "kilo.json*", ".kilocode*", ".cline*", ".aider.conf.y*ml",
    ".aider.model.*", ".continuerc.json", ".continuerules", ".amp", ".augment", ".augment-guidelines", ".augment*rules",
    ".factory", ".droid*", ".copilot", ".github/chatmodes", ".github/copilot*", ".github/skills", ".github/mcp.json",
    ".claude-plugin", ".opencode.json*", ".codebuddy", "CODEBUDDY.md", "codebuff.json", ".cody", ".aiassistant", ".idx", ".iflow",
    "IFLOW.md", ".grok", "GROK.md", ".kimi", ".lingma", ".openhands", ".openhands_instructions", ".qoder", ".replit", "replit.md",
    ".rovodev", ".ruler", ".rulesync", ".tabnine", ".vibe", "WARP.md", ".warp", ".zencoder", ".devin", ".antigravity",
    ".github/lsp.json", ".github/extensions", "agents.config.json", "conductor.json", ".crush", ".codebuff", ".eca",
    ".emdash.json", "firebender.json", ".firebender", ".forge", "forge.yaml", "gptme.toml", "gptme.local.toml", ".hermes.md",
    "HERMES.md", "knowledge.md", ".kode", ".kode.json", "KODE.md", ".letta", ".llxprt", "LLXPRT.md", ".mux", ".nanocoder", ".omp",
    ".omp-plugin", ".openclaw", "SOUL.md", ".superset", ".*/skills", ".*/hooks", ".*/hooks.json", ".*/mcp*.json", ".*/commands",
    ".*/agents", ".*/rules", ".*rules", ".*-plugin", "gemini-extension.json", ".lsp.json", ".bob", ".commandcode", ".neovate",
    ".pochi", "README.pochi.md", ".adal", ".mcpjam", ".cortex", ".deepagents", ".stakpak", ".vtcode", ".mastracode",
    // Editors: tasks, settings and plugins that run when a folder is opened.
    ".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json", ".vscode/extensions.json", ".idea/workspace.xml",
    ".idea/runConfigurations", ".devcontainer", ".devcontainer.json", ".vscode/mcp.json", ".zed/tasks.json", ".zed/settings.json",
    ".helix/config.toml", ".helix/languages.toml", ".fleet/run.json", ".nvim.lua", ".nvimrc", ".exrc", ".vimrc", ".dir-locals.el",
    ".vs/tasks.vs.json", ".vs/launch.vs.json", ".run", ".lazy.lua", ".neoconf.json", ".dir-locals-2.el", ".lvimrc",
    ".local.vimrc", ".gitpod.yml", ".gitpod", ".ona", ".theia", ".externalToolBuilders", "devfile.y*ml", ".devfile.y*ml",
    ".stackblitzrc", ".codesandbox", ".luarc.json*",
    // CI: it runs with the repository's secrets.
    ".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", ".buildkite", ".gitea/workflows", ".forgejo/workflows",
    ".travis.yml", "Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", ".drone.y*ml", ".woodpecker*", "appveyor.yml",
    ".appveyor.yml", ".cirrus.y*ml", ".semaphore", ".teamcity", ".build.yml", ".builds", "cloudbuild.y*ml", ".tekton",
    "buildspec.yml", "azure-pipelines.y*ml",
    // Settings of build tools, packages and interpreters that name programs, servers or code to load.
    ".cargo/config", ".cargo/config.toml", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".gdbinit", ".lldbinit", ".bazelrc",
    ".mvn", ".Renviron", ".octaverc", ".ocamlinit", ".iex.exs", ".user.ini", "ansible.cfg", ".arcconfig", ".lazygit.yml",
    // Environments that a shell enters with a folder.
    ".mise.toml", "mise.toml", ".tool-versions", ".envrc", ".direnv", ".mise", ".envrc.*", "mise.*.toml", ".mise.*.toml",
    "mise/config*.toml", "mise/conf.d", ".config/mise*", ".rtx*.toml", ".autoenv*", ".shadowenv.d", ".rvmrc", ".flox/env",
    ".prototools", ".miserc.toml", ".ondirrc", "bin/activate-hermit",
    // Shells, terminals and logins.
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".bash_login",
];

/// Further ones, which only a question protects: names that builds make all the time, and whole
/// folders of which one file is obeyed. With `~/` only in the user's home.
#[rustfmt::skip]
const PROTECTED: &[&str] = &[
    // Version control: its hooks, filters and addresses. `x.git` is a bare repository.
    "*.git", ".gitattributes", ".gitconfig", ".config/git", ".hg", ".hgrc", ".jj", ".sl",
    // What managers of git hooks run at a commit or a push.
    ".pre-commit-config.y*ml", ".config/hk*.pkl",
    // Coding agents: their rules, commands, servers and instructions; rewake's own of another start.
    ".config/rewake", ".local/share/rewake", ".local/state/rewake", ".mcp.json*", "agents.*md", ".config/amp", ".claude.json",
    "claude.*md", "codebuddy.*md", ".codeium", "crush.*md", ".config/crush", ".local/share/crush", "gemini.*md", "goose.md",
    ".config/goose", "grok.*md", "iflow.*md", ".config/kilo", "opencode.json*", ".config/opencode", "qwen.*md", "replit.nix",
    "warp.*md", "gptme*.toml", "hermes.*md", "kode.*md", "llxprt.*md",
    // Editors: tasks, settings and plugins that run when a folder is opened.
    ".vscode", "*.code-workspace", ".vs", ".idea", "*.ipr", "*.iws", "*.sublime-project", ".zed", ".config/zed", ".fleet",
    ".helix", ".config/helix", ".gvimrc", ".nvim", ".vim", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs",
    ".dir-locals*.el", ".nova",
    // Settings of build tools, packages and interpreters that name programs, servers or code to load.
    ".cargo/bin", ".cargo/env*", ".yarnrc*", ".yarn/releases", ".yarn/plugins", ".pnpmfile.*js", "pip.conf", ".config/pip",
    ".condarc", ".gemrc", ".bundle/config", ".gradle/init.d", ".m2/settings.xml", "sitecustomize.py", "usercustomize.py", "*.pth",
    ".pdbrc", ".irbrc", ".pryrc", ".ghci", ".rprofile", ".psqlrc", ".sqliterc", ".curlrc", ".wgetrc", ".ripgreprc",
    ".docker/config.json", "bunfig.toml",
    // Environments that a shell enters with a folder.
    ".envrc*", ".direnvrc", ".config/direnv", ".config/mise", ".config/mise*.toml", ".env.leave",
    // Shells, terminals and logins.
    ".login", ".logout", ".bash*", ".zsh*", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".inputrc", ".pam_environment",
    ".config/fish", "config.fish", "conf.d", ".config/nushell", ".tmux.conf", ".config/tmux", ".screenrc", ".xinitrc",
    ".xprofile", ".xsession*", ".config/sway", ".config/i3", ".config/hypr", ".oh-my-zsh", ".config/zsh", ".config/starship.toml",
    ".config/alacritty", ".config/ghostty", ".config/kitty", ".config/wezterm", ".wezterm.lua", ".config/zellij",
    // Programs that a session or a machine starts by itself, and folders that are searched first
    // for programs.
    ".config/systemd", ".local/share/systemd", ".config/environment.d", "autostart", "launchagents", ".local/share/applications",
    ".local/share/dbus-1", "cron.d", "crontab", ".local/bin", "~/bin", "~/go/bin", "~/.asdf", "~/.bun/bin", "~/.deno/bin",
    "~/.nvm", "~/.pyenv", "~/.rbenv", "~/.rustup",
    // Keys, and lists of who may log in.
    ".ssh", "authorized_keys", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".netrc", ".git-credentials",
    ".password-store",
];

/// All of them as they are compared.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let all = OBEYED.iter().chain(PROTECTED);
    all.map(|names| path::fold(names)).collect()
});

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
    NAMES
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
        let last = NAMES.iter();
        let last = last.map(|names| names.rsplit('/').next().unwrap_or(names));
        let (patterns, names): (Vec<&str>, Vec<&str>) = last.partition(|name| name.contains('*'));
        (names.into_iter().chain([HEAD]).collect(), patterns)
    });
    let folded = path::fold(name);
    names.contains(folded.as_str()) || patterns.iter().any(|p| path::name_matches(p, &folded))
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
            .all(|(part, name)| path::name_matches(name, part))
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
            ".new-agent/skills/x.md", ".new-agent/mcp.local.json", ".newrules", ".new-plugin/x", "sub/.other/hooks/x",
            ".drone.yaml", "cog.toml", ".flox/env/manifest.toml", "bin/activate-hermit", "README.pochi.md",
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
