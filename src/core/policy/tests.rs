//! Tables of `(call, rules) -> decision of each mode`, and properties of all of them.

use super::line::cd_target;
use super::*;
use crate::core::{read_only_commands, shell};
use proptest::prelude::*;

const MODES: [Mode; 4] = Mode::ALL;

/// Returns only the decision of [`judge`], without the access.
fn decide(
    permission: &Permission,
    mode: Mode,
    rules: &Rules,
    place: &Workspace,
    disk: &Disk,
) -> Decision {
    judge(permission, mode, rules, place, disk).decision
}

pub(super) fn place() -> Workspace {
    Workspace {
        served: None,
        page: PageFacts::default(),
        project: None,
        folder: "/home/u/w".into(),
        root: "/home/u/w".into(),
        home: Some("/home/u".into()),
        added: Vec::new(),
        readable: vec!["/data/runs".into()],
        sandbox: Sandbox::default(),
        rewakes_own: vec!["/home/u/w/conf/rewake".into(), "/home/u/own".into()],
        obeyed: vec!["/home/u/w/tools/hooks".into()],
        keys: Some("/home/u/w/kept/keys".into()),
    }
}

#[test]
fn files_to_which_git_is_led_are_asked_about() {
    for input in [
        on_path(PathUse::Write, "tools/hooks/pre-commit"),
        on_path(PathUse::Edit, "tools/Hooks/x"),
        bash("echo x > tools/hooks/pre-commit"),
    ] {
        assert_eq!(signs(&input, "+Write;;+Edit"), "??-+", "{input:?}");
    }
    assert_eq!(signs(&on_path(PathUse::Write, "tools/x"), ""), "?+-+");
}

#[test]
fn a_tilde_before_a_name_is_part_of_it_for_a_tool() {
    let glob = |pattern: &str| Permission::Glob {
        pattern: pattern.into(),
        path: None,
    };
    assert_eq!(signs(&on_path(PathUse::Write, "~t.txt"), ""), "?+-+");
    for (odd, plain) in [
        (
            on_path(PathUse::Read, "~t.txt"),
            on_path(PathUse::Read, "t.txt"),
        ),
        (glob("~t/*.rs"), glob("t/*.rs")),
        // A quoted name is judged as the file that it means.
        (
            on_path(PathUse::Write, "\"../x\\ny\""),
            on_path(PathUse::Write, "../xy"),
        ),
        (
            on_path(PathUse::Read, "\"/home/u/w/kept/keys/a\\nb\""),
            on_path(PathUse::Read, "/home/u/w/kept/keys/ab"),
        ),
    ] {
        assert_eq!(signs(&odd, ""), signs(&plain, ""));
    }
    // To a shell it is the home of a user.
    assert_ne!(signs(&bash("cat ~t/x"), ""), signs(&bash("cat t/x"), ""));
    assert_ne!(
        signs(&on_path(PathUse::Read, "~/x"), ""),
        signs(&on_path(PathUse::Read, "x"), "")
    );
}

/// A disk with some links; `..` goes up from where a link leads, as the kernel does.
fn resolve(path: &str) -> String {
    let links = [
        ("/home/u/w/link", "/etc"),
        ("/home/u/w/out.txt", "/etc/passwd"),
        ("/home/u/w/hooks", "/home/u/w/.git/hooks"),
        ("/home/u/w/a/b/up", "/home/u/w"),
        ("/home/u/w/settings", "/home/u/w/conf/rewake"),
        ("/home/u/own", "/home/u/w/dotfiles/own"),
        ("/alias", "/home/u/w"),
    ];
    let mut real = String::new();
    for part in path.split('/').filter(|p| !p.is_empty() && *p != ".") {
        if part == ".." {
            real.truncate(real.rfind('/').unwrap_or(0));
            continue;
        }
        real = format!("{real}/{part}");
        if let Some((_, to)) = links.iter().find(|(from, _)| *from == real) {
            real = to.to_string();
        }
    }
    path::clean(&real)
}

/// The files that patterns find.
fn matches(folder: &str, pattern: &str) -> Result<Vec<String>, String> {
    let files = [
        "a.rs", ".env", "k.env", "x.txt", "out.txt", "many/1", "src/a", "dirs/in",
    ];
    let start = pattern.split(['*', '?', '[']).next().unwrap_or_default();
    let end = pattern.rsplit(['*', '?', ']']).next().unwrap_or_default();
    if start.starts_with("many/") {
        return Err("there are too many files".to_string());
    }
    let found = files
        .iter()
        .filter(|f| f.starts_with(start) && f.ends_with(end));
    Ok(found.map(|f| format!("{folder}/{f}")).collect())
}

pub(super) const DISK: Disk = Disk {
    resolve,
    matches,
    is_folder: |path| path.ends_with("/dir") || path.ends_with("/dirs/in"),
    repository: |folder| {
        if folder.contains("hostile") {
            Err("`git` obeys `core.fsmonitor`".to_string())
        } else {
            Ok(())
        }
    },
};

/// Rules as `+allow`, `?ask`, `-deny`, between `;;`.
pub(super) fn rules(text: &str) -> Rules {
    let mut rules = Rules::default();
    for rule in text.split(";;").map(str::trim).filter(|r| !r.is_empty()) {
        let (sign, rule) = rule.split_at(1);
        let rule = Rule::parse(rule).unwrap();
        match sign {
            "+" => rules.allow.push(rule),
            "?" => rules.ask.push(rule),
            _ => rules.deny.push(rule),
        }
    }
    rules
}

fn on_path(path_use: PathUse, path: &str) -> Permission {
    let path = path.to_string();
    Permission::Path { path_use, path }
}

fn glob(pattern: &str) -> Permission {
    let pattern = pattern.to_string();
    Permission::Glob {
        pattern,
        path: None,
    }
}

fn skill(name: &str) -> Permission {
    let path = crate::core::skill::path(name);
    Permission::WriteInWorkspace { path }
}

fn foreign(name: &str) -> Permission {
    let name = name.to_string();
    Permission::Foreign { name }
}

