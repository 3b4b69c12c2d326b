//! Repositories with a part of their git data elsewhere: what git in the sandbox can use of it, and
//! what nobody gains by naming a folder there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::cli::{SCRIPTED, play, results, scripted, step, streamed};
use crate::scenes::access::*;
use support::{Home, git};

/// A repository beside the workspace.
fn beside(home: &Home, name: &str) -> PathBuf {
    let root = home.workspace().with_file_name(name);
    fs::create_dir(&root).unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    fs::write(root.join("a"), "1\n").unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/x"), format!("PRIVATE of {name}\n")).unwrap();
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "x"]);
    root
}

fn make(home: &Home, line: &str) {
    let done = Command::new("sh")
        .args(["-ec", line])
        .current_dir(home.workspace())
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b")])
        .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b")])
        .output()
        .unwrap();
    assert!(done.status.success(), "{line}: {done:?}");
}

/// A workspace that this line makes beside the repository `source`. `None`: there is no sandbox.
fn workspace(line: &str) -> Option<Home> {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return None;
    }
    beside(&home, "source");
    make(&home, line);
    Some(home)
}

const SEPARATE: &str = "git clone -q --separate-git-dir ../data ../source .";

/// Changes all files and commits.
fn commit(number: u8) -> String {
    format!(
        "echo {number} > a; echo {number} > sub/x; \
         git -c user.name=a -c user.email=b commit -qam two && git log --oneline | wc -l"
    )
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[test]
fn git_works_where_its_data_is_partly_elsewhere() {
    for line in [
        "git clone -q --shared ../source .",
        "git clone -q --reference ../source ../source .",
        "git clone -q --shared ../source ../middle; git clone -q --shared ../middle .",
        "git clone -q --shared ../source .; printf '# x\\n\\n\"../../../source/.git/obj\\\\145cts\"\\n' \
         > .git/objects/info/alternates",
        SEPARATE,
        "git clone -q ../source .; mv .git ../data; ln -s ../data .git",
        "git clone -q ../source .; mv .git ../data; echo 'gitdir: ../data' > .git; \
         git config core.worktree \"$PWD\"; rm -f ../data/index; git reset -q",
        "git clone -q --bare ../source ../bare.git; cd ..; rmdir work; \
         git -C bare.git worktree add -q -b fix ../work",
    ] {
        let Some(home) = workspace(line) else {
            return;
        };
        let commands = [commit(2), commit(3), "git status --short".to_string()];
        let calls = commands.each_ref().map(|line| with(line, "workspace"));
        let done = ran(&home, &calls, &ACCEPT);
        let texts: Vec<Vec<&str>> = done.iter().map(|(_, text)| lines(text)).collect();
        // The maintenance that a commit starts may still run, which the next line says.
        assert_eq!(texts[0][0], "2", "{line}");
        assert_eq!(texts[1][0], "3", "{line}");
        assert!(!done[2].1.contains("fatal"), "{line}: {done:?}");
        let links = home.path(".git").symlink_metadata().unwrap().is_symlink();
        assert_eq!(links, line.contains("ln -s"), "{line}");
    }
}

#[test]
fn what_git_cannot_use_is_named_with_the_setting() {
    let objects = "git clone -q ../source .; mv .git/objects ../objects; ln -s ../../objects .git";
    // Another clone of the same repository: its files are not these.
    let other = "git clone -q --separate-git-dir ../data ../source ../other; cp -r ../other/. .";
    for (line, folder) in [(objects, "objects"), (other, "data")] {
        let Some(home) = workspace(line) else {
            return;
        };
        let reads = "git log --oneline | wc -l";
        let calls = [with(reads, "workspace"), with(&commit(2), "workspace")];
        let done = ran(&home, &calls, &ACCEPT);
        let reads = if line == objects { "1" } else { "0" };
        assert!(lines(&done[0].1).contains(&reads), "{line}: {done:?}");
        let root = home.workspace().canonicalize().unwrap();
        let folder = root.with_file_name(folder);
        let setting = format!("[sandbox] write = [{:?}]", folder.display().to_string());
        has(&done[1].1, &["git cannot use", setting.as_str()]);
        home.write_config(&format!(
            "{SCRIPTED}[sandbox]\nwrite = [{:?}]\n",
            folder.display().to_string()
        ));
        let calls = [
            with(&commit(2), "workspace"),
            with(
                "git switch -qc new && cat .git/HEAD || cat ../data/HEAD",
                "workspace",
            ),
        ];
        let done = ran(&home, &calls, &ACCEPT);
        assert_eq!(lines(&done[0].1), ["2"], "{line}");
        has(&done[1].1, &["refs/heads/new"]);
    }
}

/// Whatever leads to the repository of another folder: nothing of it can be read or written.
#[test]
fn nobody_gains_a_repository_by_naming_it() {
    for line in [
        "echo \"gitdir: $PWD/../source/.git\" > .git",
        "ln -s ../source/.git .git",
        "git clone -q --separate-git-dir ../data ../source ../other; cp ../other/.git .",
        "git clone -q --separate-git-dir ../data ../source ../other; cp -p ../other/.git .; cp -p ../other/a .; \
         ln -s ../other/sub sub",
        "git clone -q --separate-git-dir ../data ../source ../other; ln ../other/a .; cp ../other/.git .; \
         git -C ../other update-index -q --refresh",
        "git -C ../source worktree add -q ../tree; cp ../tree/.git .",
    ] {
        let Some(home) = workspace(line) else {
            return;
        };
        let tries = "cat ../data/HEAD ../source/.git/HEAD; touch ../data/refs/new ../source/.git/refs/new; \
                     git log --format=%H";
        let source = home.workspace().with_file_name("source");
        let head = git(&source, &["rev-parse", "HEAD"]);
        let done = ran(&home, &[with(tries, "workspace")], &ACCEPT);
        assert!(!done[0].1.contains("refs/heads"), "{line}: {done:?}");
        assert!(!done[0].1.contains(&head), "{line}: {done:?}");
        let above = home.workspace().with_file_name("");
        assert!(!above.join("data/refs/new").exists(), "{line}");
        assert!(!source.join(".git/refs/new").exists(), "{line}");
    }
}

/// Counts the bytes of the objects that the first line of this file names.
const SHOWS: &str = "x=$(head -1 .git/objects/info/alternates); cat $x/*/* | wc -c";

#[test]
fn a_command_gains_nothing_by_writing_alternates() {
    let Some(home) = workspace("git init -q; git commit -q --allow-empty -m x") else {
        return;
    };
    let objects = home
        .workspace()
        .with_file_name("source")
        .join(".git/objects");
    let line = format!("echo {}", objects.display());
    let writes = format!("{line} > .git/objects/info/alternates");
    let shows = format!("cat $({line})/*/* | wc -c");
    let calls = [
        with(&writes, "workspace"),
        with(&shows, "workspace"),
        with(&writes, "full"),
        with(&shows, "workspace"),
    ];
    let done = ran(&home, &calls, &["--yolo"]);
    assert!(lines(&done[1].1).contains(&"0"), "{done:?}");
    assert!(lines(&done[3].1).contains(&"0"), "{done:?}");
    // The session has had commands before this start of it.
    let done = || step("done", &[]);
    play(
        &home,
        &[step("", &calls), done(), step("", &calls[3..]), done()],
    );
    let again = results(&streamed(&home, &["-p", "x", "--yolo", "-c"]));
    let last = &again.last().unwrap().1;
    assert!(lines(last).contains(&"0"), "{last}");
}

#[test]
fn alternates_name_no_secret_and_nothing_but_objects() {
    let Some(home) = workspace("git clone -q --shared ../source .") else {
        return;
    };
    let source = home.workspace().with_file_name("source");
    let secret = home.user().join(".ssh/objects");
    let own = home.rewake_home().join("objects");
    let more = home.workspace().with_file_name("more");
    let linked = home.workspace().with_file_name("linked");
    for folder in [&secret, &own, &more] {
        fs::create_dir_all(folder.join("pack")).unwrap();
        fs::write(folder.join("pack/x"), "PRIVATE").unwrap();
    }
    fs::write(more.join("notes"), "PRIVATE").unwrap();
    symlink(&secret, &linked).unwrap();
    let named = ["/", "/root", "/etc"].map(PathBuf::from).into_iter();
    let named = named.chain([home.user(), home.rewake_home(), secret, own, more, linked]);
    let named: Vec<String> = named.map(|path| path.display().to_string()).collect();
    let file = home.path(".git/objects/info/alternates");
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, before + &named.join("\n")).unwrap();
    let folders = named[4..].join(" ");
    let reads = format!("for d in {folders}; do cat $d/pack/x $d/notes; done; true");
    let calls = [with(&reads, "workspace"), with(SHOWS, "workspace")];
    let done = ran(&home, &calls, &ACCEPT);
    assert!(!done[0].1.contains("PRIVATE"), "{done:?}");
    assert_ne!(lines(&done[1].1), ["0"], "{done:?}");
    // A rule keeps the other repository from being read.
    let rule = format!("permissions.deny=[\"Read({}/**)\"]", source.display());
    let set = [&ACCEPT[..], &["--set", rule.as_str()]].concat();
    let done = ran(&home, &calls[1..], &set);
    assert!(lines(&done[0].1).contains(&"0"), "{done:?}");
}
