//! The environment variables of a command in the sandbox.

use crate::config::CERTIFICATES;
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
const SECRET_PARTS: [&str; 10] = [
    "ACCESSKEY", "APIKEY", "CREDENTIAL", "PASSCODE", "PASSPHRASE", "PASSWD", "PASSWORD", "PRIVATEKEY", "SECRET", "TOKEN",
];

/// Endings of such words (`DBPASS`, `BINDPW`, `MASTERKEY`).
const SECRET_ENDINGS: [&str; 4] = ["PASS", "PWD", "PW", "KEY"];

/// Parts of names that are two words with or without a boundary.
const TWO_WORDS: [&str; 3] = ["CONNECTIONSTRING", "CONNSTR", "SERVICEROLE"];

/// Endings of words that are about something else.
#[rustfmt::skip]
const NO_SECRETS: [&str; 14] = [
    "ASKPASS", "BYPASS", "COMPASS", "TOKENIZER", "TOKENIZERS", "PUBKEY", "PUBLICKEY", "HOTKEY", "MONKEY", "DONKEY", "TURKEY", "HOCKEY",
    "JOCKEY", "WHISKEY",
];

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

/// Names of fields, headers and options in a value (`user=me;password=x`, `?sig=x`) that are secrets, without
/// those that end with one of [`SECRET_PARTS`].
const SECRET_FIELDS: [&str; 5] = ["PASS", "PWD", "SIG", "ACCOUNTKEY", "COOKIE"];

/// How tokens of services begin.
#[rustfmt::skip]
const TOKENS: [&str; 14] = [
    "ghp_", "gho_", "ghu_", "ghs_", "github_pat_", "glpat-", "sk-ant-", "sk-proj-", "sk-or-", "xoxb-", "xoxp-", "npm_", "pypi-", "hf_",
];

/// How a key begins in base64 (`-----BEGIN`), and how certificates and public keys do.
const ENCODED_KEY: &str = "LS0tLS1CRUdJTi";
const ENCODED_PUBLIC: [&str; 2] = ["LS0tLS1CRUdJTiBD", "LS0tLS1CRUdJTiBQVUJM"];

/// Schemes whose paths often have an `@`, so that the number before the path is a port.
const WEB: [&str; 6] = ["http:", "https:", "ws:", "wss:", "docker:", "oci:"];

/// Returns whether a variable is removed from the environment of commands in the sandbox, unless
/// `shell.pass_env` names it. A command that may use the network gets the proxies as they are.
/// Numbered settings of git are removed too: [`git_settings`] gives those without secrets.
pub fn is_withheld(name: &str, value: &str, access: Access) -> bool {
    if CERTIFICATES.contains(&name) {
        return false;
    }
    let upper = name.to_ascii_uppercase();
    let is_proxy = upper == "PROXY" || upper.ends_with("_PROXY");
    let is_of_bundler = upper.starts_with("BUNDLE_") && upper.contains("__");
    upper == GIT_COUNT
        || upper.starts_with(GIT_KEY)
        || upper.starts_with(GIT_VALUE)
        || (upper == "GIT_CONFIG_PARAMETERS" && has_secret_setting(value))
        || is_secret_name(&upper)
        || (is_of_bundler && is_pair(value))
        || (is_secret_value(value) && !(is_proxy && access >= Access::Network))
}

const GIT_COUNT: &str = "GIT_CONFIG_COUNT";
const GIT_KEY: &str = "GIT_CONFIG_KEY_";
const GIT_VALUE: &str = "GIT_CONFIG_VALUE_";

/// Maximum number of numbered settings of git.
const MAX_GIT_SETTINGS: usize = 1_000;

/// Returns the variables with the numbered settings of git (`GIT_CONFIG_KEY_0`, `GIT_CONFIG_VALUE_0`), without those
/// that have secrets. Git fails if a number is missing, so the others are numbered again. `is_passed`: the
/// user named this variable.
pub(super) fn git_settings(
    variable: impl Fn(&str) -> Option<String>,
    is_passed: impl Fn(&str) -> bool,
    access: Access,
) -> Vec<(String, String)> {
    let count = variable(GIT_COUNT).and_then(|count| count.parse().ok());
    let pairs = (0..count.unwrap_or(0).min(MAX_GIT_SETTINGS)).filter_map(|number| {
        let value_name = format!("{GIT_VALUE}{number}");
        let key = variable(&format!("{GIT_KEY}{number}"))?;
        let value = variable(&value_name)?;
        let is_kept = is_passed(GIT_COUNT)
            || is_passed(&value_name)
            || !is_secret_setting(&key, &value, access);
        is_kept.then_some((key, value))
    });
    let mut variables = Vec::new();
    for (number, (key, value)) in pairs.enumerate() {
        variables.push((format!("{GIT_KEY}{number}"), key));
        variables.push((format!("{GIT_VALUE}{number}"), value));
    }
    if !variables.is_empty() {
        variables.push((GIT_COUNT.to_string(), (variables.len() / 2).to_string()));
    }
    variables
}