/// Decided where this is known of the tool.
fn with_tool(tool: ServedTool, mode: Mode, rules: &str) -> Decision {
    let place = Workspace {
        served: Some(tool),
        ..place()
    };
    decide(
        &foreign("mcp__a__b"),
        mode,
        &self::rules(rules),
        &place,
        &DISK,
    )
}

fn described(hash: &str) -> ServedTool {
    ServedTool {
        hash: hash.repeat(32),
        ..ServedTool::default()
    }
}

#[test]
fn a_rule_for_a_tool_of_a_server_holds_for_the_description_that_it_had() {
    let asked = with_tool(described("0a"), Mode::Default, "");
    let Decision::Ask {
        why,
        rule: Some(rule),
    } = asked
    else {
        panic!("{asked:?}");
    };
    assert_eq!(rule.to_string(), "mcp__a__b(spec:0a0a0a0a0a0a0a0a)");
    assert!(!why.contains("changed"), "{why}");
    let rules = format!("+{rule}");
    assert_eq!(
        with_tool(described("0a"), Mode::Default, &rules),
        Decision::Allow
    );
    let changed = ServedTool {
        changed: Some("it sends".into()),
        ..described("0b")
    };
    match with_tool(changed, Mode::Default, &rules) {
        Decision::Ask { why, rule } => {
            assert!(why.ends_with("since it was allowed: it sends"), "{why}");
            assert_eq!(
                rule.unwrap().to_string(),
                "mcp__a__b(spec:0b0b0b0b0b0b0b0b)"
            );
        }
        other => panic!("{other:?}"),
    }
    // An unknown tool has no description that the rule could mean.
    assert!(matches!(
        decided(&foreign("mcp__a__b"), Mode::Default, &self::rules(&rules)),
        Decision::Ask { .. }
    ));
    // Without one it is the tool, whatever it says; and what refuses, refuses any.
    assert_eq!(
        with_tool(described("0b"), Mode::Default, "+mcp__a__b"),
        Decision::Allow
    );
    let denies = format!("-{rule};;+mcp__a__b");
    assert!(matches!(
        with_tool(described("0b"), Mode::Default, &denies),
        Decision::Deny { .. }
    ));
}

#[test]
fn a_tool_the_user_marks_read_only_runs_unasked_even_in_plan() {
    let looks = || ServedTool {
        only_looks: true,
        ..described("0a")
    };
    assert_eq!(with_tool(looks(), Mode::Default, ""), Decision::Allow);
    assert_eq!(with_tool(looks(), Mode::Plan, ""), Decision::Allow);
    assert!(matches!(
        with_tool(looks(), Mode::Default, "?mcp__a"),
        Decision::Ask { .. }
    ));
    assert!(matches!(
        with_tool(looks(), Mode::Plan, "-mcp__a__*"),
        Decision::Deny { .. }
    ));
    assert!(matches!(
        with_tool(described("0a"), Mode::Plan, "+mcp__a"),
        Decision::Deny { .. }
    ));
}

#[test]
fn a_tool_its_server_marks_destructive_is_asked_about() {
    let destroys = ServedTool {
        is_destructive: true,
        ..described("0a")
    };
    match with_tool(destroys, Mode::Default, "") {
        Decision::Ask { why, .. } => assert!(why.contains("may destroy something"), "{why}"),
        other => panic!("{other:?}"),
    }
}

fn back(tool: LookBack, reach: Reach) -> Permission {
    Permission::LookBack { tool, reach }
}

fn bash(line: &str) -> Permission {
    let line = line.to_string();
    Permission::Command {
        line,
        access: None,
        background: false,
    }
}

fn decided(permission: &Permission, mode: Mode, rules: &Rules) -> Decision {
    decide(permission, mode, rules, &place(), &DISK)
}

/// 0 allowed, 1 asked, 2 denied.
fn strictness(decision: &Decision) -> u8 {
    match decision {
        Decision::Allow => 0,
        Decision::Ask { .. } => 1,
        Decision::Deny { .. } => 2,
    }
}

/// Returns the decision of each mode, in the order of `Mode::ALL`: `+` allow, `?` ask, `-` deny.
fn signs(permission: &Permission, text: &str) -> String {
    let rules = rules(text);
    MODES
        .iter()
        .map(|mode| ['+', '?', '-'][strictness(&decided(permission, *mode, &rules)) as usize])
        .collect()
}

fn check(rows: &[(&str, &str, &str)]) {
    for (line, rules, want) in rows {
        assert_eq!(signs(&bash(line), rules), *want, "{line:?} with {rules:?}");
    }
}

#[test]
#[rustfmt::skip]
fn commands_without_rules() {
    check(&[
        ("ls -la", "", "++++"),
        ("", "", "++++"),
        ("# nothing", "", "++++"),
        ("git status && git diff | head -n 5", "", "++++"),
        ("grep -rn foo src 2>/dev/null | sort | uniq -c", "", "++++"),
        ("ls > /dev/null 2>&1", "", "++++"),
        ("cat /home/u/w/src/a.rs", "", "++++"),
        ("cat src/../a.rs", "", "++++"),
        ("cat /data/runs/x/out", "", "++++"),
        ("cat /alias/a.rs", "", "???+"),
        ("npm test", "", "??-+"),
        ("rm -rf /", "", "??-+"),
        ("ls; rm x", "", "??-+"),
        ("ls && rm x", "", "??-+"),
        ("ls || rm x", "", "??-+"),
        ("ls | rm x", "", "??-+"),
        ("ls & rm x", "", "??-+"),
        ("ls\nrm x", "", "??-+"),
        ("ls # x\nrm x", "", "??-+"),
        ("echo 'rm x; rm y' \"&& rm z\"", "", "++++"),
        ("echo $(rm x)", "", "??-+"),
        ("echo \"`rm x`\"", "", "??-+"),
        ("cat <(rm x)", "", "??-+"),
        ("cat <<EOF\n$(rm x)\nEOF", "", "??-+"),
        ("ls ${x:=y}", "", "??-+"),
        ("(ls)", "", "??-+"),
        ("if true; then ls; fi", "", "??-+"),
        ("for f in *; do cat $f; done", "", "??-+"),
        ("ls() { rm x; }; ls", "", "??-+"),
        ("alias ls=rm; ls x", "", "??-+"),
        ("$CMD x", "", "??-+"),
        ("eval ls", "", "??-+"),
        ("sudo ls", "", "??-+"),
        ("env ls", "", "??-+"),
        ("xargs ls", "", "??-+"),
        ("timeout 5 ls", "", "??-+"),
        ("time ls", "", "??-+"),
        ("bash -c ls", "", "??-+"),
        ("find . -name x -delete", "", "??-+"),
        ("find . -name '*.rs'", "", "++++"),
        ("sort -o a b", "", "??-+"),
        ("git -c core.pager=x log", "", "??-+"),
        ("PATH=/x ls", "", "??-+"),
        ("PATH=/x; ls", "", "??-+"),
        ("LD_PRELOAD=x ls", "", "??-+"),
        ("LC_ALL=C sort a", "", "++++"),
        ("ls\r", "", "??-+"),
        ("ls\u{a0}-la", "", "??-+"),
    ]);
}

