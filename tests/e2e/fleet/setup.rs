//! Setting up a database, and everything that can be wrong with one.

use std::os::unix::fs::PermissionsExt;

use crate::fleet::postgres::{OWNER, Postgres, WORKER};
use crate::fleet::{LIMIT, configure, refused};
use support::Authority;
use support::{Home, Live, run};

fn at(url: &str) -> Home {
    let home = Home::new();
    crate::fleet::play(&home, &crate::fleet::effects(1));
    configure(&home, url);
    home
}

#[test]
fn two_at_once_make_one_schema() {
    let Some(server) = Postgres::empty() else {
        return;
    };
    let home = at(&server.url(OWNER));
    let printed = home
        .run(["fleet", "init", "--print", "--lease", "7s"])
        .expect(0);
    assert!(
        printed.stdout.contains("CREATE SCHEMA rewake"),
        "{}",
        printed.stdout
    );
    let both = [(); 2].map(|()| Live::spawn(home.rewake(["fleet", "init", "--lease", "7s"])));
    let mut said: Vec<String> = both.map(|one| one.wait(LIMIT).expect(0).stdout).into();
    said.sort();
    assert!(said[0].contains("had the tables"), "{said:?}");
    assert!(said[1].contains("has the tables"), "{said:?}");
    assert_eq!(
        server.sql("SELECT schema, lease FROM rewake.meta"),
        "2|00:00:07"
    );
    home.run(["fleet", "init", "--work-dir", "/srv/it's"])
        .expect(0);
    let meta = server.sql("SELECT lease, work_dir FROM rewake.meta");
    assert_eq!(meta, "00:00:07|/srv/it's");
    // The printed SQL makes the same.
    server.sql("DROP SCHEMA rewake CASCADE");
    server.sql(&printed.stdout.replace("BEGIN;", "").replace("COMMIT;", ""));
    home.run(["fleet", "check"]).expect(0);
}

/// A database of an older version is upgraded, with the sessions in it.
#[test]
fn an_older_schema_is_upgraded() {
    let Some(server) = Postgres::empty() else {
        return;
    };
    server.sql(&std::fs::read_to_string("assets/fleet/1.sql").unwrap());
    server.sql("INSERT INTO rewake.meta (schema, lease) VALUES (1, '9 s')");
    let home = at(&server.url(OWNER));
    refused(
        home.run(["-p", "go", "--shared"]),
        2,
        &["older ones", "rewake fleet init"],
    );
    refused(home.run(["history", "--shared"]), 2, &["rewake fleet init"]);
    let said = home.run(["fleet", "init"]).expect(0).stdout;
    assert!(said.contains("had schema 1 and has 2 now"), "{said}");
    home.run(["-p", "go", "--shared"]).expect(0);
    let said = home.run(["fleet", "init"]).expect(0).stdout;
    assert!(said.contains("had the tables"), "{said}");
    assert_eq!(
        server.sql("SELECT schema, lease FROM rewake.meta"),
        "2|00:00:09"
    );
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let Some(mut server) = Postgres::empty() else {
        return;
    };
    server.sql(&format!("CREATE ROLE {WORKER} LOGIN"));
    let check = |url: &str| at(url).run(["fleet", "check"]);
    let shared = |url: &str| at(url).run(["-p", "go", "--shared"]);
    refused(Home::new().run(["fleet", "check"]), 2, &["fleet.url"]);
    for bad in [
        "mysql://h/x",
        "postgresql://",
        "postgresql://h:port/x",
        "postgresql://u@far/x?sslmode=disable",
    ] {
        refused(check(bad), 2, &["the address of the fleet", "hint: "]);
    }
    let none = server.url(WORKER).replace("/team", "/other");
    refused(check(&none), 2, &["does not exist", "createdb"]);
    let wrong = check(&server.url(WORKER)).expect(2);
    assert!(
        wrong.stdout.contains("rewake fleet init"),
        "{}",
        wrong.stdout
    );
    refused(shared(&server.url(WORKER)), 2, &["rewake fleet init"]);
    refused(
        at(&server.url(WORKER)).run(["fleet", "init"]),
        2,
        &["permission denied"],
    );
    at(&server.url(OWNER)).run(["fleet", "init"]).expect(0);
    // A role without rights.
    refused(
        check(&server.url(WORKER)),
        2,
        &["permission denied", "GRANT rewake_worker TO USER"],
    );
    refused(shared(&server.url(WORKER)), 2, &["GRANT rewake_worker"]);
    server.sql(&format!("GRANT rewake_reader TO {WORKER}"));
    check(&server.url(WORKER)).expect(0);
    refused(shared(&server.url(WORKER)), 2, &["GRANT rewake_worker"]);
    server.sql(&format!("GRANT rewake_worker TO {WORKER}"));
    check(&server.url(WORKER)).expect(0);
    // A newer schema that this version cannot use, and one that it can.
    server.sql("UPDATE rewake.meta SET schema = 9, oldest = 9");
    refused(check(&server.url(WORKER)), 2, &["schema 9", "newer rewake"]);
    refused(shared(&server.url(WORKER)), 2, &["schema 9"]);
    refused(
        at(&server.url(OWNER)).run(["fleet", "init"]),
        2,
        &["schema 9"],
    );
    server.sql("UPDATE rewake.meta SET schema = 9, oldest = 2");
    check(&server.url(WORKER)).expect(0);
    server.sql("UPDATE rewake.meta SET schema = 2, oldest = 1");
    // A connection that would lose entries.
    server.sql("ALTER ROLE worker SET synchronous_commit = off");
    check(&server.url(WORKER)).expect(0);
    server.down("fast");
    server.up("-c fsync=off");
    let wrong = check(&server.url(WORKER)).expect(2);
    assert!(wrong.stdout.contains("fsync is off"), "{}", wrong.stdout);
    refused(shared(&server.url(WORKER)), 2, &["fsync", "power cut"]);
    server.down("fast");
    refused(check(&server.url(WORKER)), 75, &["hint: "]);
    refused(shared(&server.url(WORKER)), 75, &["hint: "]);
}