/// Returns whether a setting of git is a secret. The address in a key (`url.https://token@host/.insteadOf`) may be
/// one too.
fn is_secret_setting(key: &str, value: &str, access: Access) -> bool {
    let key = key.to_ascii_lowercase();
    let name = key.rsplit('.').next().unwrap_or_default();
    let is_proxy = name == "proxy" && access >= Access::Network;
    key.starts_with("credential.")
        || name == "extraheader"
        || (!matches!(name, "signingkey" | "sslkey") && is_secret_name(&name.to_ascii_uppercase()))
        || is_secret_value(&key)
        || (is_secret_value(value) && !is_proxy)
}

/// Returns whether settings of `git -c`, which are quoted, have a secret.
fn has_secret_setting(settings: &str) -> bool {
    let lower = settings.to_ascii_lowercase();
    lower.contains("extraheader") || lower.contains("'credential.")
}

fn is_secret_name(name: &str) -> bool {
    let is_secret = |word: &str| {
        let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
        !NO_SECRETS.iter().any(|ending| word.ends_with(ending))
            && (SECRET_WORDS.contains(&word)
                || SECRET_PARTS.iter().any(|part| word.contains(part))
                || SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending)))
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

fn is_secret_value(value: &str) -> bool {
    // JSON may escape `/`.
    let value = &value.replace("\\/", "/");
    has_secret_field(value) || has_secret_word(value) || has_password(value) || is_key(value.trim())
}

/// Returns whether a value is a private key, or a token as services give them.
fn is_key(value: &str) -> bool {
    let begins = |list: &[&str]| list.iter().any(|begin| value.starts_with(begin));
    let is_long = value.len() >= MIN_TOKEN && !value.contains(char::is_whitespace);
    (value.contains("-----BEGIN ") && value.contains("PRIVATE KEY"))
        || value.contains("AGE-SECRET-KEY-")
        || value.contains("PuTTY-User-Key-File")
        || (value.starts_with(ENCODED_KEY) && !begins(&ENCODED_PUBLIC))
        || (is_long && begins(&TOKENS))
}

/// Returns whether a value has a field with a secret: `password=x`, `-Pdb.password=x`, `Authorization: x`,
/// `{"password":"x"}`, `<password>x`.
fn has_secret_field(value: &str) -> bool {
    const QUOTES: [char; 5] = [' ', '"', '\'', '\\', '>'];
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    value.match_indices(['=', ':', '>']).any(|(at, sign)| {
        let before = value[..at].trim_end_matches(&QUOTES[..4]);
        let name = &before[before.trim_end_matches(is_part).len()..];
        let around = before[..before.len() - name.len()].chars().next_back();
        // `/opt/token:/usr/bin` is a list of folders.
        let is_name = match sign {
            "=" => true,
            ":" => around.is_none_or(|c| !matches!(c, '/' | ':' | '*' | '$' | '@' | '%' | '+')),
            _ => around == Some('<'),
        };
        let content = value[at + 1..].trim_start_matches(QUOTES);
        let is_empty = content.is_empty() || content.starts_with([';', '&', ',', '}', '\n', '<']);
        let mut no_texts = ["true", "false", "null", "${", "$("].iter();
        let is_no_text = no_texts.any(|word| content.starts_with(word));
        is_name && !is_empty && !is_no_text && is_secret_field(name)
    })
}

fn is_secret_field(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let letters: String = letters.map(|c| c.to_ascii_uppercase()).collect();
    // `*.token=` is a colour of a file.
    !name.starts_with('.')
        && (SECRET_FIELDS.contains(&letters.as_str())
            || letters.ends_with("AUTHORIZATION")
            || SECRET_PARTS.iter().any(|part| letters.ends_with(part)))
}

/// Returns whether a word of a value is a secret because of the word before it: `--password x`, `-u user:x`,
/// `machine host login user password x`.
fn has_secret_word(value: &str) -> bool {
    const OPTIONS: [&str; 4] = ["-u", "-U", "--user", "--proxy-user"];
    let words: Vec<&str> = value.split_whitespace().collect();
    let is_user = |word: &&str| {
        OPTIONS.iter().any(|option| {
            let user = word.strip_prefix(option);
            user.is_some_and(|user| is_pair(user.strip_prefix('=').unwrap_or(user)))
        })
    };
    words.iter().any(is_user)
        || words.windows(2).any(|pair| {
            let (option, word) = (pair[0], pair[1].trim_matches(['"', '\'']));
            match option.to_ascii_lowercase().as_str() {
                "bearer" => word.len() >= MIN_TOKEN,
                "password" => words.contains(&"login") || words.contains(&"machine"),
                _ if OPTIONS.contains(&option) => is_pair(word),
                _ => option.starts_with("--") && is_secret_field(option) && !word.starts_with('-'),
            }
        })
}