#[test]
#[rustfmt::skip]
fn paths_in_commands() {
    check(&[
        ("cat ~/.ssh/id_rsa", "", "???+"),
        ("cat /etc/passwd", "", "???+"),
        ("cat ../x", "", "???+"),
        ("cat a/../../x", "", "???+"),
        ("cat $HOME/x", "", "??-+"),
        ("cat link/passwd", "", "???+"),
        ("cat out.txt", "", "???+"),
        ("cat a/b/up/../x", "", "???+"),
        ("cat ~root/x", "", "???+"),
        ("cat *", "", "???+"),
        ("cat *.rs", "", "++++"),
        ("cat src/*", "", "++++"),
        ("cat o*.txt", "", "???+"),
        ("cat nothing*", "", "++++"),
        ("cat many/*", "", "???+"),
        ("cat ~/w/a*", "", "++++"),
        ("cat ../*", "", "??-+"),
        ("cat link/*", "", "???+"),
        ("grep -rn x src/*", "", "++++"),
        ("wc -l *.rs", "", "??-+"),
        ("wc -l ./*.rs", "", "++++"),
        ("find . -maxdepth 0 -exe? sh -c 'touch x' \\;", "", "??-+"),
        ("uniq -- a -b", "", "??-+"),
        ("cat -- -k", "", "++++"),
        ("diff a b", "", "++++"),
        ("diff dir b", "", "???+"),
        ("diff -N dir dir", "", "???+"),
        ("diff dirs/* b", "", "???+"),
        ("ls *", "", "???+"),
        ("ls *.rs", "", "++++"),
        ("ls /etc/*", "", "???+"),
        ("ls -d ~/*", "", "???+"),
        ("grep -r x /etc", "", "???+"),
        ("grep -f/etc/shadow x", "", "???+"),
        ("grep x -- out.txt", "", "???+"),
        ("head < /etc/passwd", "", "???+"),
        ("head < src/a", "", "++++"),
        ("find / -name x", "", "???+"),
        ("git diff --no-index /etc/passwd a", "", "??-+"),
        ("cd src && cat a", "", "++++"),
        ("cd /home/u/w && git status", "", "++++"),
        ("cd src && git status", "", "++++"),
        ("cd hostile && git status", "", "??-+"),
        ("cd hostile; git --version", "", "++++"),
        ("cd .. && cat x", "", "???+"),
        ("cd src && cat ../../x", "", "???+"),
        ("cd a/b && cat up/x", "", "++++"),
        ("cd a/b/up && cat ../x", "", "???+"),
        ("cd link && cat passwd", "", "???+"),
        ("cd src; cd ..; cd ..; cat x", "", "???+"),
        ("cd; cat x", "", "??-+"),
        ("cd - && cat x", "", "??-+"),
        ("cd $X && cat x", "", "??-+"),
        ("cat x > y", "", "?+-+"),
        ("cat x >> src/y", "", "?+-+"),
        ("cat x > /etc/y", "", "??-+"),
        ("cat x > out.txt", "", "??-+"),
        ("cat x > .git/config", "", "??-+"),
        ("cat x > hooks/pre-commit", "", "??-+"),
        ("cat x > $Y", "", "??-+"),
        ("cat x >& y", "", "??-+"),
        ("> .bashrc", "", "??-+"),
        ("cd src && ls > ../../y", "", "??-+"),
        ("echo x > ~/.bashrc", "", "??-+"),
        ("cat < /dev/tcp/evil/80", "", "???+"),
    ]);
}

