//! With programs of the test's own in PATH.

use std::os::unix::fs::PermissionsExt;

use super::*;
use support::PNG;

/// A PATH with these programs, and nothing else but what a shell needs.
struct Desk {
    folder: tempfile::TempDir,
    wayland: bool,
}

impl Desk {
    fn new(programs: &[(&str, &str)]) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("image.png"), PNG).unwrap();
        for (name, script) in programs {
            let path = folder.path().join(name);
            let at = folder.path().display();
            let text = folder.path().join(format!("{name}.text"));
            std::fs::write(
                &text,
                format!("#!/bin/sh\ncd '{at}'\necho \"$0 $*\" >> asked\n{script}\n"),
            )
            .unwrap();
            std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
            // In a process apart: no program that a test beside starts may have the copy open.
            let copied = std::process::Command::new("cp")
                .args([&text, &path])
                .status();
            assert!(copied.unwrap().success());
        }
        Desk {
            folder,
            wayland: true,
        }
    }

    fn pastes_within(&self, time: Duration) -> Result<Vec<u8>, String> {
        let path = self.folder.path().to_str().unwrap();
        let display = if self.wayland { "wayland-0" } else { "" };
        pasted(
            &Env::new([("PATH", path), ("WAYLAND_DISPLAY", display)], "/"),
            time,
        )
    }

    fn pastes(&self) -> Result<Vec<u8>, String> {
        self.pastes_within(Duration::from_secs(20))
    }

    fn asked(&self) -> String {
        let asked = std::fs::read_to_string(self.folder.path().join("asked"));
        asked.unwrap_or_default()
    }
}

const WL: &str =
    "case \"$1\" in --list-types) echo text/plain; echo image/png;; *) cat image.png;; esac";
const X: &str = "case \"$4\" in TARGETS) echo TIMESTAMP; echo image/png;; *) cat image.png;; esac";

#[test]
fn each_program_gives_the_image() {
    for (name, script) in [
        ("wl-paste", WL),
        ("xclip", X),
        ("pngpaste", "cat image.png"),
    ] {
        let desk = Desk::new(&[(name, script)]);
        assert_eq!(desk.pastes().unwrap(), PNG, "{name}");
    }
}

#[test]
fn the_program_of_the_display_is_asked_first() {
    let mut desk = Desk::new(&[("wl-paste", WL), ("xclip", X)]);
    desk.pastes().unwrap();
    assert!(!desk.asked().contains("xclip"), "{}", desk.asked());
    desk.wayland = false;
    desk.pastes().unwrap();
    assert!(desk.asked().contains("xclip"), "{}", desk.asked());
    // If the first program finds nothing, the other one is asked too.
    let desk = Desk::new(&[("wl-paste", "exit 1"), ("xclip", X)]);
    assert_eq!(desk.pastes().unwrap(), PNG);
}

#[test]
fn clipboard_content_that_is_not_an_image_is_reported() {
    let text = Desk::new(&[("wl-paste", "echo text/plain")]);
    let why = text.pastes().unwrap_err();
    assert_eq!(why, "no image is in the clipboard (it has text/plain)");
    let none = Desk::new(&[("pngpaste", "exit 1")]);
    assert_eq!(none.pastes().unwrap_err(), "no image is in the clipboard");
    let broken = Desk::new(&[("pngpaste", "head -c 40 image.png")]);
    let why = broken.pastes().unwrap_err();
    assert!(why.contains("ends in the middle"), "{why}");
}

#[test]
fn where_no_program_is_it_says_which_to_install() {
    let why = Desk::new(&[]).pastes().unwrap_err();
    for name in ["wl-clipboard", "xclip", "pngpaste"] {
        assert!(why.contains(name), "{why}");
    }
}

#[test]
fn fifty_megabytes_are_refused_and_not_read_to_their_end() {
    let desk = Desk::new(&[(
        "pngpaste",
        "cat image.png; head -c 52428800 /dev/zero && echo all > whole",
    )]);
    let why = desk.pastes().unwrap_err();
    assert!(why.contains("more than 3932160 bytes"), "{why}");
    assert!(!desk.folder.path().join("whole").exists());
}

#[test]
fn a_program_that_hangs_is_ended_with_what_it_started() {
    let desk = Desk::new(&[("pngpaste", "sleep 1000 & echo $! > child; wait")]);
    // A busy machine may not have started the child by then: then with more time.
    let child = [1, 5, 20].into_iter().find_map(|seconds| {
        let why = desk
            .pastes_within(Duration::from_secs(seconds))
            .unwrap_err();
        let said = format!("pngpaste gave nothing within {seconds} s");
        assert!(why.contains(&said), "{why}");
        let child = std::fs::read_to_string(desk.folder.path().join("child"));
        child.ok()?.trim().parse().ok()
    });
    let pid = Pid::from_raw(child.expect("a child")).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(20);
    let lives = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        rustix::process::test_kill_process(pid).is_ok() && !stat.is_ok_and(|s| s.contains(") Z "))
    };
    while lives() {
        assert!(std::time::Instant::now() < end, "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_file_is_private_and_old_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("pasted");
    let path = keep(PNG, &folder).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), PNG);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
    let old = folder.join("clipboard-old.png");
    let file = std::fs::File::create(&old).unwrap();
    file.set_modified(SystemTime::now() - KEPT - KEPT).unwrap();
    keep(PNG, &folder).unwrap();
    assert!(!old.exists() && path.exists());
}