/// Returns whether a text is `user:password`. `1000:1000` is a user and a group.
fn is_pair(text: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    !text.contains('/')
        && text.split_once(':').is_some_and(|(user, password)| {
            let is_empty = user.is_empty() || password.is_empty();
            !(is_empty || is_number(user) && is_number(password))
        })
}

/// Returns whether an address in a value has a password (`scheme://user:password@host`, `//user:password@host`,
/// `user:password@host`), or a long token instead of both.
fn has_password(value: &str) -> bool {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>');
    value.split(is_end).any(|word| {
        let mut addresses = word.split("//");
        let mut scheme = addresses.next().unwrap_or_default();
        scheme.split(',').any(is_pair_at_host)
            || addresses.any(|address| {
                let before = std::mem::replace(&mut scheme, address);
                is_secret_address(before, address)
            })
    })
}

/// Returns whether a text after `//` begins with `user:password@`, or is the address of a webhook. `/`, `?` and `#` may
/// be in the password as they are, as programs accept.
fn is_secret_address(scheme: &str, text: &str) -> bool {
    let (authority, path) = text.split_at(text.find(['/', '?', '#']).unwrap_or(text.len()));
    let is_webhook = |part: &str| part == "webhook" || part == "webhooks";
    if (authority.starts_with("hooks.") && path.len() > 1) || path.split('/').any(is_webhook) {
        return true;
    }
    if let Some((user, _)) = authority.rsplit_once('@') {
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        return !password.is_empty() || user.len() >= MIN_TOKEN;
    }
    // An address of IPv6 has colons, too.
    let Some((host, port)) = authority.split_once(':').filter(|_| !text.starts_with('[')) else {
        return false;
    };
    let is_web = !scheme.ends_with(':') || WEB.iter().any(|web| scheme.ends_with(web));
    let is_port =
        !host.is_empty() && port.parse::<u16>().is_ok() && is_web && !path.starts_with('#');
    !port.is_empty() && !is_port && path.contains('@')
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
            "LDAP_BINDPW", "MASTERKEY", "PRIVKEY", "PASSCODE", "ENCRYPTIONKEY", "SSHKEY2", "rootpw", "APP_PASSCODE",
        ] {
            assert!(withheld(name, "x"), "{name}");
        }
        for name in [
            "PATH", "HOME", "KEYBOARD", "LANG", "TOKENIZERS_PARALLELISM", "MONKEY", "PWD", "OLDPWD", "GIT_AUTHOR_NAME",
            "GIT_ASKPASS", "SSH_ASKPASS", "PINENTRY_USER_DATA", "COMPATIBILITY", "AUTHOR", "XDG_SESSION_ID", "PKG_CONFIG_PATH",
            "CARGO_HOME", "SPATH", "HTTP_PROXY", "TERM_SESSION_ID", "MASTER_ADDR", "UV_INDEX_URL", "MAVEN_OPTS", "DESK",
            "GREASEMONKEY", "DEPLOY_PUBKEY", "KEYMAP", "PASSENGER_APP_ENV", "BYPASS", "GIT_CONFIG_GLOBAL", "BUNDLE_PATH",
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
            "//u:pw@h/share", "https://ghp_0123456789abcdefghij:@github.com/x", "redis://:12/34@db", "postgres://u:2024#x@db/d",
            "redis://u:12/34@db", "https://u:123456/7@h", "postgres://u:20?4@db", r#"{"url":"https:\/\/u:pw@h"}"#,
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PGP PRIVATE KEY BLOCK-----",
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ==", "AGE-SECRET-KEY-1QQ", "AUTHORIZATION: basic eHk6eno=",
            "authorization:Bearer x", "X-Api-Key: x", "Cookie: a=b", r#"{"password":"hunter2"}"#, r#"{"a":{"db_password" : "x"}}"#,
            r#""{\"token\":\"x\"}""#, "password: hunter2", "user: u\npassword: x", "-u user:pw", "curl --user u:pw -s", "-uuser:pw",
            "--proxy-user=u:pw", "--password x", "--token 'x'", "-PsigningPassword=x", "-Psigning.password=x",
            "spring.datasource.password=x", "machine h login u password p", "<password>x</password>", "{'secret' => 'x'}",
            "Bearer 0123456789abcdefghij", "ghp_0123456789abcdefghij", "https://hooks.slack.com/services/T0/B0/X",
            "https://discord.com/api/webhooks/1/x",
        ] {
            assert!(withheld("PLAIN", value), "{value}");
        }
        for value in [
            "https://pypi.org/simple", "https://host:8080/path@1.2", "git@github.com:a/b.git", "ssh://git@github.com/a/b",
            "/usr/bin:/opt/x@1.2/bin", "me@example.com", "https://u:@h/", "http://[::1]:80/a@b", "2026-11-29T10:00:00",
            "unix:path=/run/user/1000/bus", "-Dfoo=bar -O2", "-Xmx1g -Dtoken.file=x --key-file=x", "*.tar=01;31:*.zip=01;31", r"\u@\h:\w\$ ",
            "https://unpkg.com/react@18", "a:b:c", "docker://registry:5000/a@sha256:0", "registry:5000/a@sha256:0", "http://localhost:5173/@vite",
            "//cdn.example.com:8443/react@18", "-u 1000:1000", "--user=1000:1000", "/opt/token:/usr/bin", "/usr//bin:/opt/x@1.2/bin",
            r#"{"password":null,"url":"https:\/\/h\/x"}"#, "password=", "--password", "--password-file x --verbose", "require password=false", "echo \"token: ${1}\"",
            "-----BEGIN CERTIFICATE-----\nMIIE", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", "-----BEGIN PUBLIC KEY-----", "token",
            "Enter password please", "*.token=01;31", "sk-x", "npm_config", "https://example.com/hooks", "a:1,b:2", "key: value",
            "--user me --group us", "--max-tokens 5", "10:20", "https://h/?next=me@example.com",
        ] {
            assert!(!withheld("PLAIN", value), "{value}");
        }
    }

    #[test]
    fn settings_of_git_are_judged_in_pairs() {
        let keep = |pairs: &[(&str, &str)], passed: &str, access| {
            let variable = |name: &str| {
                let (kind, number) = name.rsplit_once('_')?;
                let pair = || pairs.get(number.parse::<usize>().ok()?);
                match kind {
                    "GIT_CONFIG" => Some(pairs.len().to_string()),
                    "GIT_CONFIG_KEY" => Some(pair()?.0.to_string()),
                    _ => Some(pair()?.1.to_string()),
                }
            };
            let kept = git_settings(variable, |name| name == passed, access);
            let all = kept.iter().map(|(name, value)| format!("{name}={value}"));
            all.collect::<Vec<_>>().join(" ")
        };
        let pairs = [
            ("http.extraheader", "AUTHORIZATION: basic x"),
            ("safe.directory", "*"),
            ("http.https://h/.extraHeader", "x"),
            ("credential.helper", "store"),
            ("url.https://u:pw@h/.insteadOf", "https://h/"),
            ("sendemail.smtpPass", "x"),
            ("user.signingKey", "0A1B"),
            ("remote.x.url", "https://u:pw@h/x"),
            ("http.proxy", "http://u:pw@h"),
        ];
        let seen = "GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=* \
            GIT_CONFIG_KEY_1=user.signingKey GIT_CONFIG_VALUE_1=0A1B";
        let kept = keep(&pairs, "", Access::Workspace);
        assert_eq!(kept, format!("{seen} GIT_CONFIG_COUNT=2"));
        let kept = keep(&pairs, "", Access::Network);
        assert!(kept.contains("GIT_CONFIG_KEY_2=http.proxy"), "{kept}");
        let kept = keep(&pairs, "GIT_CONFIG_VALUE_0", Access::Workspace);
        assert!(
            kept.contains("basic x") && kept.ends_with("COUNT=3"),
            "{kept}"
        );
        let kept = keep(&pairs, "GIT_CONFIG_COUNT", Access::Workspace);
        assert!(kept.ends_with("COUNT=9"), "{kept}");
        assert_eq!(keep(&pairs[..1], "", Access::Workspace), "");
        assert_eq!(keep(&[], "", Access::Workspace), "");
        // Others would be read with the wrong numbers.
        for name in ["GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"] {
            assert!(withheld(name, "0"), "{name}");
        }
        for (settings, is_secret) in [
            ("'http.extraheader'='AUTHORIZATION: basic x'", true),
            ("'http.extraheader=x'", true),
            ("'remote.x.url=https://u:pw@h/x'", true),
            ("'credential.helper'='store'", true),
            ("'safe.directory'='*'", false),
        ] {
            assert_eq!(
                withheld("GIT_CONFIG_PARAMETERS", settings),
                is_secret,
                "{settings}"
            );
        }
    }

    #[test]
    fn credentials_of_bundler_are_withheld() {
        assert!(withheld("BUNDLE_GEMS__CORP__COM", "u:pw"));
        assert!(!withheld(
            "BUNDLE_BUILD__NOKOGIRI",
            "--use-system-libraries"
        ));
        assert!(!withheld("BUNDLE_LOCAL__RACK", "/home/u/rack"));
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
