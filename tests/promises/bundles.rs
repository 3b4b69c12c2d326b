//! A session continues on another machine.

use crate::scenes::bundles::*;
use support::{Home, Protocol};

#[test]
fn a_killed_session_continues_in_a_fork_on_another_machine() {
    for protocol in Protocol::ALL {
        let (there, id) = killed(&worker());
        let bytes = bundle_of(&there, &id);
        let server = speaker();
        let here = Home::with(&server, protocol);
        assert_eq!(imported(&here, &bytes, &[]), std::slice::from_ref(&id));
        assert_eq!(imported(&here, &bytes, &[]), std::slice::from_ref(&id));
        let list = here.run(["history"]).expect(0).stdout;
        assert!(list.contains("rewake@"), "{list}");
        // The folder of the other machine is still there, both homes are on one disk. It is named.
        let folder = there.workspace();
        let folder = folder.to_str().unwrap();
        // Calls of another model have a signature that only newer models of Gemini demand.
        let model = match protocol {
            Protocol::Gemini => "local/gemini-3-pro-preview",
            _ => "local/test-model",
        };
        let went = here
            .run(["-C", folder, "-p", "go on", "-r", &id, "--model", model])
            .expect(0);
        assert!(went.stdout.contains("I go on here"), "{}", went.stderr);
        let requests = server.requests();
        let body = String::from_utf8_lossy(requests[0].body.as_ref().unwrap()).into_owned();
        for part in [
            "please work",
            "printed-one",
            "interrupted: ",
            "This session comes from another machine",
            "had no result at that time",
            "go on",
        ] {
            assert!(body.contains(part), "{}: {part}: {body}", protocol.name());
        }
        assert!(!body.contains("bypassPermissions"), "{body}");
        server.assert_no_violations();
        assert_eq!(there.read("effects"), "one\ntwo\n");
        // -c and offers leave the copy out.
        std::fs::remove_dir_all(here.workspace()).unwrap();
        std::fs::create_dir(here.workspace()).unwrap();
        let nothing = here.run(["-c", "-p", "x"]).expect(2);
        assert!(!nothing.stderr.is_empty());
    }
}
