//! A call of a server's tool: prepared, made, and settled when the process that made it is gone.

use std::time::Duration;

use super::live::{LiveServers, LiveState, RunningServers};
use super::result::{self, IN_DOUBT, failed};
use super::standing::{CallProgress, standing};
use crate::command::server::{EndedServer, ServerOutcome};
use crate::core::entry::{CallId, Guard, Outcome};
use crate::core::permission::served_parts;
use crate::core::tool::ToolCall;
use crate::mcp::connection::McpError;
use crate::mcp::result::CallResult;
use crate::mcp::task::Task;
use crate::tools::{ServedCall, ToolResult};
use crate::world::machine::{Machine, unsettled};
use crate::world::{PrepareError, Settled};

/// Time within which the end of a server becomes known.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

const NO_SERVERS: &str = "no tool of a server can be called here";

/// A call that had started, from its guard.
#[derive(Clone, Copy)]
struct Begun<'a> {
    server: &'a str,
    run: &'a str,
    request: &'a str,
    repeatable: bool,
}

impl<'a> Begun<'a> {
    fn of(guard: &'a Guard) -> Option<Begun<'a>> {
        match guard {
            Guard::Served {
                server,
                run,
                request,
                repeatable,
                ..
            } => Some(Begun {
                server,
                run,
                request,
                repeatable: *repeatable,
            }),
            Guard::Supervised { .. }
            | Guard::Child { .. }
            | Guard::Checked { .. }
            | Guard::Asks
            | Guard::Opaque => None,
        }
    }
}

/// Returns the ID of a request. A call that is sent again gets another ID. (A round is added after
/// a `:`.)
fn request_id(call: CallId, again: u32) -> String {
    match again {
        0 => call.wire(),
        again => format!("{}-{}", call.wire(), again + 1),
    }
}

/// Returns the ID of the next try.
fn next_id(call: CallId, request: &str) -> String {
    let tried = request
        .rsplit_once('-')
        .and_then(|(_, tried)| tried.parse().ok());
    request_id(call, tried.unwrap_or(1))
}

/// Returns an ID that this server has not been given. A log that lost its end would use one twice.
fn unused(live: &RunningServers, call: CallId, mut request: String) -> std::io::Result<String> {
    while live.connection.client().outcome(&request)? != ServerOutcome::NotBegun {
        request = next_id(call, &request);
    }
    Ok(request)
}

/// The result of waiting for an answer.
enum Waited {
    Ended(Box<ToolResult>),
    /// The server has ended: the journal has the fate of the call.
    Over,
}

/// Returns the tool's name on its server, for most names: a long one is shortened in the full name.
fn own_name(full_name: &str) -> &str {
    served_parts(full_name).map_or(full_name, |(_, tool)| tool)
}

impl Machine {
    fn live(&self) -> Result<&LiveServers, PrepareError> {
        let none = || PrepareError::Refused(Outcome::error(NO_SERVERS));
        self.servers.as_ref().ok_or_else(none)
    }

    /// Starts the server of a call if it is not running. A failure is reported when the call is
    /// prepared.
    pub(in crate::world) async fn reach_server(&self, call: CallId, order: &ServedCall) {
        if let Some(servers) = &self.servers
            && let Ok(tool) = (servers.access.find)(&order.name)
            && let Err(why) = servers.reach(&tool.server, None).await
        {
            servers.not_reached.replace(Some((call, why)));
        }
    }

    pub(in crate::world) async fn prepare_served(
        &self,
        call: &ToolCall,
        order: &ServedCall,
    ) -> Result<Guard, PrepareError> {
        if let Some(servers) = &self.servers
            && let Some((of, why)) = servers.not_reached.take()
            && of == call.id
        {
            return Err(PrepareError::Refused(LiveServers::not_run(&why).outcome));
        }
        let guard = self
            .guard(call.id, order, request_id(call.id, 0), None)
            .await;
        guard.map_err(|ran| PrepareError::Refused(ran.outcome))
    }

    /// Returns the guard of a call to a running server, or the result of the call without one.
    async fn guard(
        &self,
        call: CallId,
        order: &ServedCall,
        request: String,
        kept: Option<&str>,
    ) -> Result<Guard, ToolResult> {
        let not_run = |why: String| LiveServers::not_run(&why);
        let servers = self
            .servers
            .as_ref()
            .ok_or_else(|| not_run(NO_SERVERS.into()))?;
        let tool = (servers.access.find)(&order.name).map_err(not_run)?;
        let live = servers.reach(&tool.server, kept).await.map_err(not_run)?;
        let request = unused(&live, call, request).map_err(|e| not_run(e.to_string()))?;
        Ok(Guard::Served {
            server: tool.server,
            run: live.run.clone(),
            boot: self.boot.clone(),
            request,
            repeatable: tool.repeatable,
        })
    }

