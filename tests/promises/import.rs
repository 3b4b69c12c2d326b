//! Killed sessions of other agents are continued.

use crate::scenes::import::*;
use support::{Protocol, Says, Server};

/// The server of each protocol refuses a request in which a call has no result, or two.
#[test]
fn a_killed_session_of_each_agent_continues_in_a_fork() {
    for protocol in Protocol::ALL {
        let home = here(&["killed"]);
        let server = Server::start(|_| Says::text("now I know").into());
        home.configure(&server, protocol, "");
        if protocol == Protocol::Gemini {
            // Calls of another model have a signature that only its newer models demand.
            let config = home.rewake_home().join("config.toml");
            let text = std::fs::read_to_string(&config).unwrap();
            let text = text.replace("local/test-model", "local/gemini-3-pro-preview");
            std::fs::write(&config, text).unwrap();
        }
        let copies = imported(&home);
        assert_eq!(copies.len(), 6);
        for (agent, copy) in &copies {
            let asked = server.requests().len();
            let run = home.run(["-p", "what next?", "-r", copy]).expect(0);
            assert!(run.stdout.contains("now I know"), "{agent}: {}", run.stderr);
            let requests = server.requests();
            assert_eq!(requests.len(), asked + 1, "{agent}");
            let body = String::from_utf8_lossy(requests[asked].body.as_ref().unwrap()).into_owned();
            for part in ["The word is marmalade.", "first-result-7341", "what next?"] {
                assert!(body.contains(part), "{agent}: {body}");
            }
            assert!(
                body.contains(&format!("another agent, {agent}")),
                "{agent}: {body}"
            );
            match agent.as_str() {
                "gemini" => assert!(body.contains("one more may have run"), "{body}"),
                _ => assert!(body.contains("interrupted: "), "{agent}: {body}"),
            }
            assert_eq!(
                body.contains("It had printed"),
                agent == "opencode",
                "{body}"
            );
            // The call of the source is not run.
            assert!(!home.path(format!(".mark-{agent}")).exists());
        }
    }
}
