//! Lists of the paths of a machine that a command may read, never reads, and may not change
//! although they are in writable folders. Names are relative to the folder after which a list is
//! named. Paths that do not exist are ignored.

use std::path::Path;

/// Folders that are readable at every level, with everything below.
#[rustfmt::skip]
pub(super) const SYSTEM: [&str; 26] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc", "/proc", "/sys", "/nix",
    "/gnu/store", "/snap", "/run/current-system", "/run/systemd/resolve", "/run/resolvconf",
    "/home/linuxbrew/.linuxbrew", "/var/lib/dpkg", "/var/lib/apt/lists", "/var/lib/rpm", "/var/lib/pacman",
    "/var/lib/snapd/snap", "/var/lib/flatpak/exports", "/var/cache/man", "/var/cache/fontconfig",
];

/// Files below [`SYSTEM`] that are not readable: root without capabilities could read them.
#[rustfmt::skip]
pub(super) const SYSTEM_SECRETS: [&str; 19] = [
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/security/opasswd", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt", "/etc/krb5.keytab",
    "/etc/wireguard", "/etc/NetworkManager/system-connections", "/etc/kubernetes", "/etc/rancher",
    "/etc/docker/key.json", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
];

/// Devices that may be read and written at every level.
pub(super) const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Folder of shared memory: a separate one where mounts work, else from level `workspace` on.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// Readable paths of the home folder: settings without secrets, and toolchains.
#[rustfmt::skip]
pub(super) const HOME: [&str; 57] = [
    ".gitconfig", ".gitignore", ".gitignore_global", ".gitattributes", ".config/git/config", ".config/git/ignore",
    ".config/git/attributes", ".editorconfig", ".ripgreprc", ".tool-versions", ".config/mise", ".local/share/mise",
    ".local/bin", ".local/lib", ".local/pipx", ".local/share/pipx", ".local/share/uv", ".local/share/pnpm",
    ".local/share/fnm", ".local/share/nvim/mason", ".local/share/virtualenvs", ".cargo/bin", ".cargo/registry",
    ".cargo/git", ".cargo/env", ".cargo/config", ".cargo/config.toml", ".rustup", ".pyenv", ".nvm", ".volta",
    ".fnm", ".asdf", ".bun/bin", ".bun/install", ".deno/bin", ".npm/_cacache", ".npm-global", ".node_modules",
    ".yarn/berry", "go/bin", "go/pkg", "sdk", ".gvm", ".sdkman/candidates", ".jdks", ".m2/repository",
    ".gradle/caches", ".gradle/wrapper", ".rbenv", ".rvm", ".gem", ".opam", ".ghcup", ".dotnet", ".nuget/packages",
    ".nix-profile",
];

/// Secrets of the home folder: never readable, even if the workspace contains them.
#[rustfmt::skip]
pub(super) const SECRETS: [&str; 68] = [
    ".ssh", ".aws", ".gnupg", ".netrc", ".kube", ".docker", ".npmrc", ".yarnrc.yml", ".pypirc",
    ".cargo/credentials", ".cargo/credentials.toml", ".git-credentials", ".config/git/credentials", ".pgpass",
    ".my.cnf", ".vault-token", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
    ".gem/credentials", ".terraform.d", ".terraformrc", ".azure", ".boto", ".s3cfg", ".oci", ".fly",
    ".password-store", ".config/gh", ".config/hub", ".config/glab-cli", ".config/gcloud", ".config/op",
    ".config/rclone", ".config/doctl", ".config/heroku", ".config/configstore", ".config/containers", ".config/pip",
    ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".config/Slack",
    ".config/Signal", ".local/share/keyrings", ".local/share/kwalletd", ".mozilla", ".thunderbird", ".bash_history",
    ".zsh_history", ".local/share/fish", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history",
    ".sqlite_history", ".lesshst", ".viminfo", ".codex", ".claude", ".claude.json", ".gemini", ".aider.conf.yml",
    ".config/opencode", ".local/share/opencode", ".config/github-copilot", ".config/crush",
];

/// Returns whether a real folder contains one of the existing secrets of a home folder, or lies in one.
pub fn holds_secrets(folder: &Path, home: &Path) -> bool {
    let secrets = SECRETS.iter().map(|name| home.join(name));
    let mut real = secrets.filter_map(|secret| secret.canonicalize().ok());
    real.any(|secret| secret.starts_with(folder) || folder.starts_with(&secret))
}

/// Package caches that all projects share, writable from `network` on. Never a `bin`.
#[rustfmt::skip]
pub(super) const SHARED_CACHES: [&str; 12] = [
    ".cargo/registry", ".cargo/git", ".cargo/.package-cache", ".cargo/.package-cache-mutate",
    ".cargo/.global-cache", ".npm/_cacache", ".local/share/pnpm/store", "go/pkg/mod", ".m2/repository",
    ".gradle/caches", ".nuget/packages", ".local/share/uv/cache",
];

/// Paths of a git folder that git executes or obeys.
#[rustfmt::skip]
pub(super) const PROTECTED_GIT: [&str; 10] = [
    "config", "config.worktree", "hooks", "commondir", "gitdir", "info/attributes", "info/grafts",
    "objects/info/alternates", "remotes", "branches",
];
