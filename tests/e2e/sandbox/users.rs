//! The sandbox of an ordinary user: where the kernel gives user namespaces, it is that of root.

use std::path::Path;

use crate::sandbox::scene::{Scene, Who};

/// Whether this user may mount in namespaces of its own, as another program finds.
fn may_mount(scene: &Scene) -> bool {
    let args = ["-Urmpf", "mount", "--rbind", "/dev", "/dev"];
    let output = scene.command(Path::new("unshare"), &args).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn an_ordinary_user_gets_the_sandbox_of_root() {
    let _alone = crate::sandbox::alone();
    for who in Who::all() {
        let scene = Scene::new(who, false);
        if !may_mount(&scene) {
            support::skip("user namespaces in which a user may mount");
            continue;
        }
        let rewake = scene.root().join("rewake");
        let doctor = scene.finish(scene.command(&rewake, &["doctor"])).output;
        for word in ["protected files are read-only", "private loopback network"] {
            assert!(doctor.contains(word), "{who:?}: {doctor}");
        }
        for word in ["no mount namespace", "no process namespace"] {
            assert!(!doctor.contains(word), "{who:?}: {doctor}");
        }
        // Held while the command runs, and not only compared afterwards.
        let script = "echo x > .git/config || echo refused; sleep 60 & ls -d /proc/[0-9]*";
        let done = scene.run_at("workspace", "", script);
        assert!(done.output.contains("refused"), "{who:?}: {done:?}");
        let processes = done
            .output
            .lines()
            .filter(|line| line.starts_with("/proc/"));
        assert!(processes.count() <= 5, "{who:?}: {done:?}");
        assert!(!done.output.contains("not held"), "{who:?}: {done:?}");
        assert!(done.output.contains("ended with it"), "{who:?}: {done:?}");
    }
}
