//! Servers of the simulation. Each has a journal, works on while the agent is dead, and can die at
//! any boundary.

use std::collections::BTreeMap;

use rewake::core::entry::{CallId, Guard};
use rewake::core::form::{Field, FieldKind, FormAnswer, RequestedAnswer, ServerQuestion};

/// A tool whose calls may happen once.
pub const NEAR: &str = "mcp__near__poke";

/// A tool whose calls may be repeated, by the user's word.
pub const AGAIN: &str = "mcp__near__again";

/// A tool whose calls ask a person so many questions before they do anything.
pub const ASKS: &str = "mcp__near__asks";
const QUESTIONS: usize = 2;

/// The question that a server asks in this call, the same whenever it is asked.
pub fn question(key: &str) -> ServerQuestion {
    let number = Field {
        name: "n".into(),
        title: String::new(),
        description: String::new(),
        is_required: true,
        kind: FieldKind::Number {
            is_integer: true,
            min: None,
            max: None,
        },
        default: None,
    };
    ServerQuestion {
        server: "near".into(),
        key: key.into(),
        message: "how many?".into(),
        wanted: RequestedAnswer::Form {
            fields: vec![number],
        },
    }
}

/// A request in the journal of a server.
#[derive(Debug)]
struct Given {
    call: CallId,
    /// What it was told, and how many questions it asks.
    answers: Vec<FormAnswer>,
    asks: usize,
    /// Its effect happened.
    is_done: bool,
    is_answered: bool,
}

impl Given {
    fn has_all(&self) -> bool {
        self.answers.len() >= self.asks
    }
}

#[derive(Debug)]
struct Server {
    is_alive: bool,
    given: BTreeMap<String, Given>,
}

/// What the journals say of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Answered,
    NotBegun { is_alive: bool },
    Running,
    Lost,
}

/// All servers that were ever started, by run.
#[derive(Debug, Default)]
pub struct Servers {
    all: BTreeMap<String, Server>,
    /// Those that live die at these boundaries.
    pub dies_at: Vec<u64>,
    pub deaths: u32,
}

impl Servers {
    /// The guard of a call at the server that lives; one is started when none does.
    pub fn guard(&mut self, call: CallId, name: &str, boot: u64) -> Guard {
        let alive = self.all.iter().find(|(_, server)| server.is_alive);
        let run = match alive {
            Some((run, _)) => run.clone(),
            None => {
                let run = format!("server-{}", self.all.len());
                let server = Server {
                    is_alive: true,
                    given: BTreeMap::new(),
                };
                self.all.insert(run.clone(), server);
                run
            }
        };
        let unused = |request: &String| self.all.values().all(|s| !s.given.contains_key(request));
        let mut ids = (1..).map(|again| format!("{}.{again}", call.wire()));
        Guard::Served {
            server: "near".into(),
            run,
            boot: boot.to_string(),
            request: ids.find(unused).expect("an id"),
            repeatable: name == AGAIN,
        }
    }

    pub fn fate(&self, run: &str, request: &str) -> Fate {
        let server = &self.all[run];
        let is_alive = server.is_alive;
        match server.given.get(request) {
            Some(given) if given.is_answered => Fate::Answered,
            Some(_) if is_alive => Fate::Running,
            Some(_) => Fate::Lost,
            None => Fate::NotBegun { is_alive },
        }
    }

    /// The keeper takes the request. A dead one takes nothing.
    pub fn give(&mut self, run: &str, request: &str, call: CallId, name: &str) {
        let server = self.all.get_mut(run).expect("a server");
        if server.is_alive {
            let given = Given {
                call,
                answers: Vec::new(),
                asks: if name == ASKS { QUESTIONS } else { 0 },
                is_done: false,
                is_answered: false,
            };
            server.given.entry(request.to_string()).or_insert(given);
        }
    }

    /// The question that a call waits with at a server that lives.
    pub fn asks(&self, run: &str, request: &str) -> Option<String> {
        let server = self.all.get(run).filter(|server| server.is_alive)?;
        let given = server.given.get(request)?;
        (!given.has_all()).then(|| format!("server/{}", given.answers.len() + 1))
    }

    /// A dead one hears nothing.
    pub fn tell(&mut self, run: &str, request: &str, answer: FormAnswer) {
        let server = self.all.get_mut(run).filter(|server| server.is_alive);
        if let Some(given) = server.and_then(|server| server.given.get_mut(request)) {
            given.answers.push(answer);
        }
    }

    /// The server does what it was given, and answers. The calls that have their effect by that.
    pub fn work(&mut self) -> Vec<CallId> {
        self.act(true)
    }

    /// All of them die; `is_late`: in the middle of a call, behind its effect.
    pub fn die(&mut self, is_late: bool) -> Vec<CallId> {
        let acted = match is_late {
            true => self.act(false),
            false => Vec::new(),
        };
        for server in self.all.values_mut() {
            self.deaths += u32::from(server.is_alive);
            server.is_alive = false;
        }
        acted
    }

    fn act(&mut self, answers: bool) -> Vec<CallId> {
        let mut acted = Vec::new();
        for server in self.all.values_mut().filter(|server| server.is_alive) {
            for given in server
                .given
                .values_mut()
                .filter(|g| !g.is_answered && g.has_all())
            {
                if !std::mem::replace(&mut given.is_done, true) {
                    acted.push(given.call);
                }
                given.is_answered = answers;
            }
        }
        acted
    }
}
