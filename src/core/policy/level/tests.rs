//! Tables of `(line, access, rules) -> what each mode decides`, for each kind of system.

use proptest::prelude::*;

use super::super::tests::{DISK, place, rules};
use super::super::{Decision, Judgement, Workspace, judge};
use super::*;
use crate::core::permission::Permission;

/// A kernel with all that is needed.
const WHOLE: Sandbox = Sandbox::WHOLE;

/// Protected files are only compared afterwards.
const WATCHED: Sandbox = Sandbox {
    workspace: false,
    hides: false,
    ..WHOLE
};

/// The sandbox is applied, but no line runs without approval because of it.
const OLD: Sandbox = Sandbox {
    read: false,
    ..WATCHED
};

fn judged(
    line: &str,
    access: Option<Access>,
    mode: Mode,
    text: &str,
    sandbox: Sandbox,
) -> Judgement {
    judged_so(line, access, false, mode, text, sandbox)
}

fn judged_so(
    line: &str,
    access: Option<Access>,
    background: bool,
    mode: Mode,
    text: &str,
    sandbox: Sandbox,
) -> Judgement {
    let permission = Permission::Command {
        line: line.to_string(),
        access,
        background,
    };
    let place = Workspace { sandbox, ..place() };
    judge(&permission, mode, &rules(text), &place, &DISK)
}

/// Its changes of protected files are reported at its end and not undone: a person may have made
/// them.
#[test]
fn a_command_in_the_background_writes_in_the_workspace_only_when_that_was_allowed() {
    let judged = |access, text| {
        let mode = Mode::AcceptEdits;
        let judgement = judged_so("npm run dev", access, true, mode, text, WHOLE);
        (
            matches!(judgement.decision, Decision::Allow),
            judgement.access,
        )
    };
    assert_eq!(judged(None, ""), (true, Some(Access::Read)));
    let workspace = Some(Access::Workspace);
    assert_eq!(judged(workspace, ""), (false, workspace));
    let rule = "+Bash(npm run dev:*)";
    assert_eq!(judged(None, rule), (true, workspace));
    assert_eq!(judged(workspace, rule), (true, workspace));
}