/// Neither a message nor a file nor a command has the password.
#[test]
fn a_password_is_read_from_a_private_file_or_a_variable_and_shown_nowhere() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let secret = "hunter2 is:secret";
    server.sql(&format!("ALTER ROLE {WORKER} PASSWORD '{secret}'"));
    server.allow(&format!("host team {WORKER} 127.0.0.1/32 scram-sha-256"));
    let home = crate::fleet::home(
        &server,
        server.port,
        &[
            crate::fleet::step("", &["env > environment"]),
            crate::fleet::step("done", &[]),
        ],
    );
    refused(home.run(["fleet", "check"]), 2, &["password"]);
    let file = home.user().join(".pgpass");
    let line = |password: &str| format!("127.0.0.1:*:team:{WORKER}:{password}\n");
    std::fs::write(&file, line("wrong")).unwrap();
    refused(home.run(["fleet", "check"]), 2, &["chmod 600"]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    refused(
        home.run(["fleet", "check"]),
        2,
        &["authentication failed", "PGPASSFILE"],
    );
    std::fs::write(&file, line(&secret.replace(':', "\\:"))).unwrap();
    home.run(["fleet", "check"]).expect(0);
    let by_file = home.run(["-p", "go", "--shared"]).expect(0);
    // The whole address in a variable.
    let coded = secret.replace(':', "%3A").replace(' ', "%20");
    let url = server.url(WORKER).replace('@', &format!(":{coded}@"));
    let variable = Home::new();
    crate::fleet::play(
        &variable,
        &[
            crate::fleet::step("", &["env > environment"]),
            crate::fleet::step("done", &[]),
        ],
    );
    configure(&variable, "unused");
    let config = std::fs::read_to_string(variable.rewake_home().join("config.toml")).unwrap();
    variable.write_config(&config.replace("url = \"unused\"", "url_env = \"TEAM_DATABASE\""));
    refused(
        variable.run(["fleet", "check"]),
        2,
        &["TEAM_DATABASE is not set"],
    );
    let mut command = variable.rewake(["-p", "go", "--shared"]);
    command.env("TEAM_DATABASE", &url);
    let by_variable = run(command, LIMIT).expect(0);
    for home in [&home, &variable] {
        let environment = home.read("environment");
        assert!(environment.contains("HOME="), "{environment}");
        assert!(!environment.contains("hunter2"), "{environment}");
        for entry in walkdir(&home.rewake_home()) {
            let bytes = std::fs::read(&entry).unwrap();
            let found = bytes.windows(7).any(|part| part == b"hunter2");
            assert!(!found, "{}", entry.display());
        }
    }
    for run in [by_file, by_variable] {
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("hunter2"));
    }
}

fn walkdir(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path().is_dir() {
            true => found.extend(walkdir(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn the_name_of_a_server_is_verified() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    let authority = Authority::new();
    let (certificate, key) = authority.files("localhost");
    let certificate = server.secret("server.pem", &certificate);
    let key = server.secret("server.key", &key);
    server.down("fast");
    server.up(&format!(
        "-c ssl=on -c ssl_cert_file={} -c ssl_key_file={}",
        certificate.display(),
        key.display()
    ));
    let url = |host: &str| {
        let url = server.url(WORKER).replace("127.0.0.1", host);
        format!("{url}?sslmode=verify-full")
    };
    let check = |host: &str, trusts: bool| {
        let home = at(&url(host));
        let ca = home.user().join("ca.pem");
        std::fs::write(&ca, authority.pem()).unwrap();
        if trusts {
            let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
            home.write_config(&format!("{config}ca_file = \"{}\"\n", ca.display()));
        }
        home.run(["fleet", "check"])
    };
    check("localhost", true).expect(0);
    refused(check("127.0.0.1", true), 2, &["fleet.ca_file"]);
    refused(check("localhost", false), 2, &["fleet.ca_file"]);
}
