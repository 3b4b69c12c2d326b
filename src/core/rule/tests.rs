//! Tables of what rules allow and refuse.

use super::*;
use crate::core::access::Access as SandboxAccess;

fn rule(text: &str) -> Rule {
    Rule::parse(text).unwrap()
}

fn words(line: &str) -> Vec<Word> {
    shell::split(line).unwrap().remove(0).words
}

fn bases() -> Bases {
    Bases {
        folders: vec!["/home/u/w/sub".into()],
        roots: vec!["/home/u/w".into()],
        homes: vec!["/home/u".into()],
        ..Bases::default()
    }
}

#[test]
fn rules_are_shown_as_they_were_written() {
    for text in [
        "Bash",
        "Bash(git status:*)",
        "Bash(npm run test)",
        "Bash(git * --stat)",
        "Bash(a && b)",
        "Edit(src/**)",
        "Read(~/.ssh/**)",
        "Read(//etc/**)",
        "Write(./x)",
        "Grep",
        "Glob",
        "mcp__github__search",
        "mcp__github",
        "mcp__github__*",
        "Edit(app/[id]/(x)/**)",
        "Network(npm install:*)",
        "Full(docker:*)",
        "Full",
        "Memory",
        "Memory(all)",
        "History(workspace)",
    ] {
        assert_eq!(rule(text).to_string(), text);
    }
}