    /// Makes the call. Returns `None` if the server has ended: [`Machine::settle_served`] then
    /// determines the outcome.
    pub(in crate::world) async fn act_served(
        &self,
        order: &ServedCall,
        guard: &Guard,
    ) -> Option<ToolResult> {
        let (Ok(servers), Some(begun)) = (self.live(), Begun::of(guard)) else {
            return Some(ToolResult::error(
                "the call does not fit what was recorded of it",
            ));
        };
        let live = servers.of_run(begun.server, begun.run)?;
        match self.wait_for(&live, order, begun).await {
            Waited::Ended(ran) => Some(with_changes(servers, begun, *ran)),
            Waited::Over => None,
        }
    }

    /// Makes the call, or waits for one that was made under the same ID.
    async fn wait_for(
        &self,
        live: &RunningServers,
        order: &ServedCall,
        begun: Begun<'_>,
    ) -> Waited {
        let Ok(servers) = self.live() else {
            return Waited::Over;
        };
        let tool = (servers.access.find)(&order.name).ok();
        let limit = tool.as_ref().and_then(|tool| tool.limit);
        // Its definition may be gone.
        let name = tool.map_or_else(|| own_name(&order.name).to_string(), |tool| tool.name);
        let (request, repeatable) = (begun.request, begun.repeatable);
        let calling = live
            .connection
            .call(request, &name, &order.arguments, repeatable);
        match servers.asks.within(limit, calling).await {
            Some(called) => self.waited(live, called).await,
            None => Waited::Ended(too_late(live, request, limit).await.into()),
        }
    }

    async fn waited(&self, live: &RunningServers, called: Result<CallResult, McpError>) -> Waited {
        let error = match called {
            Ok(result) => {
                let room = self.ctx.inline_max_bytes;
                return Waited::Ended(result::of_result(result, room).into());
            }
            Err(error) => error,
        };
        let may_be_over =
            error.is_in_doubt() || matches!(error, McpError::Over(_) | McpError::Journal(_));
        let ended = live.connection.client().ended();
        if may_be_over && tokio::time::timeout(ENDS_WITHIN, ended).await.is_ok() {
            return Waited::Over;
        }
        Waited::Ended(failed(&error).into())
    }

    /// Returns the outcome of a call. Waits for a call that is still being worked on.
    pub(in crate::world) async fn settle_served(
        &self,
        call: &ToolCall,
        order: &ServedCall,
        guard: &Guard,
        stop: bool,
    ) -> Settled {
        let (Some(servers), Some(begun)) = (&self.servers, Begun::of(guard)) else {
            return unsettled("tools of servers cannot be called here");
        };
        let settled = |settled| match settled {
            Settled::Ended(ran) => Settled::Ended(with_changes(servers, begun, ran)),
            other => other,
        };
        let found = match servers.look(begun.server, begun.run).await {
            Ok(LiveState::Live(live)) => {
                match self.settle_live(&live, order, guard, begun, stop).await {
                    Some(found) => return settled(found),
                    // It ended meanwhile.
                    None => servers.look(begun.server, begun.run).await,
                }
            }
            found => found,
        };
        match found {
            Ok(LiveState::Over(past)) => {
                let over = self.settle_over(servers, &past, call, order, guard, begun, stop);
                settled(over.await)
            }
            Ok(LiveState::Live(_)) => unsettled("its server does not answer"),
            Err(e) => unsettled(&format!("its server cannot be reached: {e}")),
        }
    }

