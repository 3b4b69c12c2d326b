//! The environment variables of a command in the sandbox.

use crate::core::access::Access;

/// Words of names whose values are usually secrets. A name is split at everything but letters and
/// digits.
#[rustfmt::skip]
const SECRET_WORDS: [&str; 22] = [
    "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "COOKIES", "CRED", "CREDS", "DSN", "HEADERS", "HTPASSWD", "JWT", "KEY",
    "KEYS", "OTP", "PASS", "PAT", "PSK", "PW", "SAS", "SK", "TOTP", "WEBHOOK",
];

/// Parts of such words, also without a boundary (`MYTOKEN`, `authToken`).
#[rustfmt::skip]
const SECRET_PARTS: [&str; 9] = [
    "ACCESSKEY", "APIKEY", "CREDENTIAL", "PASSPHRASE", "PASSWD", "PASSWORD", "PRIVATEKEY", "SECRET", "TOKEN",
];

/// Parts of names that are two words with or without a boundary.
const TWO_WORDS: [&str; 3] = ["CONNECTIONSTRING", "CONNSTR", "SERVICEROLE"];

/// Words with one of [`SECRET_PARTS`] or endings that are about something else.
const NO_SECRETS: [&str; 3] = ["ASKPASS", "TOKENIZER", "TOKENIZERS"];

#[rustfmt::skip]
const SECRET_BEGINNINGS: [&str; 6] = [
    "AWS_", "AZURE_", "GOOGLE_APPLICATION_", "OP_SESSION_", "VAULT_", "ARM_CLIENT_",
];

/// Whole names of variables with secrets, or with addresses of agents that act for the user.
#[rustfmt::skip]
const SECRET_NAMES: [&str; 11] = [
    "AZUREWEBJOBSSTORAGE", "BW_SESSION", "DATABASE_URL", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST", "KRB5CCNAME", "XAUTHORITY", "TMUX",
];

/// Minimum length of a user name in an address that counts as a token.
const MIN_TOKEN: usize = 20;

/// Names of fields of a value (`user=me;password=x`, `?sig=x`) that are secrets.
#[rustfmt::skip]
const SECRET_FIELDS: [&str; 12] = [
    "password", "passwd", "pwd", "pass", "secret", "token", "access_token", "api_key", "apikey", "sig", "accountkey",
    "sharedaccesskey",
];

/// Returns whether a variable is removed from the environment of commands in the sandbox, unless
/// `shell.pass_env` names it. A command that may use the network gets the proxies as they are.
pub fn is_withheld(name: &str, value: &str, access: Access) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_proxy = upper == "PROXY" || upper.ends_with("_PROXY");
    is_secret_name(&upper)
        || ((has_secret_field(value) || has_password(value))
            && !(is_proxy && access >= Access::Network))
}

fn is_secret_name(name: &str) -> bool {
    let is_secret = |word: &str| {
        !NO_SECRETS.contains(&word)
            && (SECRET_WORDS.contains(&word.trim_end_matches(|c: char| c.is_ascii_digit()))
                || SECRET_PARTS.iter().any(|part| word.contains(part))
                || word.ends_with("PASS")
                || word.ends_with("PWD"))
    };
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let joined: String = words.clone().collect();
    SECRET_NAMES.contains(&name)
        || SECRET_BEGINNINGS
            .iter()
            .any(|begin| name.starts_with(begin))
        || TWO_WORDS.iter().any(|part| joined.contains(part))
        || (!matches!(name, "PWD" | "OLDPWD") && words.any(is_secret))
}

fn has_secret_field(value: &str) -> bool {
    let fields = value.split(['?', '&', ';', ' ', ',', '\n']);
    fields
        .filter_map(|field| field.split_once('='))
        .any(|(name, value)| {
            let name = name.trim().to_ascii_lowercase();
            // Options of programs and Java: `--password=x`, `-Dhttps.proxyPassword=x`.
            let option = name.strip_prefix("-d").or(name.strip_prefix("--"));
            let option = option.unwrap_or_default().replace('-', "").to_uppercase();
            !value.trim().is_empty()
                && (SECRET_FIELDS.contains(&name.as_str())
                    || SECRET_PARTS.iter().any(|part| option.ends_with(part)))
        })
}

/// Returns whether an address in a value has a password (`scheme://user:password@host`,
/// `user:password@host`), or a long token instead of both.
fn has_password(value: &str) -> bool {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>');
    value.split(is_end).any(|word| {
        let mut addresses = word.split("://");
        let first = addresses.next().unwrap_or_default();
        first.split(',').any(is_pair_at_host) || addresses.any(is_authority_with_password)
    })
}

/// Returns whether a text begins with `user:password@`. `/` may be in it as it is, as programs accept.
fn is_authority_with_password(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some((user, _)) = authority.rsplit_once('@') {
        return match user.split_once(':') {
            Some((_, password)) => !password.is_empty(),
            None => user.len() >= MIN_TOKEN,
        };
    }
    let port = authority.split_once(':').map(|(_, port)| port);
    let is_password = |port: &str| !port.is_empty() && !port.bytes().all(|b| b.is_ascii_digit());
    // An address of IPv6 has colons, too.
    port.is_some_and(is_password) && !authority.starts_with('[') && text.contains('@')
}