#[test]
#[rustfmt::skip]
fn commands_with_rules() {
    check(&[
        ("npm test", "+Bash(npm test:*)", "++-+"),
        ("npm test -- x && ls", "+Bash(npm test:*)", "++-+"),
        ("npm test $FILE", "+Bash(npm test:*)", "++-+"),
        // Without a sandbox, rules for any access speak of every command.
        ("npm i", "+Network(npm i:*)", "++-+"),
        ("npm i && rm x", "+Network(npm i:*)", "??-+"),
        ("npm i $X", "+Network(npm i:*)", "??-+"),
        ("npm i > src/log", "+Full(npm i:*)", "?+-+"),
        ("docker ps", "+Full(docker:*);;-Network(docker:*)", "----"),
        ("docker ps", "+Full(docker:*);;?Full(docker:*)", "??-+"),
        ("ls", "-Full", "----"),
        ("for i in 1; do ls; done", "-Full", "----"),
        ("npm test $(rm x)", "+Bash(npm test:*)", "??-+"),
        ("npm test; rm x", "+Bash(npm test:*)", "??-+"),
        ("npm test > src/log", "+Bash(npm test:*)", "?+-+"),
        ("npm test > src/log", "+Bash(npm test:*);;+Edit(src/**)", "++-+"),
        ("npm test > .git/config", "+Bash(npm test:*);;+Edit", "??-+"),
        ("npm testx", "+Bash(npm test:*)", "??-+"),
        ("LD_PRELOAD=x npm test", "+Bash(npm test:*)", "??-+"),
        ("CI=1 npm test", "+Bash(npm test:*)", "++-+"),
        ("X=1 npm test", "+Bash(X=1 npm test:*)", "++-+"),
        ("timeout 5 npm test", "+Bash(npm test:*)", "??-+"),
        ("timeout 5 npm test", "+Bash(timeout 5 npm test)", "++-+"),
        ("for i in 1; do ls; done", "+Bash(for i in 1; do ls; done)", "++-+"),
        ("make && make install", "+Bash(make && make install)", "++-+"),
        ("make && make install x", "+Bash(make && make install)", "??-+"),
        ("echo $(x)", "+Bash", "++-+"),
        ("echo $(rm x)", "+Bash;;-Bash(rm:*)", "----"),
        ("export PATH=/x; ls", "+Bash(export:*)", "??-+"),
        ("rm x", "+Bash(rm:*);;-Bash(rm:*)", "----"),
        ("rm x", "+Bash(rm:*);;?Bash(rm:*)", "??-+"),
        ("git push", "+Bash(git:*);;?Bash(git push:*)", "??-+"),
        ("git -C x push", "+Bash(git:*);;-Bash(git push:*)", "----"),
        ("git $X", "+Bash(git:*);;-Bash(git push:*)", "??-+"),
        ("git pull", "+Bash(git:*);;-Bash(git push:*)", "++-+"),
        ("ls", "?Bash(ls:*)", "???+"),
        ("ls", "?Bash", "???+"),
        ("ls", "-Bash", "----"),
        ("ls && rm x", "-Bash(rm:*)", "----"),
        ("/bin/rm x", "-Bash(rm:*)", "----"),
        ("\\rm x", "-Bash(rm:*)", "----"),
        ("r''m x", "-Bash(rm:*)", "----"),
        ("A=1 rm x", "-Bash(rm:*)", "----"),
        ("sudo rm x", "-Bash(rm:*)", "----"),
        ("env -i A=1 rm x", "-Bash(rm:*)", "----"),
        ("find . -exec rm {} +", "-Bash(rm:*)", "----"),
        ("ls | xargs -0 rm", "-Bash(rm:*)", "----"),
        ("bash -c 'cd x && rm -rf y'", "-Bash(rm:*)", "----"),
        ("python3 -c 'import os; os.system(\"rm x\")'", "-Bash(rm:*)", "----"),
        ("(rm x)", "-Bash(rm:*)", "----"),
        ("if true; then rm x; fi", "-Bash(rm:*)", "----"),
        ("echo `rm x`", "-Bash(rm:*)", "----"),
        ("$'rm' x", "-Bash(rm:*)", "----"),
        ("{rm,-rf,x}", "-Bash(rm:*)", "----"),
        ("X=rm; $X y", "-Bash(rm:*)", "----"),
        ("time rm x", "-Bash(rm:*)", "----"),
        ("echo rm", "-Bash(rm:*)", "++++"),
        ("grep -rn rm src", "-Bash(rm:*)", "++++"),
        ("cat .env", "-Read(.env)", "----"),
        ("cat ./src/.env", "-Read(.env)", "----"),
        ("cat .ENV", "-Read(.env)", "----"),
        ("head -1 < .env", "-Read(.env)", "----"),
        ("grep -r KEY .", "-Read(.env)", "???+"),
        ("cat out.txt", "-Read(//etc/passwd)", "----"),
        ("cat /etc/hosts", "+Read(//etc/hosts)", "++++"),
        ("cat out.txt", "+Read(./out.txt)", "???+"),
        ("cat out.txt", "+Read(//etc/passwd)", "++++"),
        ("cat '~/.ssh/id'", "", "++++"),
        ("printf -v PATH x; ls", "+Bash(printf:*)", "??-+"),
        ("printf ?v PATH x; ls", "+Bash(printf:*)", "??-+"),
        ("printf 'xx%n' PATH; ls", "+Bash(printf:*)", "??-+"),
        ("printf '%s\\n' \"$X\"; ls", "+Bash(printf:*)", "++-+"),
        ("find . -exe? rm {} +", "+Bash(find:*)", "++-+"),
        ("find . -exe? rm {} +", "+Bash(find:*);;-Bash(rm:*)", "??-+"),
        ("find . ?exec rm {} +", "+Bash(find:*);;-Bash(rm:*)", "??-+"),
        ("find . $X rm {} +", "+Bash(find:*);;-Bash(rm:*)", "??-+"),
        ("find . -exe? rm {} +", "+Bash(find:*);;-Bash(find * -exec:*)", "??-+"),
        ("git ?C x push", "+Bash(git:*);;-Bash(git push:*)", "??-+"),
        ("git pus? x", "+Bash(git:*);;-Bash(git push:*)", "??-+"),
        ("cat *.env", "-Read(*.env)", "----"),
        ("cat *.env", "-Read(k.env)", "----"),
        ("cat *.env", "?Read(k.env)", "???+"),
        ("cat *.rs", "-Read(.env)", "++++"),
        ("cat -- -k", "-Read(./-k)", "----"),
        ("cat o*.txt", "+Read(//etc/passwd)", "++++"),
        ("git status -vv", "-Read(.env)", "???+"),
        ("git status", "-Read(.env)", "++++"),
        ("git -c alias.x='!rm y' x", "-Bash(rm:*)", "----"),
        ("rm -fr x", "+Bash(rm:*);;-Bash(rm -rf:*)", "----"),
        ("rm -r -f x", "+Bash(rm:*);;-Bash(rm -rf:*)", "----"),
        ("sudo rm --recursive --force x", "-Bash(rm -rf:*)", "----"),
        // A rule for paths speaks of all that a command names.
        ("sed -n p .env", "+Bash(sed:*);;-Read(.env)", "----"),
        ("cp .env x", "+Bash(cp:*);;-Read(.env)", "----"),
        ("cp sub/../.env x", "+Bash(cp:*);;-Read(.env)", "----"),
        ("curl -F f=@x --config=.env y", "+Bash(curl:*);;-Read(.env)", "----"),
        ("dd if=.env", "+Bash(dd:*);;-Read(.env)", "----"),
        ("tool -f.env", "+Bash;;-Read(.env)", "----"),
        ("git show HEAD:.env", "+Bash(git:*);;-Read(.env)", "----"),
        ("sed -n p .e*", "+Bash(sed:*);;-Read(.env)", "----"),
        ("sed -n p many/*", "+Bash(sed:*);;-Read(.env)", "??-+"),
        ("sed -n p many/*", "+Bash(sed:*)", "++-+"),
        ("sed -n p out.txt", "+Bash(sed:*);;-Read(//etc/passwd)", "----"),
        ("cd src && sed -n p ../.env", "+Bash(sed:*);;-Read(./.env)", "----"),
        ("bash -c 'sed -n p .env'", "+Bash;;-Read(.env)", "----"),
        ("if true; then sed -n p .env; fi", "+Bash;;-Read(.env)", "----"),
        ("sed -n p x", "+Bash(sed:*);;-Read(.env)", "++-+"),
        ("echo .env", "-Read(.env)", "++++"),
        ("sed -n p a", "+Bash(sed:*);;?Read(a)", "??-+"),
        ("rm Cargo.lock", "+Bash(rm:*);;-Edit(*.lock)", "----"),
        ("sed -i s/a/b/ Cargo.lock", "+Bash(sed:*);;-Edit(*.lock)", "----"),
        ("sed -n p Cargo.lock", "+Bash(sed:*);;-Edit(*.lock)", "++-+"),
        ("cp x Cargo.lock", "+Bash(cp:*);;-Edit(*.lock)", "----"),
        ("cp Cargo.lock x", "+Bash(cp:*);;-Edit(*.lock)", "++-+"),
        ("git checkout Cargo.lock", "+Bash(git:*);;-Edit(*.lock)", "----"),
        ("git add Cargo.lock", "+Bash(git:*);;-Edit(*.lock)", "++-+"),
        ("npm test", "+Bash(npm:*);;-Edit;;-Read(.env)", "++-+"),
        ("echo x > a", "-Edit(a)", "----"),
        ("cat a", "+Bash(cat:*);;?Read(a)", "???+"),
    ]);
}