    /// Settles a call at a running server. Returns `None` if the server ended meanwhile.
    async fn settle_live(
        &self,
        live: &RunningServers,
        order: &ServedCall,
        guard: &Guard,
        begun: Begun<'_>,
        stop: bool,
    ) -> Option<Settled> {
        let fate = |id: &str| live.connection.client().outcome(id);
        Some(match standing(begun.request, fate) {
            Err(e) => unsettled(&format!("its journal cannot be read: {e}")),
            Ok(CallProgress::NotBegun) => Settled::NotBegun(guard.clone()),
            Ok(CallProgress::Answered(line)) => {
                Settled::Ended(result::of_line(&line, self.ctx.inline_max_bytes))
            }
            Ok(_) if stop => {
                let why = "the user stopped it";
                live.connection.cancel(begun.request, why).await;
                Settled::Ended(cancelled(why))
            }
            Ok(CallProgress::Running | CallProgress::Asks | CallProgress::Task(_)) => {
                match self.wait_for(live, order, begun).await {
                    Waited::Ended(ran) => Settled::Ended(*ran),
                    Waited::Over => return None,
                }
            }
            // The end of the server is about to become known.
            Ok(CallProgress::Lost) => {
                live.connection.client().ended().await;
                return None;
            }
        })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all of them say what the call is"
    )]
    async fn settle_over(
        &self,
        servers: &LiveServers,
        past: &EndedServer,
        call: &ToolCall,
        order: &ServedCall,
        guard: &Guard,
        begun: Begun<'_>,
        stop: bool,
    ) -> Settled {
        match standing(begun.request, |id| past.outcome(id)) {
            Err(e) => unsettled(&format!("its journal cannot be read: {e}")),
            Ok(CallProgress::Answered(line)) => {
                Settled::Ended(result::of_line(&line, self.ctx.inline_max_bytes))
            }
            Ok(CallProgress::NotBegun) if stop => Settled::NotBegun(guard.clone()),
            Ok(CallProgress::NotBegun) => self.again(call, order, begun).await,
            Ok(CallProgress::Task(task)) if !stop => {
                Settled::Ended(self.follow(servers, &task, order, begun).await)
            }
            Ok(_) if begun.repeatable && !stop => self.again(call, order, begun).await,
            Ok(_) => {
                let how = servers.why_over(begun.run, past.how());
                Settled::Ended(ToolResult::interrupted(format!(
                    "the server {} ended while it worked on this: {how}; {IN_DOUBT}",
                    begun.server
                )))
            }
        }
    }

    /// Asks a server that was started again about a task that it had started before.
    async fn follow(
        &self,
        servers: &LiveServers,
        task: &Task,
        order: &ServedCall,
        begun: Begun<'_>,
    ) -> ToolResult {
        let live = match servers.reach(begun.server, Some(begun.run)).await {
            Ok(live) => live,
            Err(why) => return ToolResult::interrupted(format!("{why}; {IN_DOUBT}")),
        };
        let limit = (servers.access.find)(&order.name)
            .ok()
            .and_then(|tool| tool.limit);
        let following = live.connection.follow(task);
        match servers.asks.within(limit, following).await {
            Some(Ok(result)) => result::of_result(result, self.ctx.inline_max_bytes),
            Some(Err(error)) => failed(&error),
            None => ToolResult::interrupted(format!("{}; {IN_DOUBT}", no_result(limit))),
        }
    }

    /// Tries the call again at a running server.
    async fn again(&self, call: &ToolCall, order: &ServedCall, begun: Begun<'_>) -> Settled {
        let request = next_id(call.id, begun.request);
        match self.guard(call.id, order, request, Some(begun.run)).await {
            Ok(guard) => Settled::NotBegun(guard),
            Err(ran) => Settled::Ended(ran),
        }
    }

    /// Returns whether a running server works on this call. One that waits for an answer does not.
    pub(in crate::world) fn is_served_at_work(&self, guard: &Guard) -> bool {
        let (Some(servers), Some(begun)) = (&self.servers, Begun::of(guard)) else {
            return false;
        };
        let servers = &servers.access.servers;
        let fate = |id: &str| servers.outcome_from_journals(begun.run, id);
        let standing = standing(begun.request, fate);
        matches!(standing, Ok(CallProgress::Running | CallProgress::Task(_)))
    }

    pub(in crate::world) fn discard_served(&self, guard: &Guard) {
        if let (Some(servers), Some(begun)) = (&self.servers, Begun::of(guard)) {
            servers.discard(begun.server, begun.run);
        }
    }
}

/// Adds what the server did to protected files and its keeper undid.
fn with_changes(servers: &LiveServers, begun: Begun<'_>, mut ran: ToolResult) -> ToolResult {
    if let Some(undone) = servers.take_changes(begun.server, begun.run) {
        match &mut ran.outcome {
            Outcome::Interrupted { why, .. } => why.push_str(&format!("; {undone}")),
            outcome => outcome.add_line(&format!("[{undone}]")),
        }
    }
    ran
}

async fn too_late(live: &RunningServers, request: &str, limit: Option<Duration>) -> ToolResult {
    let why = no_result(limit);
    live.connection.cancel(request, &why).await;
    cancelled(&why)
}

fn no_result(limit: Option<Duration>) -> String {
    let seconds = limit.unwrap_or_default().as_secs_f64();
    format!("no result within {seconds} s (tool_timeout_sec)")
}

fn cancelled(why: &str) -> ToolResult {
    ToolResult::interrupted(format!("{why}; the server was told to end it; {IN_DOUBT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_of_a_call_has_a_different_request_id() {
        let call = CallId {
            reply: 12,
            index: 0,
        };
        let first = request_id(call, 0);
        let second = next_id(call, &first);
        assert_eq!(first, call.wire());
        assert_eq!(second, format!("{first}-2"));
        assert_eq!(next_id(call, &second), format!("{first}-3"));
    }
}
