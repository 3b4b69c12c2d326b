//! Folders with programs that the environment names: commands run what is in them, and no such
//! folder opens anything else.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::sandbox::alone;
use crate::sandbox::scene::{Done, SECRET, Scene, Who};

const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";

/// On kernels that hide files with mounts, and on those that cannot.
const KERNELS: [&str; 3] = ["", "no-namespaces", "abi=4,no-pid"];

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// `tools` beside the home folder, with a program in each folder that a variable can name.
fn scene(who: Who) -> Scene {
    let scene = Scene::new(who, false);
    let root = scene.root();
    let tools = root.join("tools");
    for name in [
        "bin/on-path",
        "cargo/bin/cargo-tool",
        "rustup/toolchains/one/bin/rust-tool",
        "go/bin/go-tool",
        "pyenv/shims/py-tool",
        "nvm/versions/node/bin/node-tool",
    ] {
        write(&tools.join(name), "#!/bin/sh\necho \"$0 ran\"\n", 0o755);
    }
    for name in [
        "cargo/credentials",
        "cargo/credentials.toml",
        "go/src/secret",
        "key",
        "bin/.netrc",
        "bin/.ssh/id",
        "bin/linked-to",
    ] {
        write(&tools.join(name), SECRET, 0o644);
    }
    symlink(tools.join("bin/linked-to"), root.join("home/.pgpass")).unwrap();
    symlink(root.join("home"), root.join("to-home")).unwrap();
    symlink(root.join("home/ws/linked"), root.join("through-ws")).unwrap();
    let config = root.join("home/.rewake-home/config.toml");
    let provider = format!(
        "[providers.local]\nprotocol = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9\"\n\
         api_key_file = \"{}/key\"\n",
        tools.display()
    );
    std::fs::write(config, provider).unwrap();
    scene
}

/// As in a shell where the home folder is an empty one and the toolchains are elsewhere.
fn run(
    scene: &Scene,
    level: &str,
    pretend: &str,
    variables: &[(&str, &str)],
    script: &str,
) -> Done {
    let args = ["sandbox", "--access", level, "--pretend", pretend, "--"];
    let mut command = scene.command(&scene.root().join("rewake"), &args);
    command.args(["/bin/sh", "-c", script]);
    command.env("ROOT", scene.root());
    for (name, value) in variables {
        let value = value.replace("ROOT", scene.root().to_str().unwrap());
        match value.is_empty() {
            true => command.env_remove(name),
            false => command.env(name, value),
        };
    }
    scene.finish(command)
}

#[test]
fn programs_of_folders_that_the_environment_names_run_wherever_the_home_folder_is() {
    let _alone = alone();
    // A folder that is not there, no folder, and the one that the shell is in.
    let path = format!("ROOT/none:ROOT/tools/key:relative::ROOT/tools/bin:{USUAL}");
    let variables = [
        ("PATH", path.as_str()),
        ("CARGO_HOME", "ROOT/tools/cargo"),
        ("RUSTUP_HOME", "ROOT/tools/rustup"),
        ("GOPATH", "ROOT/none:ROOT/tools/go"),
        ("PYENV_ROOT", "ROOT/tools/pyenv"),
        ("NVM_DIR", "ROOT/tools/nvm"),
    ];
    let script = "set -e; on-path; cd $ROOT/tools; cargo/bin/cargo-tool; go/bin/go-tool
        rustup/toolchains/one/bin/rust-tool; pyenv/shims/py-tool; nvm/versions/node/bin/node-tool
        (echo x > bin/made) 2>/dev/null && exit 9; echo all of it";
    for who in Who::all() {
        let scene = scene(who);
        for pretend in KERNELS {
            for level in ["read", "workspace", "network"] {
                for home in ["ROOT/outside/empty", "ROOT/home", ""] {
                    let variables = [&variables[..], &[("HOME", home)]].concat();
                    let done = run(&scene, level, pretend, &variables, script);
                    assert!(
                        done.code == Some(0) && done.output.contains("all of it"),
                        "{who:?} {level} {pretend} {home}: {done:?}"
                    );
                }
            }
        }
    }
}

/// A variable, its value, and what reads a secret where the folder is readable as a whole.
const ATTEMPTS: [(&str, &str, &str); 19] = [
    ("PATH", "/", "outside/secret"),
    ("PATH", "ROOT", "outside/secret"),
    ("PATH", "ROOT/home", "home/letter.txt"),
    ("PATH", "ROOT/to-home", "home/letter.txt"),
    ("PATH", "ROOT/home/ws/..", "home/letter.txt"),
    ("PATH", "../../outside", "outside/secret"),
    ("PATH", "ROOT/home/ws/linked", "outside/secret"),
    ("PATH", "ROOT/through-ws", "outside/secret"),
    ("PATH", "ROOT/home/.ssh", "home/.ssh/id_ed25519"),
    ("PATH", "ROOT/home/.config/gh", "home/.config/gh/hosts.yml"),
    (
        "PATH",
        "ROOT/home/.rewake-home",
        "home/.rewake-home/notes.db",
    ),
    ("PATH", "ROOT/tools", "tools/key"),
    ("PATH", "ROOT/tools/bin", "tools/bin/.netrc"),
    ("PATH", "ROOT/tools/bin", "tools/bin/.ssh/id"),
    ("PATH", "ROOT/tools/bin", "tools/bin/linked-to"),
    ("CARGO_HOME", "ROOT/tools/cargo", "tools/cargo/credentials"),
    (
        "CARGO_HOME",
        "ROOT/tools/cargo",
        "tools/cargo/credentials.toml",
    ),
    ("CARGO_HOME", "ROOT/home", "home/letter.txt"),
    ("GOPATH", "ROOT/tools/go", "tools/go/src/secret"),
];

#[test]
fn no_folder_that_the_environment_names_opens_a_secret() {
    let _alone = alone();
    for who in Who::all() {
        let scene = scene(who);
        let mut through = Vec::new();
        for (variable, value, secret) in ATTEMPTS {
            let path = format!("{value}:{USUAL}");
            let named = match variable {
                "PATH" => ("PATH", path.as_str()),
                other => (other, value),
            };
            let script = format!("cat $ROOT/{secret}; echo the end");
            let free = run(&scene, "full", "", &[named], &script);
            assert!(free.output.contains(SECRET), "{secret}: {free:?}");
            for pretend in KERNELS {
                for level in ["read", "network"] {
                    let done = run(&scene, level, pretend, &[named], &script);
                    assert!(done.output.contains("the end"), "{value}: {done:?}");
                    if done.output.contains(SECRET) {
                        through.push(format!("{level} {pretend}: {variable}={value}: {secret}"));
                    }
                }
            }
        }
        assert!(through.is_empty(), "{who:?}:\n{}", through.join("\n"));
    }
}
