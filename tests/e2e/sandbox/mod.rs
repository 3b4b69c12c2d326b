//! The sandbox of commands: what must not get out of it, each try shown to work without it; and
//! what has to work in it.
//!
//! The tries are in `tries`, and what they reach for is in `scene`. They run as root and as an
//! ordinary user where the tests run as root, and on kernels that lack something.

mod hidden;
mod kept;
mod placeholders;
mod processes;
mod race;
mod scene;
mod servers;
mod toolchains;
mod tries;
mod users;
mod work;

use std::path::Path;
use std::sync::Mutex;

use rewake::core::access::Access;
use rewake::sandbox::Kernel;
use scene::{Done, Scene, Who};
use tries::{FORKS, Only, TRIES, Try, quoted};

const LEVELS: [Access; 3] = [Access::Read, Access::Workspace, Access::Network];

/// Survivors are looked for by name in the whole machine: one test at a time looks.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(|broken| broken.into_inner())
}

#[test]
fn there_are_enough_tries_at_each_level() {
    for level in LEVELS {
        let tries = TRIES.iter().filter(|one| one.up_to >= level).count();
        assert!(tries >= 80, "{level}: {tries}");
    }
}

fn works_for(one: &Try, who: Who) -> bool {
    match one.only {
        Only::Everywhere | Only::Somewhere => true,
        Only::AsRoot | Only::AsRootSomewhere => who.is_root(),
    }
}

/// A try that cannot succeed would show nothing.
#[test]
fn every_try_gets_through_without_a_sandbox() {
    let _alone = alone();
    for who in Who::all() {
        let mut failed = Vec::new();
        for one in TRIES.iter().filter(|one| works_for(one, who)) {
            let run = || Scene::new(who, one.up_to == Access::Read).run(&one.script());
            let done = run();
            if done.got_through() {
                continue;
            }
            match one.only {
                Only::Somewhere | Only::AsRootSomewhere => {
                    eprintln!("not possible on this machine: {} ({who:?})", one.name);
                }
                // On a busy machine what was sent may be seen too late.
                Only::Everywhere | Only::AsRoot if (0..5).any(|_| run().got_through()) => {}
                Only::Everywhere | Only::AsRoot => failed.push(format!("{}: {done:?}", one.name)),
            }
        }
        assert!(failed.is_empty(), "{who:?}:\n{}", failed.join("\n"));
    }
}

#[test]
fn nothing_gets_through() {
    none_gets_through("");
}

#[test]
fn nothing_gets_through_before_signals_had_a_scope() {
    none_gets_through("abi=4");
}

#[test]
fn nothing_gets_through_where_signals_have_no_scope_and_processes_no_namespace() {
    none_gets_through("abi=4,no-pid");
}

#[test]
fn nothing_gets_through_before_truncation_was_governed() {
    none_gets_through("abi=2,no-pid");
}

#[test]
fn nothing_gets_through_where_there_are_no_namespaces() {
    none_gets_through("abi=6,no-namespaces");
}

#[test]
fn nothing_gets_through_where_there_is_little() {
    none_gets_through("abi=2,no-namespaces");
}

/// All tries of a level in one sandbox, each in a process of its own; those that got through
/// are found by running each alone.
fn none_gets_through(pretend: &str) {
    let _alone = alone();
    let kernel = Kernel::probe(Path::new(env!("CARGO_BIN_EXE_rewake"))).unwrap();
    let kernel = kernel.pretending(pretend).unwrap();
    let is_held = |one: &&Try| kernel.gives_own_processes() || one.name != FORKS;
    let mut through = Vec::new();
    for who in Who::all() {
        for level in LEVELS {
            let tries = TRIES.iter().filter(|one| one.up_to >= level);
            let tries: Vec<&Try> = tries.filter(is_held).collect();
            let scene = Scene::new(who, level == Access::Read);
            let all: Vec<String> = tries.iter().map(|one| one.script()).collect();
            let done = scene.run_at(
                level.name(),
                pretend,
                &format!("{}\nsleep 0.3; echo 'the end'", all.join("\n")),
            );
            assert!(
                done.output.contains("the end"),
                "{who:?} {level} {pretend}: {done:?}"
            );
            if !done.got_through() {
                continue;
            }
            drop(scene);
            let before = through.len();
            for one in tries {
                // A sandbox that is not there would take minutes to list.
                if through.len() >= before + 5 {
                    break;
                }
                let scene = Scene::new(who, level == Access::Read);
                let done = scene.run_at(level.name(), pretend, &one.script());
                if done.got_through() {
                    through.push(format!("{who:?} {level} {pretend}: {}: {done:?}", one.name));
                }
            }
            if through.len() == before {
                through.push(format!(
                    "{who:?} {level} {pretend}: only together: {}",
                    short(&done)
                ));
            }
        }
    }
    assert!(
        through.is_empty(),
        "{} got through:\n{}",
        through.len(),
        through.join("\n")
    );
}

fn short(done: &Done) -> String {
    format!(
        "changed {:?}, output {}",
        done.changed,
        quoted(&done.output)
    )
}
