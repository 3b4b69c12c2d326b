//! Tables of lines: which commands only read, and what they read.

use super::*;
use crate::core::shell;

fn looks(line: &str) -> Result<Reads, String> {
    reads(&shell::split(line).unwrap()[0])
}

#[test]
#[rustfmt::skip]
fn commands_that_only_look_are_harmless() {
    for line in [
        "true", "pwd", "ls", "ls -la src", "ls *.rs", "cat a b", "cat -", "head -n 5 a", "wc -l src/*.rs",
        "echo 'a b' > /dev/null", "printf '%s\\n' x", "test -f a", "[ -d a ]", "date", "date +%F",
        "date -u -d yesterday +%s", "sort -k2 -u a", "uniq -c a", "cut -d/ -f1 a", "tr a-z A-Z", "diff -u a b",
        "uniq", "uniq -", "uniq -- a", "uniq -f 1 a", "uniq -f1 -c --group=both a", "uniq -cd -w 5 -- -a",
        "cat *", "cat *.md", "cat src/*.rs", "head -n 3 src/*.rs docs/[a-c]?.md", "ls -d ~/*", "stat -c %s *",
        "grep -n foo src/*.rs", "rg foo src/*", "sort ./*.txt", "sha256sum dist/*", "find src/* -name a",
        "diff a.* b", "git diff src/*.rs", "git log --oneline -- src/*.rs", "git status -v", "tail -n 5 logs/*.log",
        "printf '%-5s|%q 100%%\\n' a", "printf '%d %.2f\\n' 5 -0.5", "printf -- '-%s' x", "[ 1 -lt 2 ]", "[ -t 1 ]",
        "sha256sum a", "grep -rn foo src", "grep -n '/api/v1' src/a.rs", "rg foo", "rg -n '^\\.\\./x' src",
        "grep -e foo a", "find . -name '*.rs' -type f", "find src \\( -name a -o -name b \\)",
        "git status", "git --no-pager log --oneline -5", "git diff HEAD~1 -- src/a", "git show HEAD:src/a",
        "git diff --submodule", "git diff --submodule=log", "git show --submodule=short",
        "git branch", "git branch -a --sort=-committerdate", "git branch --show-current", "git tag", "git tag -l 'v*'",
        "git remote -v", "git remote get-url origin", "git stash list", "git rev-parse HEAD", "git ls-files",
        "git blame a", "git --version", "node --version", "python3 --version",
        "LC_ALL=C sort a", "NO_COLOR=1 ls", "file a", "stat a", "du -sh .", "which cargo", "readlink a",
    ] {
        assert!(looks(line).is_ok(), "{line}: {:?}", looks(line));
    }
}

