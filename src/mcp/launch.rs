//! The start of a configured server: the spec for its run folder, and its environment.
//!
//! Invariant: values of variables and headers are in the environment alone, which is in no file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::command::server::{ServerEnv, ServerSpec};
use crate::config::Env;
use crate::config::mcp::{FoundServer, McpServer};
use crate::core::access::Access;
use crate::sandbox::Profile;

/// The argument that starts this program as a bridge to a server over HTTP.
pub const BRIDGE_WORD: &str = "__bridge";

/// The variable in which the bridge finds its [`BridgeConfig`], as JSON.
pub const BRIDGE_ENV: &str = "REWAKE_BRIDGE";

/// The configuration of the bridge. It contains secrets, so it is never written to a file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeConfig {
    pub name: String,
    pub url: String,
    /// Headers of the config, with the bearer token if one is configured.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Folder with the keys and the logins.
    pub keys: PathBuf,
}

/// A function that builds the profile of a sandbox for a level, or returns why it cannot.
pub type Confine<'a> = dyn Fn(Access) -> Result<Box<Profile>, String> + 'a;

/// The surroundings in which a server is started.
pub struct LaunchPlace<'a> {
    pub env: &'a Env,
    /// Folder with keys and logins, which no tool call can see.
    pub keys_dir: &'a Path,
    /// ID of the session that uses the server.
    pub session: &'a str,
    /// The root of the workspace.
    pub workspace: &'a Path,
    /// Path of this program.
    pub exe: &'a Path,
    /// Builder of sandbox profiles. `None`: a sandbox is not available, and a server that needs
    /// one is not started.
    pub confine: Option<&'a Confine<'a>>,
    /// The file with the lease of the session; `None` if it is not shared.
    pub lease_file: Option<&'a Path>,
}

/// Returns the command for this server's keeper, and its environment.
///
/// # Errors
/// Returns why the server cannot be started, as a text for the user.
pub fn launch(
    found: &FoundServer,
    at: &LaunchPlace<'_>,
) -> Result<(ServerSpec, ServerEnv), String> {
    let FoundServer { name, server, .. } = found;
    let wanted = server.sandbox.filter(|level| *level != Access::Full);
    // A trusted server of the workspace needs a sandbox only where there is one.
    let granted = found.access.filter(|_| at.confine.is_some());
    let mut sandbox = match (wanted.into_iter().chain(granted).min(), at.confine) {
        (None, _) => None,
        (Some(access), Some(confine)) => {
            Some(confine(access).map_err(|why| format!("server {name}: no sandbox: {why}"))?)
        }
        (Some(access), None) => {
            return Err(format!(
                "server {name} is to run with sandbox = \"{}\", and there is no sandbox here",
                access.name()
            ));
        }
    };
    let folder = match &server.cwd {
        Some(folder) => at.env.resolve(&folder.to_string_lossy(), at.workspace),
        None => at.workspace.to_path_buf(),
    };
    let (program, args, own) = match (&server.command, &server.url) {
        (Some(command), None) => {
            let own: Vec<(String, String)> = server.env.clone().into_iter().collect();
            let program =
                program(command, &folder, at, server).ok_or_else(|| not_found(name, command))?;
            (program, server.args.clone(), own)
        }
        (None, Some(url)) => {
            let config = BridgeConfig {
                name: name.clone(),
                url: url.clone(),
                headers: server.headers.clone(),
                keys: at.keys_dir.to_path_buf(),
            };
            let config = serde_json::to_string(&config)
                .map_err(|e| format!("server {name}: cannot hand its config over: {e}"))?;
            let exe = at.exe.to_str().ok_or_else(|| {
                format!(
                    "the name of this program is not UTF-8: {}",
                    at.exe.display()
                )
            })?;
            let args = vec![BRIDGE_WORD.to_string(), name.clone()];
            (
                exe.to_string(),
                args,
                vec![(BRIDGE_ENV.to_string(), config)],
            )
        }
        _ => return Err(format!("server {name} needs either a command or a url")),
    };
    if !folder.is_dir() {
        return Err(format!(
            "server {name} cannot start in {}: there is no such folder",
            folder.display()
        ));
    }
    if let Some(profile) = &mut sandbox {
        // The definition names them, so they are meant for this server.
        profile.pass_env.extend(server.env.keys().cloned());
        profile.show_program(Path::new(&program));
    }
    let inherited = |name: &str| at.env.var_os(name).map(OsString::from);
    let env = ServerEnv::new(inherited, &own);
    let spec = ServerSpec {
        name: name.clone(),
        session: at.session.to_string(),
        program,
        args,
        folder,
        env: own.into_iter().map(|(name, _)| name).collect(),
        // With 0 the keeper would end the server before its first agent connects.
        linger_ms: server.idle_timeout_sec.max(1).saturating_mul(1_000),
        sandbox,
        lease: at.lease_file.map(Path::to_path_buf),
    };
    Ok((spec, env))
}

fn not_found(name: &str, command: &str) -> String {
    match command.contains('/') {
        true => format!("server {name}: there is no program {command:?}"),
        false => format!("server {name}: there is no command {command:?} in PATH"),
    }
}

