//! The environment variables of a command in the sandbox.

/// Endings of names whose values are usually secrets.
const SECRET_ENDS: [&str; 14] = [
    "_TOKEN",
    "_KEY",
    "_SECRET",
    "_PASSWORD",
    "_PASSWD",
    "_PASSPHRASE",
    "_CREDENTIAL",
    "_CREDENTIALS",
    "_PAT",
    "_AUTH",
    "_APIKEY",
    "_DSN",
    "_WEBHOOK",
    "_COOKIE",
];

const SECRET_BEGINNINGS: [&str; 6] = [
    "AWS_",
    "AZURE_",
    "GOOGLE_APPLICATION_",
    "OP_SESSION_",
    "VAULT_",
    "ARM_CLIENT_",
];

/// Whole names of variables with secrets, or with addresses of agents that act for the user.
const SECRET_NAMES: [&str; 14] = [
    "TOKEN",
    "PASSWORD",
    "SECRET",
    "PGPASSWORD",
    "MYSQL_PWD",
    "REDISCLI_AUTH",
    "DATABASE_URL",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "XAUTHORITY",
    "TMUX",
];

/// Returns whether a variable of this name is removed from the environment of commands in the
/// sandbox, unless `shell.pass_env` names it.
pub fn looks_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let name = upper.as_str();
    SECRET_NAMES.contains(&name)
        || SECRET_ENDS.iter().any(|end| name.ends_with(end))
        || SECRET_BEGINNINGS
            .iter()
            .any(|begin| name.starts_with(begin))
        || name.contains("_TOKEN_")
        || name.contains("_SECRET_")
}

/// Caches that programs can fill again: the variable, and the folder below rewake's cache folder.
pub(super) const CACHES: [(&str, &str); 13] = [
    ("XDG_CACHE_HOME", "xdg"),
    ("GOCACHE", "go-build"),
    ("GOLANGCI_LINT_CACHE", "golangci-lint"),
    ("npm_config_cache", "npm"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("CCACHE_DIR", "ccache"),
    ("COMPOSER_CACHE_DIR", "composer"),
    ("PRE_COMMIT_HOME", "pre-commit"),
    ("NODE_COMPILE_CACHE", "node"),
    ("PYTHONPYCACHEPREFIX", "pycache"),
    ("MPLCONFIGDIR", "matplotlib"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_secrets() {
        for name in [
            "GITHUB_TOKEN",
            "OPENAI_API_KEY",
            "aws_secret_access_key",
            "AWS_PROFILE",
            "npm_config__auth",
            "CI_JOB_TOKEN_OLD",
            "PGPASSWORD",
            "SSH_AUTH_SOCK",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "KEYBOARD",
            "LANG",
            "TOKENIZERS_PARALLELISM",
            "MONKEY",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }
}