#[test]
#[rustfmt::skip]
fn files() {
    let edit = |name: &str| on_path(PathUse::Edit, name);
    let write = |name: &str| on_path(PathUse::Write, name);
    let read = |name: &str| on_path(PathUse::Read, name);
    let grep = |name: &str| on_path(PathUse::Grep, name);
    for (input, rules, want) in [
        (read("src/a"), "", "++++"),
        (read("/home/u/w/src/a"), "", "++++"),
        (read("/home/u/wx/a"), "", "???+"),
        (read("../x"), "", "???+"),
        (read("~/.ssh/id"), "", "???+"),
        (read("~/.ssh/id"), "-Read(~/.ssh/**)", "----"),
        (read("../.ssh/id"), "-Read(~/.ssh/**)", "----"),
        (read("~/w/a"), "", "++++"),
        (read("out.txt"), "", "???+"),
        (read("link/../passwd"), "", "???+"),
        (read("/data/runs/1"), "", "++++"),
        (read("/etc/hosts"), "+Read(//etc/**)", "++++"),
        (read("/etc/../root/x"), "+Read(//etc/**)", "???+"),
        (read(".env"), "?Read(.env);;+Read", "???+"),
        (read(".git/config"), "", "++++"),
        (edit("src/a"), "", "?+-+"),
        (edit("src/a"), "+Edit(src/**)", "++-+"),
        (write("src/a"), "+Edit(src/**)", "++-+"),
        (edit("src/a"), "+Write(src/**)", "?+-+"),
        (edit("src/../b"), "+Edit(src/**)", "?+-+"),
        (edit("src/a"), "-Edit(src/**)", "----"),
        (edit("src/a"), "?Edit", "??-+"),
        (edit("/etc/x"), "", "??-+"),
        (edit("/data/runs/1"), "", "??-+"),
        (edit("out.txt"), "+Edit(./out.txt)", "??-+"),
        (edit(".git/config"), "+Edit", "??-+"),
        (write(".GIT/config"), "+Edit", "??-+"),
        (write("sub/.git/hooks/x"), "", "??-+"),
        (write("hooks/x"), "+Edit", "??-+"),
        (write(".g\u{200d}it/x"), "", "??-+"),
        (write(".rewake/config.toml"), "+Edit(.rewake/**)", "??-+"),
        (write("~/.bashrc"), "+Edit(~/**)", "??-+"),
        (write("~/.zshenv"), "+Edit", "??-+"),
        (write("~/.config/fish/config.fish"), "+Edit", "??-+"),
        (write("~/.config/git/config"), "+Edit", "??-+"),
        (write("~/.ssh/authorized_keys"), "+Edit", "??-+"),
        (write("x/HEAD"), "", "??-+"),
        (write(".github/x"), "", "?+-+"),
        (write(".gitignore"), "", "?+-+"),
        (write(".git/x"), "-Edit(.git)", "----"),
        (grep("src"), "", "++++"),
        (grep("/etc"), "", "???+"),
        (grep("/etc"), "+Read(//etc/**)", "++++"),
        (grep("/etc"), "+Read(//*)", "???+"),
        (grep("link"), "", "???+"),
        (grep("secrets"), "-Read(secrets/**)", "----"),
        (glob("**/*.rs"), "", "++++"),
        (glob("/etc/*"), "", "???+"),
        (glob("/*"), "", "???+"),
        (glob("../*"), "", "???+"),
        (glob("*/../../x"), "", "???+"),
        (glob("{../x,y}"), "", "???+"),
        (glob("{x,/etc}/*"), "", "???+"),
        (glob("src/{a,b}/*.rs"), "", "++++"),
        (glob("link/*"), "", "???+"),
        (on_path(PathUse::Grep, "."), "", "++++"),
        (Permission::None, "", "++++"),
        (skill("a"), "", "??-+"),
        (skill("a"), "+Edit", "??-+"),
        (skill("a"), "-Edit(.rewake/skills/**)", "----"),
        (skill("a"), "-Write", "----"),
        (back(LookBack::Memory, Reach::Session), "", "++++"),
        (back(LookBack::Memory, Reach::Workspace), "", "++++"),
        (back(LookBack::Memory, Reach::All), "", "???+"),
        (back(LookBack::History, Reach::All), "", "???+"),
        (back(LookBack::Memory, Reach::All), "+Memory(all)", "++++"),
        (back(LookBack::Memory, Reach::All), "+Memory", "++++"),
        (back(LookBack::Memory, Reach::All), "+Memory(workspace)", "???+"),
        (back(LookBack::History, Reach::All), "+Memory", "???+"),
        (back(LookBack::Memory, Reach::All), "+Memory;;-Memory(all)", "----"),
        (back(LookBack::Memory, Reach::Workspace), "-Memory(all)", "++++"),
        (back(LookBack::Memory, Reach::Session), "-Memory", "----"),
        (back(LookBack::Memory, Reach::All), "-Memory(session)", "----"),
        (back(LookBack::History, Reach::Workspace), "?History", "???+"),
        (foreign("mcp__a__b"), "", "??-+"),
        (foreign("mcp__a__b"), "+mcp__a__b", "++-+"),
        (foreign("mcp__a__b"), "+mcp__a;;-mcp__a__b", "----"),
        (foreign("mcp__a__b"), "+mcp__a;;?mcp__a__*", "??-+"),
    ] {
        assert_eq!(signs(&input, rules), want, "{input:?} with {rules:?}");
    }
}

