//! Adding and removing `[mcp_servers.NAME]` in a config, without other changes.

use std::collections::BTreeMap;

use toml_edit::{Array, InlineTable, Item, Table, value};

use super::{WriteTarget, change};
use crate::config::ConfigError;
use crate::config::mcp::McpServer;

/// Adds servers whose names are not taken. Returns the taken names.
pub fn add_servers(
    target: &WriteTarget,
    servers: &[(String, McpServer)],
) -> Result<Vec<String>, ConfigError> {
    let mut taken = Vec::new();
    change(target, |document| {
        let all = document.entry("mcp_servers").or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let all = all
            .as_table_like_mut()
            .ok_or("mcp_servers is not a table")?;
        let mut is_changed = false;
        for (name, server) in servers {
            if all.contains_key(name) {
                taken.push(name.clone());
            } else {
                all.insert(name, Item::Table(server_table(server)));
                is_changed = true;
            }
        }
        Ok(is_changed)
    })?;
    Ok(taken)
}

/// Removes a server. Returns false if there is none of that name.
pub fn remove_server(target: &WriteTarget, name: &str) -> Result<bool, ConfigError> {
    let changed = change(target, |document| {
        let all = document.get_mut("mcp_servers");
        let all = all.and_then(Item::as_table_like_mut);
        Ok(all.is_some_and(|all| all.remove(name).is_some()))
    })?;
    Ok(changed.is_changed)
}

/// Returns the table with the values that differ from the defaults.
fn server_table(server: &McpServer) -> Table {
    let default = McpServer::default();
    let list = |texts: &[String]| value(texts.iter().collect::<Array>());
    let map = |pairs: &BTreeMap<String, String>| value(pairs.iter().collect::<InlineTable>());
    let mut table = Table::new();
    let cwd = server.cwd.as_ref().and_then(|cwd| cwd.to_str());
    for (key, text) in [
        ("command", server.command.as_deref()),
        ("url", server.url.as_deref()),
        ("cwd", cwd),
        (
            "bearer_token_env_var",
            server.bearer_token_env_var.as_deref(),
        ),
    ] {
        if let Some(text) = text {
            table.insert(key, value(text));
        }
    }
    for (key, texts) in [
        ("args", Some(&server.args)),
        ("enabled_tools", server.enabled_tools.as_ref()),
        ("disabled_tools", Some(&server.disabled_tools)),
    ] {
        if let Some(texts) = texts.filter(|texts| !texts.is_empty() || key == "enabled_tools") {
            table.insert(key, list(texts));
        }
    }
    for (key, pairs) in [("env", &server.env), ("headers", &server.headers)] {
        if !pairs.is_empty() {
            table.insert(key, map(pairs));
        }
    }
    if let Some(version) = &server.protocol_version {
        table.insert("protocol_version", value(version));
    }
    if server.startup_timeout_sec != default.startup_timeout_sec {
        table.insert("startup_timeout_sec", value(server.startup_timeout_sec));
    }
    if let Some(seconds) = server.tool_timeout_sec {
        table.insert("tool_timeout_sec", value(seconds));
    }
    if !server.enabled {
        table.insert("enabled", value(false));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::config::{Env, Paths};

    fn paths(home: &Path) -> Paths {
        let env = Env::new([("REWAKE_HOME", home)], "/");
        let paths = Paths::new(&env).unwrap();
        paths.create().unwrap();
        paths
    }

    #[test]
    fn a_server_is_added_and_taken_out_and_comments_stay() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        let before = "# mine\nmodel = \"a/b\" # this\n\n# of the team\n[mcp_servers.one]\ncommand = \"x\" # why\n";
        fs::write(paths.config_file(), before).unwrap();
        let target = WriteTarget::config(&paths);
        let server = McpServer {
            command: Some("npx".into()),
            args: vec!["-y".into(), "a\"b".into()],
            env: BTreeMap::from([("A".into(), "${A}".into())]),
            tool_timeout_sec: Some(1.5),
            ..McpServer::default()
        };
        let new = [
            ("one".to_string(), server.clone()),
            ("two".to_string(), server.clone()),
        ];
        assert_eq!(add_servers(&target, &new).unwrap(), ["one"]);
        let now = fs::read_to_string(&target.file).unwrap();
        assert!(now.starts_with(before), "{now}");
        let config: crate::config::Config = toml::from_str(&now).unwrap();
        assert_eq!(config.mcp_servers["two"], server);
        assert!(remove_server(&target, "two").unwrap());
        assert!(!remove_server(&target, "two").unwrap());
        assert_eq!(fs::read_to_string(&target.file).unwrap(), before);
        // In a file that writes its tables in one line too.
        fs::write(
            &target.file,
            "mcp_servers = { one = { command = \"x\" } } # all\n",
        )
        .unwrap();
        assert!(add_servers(&target, &new[1..]).unwrap().is_empty());
        let now = fs::read_to_string(&target.file).unwrap();
        let config: crate::config::Config = toml::from_str(&now).unwrap();
        assert_eq!(config.mcp_servers["two"], server);
    }

    #[test]
    fn the_config_of_a_workspace_that_leads_elsewhere_is_not_changed() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        let root = home.path().join("root");
        fs::create_dir_all(root.join(".rewake")).unwrap();
        std::os::unix::fs::symlink(paths.config_file(), root.join(".rewake/config.toml")).unwrap();
        let error = WriteTarget::of_workspace(&paths, &root)
            .unwrap_err()
            .to_string();
        assert!(error.contains("outside of the workspace"), "{error}");
        fs::remove_file(root.join(".rewake/config.toml")).unwrap();
        let target = WriteTarget::of_workspace(&paths, &root).unwrap();
        let server = McpServer {
            url: Some("http://h".into()),
            ..McpServer::default()
        };
        add_servers(&target, &[("a".into(), server)]).unwrap();
        let left: Vec<_> = fs::read_dir(root.join(".rewake")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
