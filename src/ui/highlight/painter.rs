//! Finds the role of each piece of code, with Sublime's grammars.
//!
//! The first use of a grammar compiles its expressions, which takes long. So the thread that draws
//! never does this.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::recent::Recent;
use super::{Job, MAX_LINE_BYTES, Role, Run, Runs, SharedQueue, chain};

const MAX_STATES: usize = 512;
/// So often the state is remembered, and the lines are shown.
const BATCH_LINES: usize = 64;

/// Languages by names that the grammars do not know.
const ALIASES: [(&str, &str); 9] = [
    ("shell", "bash"),
    ("shell-session", "bash"),
    ("console", "bash"),
    ("zsh", "bash"),
    ("golang", "go"),
    ("jsonc", "json"),
    ("jsonl", "json"),
    ("patch", "diff"),
    ("docker", "dockerfile"),
];

/// Roles of scopes; the longest prefix counts.
const ROLES: [(&str, Role); 30] = [
    ("comment", Role::Comment),
    ("string", Role::Text),
    ("constant", Role::Constant),
    ("constant.other", Role::Plain),
    ("constant.other.symbol", Role::Constant),
    ("constant.other.color", Role::Constant),
    ("keyword", Role::Keyword),
    ("keyword.operator", Role::Plain),
    ("keyword.operator.word", Role::Keyword),
    ("keyword.operator.logical.python", Role::Keyword),
    ("storage", Role::Keyword),
    ("storage.type.numeric", Role::Constant),
    ("entity.name.function", Role::Function),
    ("entity.name.macro", Role::Function),
    ("support.function", Role::Function),
    ("support.macro", Role::Function),
    ("variable.function", Role::Function),
    ("entity.name", Role::Type),
    ("entity.name.tag", Role::Keyword),
    ("entity.other.attribute-name", Role::Type),
    ("entity.other.inherited-class", Role::Type),
    ("support.type", Role::Type),
    ("support.class", Role::Type),
    ("variable.annotation", Role::Type),
    ("variable.language", Role::Keyword),
    ("meta.interpolation", Role::Plain),
    ("meta.template.expression", Role::Plain),
    ("markup.heading", Role::Heading),
    ("markup.inserted", Role::Added),
    ("markup.deleted", Role::Removed),
];

/// The grammars, and where they stood after the lines that were parsed last.
pub(super) struct Painter {
    syntaxes: SyntaxSet,
    states: Recent<State>,
    roles: Vec<(Scope, Role)>,
    role_of: HashMap<Scope, Option<Role>>,
}

#[derive(Clone)]
struct State {
    parser: ParseState,
    scopes: ScopeStack,
}

impl Default for Painter {
    fn default() -> Painter {
        let scope = |(name, role): &(&str, Role)| Scope::new(name).ok().map(|s| (s, *role));
        let mut roles: Vec<(Scope, Role)> = ROLES.iter().filter_map(scope).collect();
        roles.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.len()));
        Painter {
            syntaxes: two_face::syntax::extra_newlines(),
            states: Recent::new(MAX_STATES),
            roles,
            role_of: HashMap::new(),
        }
    }
}

impl Painter {
    /// Paints the lines that are not remembered.
    pub(super) fn paint(&mut self, job: &Job, shared: &SharedQueue) {
        let lines: Vec<(&str, u64)> = chain(&job.code, &job.language).collect();
        let missing = {
            let mut known = shared.lines();
            lines
                .iter()
                .position(|(_, hash)| known.get(*hash).is_none())
        };
        let Some(missing) = missing else {
            return;
        };
        let (mut at, mut state) = self.state_before(missing, &lines, job);
        for batch in lines[at..].chunks(BATCH_LINES) {
            let mut painted: Vec<(u64, Runs)> = Vec::with_capacity(batch.len());
            for (line, hash) in batch {
                painted.push((*hash, self.line(line, state.as_mut()).into()));
                at += 1;
                // A last line without its end is likely to grow.
                let ends = at == lines.len() || !lines[at].0.ends_with('\n');
                if let Some(state) = &state
                    && (ends || at % BATCH_LINES == 0)
                    && line.ends_with('\n')
                {
                    self.states.insert(*hash, state.clone());
                }
            }
            let mut known = shared.lines();
            for (hash, runs) in painted {
                known.insert(hash, runs);
            }
            drop(known);
            shared.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns the last cached state at or before the line, or the first of the language.
    fn state_before(
        &mut self,
        line: usize,
        lines: &[(&str, u64)],
        job: &Job,
    ) -> (usize, Option<State>) {
        for at in (1..=line).rev() {
            if let Some(state) = self.states.get(lines[at - 1].1) {
                return (at, Some(state.clone()));
            }
        }
        let state = self.syntax(&job.language).map(|syntax| State {
            parser: ParseState::new(syntax),
            scopes: ScopeStack::new(),
        });
        (0, state)
    }

    fn syntax(&self, language: &str) -> Option<&SyntaxReference> {
        let language = language.to_ascii_lowercase();
        let alias = ALIASES.iter().find(|(name, _)| *name == language);
        let name = alias.map_or(language.as_str(), |(_, name)| name);
        self.syntaxes.find_syntax_by_token(name)
    }

    /// Returns the roles of a line. An unknown language, a line that is too long, and a line that
    /// the grammar fails on have none.
    fn line(&mut self, line: &str, state: Option<&mut State>) -> Vec<Run> {
        let Some(state) = state.filter(|_| line.len() <= MAX_LINE_BYTES) else {
            return Vec::new();
        };
        let Ok(changes) = state.parser.parse_line(line, &self.syntaxes) else {
            return Vec::new();
        };
        let mut runs = Vec::new();
        let mut from = 0;
        for (at, change) in changes {
            if at > from {
                self.push_run(&mut runs, &state.scopes, at - from);
                from = at;
            }
            if state.scopes.apply(&change).is_err() {
                return Vec::new();
            }
        }
        let end = line.strip_suffix('\n').unwrap_or(line).len();
        if end > from {
            self.push_run(&mut runs, &state.scopes, end - from);
        }
        // The line's end belongs to no run.
        let surplus = runs
            .iter()
            .map(|r: &Run| r.bytes)
            .sum::<usize>()
            .saturating_sub(end);
        if let Some(last) = runs.last_mut() {
            last.bytes -= surplus;
        }
        runs.retain(|run| run.bytes > 0);
        runs
    }

    fn push_run(&mut self, runs: &mut Vec<Run>, scopes: &ScopeStack, bytes: usize) {
        let mut inner = scopes.as_slice().iter().rev();
        let role = inner.find_map(|s| self.role(*s)).unwrap_or(Role::Plain);
        match runs.last_mut() {
            Some(last) if last.role == role => last.bytes += bytes,
            _ => runs.push(Run { role, bytes }),
        }
    }

    fn role(&mut self, scope: Scope) -> Option<Role> {
        let roles = &self.roles;
        *self.role_of.entry(scope).or_insert_with(|| {
            let mut matching = roles
                .iter()
                .filter(|(prefix, _)| prefix.is_prefix_of(scope));
            matching.next().map(|(_, role)| *role)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_names_a_scope() {
        assert_eq!(Painter::default().roles.len(), ROLES.len());
    }

    #[test]
    fn every_alias_names_a_language() {
        let painter = Painter::default();
        for (name, _) in ALIASES {
            assert!(painter.syntax(name).is_some(), "{name}");
        }
    }
}