/// Returns whether a text without a scheme is `user:password@host`.
fn is_pair_at_host(text: &str) -> bool {
    let Some((user, host)) = text.rsplit_once('@') else {
        return false;
    };
    let is_pair = |(name, password): (&str, &str)| {
        !name.is_empty() && !password.is_empty() && !user.contains(['/', '$', '\\'])
    };
    !host.is_empty() && user.split_once(':').is_some_and(is_pair)
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

    fn withheld(name: &str, value: &str) -> bool {
        is_withheld(name, value, Access::Workspace)
    }

    #[test]
    #[rustfmt::skip]
    fn names_that_look_like_secrets_are_withheld() {
        for name in [
            "GITHUB_TOKEN", "OPENAI_API_KEY", "aws_secret_access_key", "AWS_PROFILE", "npm_config__auth",
            "CI_JOB_TOKEN_OLD", "PGPASSWORD", "SSH_AUTH_SOCK", "DB_PASS", "DBPASS", "APIKEY", "myApiKey", "JWT",
            "AUTHORIZATION", "PASSPHRASE", "MYTOKEN", "npm_config__authToken", "DOCKER_AUTH_CONFIG", "MYSQL_PWD",
            "SUPABASE_SERVICE_ROLE", "OPENAI_KEY_2", "KEY1", "STORAGE_CONNECTION_STRING", "GH_PAT", "SECRETS",
            "npm_config_//registry.npmjs.org/:_authToken", "SIGNING_KEY_BASE64", "FTP_PW", "BW_SESSION", "SENTRY_DSN",
            "ANTHROPIC_CUSTOM_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", "STRIPE_SK", "AzureWebJobsStorage",
        ] {
            assert!(withheld(name, "x"), "{name}");
        }
        for name in [
            "PATH", "HOME", "KEYBOARD", "LANG", "TOKENIZERS_PARALLELISM", "MONKEY", "PWD", "OLDPWD", "GIT_AUTHOR_NAME",
            "GIT_ASKPASS", "SSH_ASKPASS", "PINENTRY_USER_DATA", "COMPATIBILITY", "AUTHOR", "XDG_SESSION_ID", "PKG_CONFIG_PATH",
            "CARGO_HOME", "SPATH", "HTTP_PROXY", "TERM_SESSION_ID", "MASTER_ADDR", "UV_INDEX_URL", "MAVEN_OPTS", "DESK",
        ] {
            assert!(!withheld(name, "x"), "{name}");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn values_with_a_password_are_withheld() {
        for value in [
            "redis://:pw@db/0", "mongodb+srv://u:pw@db/x", "https://u:pw@pypi.corp/simple", "postgres://u:p%40@h:5432/d",
            "redis://u:pa/ss@db", "https://pypi.org/simple https://u:pw@corp/simple", "user:pw@proxy:8080",
            "root:pw@tcp(db:3306)/app", "jdbc:postgresql://h/d?user=u&password=p", "Server=h;User Id=u;Password=p;",
            "host=h password=p", "https://x.blob.core.windows.net/c?sv=1&sig=abc",
            "https://0123456789abcdefghij@github.com/x",
            "-i=https://u:pw@h", "amqp://a@h1,b:pw@h2", "-Xmx1g -Dhttps.proxyPassword=x", "--api-key=x", "--verbose --password=x",
        ] {
            assert!(withheld("PLAIN", value), "{value}");
        }
        for value in [
            "https://pypi.org/simple", "https://host:8080/path@1.2", "git@github.com:a/b.git", "ssh://git@github.com/a/b",
            "/usr/bin:/opt/x@1.2/bin", "me@example.com", "https://u:@h/", "http://[::1]:80/a@b", "2026-11-29T10:00:00",
            "unix:path=/run/user/1000/bus", "-Dfoo=bar -O2", "-Xmx1g -Dtoken.file=x --key-file=x", "*.tar=01;31:*.zip=01;31", r"\u@\h:\w\$ ",
            "https://unpkg.com/react@18", "a:b:c",
        ] {
            assert!(!withheld("PLAIN", value), "{value}");
        }
    }

    #[test]
    fn a_proxy_with_a_password_is_for_commands_with_the_network() {
        let proxy = "http://u:pw@proxy:3128";
        for name in ["HTTPS_PROXY", "http_proxy", "npm_config_https_proxy"] {
            assert!(withheld(name, proxy) && is_withheld(name, proxy, Access::Read));
            assert!(!is_withheld(name, proxy, Access::Network));
        }
        assert!(is_withheld("PIP_INDEX_URL", proxy, Access::Network));
        assert!(is_withheld("PROXY_TOKEN", "x", Access::Network));
    }
}