/// Finds the program. A name with a slash is relative to the server's folder, any other is
/// searched in its PATH.
fn program(
    command: &str,
    folder: &Path,
    at: &LaunchPlace<'_>,
    server: &McpServer,
) -> Option<String> {
    let is_program = |path: &PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if command.contains('/') {
        let path = at.env.resolve(command, folder);
        return Some(path).filter(is_program)?.to_str().map(str::to_string);
    }
    let own = server.env.get("PATH").map(OsString::from);
    let path = own.or_else(|| at.env.var_os("PATH").map(OsString::from))?;
    let mut places = std::env::split_paths(&path).map(|dir| folder.join(dir).join(command));
    places.find(is_program).map(|_| command.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;
    use crate::config::mcp::ServerSource;

    fn found(server: McpServer) -> FoundServer {
        FoundServer {
            name: "a".into(),
            source: ServerSource::User,
            origin: Origin::Default,
            server,
            access: None,
            hash: "h".into(),
        }
    }

    fn stdio(command: &str) -> McpServer {
        McpServer {
            command: Some(command.into()),
            args: vec!["x".into()],
            ..McpServer::default()
        }
    }

    /// In a folder with a program `here` and a file `text` in it.
    fn launched(server: McpServer) -> Result<(ServerSpec, ServerEnv), String> {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("here");
        std::fs::write(&program, "").unwrap();
        std::fs::write(folder.path().join("text"), "").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let home = folder.path().to_str().unwrap().to_string();
        let vars = [
            ("PATH", "/nowhere:/bin"),
            ("HOME", &home),
            ("OPENAI_API_KEY", "sk-1"),
        ];
        let env = Env::new(vars, "/");
        let place = LaunchPlace {
            env: &env,
            keys_dir: Path::new("/keys"),
            session: "session",
            workspace: folder.path(),
            exe: Path::new("/bin/rewake"),
            confine: None,
            lease_file: Some(Path::new("/lease")),
        };
        launch(&found(server), &place)
    }

    #[test]
    fn values_are_in_the_environment_alone() {
        let mut server = stdio("sh");
        server.env.insert("TOKEN".into(), "sk-of-the-server".into());
        let (spec, env) = launched(server).unwrap();
        let names: Vec<_> = env
            .variables()
            .map(|(name, _)| name.to_str().unwrap())
            .collect();
        assert_eq!(names, ["PATH", "HOME", "TOKEN"]);
        assert_eq!(
            (&spec.program, &spec.env),
            (&"sh".to_string(), &vec!["TOKEN".to_string()])
        );
        assert_eq!((spec.linger_ms, spec.name.as_str()), (900_000, "a"));
        assert_eq!(spec.lease, Some("/lease".into()));
        let kept = serde_json::to_string(&spec).unwrap() + &format!("{spec:?}{env:?}");
        assert!(!kept.contains("sk-"), "{kept}");
    }

    #[test]
    fn a_server_over_http_is_spoken_with_by_a_bridge() {
        let server = McpServer {
            url: Some("https://h/mcp?k=sk-2".into()),
            headers: BTreeMap::from([("Authorization".into(), "Bearer sk-3".into())]),
            ..McpServer::default()
        };
        let (spec, env) = launched(server).unwrap();
        assert_eq!(
            (spec.program.as_str(), &spec.args[..]),
            (
                "/bin/rewake",
                &["__bridge".to_string(), "a".to_string()][..]
            )
        );
        let mut variables = env.variables();
        let (_, config) = variables.find(|(name, _)| *name == BRIDGE_ENV).unwrap();
        let config: BridgeConfig = serde_json::from_str(config.to_str().unwrap()).unwrap();
        assert_eq!(
            (config.name.as_str(), config.url.as_str()),
            ("a", "https://h/mcp?k=sk-2")
        );
        assert_eq!(
            (config.headers["Authorization"].as_str(), config.keys),
            ("Bearer sk-3", "/keys".into())
        );
        let kept = serde_json::to_string(&spec).unwrap() + &format!("{spec:?}{env:?}");
        assert!(!kept.contains("sk-"), "{kept}");
    }

    #[test]
    fn a_server_that_cannot_start_is_reported_before_the_launch() {
        let error = |server| launched(server).unwrap_err();
        assert_eq!(
            error(stdio("no-such")),
            "server a: there is no command \"no-such\" in PATH"
        );
        assert_eq!(
            error(stdio("./text")),
            "server a: there is no program \"./text\""
        );
        let mut elsewhere = stdio("sh");
        elsewhere.cwd = Some("gone".into());
        assert!(error(elsewhere).contains("gone: there is no such folder"));
        let mut confined = stdio("sh");
        confined.sandbox = Some(Access::Workspace);
        assert!(error(confined.clone()).contains("there is no sandbox here"));
        confined.sandbox = Some(Access::Full);
        assert!(launched(confined).unwrap().0.sandbox.is_none());
        for relative in ["./here", "~/here"] {
            assert!(
                launched(stdio(relative))
                    .unwrap()
                    .0
                    .program
                    .ends_with("/here")
            );
        }
    }
}