#[test]
fn a_rule_that_is_wrong_says_why() {
    for (text, why) in [
        ("Bsah(ls)", "the nearest is Bash"),
        ("bash", "the nearest is Bash"),
        ("Deploy", "there are Bash, Network, Full, Read"),
        ("Netwrok(x)", "the nearest is Network"),
        ("Network($X:*)", "lines of literal words"),
        ("Full(a `b`)", "lines of literal words"),
        (
            "Memory(al)",
            "the nearest is all; there are session, workspace, all",
        ),
        ("Memory(x/y)", "is not how far a tool looks back"),
        ("", "there is no rule"),
        ("Bash(ls", "closing `)`"),
        ("Bash(ls) x", "closing `)`"),
        ("Bash()", "nothing in its parentheses"),
        ("Bash(:*)", "must follow the first words"),
        ("Bash(git:* status)", "only be at its end"),
        ("Bash(a && b:*)", "one simple command"),
        ("Bash($(x):*)", "one simple command"),
        ("Read(a/../b)", "`..` has no meaning"),
        ("Read(*.{a,b})", "one rule for each"),
        ("Read(~bob/x)", "another user"),
        ("mcp__", "name of the server"),
        ("mcp__a__b(x)", "tools of a server"),
        ("mcp__a__b(spec:0123)", "16 or more hex digits"),
        ("Bash(a\nb)", "control characters"),
    ] {
        let error = Rule::parse(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    assert!(
        Rule::parse(&format!("Bash({})", "x".repeat(5000)))
            .unwrap_err()
            .len()
            < 200
    );
}

#[test]
fn allow_rules_match_narrowly() {
    for (text, line, want) in [
        ("Bash", "anything at all", true),
        ("Bash(*)", "anything at all", true),
        ("Bash(git status:*)", "git status", true),
        ("Bash(git status:*)", "git status -s", true),
        ("Bash(git status:*)", "git statusx", false),
        ("Bash(git status:*)", "git -C x status", false),
        ("Bash(git status:*)", "git", false),
        ("Bash(npm run test)", "npm run test", true),
        ("Bash(npm run test)", "npm 'run'  test", true),
        ("Bash(npm run test)", "npm run test x", false),
        ("Bash(npm test:*)", "npm test $FILE", true),
        ("Bash(npm test:*)", "npm $X", false),
        ("Bash(rm:*)", "\\rm x", false),
        ("Bash(rm:*)", "r''m x", false),
        ("Bash(rm:*)", "/bin/rm x", false),
        ("Bash(rm:*)", "RM x", false),
        ("Bash(git * --stat)", "git log -1 --stat", true),
        ("Bash(git * --stat)", "git log --stat x", false),
        ("Bash(cargo t*:*)", "cargo test x", true),
        ("Bash(cargo t*:*)", "cargo build", false),
        ("Bash(* --version)", "foo --version", true),
        ("Edit", "git status", false),
    ] {
        assert_eq!(
            rule(text).allows_words(&words(line)),
            want,
            "{text}: {line}"
        );
    }
}

#[test]
fn deny_rules_match_widely() {
    use Likeness::*;
    for (text, line, want) in [
        ("Bash(rm:*)", "rm -rf x", Yes),
        ("Bash(rm:*)", "/bin/rm x", Yes),
        ("Bash(/bin/rm:*)", "rm x", Yes),
        ("Bash(rm:*)", "\\rm x", Yes),
        ("Bash(rm:*)", "r\"\"m x", Yes),
        ("Bash(rm:*)", "RM x", Yes),
        ("Bash(rm:*)", "A=1 rm x", Yes),
        ("Bash(rm:*)", "rmdir x", No),
        ("Bash(rm:*)", "echo rm", No),
        ("Bash(git push:*)", "git push", Yes),
        ("Bash(git push:*)", "git -C x --no-pager push -f", Yes),
        ("Bash(git push:*)", "git log push", No),
        ("Bash(git branch -D:*)", "git branch -f -D x", Yes),
        ("Bash(git branch -D:*)", "git branch -d x", No),
        ("Bash(git push:*)", "git $X", Maybe),
        ("Bash(git push:*)", "git $EMPTY push", Maybe),
        ("Bash(git push:*)", "git pus?", Maybe),
        ("Bash(git push:*)", "git {push,-f}", Maybe),
        ("Bash(git push)", "git push -f", No),
        ("Bash(git push)", "git push $X", Maybe),
        ("Bash", "x", Yes),
        ("Read", "x", No),
    ] {
        assert_eq!(
            rule(text).refuses_words(&words(line)),
            want,
            "{text}: {line}"
        );
    }
    assert!(rule("Bash(git push:*)").refuses_text("(git -C x push)"));
    assert!(!rule("Bash(git push:*)").refuses_text("(git pull; echo push)"));
}

#[test]
fn paths_are_anchored() {
    for (text, path, allows, refuses) in [
        ("Read(src/**)", "/home/u/w/sub/src/a", true, true),
        ("Read(src/**)", "/home/u/w/src/a", false, true),
        ("Read(src/**)", "/x/src/a", false, false),
        ("Read(src/**)", "/home/u/w/sub/SRC/a", false, true),
        ("Read(.env)", "/home/u/w/sub/a/.env", true, true),
        ("Read(.env)", "/other/.env", false, true),
        ("Read(.env)", "/other/.env.example", false, false),
        ("Read(./x.md)", "/home/u/w/sub/x.md", true, true),
        ("Read(./x.md)", "/home/u/w/sub/a/x.md", false, false),
        ("Read(secrets/)", "/home/u/w/sub/secrets/a/b", true, true),
        ("Read(secrets)", "/home/u/w/sub/secrets/a/b", false, true),
        ("Read(~/.ssh/**)", "/home/u/.ssh/id", true, true),
        ("Read(~/.ssh/**)", "/home/v/.ssh/id", false, false),
        ("Read(/etc/**)", "/etc/passwd", true, true),
        ("Read(//etc/**)", "/etc/passwd", true, true),
        ("Read(//etc/*)", "/etc/a/b", false, true),
        ("Read(**)", "/anything", false, true),
        ("Edit", "/home/u/w/sub/src/a", false, false),
    ] {
        let rule = rule(text);
        assert_eq!(
            rule.allows_path(PathUse::Read, path, &bases()),
            allows,
            "{text} {path}"
        );
        assert_eq!(
            rule.refuses_path(PathUse::Read, path, &bases()),
            refuses,
            "{text} {path}"
        );
    }
}

#[test]
fn a_rule_covers_the_tools_it_names() {
    let covers = |text: &str, access| rule(text).allows_path(access, "/x", &bases());
    assert!(covers("Edit", PathUse::Write) && covers("Edit", PathUse::Edit));
    assert!(covers("Write", PathUse::Write) && !covers("Write", PathUse::Edit));
    assert!(covers("Read", PathUse::Grep) && !covers("Grep", PathUse::Read));
    for (text, name, want) in [
        ("mcp__a__b", "mcp__a__b", true),
        ("mcp__a__b", "mcp__a__bc", false),
        ("mcp__a", "mcp__a__b", true),
        ("mcp__a", "mcp__ab__b", false),
        ("mcp__a__get_*", "mcp__a__get_x", true),
        ("Bash", "mcp__a__b", false),
    ] {
        assert_eq!(rule(text).covers_foreign(name), want, "{text} {name}");
    }
}

#[test]
fn options_are_a_set_to_what_refuses() {
    use Likeness::*;
    for (text, line, want) in [
        ("Bash(rm -rf:*)", "rm -rf x", Yes),
        ("Bash(rm -rf:*)", "rm -fr x", Yes),
        ("Bash(rm -rf:*)", "rm -r -f x", Yes),
        ("Bash(rm -rf:*)", "rm -Rf x", Yes),
        ("Bash(rm -rf:*)", "rm x -f y -r", Yes),
        ("Bash(rm -rf:*)", "rm -rvf x", Yes),
        ("Bash(rm -rf:*)", "rm --recursive --force x", Yes),
        ("Bash(rm -rf:*)", "rm --rec -f x", Yes),
        ("Bash(rm -rf:*)", "/bin/rm -f -r x", Yes),
        ("Bash(rm -rf:*)", "rm -r $X", Maybe),
        ("Bash(rm -rf:*)", "rm -r x", No),
        ("Bash(rm -rf:*)", "rm -f x", No),
        ("Bash(rm -rf:*)", "rm -- -r -f", No),
        ("Bash(rm --recursive:*)", "rm -r x", Yes),
        ("Bash(rm -rf /)", "rm -f -r /", Yes),
        ("Bash(rm -rf /)", "rm -f -r /tmp", No),
        ("Bash(rm -rf /)", "rm -f -r -v /", No),
        ("Bash(git push --force:*)", "git -C x push -f o", Yes),
        ("Bash(git push --force:*)", "git push origin -qf", Yes),
        (
            "Bash(git push --force:*)",
            "git push --force-with-lease",
            No,
        ),
        ("Bash(git branch -D:*)", "git branch -d x", No),
        ("Bash(find -rf:*)", "find -fr", No),
    ] {
        let found = rule(text).refuses_words(&words(line));
        assert_eq!(found, want, "{text}: {line}");
    }
    assert!(rule("Bash(rm -rf:*)").refuses_text("if x; then rm -r -f y; fi"));
    // A rule that allows is matched exactly.
    assert!(!rule("Bash(rm -rf:*)").allows_words(&words("rm -fr x")));
}

fn rules(allow: &str, deny: &str) -> Rules {
    let list = |text: &str| -> Vec<Rule> {
        text.split(";;")
            .filter(|r| !r.is_empty())
            .map(rule)
            .collect()
    };
    Rules {
        allow: list(allow),
        ask: Vec::new(),
        deny: list(deny),
    }
}

#[test]
#[rustfmt::skip]
fn a_line_gets_what_every_part_of_it_is_given() {
    use SandboxAccess::{Full, Network, Workspace};
    for (line, allow, want) in [
        ("npm test", "", None),
        ("npm test", "Bash(npm test:*)", Some(Workspace)),
        ("npm test $X", "Bash(npm test:*)", Some(Workspace)),
        ("npm test; ls", "Bash(npm test:*)", None),
        ("npm install x", "Network(npm install:*)", Some(Network)),
        ("npm install x", "Bash(npm install:*);;Network(npm install:*)", Some(Network)),
        ("npm install", "Network", Some(Network)),
        ("docker ps", "Full(docker:*)", Some(Full)),
        ("docker ps", "Full(docker:*);;Network", Some(Full)),
        ("docker ps", "Full(*)", Some(Full)),
        // Each part counts, and the least of them.
        ("npm install && npm test", "Network(npm install:*)", None),
        ("npm install && npm test", "Network(npm install:*);;Bash(npm test:*)", Some(Workspace)),
        ("npm install && docker ps", "Network(npm install:*);;Full(docker:*)", Some(Network)),
        ("npm install | tee log", "Network(npm install:*);;Network(tee:*)", Some(Network)),
        ("cd x && npm install", "Network(npm install:*)", None),
        // Every word of all of it is literal, or it is not more than the workspace.
        ("npm install $X", "Network(npm install:*)", None),
        ("npm install $X", "Network(npm install:*);;Bash", Some(Workspace)),
        ("npm install *", "Network(npm install:*)", None),
        ("npm install ~/x", "Full(npm install:*)", None),
        ("npm install > $X", "Network(npm install:*)", None),
        ("npm install; npm install $X", "Network(npm install:*);;Bash(npm:*)", Some(Workspace)),
        ("$X", "Full", None),
        ("echo $(curl x)", "Full", None),
        ("echo $(curl x)", "Full;;Bash", Some(Workspace)),
        ("for i in 1; do curl x; done", "Full", None),
        // Words before the command are a part of it.
        ("A=1 npm install", "Network(npm install:*)", None),
        ("A=1 npm install", "Network(A=1 npm install:*)", Some(Network)),
        ("CI=1 npm install", "Network(npm install:*)", Some(Network)),
        ("A=1", "Network(npm install:*)", None),
        ("npm install > log", "Network(npm install:*)", Some(Network)),
        ("'npm' install", "Network(npm install:*)", None),
        ("/x/npm install", "Network(npm install:*)", None),
        ("make && make install", "Full(make && make install)", Some(Full)),
        ("make && make install x", "Full(make && make install)", None),
        ("make $X && ls", "Bash(make $X && ls)", Some(Workspace)),
        ("", "Full", None),
        ("ls", "Edit;;Memory;;mcp__a", None),
    ] {
        let parts = shell::split(line).unwrap_or_default();
        assert_eq!(rules(allow, "").grants(line, &parts), want, "{line:?} with {allow:?}");
    }
}

#[test]
#[rustfmt::skip]
fn a_level_is_denied_from_there_on() {
    use Likeness::*;
    use SandboxAccess::{Full, Network, Read, Workspace};
    for (line, deny, access, want) in [
        ("curl x", "Network(curl:*)", Read, No),
        ("curl x", "Network(curl:*)", Workspace, No),
        ("curl x", "Network(curl:*)", Network, Yes),
        ("curl x", "Network(curl:*)", Full, Yes),
        ("curl x", "Full", Network, No),
        ("curl x", "Full", Full, Yes),
        ("curl x", "Bash(curl:*)", Read, Yes),
        ("ls && /usr/bin/curl x", "Network(curl:*)", Network, Yes),
        ("sudo curl x", "Network(curl:*)", Network, Yes),
        ("echo $(curl x)", "Network(curl:*)", Network, Yes),
        ("git $X", "Network(git push:*)", Network, Maybe),
        ("wget x", "Network(curl:*)", Network, No),
        ("curl x", "Edit", Full, No),
    ] {
        let parts = shell::split(line).unwrap_or_default();
        let rules = rules("", deny);
        let found = rules.denies_access(access, line, &parts).map_or(No, |(_, likeness)| likeness);
        assert_eq!(found, want, "{line:?} {access} with {deny:?}");
    }
}

#[test]
fn an_insufficient_allow_rule_is_reported_with_its_replacement() {
    let wanted = |allow: &str| {
        let rules = rules(allow, "");
        let lacking = rules.lacking();
        let texts: Vec<String> = lacking.iter().map(|(_, w)| w.to_string()).collect();
        texts.join(" ")
    };
    for (allow, want) in [
        ("Bash(npm install:*)", "Network(npm install:*)"),
        (
            "Bash(npm install left-pad)",
            "Network(npm install left-pad)",
        ),
        ("Bash(git push:*)", "Full(git push:*)"),
        (
            "Bash(docker:*);;Bash(curl:*)",
            "Full(docker:*) Network(curl:*)",
        ),
        ("Bash(npm install:*);;Network(npm install:*)", ""),
        ("Bash(curl:*);;Full(curl:*)", ""),
        ("Bash(curl:*);;Network", ""),
        ("Bash(git push:*);;Network(git push:*)", "Full(git push:*)"),
        ("Bash(npm test:*);;Bash(git commit:*);;Bash", ""),
        ("Bash(npm:*)", ""),
        ("Network(curl:*);;Edit(curl)", ""),
    ] {
        assert_eq!(wanted(allow), want, "{allow}");
    }
    let notice = |allow: &str| grants::lacking_notice(&rules(allow, "").lacking());
    assert_eq!(notice("Bash(npm test:*)"), None);
    assert_eq!(
        notice("Bash(npm install:*)").unwrap(),
        "the rule Bash(npm install:*) does not give its command all that it needs: a Bash rule gives at \
         most access workspace; to allow more, add to permissions.allow: Network(npm install:*) (uses \
         the network)"
    );
    let both = notice("Bash(docker:*);;Bash(curl:*)").unwrap();
    assert!(
        both.ends_with(
            "Full(docker:*) (runs without a sandbox), Network(curl:*) (uses the network)"
        ),
        "{both}"
    );
    let many =
        "Bash(curl:*);;Bash(wget:*);;Bash(npx:*);;Bash(npm i:*);;Bash(npm ci:*);;Bash(ssh:*)";
    let many = notice(many).unwrap();
    assert!(
        many.starts_with("6 rules such as Bash(curl:*) do not give"),
        "{many}"
    );
    assert!(
        many.ends_with("Network(npm ci:*) (uses the network) and 1 more"),
        "{many}"
    );
}