#[test]
fn keys_are_seen_and_changed_by_no_call_in_any_mode() {
    let everything = "+Read(//**);;+Edit(//**);;+Bash;;+Full";
    for rules in ["", everything] {
        for input in [
            on_path(PathUse::Read, "kept/keys/openai"),
            on_path(PathUse::Grep, "/home/u/w/KEPT/keys"),
            on_path(PathUse::Write, "kept/x/../keys/openai"),
            on_path(PathUse::Edit, "/alias/kept/keys/openai"),
            bash("cat kept/keys/openai"),
            bash("cd kept && cat keys/openai"),
            bash("cp kept/keys/openai x"),
            bash("tool --file=kept/keys/openai"),
            bash("tool < kept/keys/openai"),
            bash("cat $(echo kept/keys/openai)"),
            bash("python3 -c 'print(open(\"/home/u/w/kept/keys/openai\"))'"),
        ] {
            assert_eq!(signs(&input, rules), "----", "{input:?} with {rules:?}");
        }
        // What goes through folders above them may come by them.
        assert!(!signs(&bash("grep -r sk- kept"), "").starts_with('+'));
    }
    assert_eq!(signs(&on_path(PathUse::Read, "kept/keysmith"), ""), "++++");
}

#[test]
#[rustfmt::skip]
fn rewakes_own_files_are_asked_about_whatever_the_rules() {
    let edit = |name: &str| on_path(PathUse::Edit, name);
    let write = |name: &str| on_path(PathUse::Write, name);
    let everything = "+Edit;;+Edit(**);;+Edit(~/**);;+Edit(//**);;+Edit(conf/rewake/config.toml);;+Write";
    for rules in ["", everything] {
        for input in [
            write("conf/rewake/config.toml"),
            edit("conf/rewake/config.toml"),
            write("/home/u/w/conf/rewake/skills/x/SKILL.md"),
            write("conf/../conf/rewake/runs/1/spec"),
            write("CONF/Rewake/config.toml"),
            // Through a link into them, by the name of a link that leads elsewhere, and where it leads.
            write("settings/config.toml"),
            write("~/own/config.toml"),
            write("dotfiles/own/config.toml"),
            bash("echo x > conf/rewake/config.toml"),
            bash("cd conf && echo x >> rewake/config.toml"),
            bash("ls > settings/config.toml"),
        ] {
            assert_eq!(signs(&input, rules), "??-+", "{input:?} with {rules:?}");
        }
    }
    assert_eq!(signs(&write("conf/rewake/x"), "-Edit(conf/**)"), "----");
    assert_eq!(signs(&write("conf/rewaked/x"), ""), "?+-+");
    assert_eq!(signs(&on_path(PathUse::Read, "conf/rewake/config.toml"), ""), "++++");
    // A skill is saved in the workspace: asked about, as before.
    assert_eq!(signs(&skill("a"), everything), "??-+");
}

#[test]
fn the_repository_around_the_folder_is_the_workspace() {
    let place = Workspace {
        folder: "/home/u/w/sub".into(),
        ..place()
    };
    let read = |path: &str| {
        let permission = on_path(PathUse::Read, path);
        decide(&permission, Mode::Default, &Rules::default(), &place, &DISK)
    };
    assert_eq!(read("../README.md"), Decision::Allow);
    assert_eq!(strictness(&read("../../x")), 1);
}

#[test]
fn always_is_offered_where_one_rule_is_enough() {
    for (line, want) in [
        ("npm test -- x", "Bash(npm test:*)"),
        ("cd src && npm test | head", "Bash(npm test:*)"),
        ("npm test; npm test x", "Bash(npm test:*)"),
        (
            "npm test; cargo test",
            "Bash(npm test:*), Bash(cargo test:*)",
        ),
        ("cd x && npm test && npm test", "Bash(npm test:*)"),
        ("npm test && rm x", ""),
        ("npm test && make > log", ""),
        ("npm test > log", ""),
        ("echo a > src/log", "Edit(src/**)"),
        ("cat /etc/hosts", "Read(//etc/**)"),
        ("cat ~/.ssh/id", "Read(~/.ssh/id)"),
        ("npm test $(x)", ""),
        ("cd hostile && git status", ""),
        ("PATH=/x npm test", ""),
        ("rm x", ""),
        ("python3 x.py", ""),
        ("n\u{440}m test", ""),
        ("cat ../do\u{441}s/x", ""),
    ] {
        let Decision::Ask { rule, .. } = decided(&bash(line), Mode::Default, &Rules::default())
        else {
            panic!("{line} does not ask");
        };
        assert_eq!(
            rule.map(|r| r.to_string()).unwrap_or_default(),
            want,
            "{line}"
        );
    }
}