/// Each mode's decision and the first letter of the access, in the order of `Mode::ALL`.
fn signs(line: &str, access: Option<Access>, text: &str, sandbox: Sandbox) -> String {
    let sign = |mode: &Mode| {
        let judgement = judged(line, access, *mode, text, sandbox);
        let decision = match judgement.decision {
            Decision::Allow => '+',
            Decision::Ask { .. } => '?',
            Decision::Deny { .. } => '-',
        };
        let access = judgement.access.map_or("", Access::name);
        format!("{decision}{}", &access[..1])
    };
    Mode::ALL.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(sandbox: Sandbox, rows: &[(&str, Option<Access>, &str, &str)]) {
    for (line, access, rules, want) in rows {
        let found = signs(line, *access, rules, sandbox);
        assert_eq!(
            found, *want,
            "{line:?} {access:?} with {rules:?} in {sandbox:?}"
        );
    }
}

const READ: Option<Access> = Some(Access::Read);
const WORKSPACE: Option<Access> = Some(Access::Workspace);
const NETWORK: Option<Access> = Some(Access::Network);
const FULL: Option<Access> = Some(Access::Full);

#[test]
#[rustfmt::skip]
fn a_sandboxed_command_runs_unasked_with_the_access_of_the_mode() {
    // default, acceptEdits, plan, bypassPermissions
    for line in ["ls", "cat src/*.rs", "rm -rf /", "for f in *; do sed -n 1p $f; done", "$X", "cat /etc/passwd",
                 "echo x > .git/config", "curl x", "cargo test", "find . -exec sh -c x \\;", "python3 - <<E\nx\nE"] {
        check(WHOLE, &[
            (line, None, "", "+r +w +r +f"),
            (line, READ, "", "+r +r +r +r"),
            (line, NETWORK, "", "?n ?n -n +n"),
            (line, FULL, "", "?f ?f -f +f"),
        ]);
    }
    check(WHOLE, &[
        ("touch x", WORKSPACE, "", "?w +w -w +w"),
        ("ls", WORKSPACE, "", "+w +w -w +w"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_watching_sandbox_grants_read_and_an_old_kernel_nothing() {
    check(WATCHED, &[
        ("rm x", None, "", "+r +r +r +f"),
        ("touch x", WORKSPACE, "", "?w ?w -w +w"),
        // Results of the mode before there was a sandbox.
        ("ls > x", None, "", "+r +w +r +f"),
        ("npm test", WORKSPACE, "+Bash(npm test:*)", "+w +w -w +w"),
    ]);
    check(OLD, &[
        ("ls", None, "", "+w +w +r +f"),
        ("rm x", None, "", "?w ?w -r +f"),
        ("rm x", READ, "", "?r ?r -r +r"),
        ("sed -n 1p a", READ, "", "?r ?r -r +r"),
        ("npm test", None, "+Bash(npm test:*)", "+w +w -r +f"),
        ("rm x", FULL, "", "?f ?f -f +f"),
    ]);
    check(Sandbox::default(), &[
        ("ls", None, "", "+f +f +f +f"),
        ("rm x", None, "", "?f ?f -f +f"),
        ("rm x", READ, "", "?f ?f -f +f"),
        ("npm test", READ, "+Bash(npm test:*)", "+f +f -f +f"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_bash_rule_gives_at_most_workspace() {
    check(WHOLE, &[
        ("npm test", None, "+Bash(npm test:*)", "+w +w +r +f"),
        ("npm test", WORKSPACE, "+Bash(npm test:*)", "+w +w -w +w"),
        ("npm test", NETWORK, "+Bash(npm test:*)", "?n ?n -n +n"),
        ("npm test", FULL, "+Bash(npm test:*)", "?f ?f -f +f"),
        ("npm test", FULL, "+Bash", "?f ?f -f +f"),
        ("npm test", READ, "+Bash(npm test:*)", "+r +r +r +r"),
        ("npm test; rm x", None, "+Bash(npm test:*)", "+r +w +r +f"),
        ("npm test; rm x", WORKSPACE, "+Bash(npm test:*)", "?w +w -w +w"),
        ("ls > src/log", None, "+Edit(src/**)", "+w +w +r +f"),
        // A rule does not give a listed command more access.
        ("ls", None, "+Bash(ls:*)", "+r +w +r +f"),
    ]);
}

#[test]
#[rustfmt::skip]
fn network_and_full_rules_give_that_much() {
    check(WHOLE, &[
        ("npm i", None, "+Network(npm i:*)", "+n +n +r +f"),
        ("npm i", NETWORK, "+Network(npm i:*)", "+n +n -n +n"),
        ("npm i", FULL, "+Network(npm i:*)", "?f ?f -f +f"),
        ("npm i", WORKSPACE, "+Network(npm i:*)", "+w +w -w +w"),
        ("docker ps", None, "+Full(docker:*)", "+f +f +r +f"),
        // Each part needs a rule of that level, and each word is to be literal.
        ("npm i && rm x", NETWORK, "+Network(npm i:*)", "?n ?n -n +n"),
        ("npm i && npm test", None, "+Network(npm i:*);;+Bash(npm test:*)", "+w +w +r +f"),
        ("npm i $X", NETWORK, "+Network(npm i:*)", "?n ?n -n +n"),
        // The file that it writes is judged separately.
        ("npm i > /etc/x", FULL, "+Full(npm i:*)", "?f ?f -f +f"),
        // More than the mode gives only where no rule refuses it.
        ("docker ps", None, "+Full(docker:*);;-Full", "+n +n +r -f"),
        ("docker ps", FULL, "+Full(docker:*);;-Full", "-f -f -f -f"),
        ("docker ps", FULL, "+Full(docker:*);;?Full(docker:*)", "?f ?f -f +f"),
        ("ls", None, "-Full", "+r +w +r -f"),
        ("ls", None, "-Network", "+r +w +r -f"),
    ]);
}

#[test]
#[rustfmt::skip]
fn rules_that_deny_or_ask_hold_in_the_sandbox() {
    check(WHOLE, &[
        ("rm x", None, "-Bash(rm:*)", "-r -w -r -f"),
        ("ls; (rm x)", None, "-Bash(rm:*)", "-r -w -r -f"),
        ("for i in 1; do rm x; done", None, "-Bash(rm:*)", "-r -w -r -f"),
        ("git $X", None, "-Bash(git push:*)", "?r ?w ?r +f"),
        ("ls", None, "-Bash", "-r -w -r -f"),
        ("ls", None, "?Bash", "?r ?w ?r +f"),
        ("git push", FULL, "-Bash(git push:*)", "-f -f -f -f"),
        ("git log", None, "?Bash(git:*)", "?r ?w ?r +f"),
        ("sed -n p .env", None, "-Read(.env)", "-r -w -r -f"),
        ("cp ./.env x", None, "-Read(.env)", "-r -w -r -f"),
        ("x --file=src/.env", None, "-Read(.env)", "-r -w -r -f"),
        ("(sed -n p .env)", None, "-Read(.env)", "-r -w -r -f"),
        ("cat *.env", None, "-Read(k.env)", "-r -w -r -f"),
        ("cat .env", None, "-Read", "-r -w -r -f"),
        ("sed p < .env", None, "-Read(.env)", "-r -w -r -f"),
        ("cd src && sed p .env", None, "-Read(./src/.env)", "-r -w -r -f"),
        ("echo .env", None, "-Read(.env)", "+r +w +r +f"),
        ("cat a", None, "?Read(a)", "?r ?w ?r +f"),
        ("grep -r KEY .", None, "-Read(.env)", "+r +w +r +f"),
        ("make a", None, "-Edit(a)", "+r -w +r -f"),
        ("echo x > a", None, "-Edit(a)", "-r -w -r -f"),
    ]);
    check(WATCHED, &[("grep -r KEY .", None, "-Read(.env)", "?r ?r ?r +f")]);
}

#[test]
fn a_question_names_the_access_and_why() {
    let why = |line: &str, access, mode| match judged(line, access, mode, "", WHOLE).decision {
        Decision::Ask { why, .. } => why,
        other => panic!("{other:?}"),
    };
    let asked = why("npm test", WORKSPACE, Mode::Default);
    assert!(asked.starts_with("it writes in the workspace; "), "{asked}");
    assert!(asked.contains("`npm`"), "{asked}");
    let asked = why("npm install", NETWORK, Mode::AcceptEdits);
    assert!(asked.contains("it uses the network; services on this machine and cloud metadata"));
    assert_eq!(
        why("docker ps", FULL, Mode::Default),
        "it runs without a sandbox"
    );
    let denied = judged("touch x", WORKSPACE, Mode::Plan, "", WHOLE).decision;
    let Decision::Deny { reason } = denied else {
        panic!("{denied:?}")
    };
    assert!(
        reason.contains("plan mode is on") && reason.contains("access read"),
        "{reason}"
    );
}

#[test]
#[rustfmt::skip]
fn commands_the_sandbox_cannot_run_ask_for_full_access() {
    for line in ["git config user.name x", "git config --global a.b c", "git config --unset a.b", "git config set a.b c",
                 "git -C sub config a.b c", "git branch -u origin/main", "git branch -uorigin/main",
                 "git branch --set-upstream-to=origin/main side", "git branch --unset-upstream", "git branch -m a b",
                 "git checkout --track origin/x", "git switch -t origin/x", "git remote add o https://x/y.git",
                 "git remote set-url o x", "git remote rm o", "git worktree add ../side", "git worktree remove /tmp/x",
                 "git worktree remove side", "git worktree move side sub/side",
                 "git submodule init", "git sparse-checkout set a", "pre-commit install",
                 "cargo build && git config a.b c", "cd src && git worktree add ../../x"] {
        check(WHOLE, &[
            (line, None, "", "?f ?f -f +f"),
            (line, None, "+Bash(git:*);;+Bash(pre-commit:*)", "?f ?f -f +f"),
            // The model gets the access that it names.
            (line, READ, "", "+r +r +r +r"),
            (line, WORKSPACE, "", "?w +w -w +w"),
            (line, None, "-Full", "-f -f -f -f"),
        ]);
    }
    for line in ["git config --get user.name", "git config user.name", "git config -l", "git config --list --show-origin",
                 "git config get a.b", "git config -f x.cfg a.b c", "git config a.b $X", "git branch -d x", "git branch x",
                 "git branch -vv", "git remote -v", "git remote show o", "git worktree list", "git worktree add side",
                 "git worktree add -b x sub/side main", "git submodule status", "git checkout -b x", "git checkout -- -t",
                 "git commit -m 'config a b'", "echo git config a b", "$GIT config a b", "pre-commit run"] {
        check(WHOLE, &[(line, None, "", "+r +w +r +f")]);
    }
    check(WATCHED, &[("git config a.b c", None, "", "?f ?f -f +f")]);
    check(OLD, &[("git config a.b c", None, "", "?f ?f -f +f")]);
    check(WHOLE, &[("git remote add a b", None, "+Full(git remote:*)", "+f +f -f +f")]);
}

#[test]
fn more_access_is_offered_only_where_the_rule_would_give_it() {
    let offered = |line, access, text, mode| match judged(line, access, mode, text, WHOLE).decision
    {
        Decision::Ask { rule, .. } => rule.map(|r| r.to_string()).unwrap_or_default(),
        other => panic!("{line}: {other:?}"),
    };
    let table = [
        (
            "cargo fetch --locked",
            NETWORK,
            "",
            "Network(cargo fetch:*)",
        ),
        ("docker ps", FULL, "", "Full(docker ps:*)"),
        ("git push origin main", FULL, "", "Full(git push:*)"),
        ("git remote add a b", None, "", "Full(git remote:*)"),
        (
            "cargo fetch && npm install x",
            NETWORK,
            "",
            "Network(cargo fetch:*), Network(npm install:*)",
        ),
        ("cd sub && cargo fetch", NETWORK, "", ""),
        // Not only such parts, not literal, or a program that runs anything.
        ("cargo fetch && rm x", NETWORK, "", ""),
        ("cargo fetch $X", NETWORK, "", ""),
        ("cargo fetch *", NETWORK, "", ""),
        ("(cargo fetch)", NETWORK, "", ""),
        ("sh -c x", FULL, "", ""),
        ("cargo fetch > /etc/x", NETWORK, "", ""),
        // A rule contradicts it.
        ("cargo fetch", NETWORK, "?Network(cargo fetch:*)", ""),
        ("cargo fetch", NETWORK, "?Bash(cargo:*)", ""),
        ("cargo fetch", NETWORK, "?Network", ""),
        // It requests less access than the denied one.
        ("cargo fetch", NETWORK, "-Full", "Network(cargo fetch:*)"),
    ];
    for (line, access, text, want) in table {
        for mode in [Mode::Default, Mode::AcceptEdits] {
            assert_eq!(
                offered(line, access, text, mode),
                want,
                "{line} with {text:?}"
            );
        }
    }
    let why = judged("git config a.b c", None, Mode::Default, "", WHOLE).decision;
    let Decision::Ask { why, .. } = why else {
        panic!("{why:?}")
    };
    assert_eq!(
        why,
        "it runs without a sandbox; `git config` changes the settings of git, which no command in the sandbox may"
    );
}

proptest! {
    /// A call gets the access that it names, in every mode and sandbox; without a sandbox it is
    /// `full`.
    #[test]
    fn the_access_is_the_one_that_is_asked_for(line in "[a-z $;|>*./-]{0,20}", mode in 0_usize..4, level in 0_usize..4) {
        let asked = Access::ALL[level];
        for sandbox in [WHOLE, WATCHED, OLD] {
            let judged = judged(&line, Some(asked), Mode::ALL[mode], "+Bash", sandbox);
            prop_assert_eq!(judged.access, Some(asked));
        }
        let judged = judged(&line, Some(asked), Mode::ALL[mode], "+Bash", Sandbox::default());
        prop_assert_eq!(judged.access, Some(Access::Full));
    }

    /// All modes but one ask before a command runs without a sandbox or with the network.
    #[test]
    fn beyond_workspace_it_is_always_asked(line in "[a-z $;|>*./-]{0,20}", mode in 0_usize..3, level in 2_usize..4) {
        for sandbox in [WHOLE, WATCHED, OLD] {
            let judged = judged(&line, Some(Access::ALL[level]), Mode::ALL[mode], "+Bash", sandbox);
            prop_assert!(judged.decision != Decision::Allow);
        }
    }
}

/// Returns what a mode allows without a question, as a row of the README's table.
fn row_of_readme(mode: Mode) -> String {
    let place = Workspace {
        sandbox: WHOLE,
        ..place()
    };
    let runs = |permission: &Permission| {
        let judgement = judge(permission, mode, &rules(""), &place, &DISK);
        matches!(judgement.decision, Decision::Allow)
    };
    let file = |path_use| {
        runs(&Permission::Path {
            path_use,
            path: "src/a.rs".into(),
        })
    };
    let name = match mode {
        Mode::BypassPermissions => "`bypassPermissions` (`--yolo`)".to_string(),
        mode => format!("`{}`", mode.name()),
    };
    let files = match (file(PathUse::Read), file(PathUse::Edit)) {
        (true, true) => "read, change",
        (true, false) => "read",
        (false, _) => "none",
    };
    let command = |access: &&Access| {
        runs(&Permission::Command {
            line: "sh build.sh".into(),
            access: Some(**access),
            background: false,
        })
    };
    let commands = match Access::ALL.iter().rev().find(command) {
        Some(Access::Full) => "any, WITHOUT the sandbox".to_string(),
        Some(access) => format!("any, with access `{}`", access.name()),
        None => "none".to_string(),
    };
    format!("| {name} | {files} | {commands} |")
}

#[test]
fn the_readme_says_what_each_mode_gives() {
    let readme = include_str!("../../../../README.md");
    for mode in Mode::ALL {
        let row = row_of_readme(mode);
        assert!(readme.contains(&row), "the README lacks this row: {row}");
    }
}