#[test]
#[rustfmt::skip]
fn whatever_may_do_more_is_not() {
    for line in [
        "rm a", "sed -n 1p a", "awk 1 a", "tee a", "xargs ls", "env", "env ls", "sudo ls", "bash", "bash -c ls",
        "eval ls", "exec ls", "source a", ". a", "nohup ls", "timeout 5 ls", "command ls", "tree",
        "hostname x", "/bin/ls", "./ls", "\\ls", "l''s", "LS",
        "sort -o a b", "sort -uo a b", "sort -oa b", "sort --output=a b", "sort --outp a b",
        "sort --compress-program=x a", "sort --compress-prog x a", "sort -T /x a", "sort --files0-from=a",
        "uniq a b", "uniq -c a b", "date -s x", "date --set=x", "date --se x", "date 010100002030", "date 0101.30",
        "printf -v PATH x", "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "test -R x",
        "diff -r a b", "diff --recurs a b", "grep -R x .", "grep -nR x .", "grep --deref x .",
        "rg --pre ./x foo", "rg --pre=./x foo", "rg --hostname-bin x foo", "rg -z foo", "rg -L foo", "rg --follow foo",
        "find . -delete", "find . -exec rm {} +", "find . -execdir rm {} +", "find . -ok rm {} +", "find . -okdir x",
        "find . -fprint a", "find . -fprintf a x", "find . -fls a", "find -files0-from a",
        "file -C -m a", "file -m a b", "file -f a", "wc --files0-from=a", "du --files0-from a",
        "git", "git commit", "git push", "git -C x status", "git -c core.pager=x log", "git --git-dir=x log",
        "git -p log", "git --exec-path=x status", "git diff --output=a", "git diff --outp=a", "git log --output a",
        "git diff --ext-diff", "git diff --no-index a b", "git log --show-signature", "git blame --contents a b",
        "git branch x", "git branch -d x", "git branch -D x", "git branch -m a b", "git tag x", "git tag -d x",
        "git tag -l -d x", "git remote add a b", "git remote show x", "git remote update", "git stash", "git stash pop",
        "git config -l", "git grep -O x", "git fetch", "git checkout .", "git bisect run x",
        "cargo --version", "cargo build", "go version", "node --version x", "node x", "python3 -c x", "npm --version",
        "PATH=x ls", "LD_PRELOAD=x ls", "GIT_PAGER=x git log", "RIPGREP_CONFIG_PATH=x rg y", "GREP_OPTIONS=-Rf grep x a", "TZ=x date",
        "GIT_CONFIG_COUNT=1 git status", "GIT_DIR=x git log", "GLOBIGNORE=x cat a", "MAGIC=x file a", "PAGER=x git log", "LC_ALL=../x ls", "IFS=x ls",
        "NO_COLOR=$X ls", "BASH_ENV=x ls", "LC_ALL+=C ls -l $X",
        "cat $HOME/x", "echo $SECRET", "cat {a,b}", "grep x *", "ls */../..",
        // A glob may become an option, or another number of operands.
        "find . -maxdepth 0 -exe? sh -c x \\;", "find . -[e]xec x", "find . -delet?", "find *", "find . -name *.rs", "find '('*",
        "wc *=list", "wc -l *", "du *", "file *", "rg x *", "sort *", "tail *", "sha256sum *", "git diff *", "git log -- *",
        "git tag -l *", "git l* -1", "ls ''*/../x", "diff *", "grep x ''*", "grep x '-'*", "find \\!* -name x",
        "test ?v 'a[$(x)]'", "test -f a*", "[ -f a* ]", "printf * 'a[$(x)]'", "printf a* x", "uniq a*", "uniq *", "date 0*", "date +%F*",
        // The operands of `uniq`.
        "uniq -- in -out", "uniq - out", "uniq -f 1 in out", "uniq -f1 in out", "uniq --group in out", "uniq in +1",
        "uniq -w in out", "uniq -- -f 1", "uniq --skip-fields 1 in out", "uniq -cf1 in out",
        // Lists of files, clocks, no end.
        "date -f list", "date --file=list", "date -uf list", "sha256sum -c list", "md5sum --check list", "md5sum --che list",
        "tail -f log", "tail -F log", "tail -n5f log", "tail --follow=name log", "tail --retry log", "tail +5f log",
        "file -M a b",
        // Options that follow links.
        "find -L . -name x", "find -HL .", "find . -follow", "du -L .", "du -shL", "du --dereference", "du --deref .",
        // Assignments and evaluations by the shell itself.
        "printf 'xx%n' PATH", "printf '%5n' PATH", "printf '%s%%%n' x PATH", "printf '%*d' x 1", "printf '%d' 'a[$(x)]'",
        "printf -- '%n' PATH", "printf '%(%F)T' x", "printf '\\045n' PATH", "printf '%-%%n' PATH", "test 'a[$(x)]' -eq 0", "[ 0 -lt LANG ]",
        "[ x -a LANG -ne 1 ]", "test -t 'a[$(x)]'", "cat a=~/x", "cat x:~/y",
        // Programs that git runs.
        "git log --format=%G?", "git log --pretty=format:%GK", "git log --format '%G?'", "git branch --sort=signature", "git tag -l --sort=-signature:signer",
        "git log -p --submodule=diff", "git show --submod=diff", "git diff --submodule=d*",
        "git log --remerge-diff", "git log --remerge", "git log --diff-merges=remerge", "git log --stdin",
    ] {
        assert!(looks(line).is_err(), "{line}");
    }
}

#[test]
fn commands_that_hide_others_are_known() {
    let runs = |line: &str| runs_others(&shell::split(line).unwrap()[0].words) == Likeness::Yes;
    for line in [
        "sudo rm",
        "/usr/bin/env x",
        "python3.12 -c x",
        "find . -exec rm",
        "docker exec a b",
        "BASH -c x",
    ] {
        assert!(runs(line), "{line}");
    }
    for line in [
        "ls",
        "find . -name x",
        "docker ps",
        "npm test",
        "git status",
        ".",
    ] {
        assert_eq!(runs(line), line == ".", "{line}");
    }
}