#[test]
fn the_model_is_told_why() {
    let deny = |line: &str, mode, text| match decided(&bash(line), mode, &rules(text)) {
        Decision::Deny { reason } => reason,
        other => panic!("{other:?}"),
    };
    assert!(deny("rm x", Mode::Plan, "").contains("plan mode is on"));
    assert!(deny("wc -l *.rs", Mode::Plan, "").contains("write `./*.rs`"));
    assert!(deny("rm x", Mode::Default, "-Bash(rm:*)").contains("`Bash(rm:*)`"));
    let ask = |line: &str| match decided(&bash(line), Mode::Default, &Rules::default()) {
        Decision::Ask { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        ask("for i in 1 2; do ls; done"),
        "it contains a loop, so no rule can be offered"
    );
    assert_eq!(
        ask("(ls)"),
        "it contains a subshell, a function or an array, so no rule can be offered"
    );
    assert!(ask("cat out.txt").contains("leads out of the workspace to `/etc/passwd`"));
    assert!(ask("npm test").contains("`npm`"));
}

#[test]
fn tools_that_walk_can_ask_what_is_hidden() {
    let rules = rules("-Read(.env);;-Read(secrets/**);;+Read(a)");
    let bases = place().bases(&resolve);
    assert!(rules.hide("/home/u/w/x/.env", &bases));
    assert!(rules.hide("/home/u/w/secrets/a/b", &bases));
    assert!(!rules.hide("/home/u/w/a", &bases));
}

#[test]
fn in_a_worktree_the_rules_of_the_project_refuse_and_what_is_beside_it_is_rewakes_own() {
    let place = |project: Option<&str>| Workspace {
        folder: "/home/u/data/worktrees/1/fix".into(),
        root: "/home/u/data/worktrees/1/fix".into(),
        project: project.map(str::to_string),
        home: Some("/home/u".into()),
        rewakes_own: vec!["/home/u/data".into()],
        ..Workspace::default()
    };
    let decided = |path: &str, rules_text: &str, project: Option<&str>| {
        let permission = on_path(PathUse::Edit, path);
        let rules = rules(rules_text);
        decide(
            &permission,
            Mode::AcceptEdits,
            &rules,
            &place(project),
            &DISK,
        )
    };
    let is = |path: &str, rules: &str| match decided(path, rules, Some("/home/u/w")) {
        Decision::Allow => '+',
        Decision::Ask { .. } => '?',
        Decision::Deny { .. } => '-',
    };
    assert_eq!(is("src/a.rs", ""), '+');
    for rule in [
        "Edit(~/w/src/**)",
        "Edit(/home/u/w/src)",
        "Edit(src/**)",
        "Edit(~/w)",
    ] {
        assert_eq!(is("src/a.rs", &format!("-{rule}")), '-', "{rule}");
    }
    assert_eq!(is("lib/a.rs", "-Edit(~/w/src/**)"), '+');
    // A rule that allows does not follow.
    assert_eq!(is("/home/u/w/a.rs", ""), '?');
    assert_eq!(is(".git/config", "+Edit(~/w/**)"), '?');
    for own in ["../.notes/fix", "../other/a", "../../../rewake.db"] {
        assert_eq!(is(own, "+Edit(//**)"), '?', "{own}");
    }
    // A folder there that is not a worktree of rewake belongs to rewake itself.
    assert!(matches!(
        decided("src/a.rs", "", None),
        Decision::Ask { .. }
    ));
}

const PIECES: [&str; 34] = [
    "ls",
    "cat",
    "rm",
    "git",
    "status",
    "push",
    "npm",
    "test",
    "sudo",
    "cd",
    "src",
    "..",
    "x",
    "/etc/passwd",
    "~",
    "$X",
    "'a b'",
    "\"$Y\"",
    "-rf",
    "-C",
    "*",
    ";",
    "&&",
    "|",
    "&",
    "\n",
    ">",
    "<",
    "out.txt",
    "2>&1",
    "A=1",
    "$(ls)",
    "(",
    "\\",
];
const RULES: [&str; 14] = [
    "Bash",
    "Bash(rm:*)",
    "Bash(git status:*)",
    "Bash(git push)",
    "Bash(npm test:*)",
    "Bash(* x)",
    "Bash(sudo:*)",
    "Bash(cat:*)",
    "Read",
    "Read(src/**)",
    "Read(//etc/**)",
    "Edit",
    "Edit(x)",
    "Write",
];

fn line() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..10).prop_map(|p| p.join(" "))
}

fn some_rules() -> impl Strategy<Value = Rules> {
    let list = || {
        let rule = prop::sample::select(&RULES[..]).prop_map(|r| Rule::parse(r).unwrap());
        prop::collection::vec(rule, 0..3)
    };
    (list(), list(), list()).prop_map(|(allow, ask, deny)| Rules { allow, ask, deny })
}

proptest! {
    #[test]
    fn another_deny_rule_never_allows_more(
        line in line(), rules in some_rules(), more in prop::sample::select(&RULES[..]), mode in 0_usize..4,
    ) {
        let before = strictness(&decided(&bash(&line), MODES[mode], &rules));
        let mut stricter = rules;
        stricter.deny.push(Rule::parse(more).unwrap());
        prop_assert!(strictness(&decided(&bash(&line), MODES[mode], &stricter)) >= before);
    }

    #[test]
    fn another_allow_rule_never_denies_more(
        line in line(), rules in some_rules(), more in prop::sample::select(&RULES[..]), mode in 0_usize..4,
    ) {
        let before = strictness(&decided(&bash(&line), MODES[mode], &rules));
        let mut milder = rules;
        milder.allow.push(Rule::parse(more).unwrap());
        prop_assert!(strictness(&decided(&bash(&line), MODES[mode], &milder)) <= before);
    }

    #[test]
    fn bypass_never_asks(line in line(), rules in some_rules()) {
        let decision = decided(&bash(&line), Mode::BypassPermissions, &rules);
        prop_assert!(strictness(&decision) != 1);
    }

    #[test]
    fn plan_runs_only_what_looks(line in line(), rules in some_rules()) {
        if decided(&bash(&line), Mode::Plan, &rules) == Decision::Allow {
            for command in shell::split(&line).unwrap() {
                prop_assert!(read_only_commands::reads(&command).is_ok() || cd_target(&command).is_some());
                prop_assert!(command.redirects.iter().all(|r| !r.writes));
            }
        }
    }

    #[test]
    fn plan_never_changes_a_file(path in "[a-z./~]{1,12}", rules in some_rules()) {
        let permission = on_path(PathUse::Write, &path);
        prop_assert_eq!(strictness(&decided(&permission, Mode::Plan, &rules)), 2);
    }

    #[test]
    fn an_offered_rule_settles_the_question(line in line(), rules in some_rules(), mode in 0_usize..4) {
        if let Decision::Ask { rule: Some(rule), .. } = decided(&bash(&line), MODES[mode], &rules) {
            prop_assert_eq!(&RuleOffer::parse(&rule.to_string()).unwrap(), &rule);
            let mut with = rules;
            with.allow.extend(rule.rules().iter().cloned());
            prop_assert_eq!(decided(&bash(&line), MODES[mode], &with), Decision::Allow);
        }
    }
}