#[test]
fn commands_that_may_run_another_command_are_detected() {
    let runs = |line: &str| runs_others(&shell::split(line).unwrap()[0].words);
    for (line, want) in [
        ("find . -exe? rm", Likeness::Maybe),
        ("find . ?exec rm", Likeness::Maybe),
        ("find . $X rm", Likeness::Maybe),
        ("find * rm", Likeness::Maybe),
        ("find . -name a*", Likeness::No),
        ("git ?c x", Likeness::Maybe),
        ("git diff src/*.rs", Likeness::No),
        ("docker ru? x", Likeness::Maybe),
    ] {
        assert_eq!(runs(line), want, "{line}");
    }
}

#[test]
fn patterns_are_returned_for_the_caller_to_resolve() {
    for (line, want) in [
        ("cat *.md", "*.md"),
        ("cat ~/*", "~/*"),
        ("cat '~'/*", "./~/*"),
        ("cat -- a*", "a*"),
        ("ls /etc/*", "/etc/*"),
        ("echo */*", "*/*"),
        ("grep x src/*.rs", "src/*.rs"),
        ("diff a* b", "a*"),
    ] {
        assert_eq!(looks(line).unwrap().patterns, [want], "{line}");
    }
    assert!(looks("diff a b").unwrap().files_only);
    assert!(looks("git status -vv").unwrap().recursive);
    for option in [
        "-r",
        "--recursive",
        "-d recurse",
        "--directories=recurse",
        "--di=recurse",
    ] {
        let line = format!("grep {option} x .");
        assert!(looks(&line).unwrap().recursive, "{line}");
    }
    assert!(!looks("git status").unwrap().recursive);
}

#[test]
fn every_path_is_seen() {
    for (line, want) in [
        ("cat /etc/passwd", "/etc/passwd"),
        ("cat a ../b", "../b"),
        ("cat -- ~/x", "~/x"),
        ("echo ~", "~"),
        ("grep -f/etc/shadow x", "/etc/shadow"),
        ("grep -nf/etc/shadow x", "/etc/shadow"),
        ("grep --file=/etc/shadow x", "/etc/shadow"),
        ("grep --file /etc/shadow x", "/etc/shadow"),
        ("grep -f /etc/shadow x", "/etc/shadow"),
        ("grep x /etc/shadow", "/etc/shadow"),
        ("grep /etc/shadow -e root", "/etc/shadow"),
        ("grep -- -x /etc/shadow", "/etc/shadow"),
        ("grep - /etc/shadow", "/etc/shadow"),
        ("grep '' /etc/shadow", "/etc/shadow"),
        ("grep x -nflink", "link"),
        ("grep -A 1 root /etc/shadow", "/etc/shadow"),
        ("rg --files /etc", "/etc"),
        ("rg -e x /etc", "/etc"),
        ("rg --ignore-file=/etc/x y", "/etc/x"),
        ("date -r /etc/shadow", "/etc/shadow"),
        ("cat -- -k", "-k"),
        ("cat -k", "-k"),
        ("uniq -- -in", "-in"),
        ("head -n -- -k", "-k"),
        ("grep -e x -- -k", "-k"),
        ("git diff -- -k", "-k"),
        ("find -H -- -k", "-k"),
        ("wc -l /etc/shadow", "/etc/shadow"),
        ("find / -name x", "/"),
        ("git diff /etc/passwd", "/etc/passwd"),
        ("git diff -O/etc/passwd", "/etc/passwd"),
        ("sha256sum --tag /etc/x", "/etc/x"),
        ("diff --from-file=/etc/x a", "/etc/x"),
    ] {
        let reads = looks(line).unwrap();
        assert!(reads.paths.iter().any(|p| p == want), "{line}: {reads:?}");
    }
    assert_eq!(
        looks("grep -rn '/api' src").unwrap().paths,
        ["n", "-rn", "src"]
    );
}

#[test]
fn a_line_that_only_looks_is_known_for_who_shows_it() {
    let read = Some(Access::Read);
    for (line, access, looks) in [
        ("cat a.py", None, true),
        ("cd src && ls -la | head -5", None, true),
        ("grep -n x a.rs 2>/dev/null", None, true),
        ("git status", None, true),
        ("cat a > b", read, false),
        ("sed -n 1,20p a.py", None, false),
        ("sed -n 1,20p a.py", read, true),
        ("sed -n 1,20p a.py", Some(Access::Workspace), false),
        ("cd src", None, false),
        ("echo done", read, false),
        ("echo a && cat b", None, true),
        // A command that runs another program may do more than read, even if it cannot write.
        ("python3 test_tally.py", read, false),
        ("cargo test", read, false),
        ("./check", read, false),
        ("for i in 1 2; do ls; done", read, false),
        ("", read, false),
    ] {
        assert_eq!(only_looks(line, access), looks, "{line} {access:?}");
    }
}