/// A model that could run this program could answer its own questions.
#[test]
fn a_line_that_names_this_program_is_asked_about_whatever_is_allowed() {
    let broad = rules("+Bash;;+Full;;+Bash(sh:*);;+Bash(env:*)");
    let sandboxed = Workspace {
        sandbox: Sandbox::WHOLE,
        ..place()
    };
    for line in [
        "rewake allow @here",
        "/usr/bin/rewake allow @here 3.0",
        "make && rewake go @here",
        "sh -c 'rewake allow @here'",
        "env -u REWAKE_RUN rewake send @here hi",
        "$(echo rewake) allow @here",
        "re''wake allow @here",
        "r\\ewake allow @here",
        "x=$(date); \"rew\"ake allow @here",
    ] {
        for (mode, place) in [
            (Mode::Default, place()),
            (Mode::AcceptEdits, place()),
            (Mode::Default, sandboxed.clone()),
            (Mode::AcceptEdits, sandboxed.clone()),
        ] {
            let decision = decide(&bash(line), mode, &broad, &place, &DISK);
            let is_asked = matches!(decision, Decision::Ask { rule: None, .. });
            assert!(is_asked, "{line} in {mode:?}: {decision:?}");
        }
    }
    // What only looks, what is named by a rule, and what has the name in another word.
    let named = rules("+Bash(rewake history:*);;+Bash(cargo:*)");
    for line in [
        "grep rewake README.md",
        "rewake history",
        "cargo test -p rewake-core",
        "cargo test --manifest-path /src/rewake/Cargo.toml",
    ] {
        let decision = decide(&bash(line), Mode::Default, &named, &place(), &DISK);
        assert_eq!(decision, Decision::Allow, "{line}");
    }
}

#[test]
fn a_page_needs_its_host_approved_or_a_rule_that_covers_it() {
    let judged = |host: &str, usual_port, mode, rules: &str, page: PageFacts| {
        let permission = Permission::Fetch {
            host: host.into(),
            url: format!("https://{host}/"),
            usual_port,
        };
        let place = Workspace { page, ..place() };
        strictness(&decide(
            &permission,
            mode,
            &self::rules(rules),
            &place,
            &DISK,
        ))
    };
    let default = PageFacts::default;
    let approved = || PageFacts {
        host_is_approved: true,
        ..default()
    };
    let carries = || PageFacts {
        host_is_approved: true,
        carries: Some("its address carries data".into()),
    };
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::Plan] {
        assert_eq!(judged("a.test", true, mode, "", default()), 1);
        assert_eq!(judged("a.test", true, mode, "", approved()), 0);
        assert_eq!(judged("a.test", false, mode, "", approved()), 1);
        for (rules, host, want) in [
            ("+WebFetch", "a.test", 0),
            ("+WebFetch(domain:a.test)", "a.test", 0),
            ("+WebFetch(domain:A.Test)", "a.test", 0),
            ("+WebFetch(domain:a.test)", "b.a.test", 1),
            ("+WebFetch(domain:a.test)", "xa.test", 1),
            ("+WebFetch(domain:*.a.test)", "b.a.test", 0),
            ("+WebFetch(domain:*.a.test)", "a.test", 1),
            ("+WebFetch(domain:*.a.test)", "xa.test", 1),
            ("+WebFetch;;-WebFetch(domain:a.test)", "a.test", 2),
            ("+WebFetch;;-WebFetch(domain:a.test)", "b.a.test", 2),
            ("+WebFetch;;-WebFetch(domain:a.test)", "xa.test", 0),
            ("+WebFetch;;?WebFetch(domain:a.test)", "a.test", 1),
            ("?WebFetch;;-WebFetch(domain:*.a.test)", "b.a.test", 2),
            ("+Bash(curl:*);;+Read", "a.test", 1),
        ] {
            assert_eq!(
                judged(host, false, mode, rules, default()),
                want,
                "{rules} {host}"
            );
        }
        assert_eq!(judged("a.test", true, mode, "+WebFetch", carries()), 1);
    }
    let bypass = |rules| judged("a.test", false, Mode::BypassPermissions, rules, carries());
    assert_eq!(
        (bypass(""), bypass("?WebFetch"), bypass("-WebFetch")),
        (0, 0, 2)
    );
    let search = |mode, rules: &str, page: PageFacts| {
        let permission = Permission::Search { query: "q".into() };
        let place = Workspace { page, ..place() };
        let rules = self::rules(rules);
        strictness(&decide(&permission, mode, &rules, &place, &DISK))
    };
    for mode in [Mode::Default, Mode::AcceptEdits, Mode::Plan] {
        assert_eq!(search(mode, "", default()), 1);
        assert_eq!(search(mode, "+WebFetch", default()), 1);
        assert_eq!(search(mode, "+WebSearch", default()), 0);
        assert_eq!(search(mode, "+WebSearch", carries()), 1);
        assert_eq!(search(mode, "+WebSearch;;?WebSearch", default()), 1);
        assert_eq!(search(mode, "+WebSearch;;-WebSearch", default()), 2);
    }
    assert_eq!(search(Mode::BypassPermissions, "", default()), 0);
    for wrong in [
        "WebSearch(x)",
        "WebFetch(a.test)",
        "WebFetch(domain:)",
        "WebFetch(domain:a.test/x)",
        "WebFetch(domain:ä.test)",
    ] {
        assert!(Rule::parse(wrong).is_err(), "{wrong}");
    }
}
