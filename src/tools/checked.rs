//! The checked tools `write`, `edit` and `save_skill`: they inspect the file, record the change,
//! replace the file, and inspect it again after a crash.
//!
//! Invariant: the content written is computed from the content whose hash was recorded, and has the
//! hash that was recorded. Any other content on disk is somebody else's: it is left alone, and the
//! model is told.

use crate::core::text::{count, size_text};
use std::io::ErrorKind;
use std::path::Path;

use super::ToolResult;
use super::diff::Diff;
use super::file::{self, FolderEntry, HAS_WRITER, MAX_FILE_BYTES};
use super::line_ends::changed_ends;
use super::paths::{self, ToolContext, path_key};
use super::staged::{self, CommitError, Loss};
use crate::core::entry::{Fact, Guard, Outcome};
use crate::core::seen::{SeenFile, SeenPart};

/// Computes the new content from the path, in the form that guards have, and the old content.
pub(super) type MakeContent = Box<dyn Fn(&Path, Option<&[u8]>) -> Result<Content, String> + Send>;

/// The change that a checked call makes to a file.
pub struct FileChange {
    pub target: Target,
    /// The new content does not depend on the old one, so the model must know an existing file.
    pub is_blind: bool,
    pub content: MakeContent,
}

/// The file of a checked call, as the call names it.
pub enum Target {
    /// A path relative to the session's folder.
    Path(String),
    /// A path relative to the workspace's root: the same file from every folder of the workspace.
    InWorkspace(String),
}

/// The new content of a file.
pub struct Content {
    pub bytes: Vec<u8>,
    /// The places that were replaced; `None` when the whole file is new.
    pub replaced: Option<Replaced>,
}

/// The places of a file that were replaced.
pub struct Replaced {
    /// Number of places.
    pub places: usize,
    /// Whether no other place can have been meant.
    pub is_certain: bool,
    /// Whether they match the requested text byte for byte.
    pub is_exact: bool,
}

impl Content {
    /// Returns content that replaces the whole file.
    pub fn whole(bytes: Vec<u8>) -> Content {
        Content {
            bytes,
            replaced: None,
        }
    }
}

/// The state of the file of a call that had started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// The call has replaced the file.
    After,
    /// The call has not replaced the file, and can run.
    Before,
    /// The file has another content: the reason, for the model.
    Conflict(String),
}

/// Inspects the file of a checked call and returns the guard of its change, without changing
/// anything. `seen` is the file as the model last saw it, found by [`path_key`]. An error is for
/// the model.
pub fn prepare(
    change: &FileChange,
    ctx: &ToolContext,
    seen: Option<&SeenFile>,
) -> Result<Guard, Outcome> {
    guard(change, ctx, seen).map_err(Outcome::error)
}

fn guard(change: &FileChange, ctx: &ToolContext, seen: Option<&SeenFile>) -> Result<Guard, String> {
    let name = &change.target.name(ctx)?;
    let path = paths::resolve(name, ctx)?;
    let Some(path_text) = path.to_str() else {
        return Err(format!(
            "{name} leads to a path that is not UTF-8: {path:?}"
        ));
    };
    file::replaceable(&path).map_err(|why| format!("cannot write {name}: {why}"))?;
    let old = content(&path).map_err(|why| format!("cannot change {name}: {why}"))?;
    let before = old.as_deref().map(file::hash);
    let is_known = before.is_none() || before.as_ref() == seen.map(|seen| &seen.hash);
    let unknown = || {
        let (why, hint) = match seen {
            None => ("exists and was not read in this session", "read it first"),
            Some(_) => ("changed on disk since it was read", "read it again"),
        };
        format!("{name} {why}: nothing was changed\nhint: {hint}")
    };
    // The error of a failed edit quotes the file, so the caller must be allowed to read it.
    if !is_known && ctx.hidden.hides(&path) {
        return Err(unknown());
    }
    let new = (change.content)(&path, old.as_deref()).map_err(|why| match seen {
        Some(_) if !is_known => format!(
            "{}\n{name} changed on disk since it was read\nhint: read it again",
            why.trim_end()
        ),
        _ => why,
    })?;
    if !is_known && new.replaced.as_ref().is_some_and(|r| !r.is_certain) {
        return Err(format!("{}, since `all` changes several places", unknown()));
    }
    let guard = Guard::Checked {
        path: path_text.to_string(),
        after: file::hash(&new.bytes),
        before,
    };
    if change.is_blind && old.is_some() && !guard.changes_nothing() {
        if !is_known {
            return Err(unknown());
        }
        if let Some(part) = seen.and_then(|seen| seen.part.as_ref()) {
            return Err(unseen(name, part));
        }
    }
    Ok(guard)
}

/// Says why a file must not be replaced of which the model has seen a part.
fn unseen(name: &str, part: &SeenPart) -> String {
    if part.replaced {
        return format!(
            "{name} has bytes that are not text, and read showed others: nothing was changed\n\
             hint: change it with a command, or convert it with one (iconv) and read it again"
        );
    }
    let missing = part.first_missing();
    format!(
        "{name} was read only in part, without line {missing}: nothing was changed\n\
         hint: read the rest (offset {missing}), or use edit, also for a line that read cuts"
    )
}

/// Makes the change that the guard records, if the file still has the recorded content.
pub fn apply(change: &FileChange, guard: &Guard, ctx: &ToolContext) -> ToolResult {
    replace(change, guard, ctx).unwrap_or_else(ToolResult::error)
}

fn replace(change: &FileChange, guard: &Guard, ctx: &ToolContext) -> Result<ToolResult, String> {
    let name = &change.target.name(ctx)?;
    let Guard::Checked {
        path: path_text,
        before,
        after,
    } = guard
    else {
        return Err(format!(
            "{name} was not written: the call has no hash of the file"
        ));
    };
    let path = Path::new(path_text);
    if path_key(name, ctx) != *path_text {
        return Err(format!(
            "{name} now leads to another file: nothing was changed"
        ));
    }
    let old = content(path).map_err(|why| format!("cannot change {name}: {why}"))?;
    if old.as_deref().map(file::hash) != *before {
        return Err(changed(name));
    }
    let new = (change.content)(path, old.as_deref())?;
    if file::hash(&new.bytes) != *after {
        return Err(format!(
            "{name} would not become what was recorded: nothing was changed"
        ));
    }
    if guard.changes_nothing() {
        // Only the arguments of a blind change are the whole content.
        let seen = change.is_blind.then(|| Fact::Seen {
            path: path_text.clone(),
            hash: after.clone(),
            part: None,
        });
        return Ok(ToolResult::done(format!("{name} already has this content")).with(seen));
    }
    let wrote = Some(Fact::Wrote {
        path: path_text.clone(),
        hash: after.clone(),
    });
    let staged = staged::stage(path, &new.bytes)
        .map_err(|e| format!("cannot write {name}: {e}\nnothing was changed"))?;
    match staged.commit(before.as_deref()) {
        Ok(loss) => {
            let mut text = report(name, old.as_deref(), &new);
            text.push_str(&loss_text(&loss));
            Ok(ToolResult::done(text).with(wrote))
        }
        Err(CommitError::Changed(None)) => Err(changed(name)),
        Err(CommitError::Changed(Some(kept))) => Err(format!(
            "{name} was changed by two other programs while it was written\n\
             hint: read it again; what one of them left is beside it, as {kept}"
        )),
        Err(CommitError::Open) => Err(format!("cannot write {name}: {HAS_WRITER}")),
        Err(CommitError::NotReplaced(e)) => Err(not_replaced(name, &e)),
        Err(CommitError::NotSynced(e)) => Ok(ToolResult::error(format!(
            "{name} was written, but its folder could not be synced: {e}\na power cut may undo it"
        ))
        .with(wrote)),
    }
}

fn not_replaced(name: &str, e: &std::io::Error) -> String {
    let hint = if e.kind() == ErrorKind::ResourceBusy {
        "\nhint: a file that is a mount point cannot be replaced; a command can write into it"
    } else {
        ""
    };
    format!("cannot replace {name}: {e}\nnothing was changed{hint}")
}

/// Describes the properties that a file lost when it was replaced.
fn loss_text(loss: &Loss) -> String {
    let mut text = String::new();
    if loss.owner {
        text.push_str(
            "\nits owner or group is another one now: only root can keep those of others",
        );
    }
    if loss.hard_links > 0 {
        let links = count(
            usize::try_from(loss.hard_links).unwrap_or(usize::MAX),
            "other name",
        );
        text.push_str(&format!(
            "\nit had {links} (hard links), which keep the old content"
        ));
    }
    if !loss.attributes.is_empty() {
        text.push_str(&format!(
            "\nextended attributes that could not be copied: {}",
            loss.attributes.join(", ")
        ));
    }
    text
}

/// Returns the state of the file after a crash. Removes the files that the interrupted call left
/// beside it.
pub fn settle_file(guard: &Guard) -> FileState {
    let Guard::Checked {
        path,
        before,
        after,
    } = guard
    else {
        return FileState::Conflict("the call has no hash of a file".to_string());
    };
    match staged::settle_leftovers(Path::new(path), before.as_deref(), after) {
        Ok(None) => {}
        Ok(Some(kept)) => {
            return FileState::Conflict(format!(
                "{path} was changed by another program while it was written; that version is beside it, as {kept}"
            ));
        }
        Err(e) => return FileState::Conflict(format!("cannot look beside {path}: {e}")),
    }
    match file::hash_at(Path::new(path)) {
        // Killed between the rename and the sync of the folder: a power cut could still undo the
        // rename.
        Ok(now) if now.as_ref() == Some(after) => match file::sync_parent(Path::new(path)) {
            Ok(()) => FileState::After,
            Err(e) => FileState::Conflict(format!(
                "{path} was written, but its folder could not be synced: {e}"
            )),
        },
        Ok(now) if now == *before => FileState::Before,
        Ok(None) => FileState::Conflict(format!("{path} was removed by somebody else")),
        Ok(Some(_)) => FileState::Conflict(format!(
            "{path} was changed by somebody else: it is neither what it was nor what it was to become"
        )),
        Err(e) => FileState::Conflict(format!("cannot look at {path}: {e}")),
    }
}

fn changed(name: &str) -> String {
    format!(
        "{name} changed on disk just before it was written: nothing was changed\nhint: read it again"
    )
}

impl Target {
    /// Returns the key of the file, as [`path_key`] does.
    pub fn key(&self, ctx: &ToolContext) -> String {
        match (self.name(ctx), self) {
            (Ok(name), _) => path_key(&name, ctx),
            (Err(_), Target::Path(path) | Target::InWorkspace(path)) => path.clone(),
        }
    }

    fn name(&self, ctx: &ToolContext) -> Result<String, String> {
        match self {
            Target::Path(path) => Ok(path.clone()),
            Target::InWorkspace(path) => paths::in_workspace(path, ctx),
        }
    }
}

/// Returns the current content, or `None` when the file does not exist.
fn content(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let found = match FolderEntry::of(path) {
        Ok(Some(place)) => place.load(MAX_FILE_BYTES),
        Ok(None) => return Ok(None),
        Err(e) => Err(e),
    };
    match found {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == ErrorKind::FileTooLarge => Err(format!(
            "it is over {}\nhint: use a command",
            size_text(MAX_FILE_BYTES)
        )),
        Err(e) => Err(e.to_string()),
    }
}

fn report(name: &str, old: Option<&[u8]>, new: &Content) -> String {
    let text = String::from_utf8_lossy(&new.bytes);
    let Some(old) = old else {
        let lines = count(text.lines().count(), "line");
        let bytes = count(new.bytes.len(), "byte");
        return format!("created {name}: {lines}, {bytes}");
    };
    let old = String::from_utf8_lossy(old);
    let diff = Diff::of(&old, &text);
    let words = diff.in_words();
    match &new.replaced {
        None => {
            let ends = changed_ends(&old, &text).into_iter();
            let ends: String = ends.map(|words| format!("\n{words}")).collect();
            format!("overwrote {name}: {words}{ends}")
        }
        Some(replaced) => {
            let places = match replaced.places {
                1 => String::new(),
                n => format!("{}, ", count(n, "place")),
            };
            let shown = match replaced.is_exact {
                true => String::new(),
                false => format!(
                    "\nline ends differ from those of `old`; it is now:\n{}",
                    diff.excerpt
                ),
            };
            format!("edited {name}: {places}{words}{shown}")
        }
    }
}

#[cfg(test)]
mod test_race;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::test_support::{ResultRoom, done, error, error_of, hash, work};
    use super::super::work::Work;
    use super::*;

    fn change(name: &str, arguments: Value) -> FileChange {
        match work(name, arguments) {
            Work::Replace(change) => change,
            _ => panic!("not a checked call"),
        }
    }

    fn write(path: &str, content: &str) -> FileChange {
        change("write", json!({"path": path, "content": content}))
    }

    #[test]
    fn a_mount_point_and_a_lost_owner_are_named() {
        let why = |e: rustix::io::Errno| not_replaced("a", &e.into());
        assert!(why(rustix::io::Errno::BUSY).contains("a command can write into it"));
        assert!(!why(rustix::io::Errno::PERM).contains("hint"));
        let loss = Loss {
            owner: true,
            ..Loss::default()
        };
        assert!(loss_text(&loss).contains("owner"));
    }

    fn edit(path: &str, old: &str, new: &str) -> FileChange {
        let edits: Value = json!([{"old": old, "new": new}]);
        change("edit", json!({"path": path, "edits": edits}))
    }

    /// Prepares a change by a model that saw the whole file with this hash.
    fn prepare(
        change: &FileChange,
        ctx: &ToolContext,
        seen: Option<&str>,
    ) -> Result<Guard, Outcome> {
        super::prepare(change, ctx, seen.map(SeenFile::whole).as_ref())
    }

    fn refused(room: &ResultRoom, change: &FileChange, seen: Option<&str>) -> String {
        let outcome = prepare(change, &room.ctx, seen).unwrap_err();
        error_of(&outcome).to_string()
    }

    #[test]
    fn a_new_file_is_written_and_said() {
        let room = ResultRoom::new();
        let change = write("dir/new", "a\nb\n");
        let guard = prepare(&change, &room.ctx, None).unwrap();
        assert_eq!(settle_file(&guard), FileState::Before);
        assert!(room.names().is_empty(), "prepare changes nothing");
        let ran = apply(&change, &guard, &room.ctx);
        assert_eq!(done(&ran), "created dir/new: 2 lines, 4 bytes");
        assert_eq!(room.get("dir/new"), "a\nb\n");
        assert_eq!(settle_file(&guard), FileState::After);
        let wrote = Fact::Wrote {
            path: room.key("dir/new"),
            hash: hash("a\nb\n"),
        };
        assert_eq!(ran.fact, Some(wrote));
    }

    #[test]
    fn an_edit_says_in_a_line_what_changed() {
        let room = ResultRoom::new();
        room.put("a", "one\r\ntwo\r\n");
        let change = edit("a", "two", "2\n3");
        let guard = prepare(&change, &room.ctx, Some(&hash("one\r\ntwo\r\n"))).unwrap();
        let ran = apply(&change, &guard, &room.ctx);
        assert_eq!(done(&ran), "edited a: lines 2–3, +2 −1");
        assert_eq!(room.get("a"), "one\r\n2\r\n3\r\n");
    }

    #[test]
    fn an_edit_that_is_not_to_the_byte_shows_what_it_made() {
        let room = ResultRoom::new();
        room.put("a", "one\r\ntwo\r\n");
        let change = edit("a", "one\ntwo", "1\n2");
        let guard = prepare(&change, &room.ctx, None).unwrap();
        assert_eq!(
            done(&apply(&change, &guard, &room.ctx)),
            "edited a: lines 1–2, +2 −2\nline ends differ from those of `old`; it is now:\n\
             @@ -1,2 +1,2 @@\n-one\n-two\n+1\n+2\n"
        );
    }

    #[test]
    fn a_file_is_overwritten_only_as_it_was_seen() {
        let room = ResultRoom::new();
        room.put("a", "theirs");
        let change = write("a", "ours");
        assert!(refused(&room, &change, None).contains("read it first"));
        let stale = refused(&room, &change, Some(&hash("before")));
        assert!(
            stale.contains("changed on disk since it was read"),
            "{stale}"
        );
        prepare(&change, &room.ctx, Some(&hash("theirs"))).unwrap();
        assert_eq!(room.get("a"), "theirs");
    }

    #[test]
    fn a_file_that_was_seen_in_part_is_not_overwritten() {
        let room = ResultRoom::new();
        room.put("a", "1\n2\n3\n4\n");
        let refused = |change: &FileChange, lines: Vec<(u64, u64)>, replaced: bool| {
            let seen = SeenFile {
                hash: hash("1\n2\n3\n4\n"),
                part: SeenPart::new(lines, 4, replaced),
            };
            let prepared = super::prepare(change, &room.ctx, Some(&seen));
            prepared.map_err(|outcome| error_of(&outcome).to_string())
        };
        let ours = write("a", "ours\n");
        assert_eq!(
            refused(&ours, vec![(1, 1), (4, 4)], false).unwrap_err(),
            "a was read only in part, without line 2: nothing was changed\n\
             hint: read the rest (offset 2), or use edit, also for a line that read cuts"
        );
        let bytes = refused(&ours, vec![(1, 4)], true).unwrap_err();
        assert!(
            bytes.contains("bytes that are not text") && bytes.contains("iconv"),
            "{bytes}"
        );
        let unread = SeenFile {
            part: Some(SeenPart::default()),
            ..SeenFile::whole(hash("1\n2\n3\n4\n"))
        };
        let said = super::prepare(&ours, &room.ctx, Some(&unread)).unwrap_err();
        assert!(
            error_of(&said).contains("in part, without line 1: "),
            "{said:?}"
        );
        refused(&ours, vec![(1, 4)], false).unwrap();
        refused(&edit("a", "3", "three"), vec![(1, 1)], false).unwrap();
        // The same content destroys nothing.
        let guard = refused(&write("a", "1\n2\n3\n4\n"), vec![(1, 1)], false).unwrap();
        assert!(guard.changes_nothing());
    }

    #[test]
    fn a_write_keeps_line_ends_and_the_mark() {
        let room = ResultRoom::new();
        let check = |old: &str, content: &str, after: &str, want: &str| {
            room.put("a", old);
            let change = write("a", content);
            let guard = prepare(&change, &room.ctx, Some(&hash(old))).unwrap();
            assert_eq!(done(&apply(&change, &guard, &room.ctx)), want);
            assert_eq!(room.get("a"), after);
        };
        check(
            "\u{feff}a\r\n  b\r\n",
            "a\n  c\n",
            "\u{feff}a\r\n  c\r\n",
            "overwrote a: line 2, +1 −1",
        );
        check(
            "\u{feff}a\r\n",
            "a\n",
            "\u{feff}a\r\n",
            "a already has this content",
        );
        check(
            "\u{feff}a\nb\n",
            "a\r\nb\r\n",
            "a\r\nb\r\n",
            "overwrote a: lines 1–2, +2 −2\nthe byte order mark was removed\nline ends changed from LF to CRLF",
        );
        check(
            "a\r\nb\n",
            "a\nB\n",
            "a\r\nB\n",
            "overwrote a: line 2, +1 −1",
        );
        check("\u{feff}a\r\n", "", "", "overwrote a: line 1, +0 −1");
        check(
            "a\n",
            "a",
            "a",
            "overwrote a: line 1, +1 −1\nthe last line has no line end now",
        );
    }

    #[test]
    fn an_edit_needs_no_read_when_it_is_certain() {
        let mut room = ResultRoom::new();
        room.put("a", "one two two");
        for seen in [None, Some(hash("before")), Some(hash("one two two"))] {
            prepare(&edit("a", "one", "1"), &room.ctx, seen.as_deref()).unwrap();
        }
        let edits = json!([{"old": "two", "new": "2", "all": true}]);
        let all = change("edit", json!({"path": "a", "edits": edits}));
        assert!(refused(&room, &all, None).contains("`all` changes several places"));
        let stale = refused(&room, &all, Some(&hash("before")));
        assert!(
            stale.contains("changed on disk since it was read"),
            "{stale}"
        );
        prepare(&all, &room.ctx, Some(&hash("one two two"))).unwrap();
        let wrong = refused(&room, &edit("a", "three", "3"), Some(&hash("before")));
        assert!(wrong.contains("was not found"), "{wrong}");
        assert!(wrong.ends_with("hint: read it again"), "{wrong}");
        let missing = refused(&room, &edit("aa", "x", "y"), None);
        assert!(
            missing.contains("near names in that folder: a"),
            "{missing}"
        );
        // The error of a failed edit would quote the file.
        room.hide(&["Read(a)"]);
        for old in ["one", "three"] {
            let said = refused(&room, &edit("a", old, "x"), None);
            assert!(
                said.contains("read it first") && !said.contains("two"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_skill_is_a_file_of_the_workspace_however_deep_one_is() {
        let mut room = ResultRoom::new();
        room.put("deep/down/x", "");
        room.ctx.folder = room.path("deep/down");
        let skill = |body: &str| {
            let arguments = json!({"name": "run-tests", "description": "How: \"x\"", "body": body});
            change("save_skill", arguments)
        };
        let change = skill("Do it.");
        let guard = prepare(&change, &room.ctx, None).unwrap();
        // Killed before it was written, and after.
        assert_eq!(settle_file(&guard), FileState::Before);
        done(&apply(&change, &guard, &room.ctx));
        assert_eq!(settle_file(&guard), FileState::After);
        let path = room.ctx.root.join(".rewake/skills/run-tests/SKILL.md");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "---\nname: run-tests\ndescription: \"How: \\\"x\\\"\"\n---\n\nDo it.\n"
        );
        assert_eq!(change.target.key(&room.ctx), path.to_str().unwrap());
        // An existing skill that the model has not seen is not overwritten.
        let other = skill("Do it otherwise.");
        assert!(refused(&room, &other, None).contains("read it first"));
        let guard = prepare(&other, &room.ctx, Some(&hash(&text))).unwrap();
        fs::write(&path, "somebody else's").unwrap();
        assert!(matches!(settle_file(&guard), FileState::Conflict(_)));
    }

    #[test]
    fn a_call_is_applied_once() {
        let room = ResultRoom::new();
        room.put("a", "x");
        let change = edit("a", "x", "xx");
        let guard = prepare(&change, &room.ctx, Some(&hash("x"))).unwrap();
        done(&apply(&change, &guard, &room.ctx));
        let again = apply(&change, &guard, &room.ctx);
        assert!(error(&again).contains("changed on disk"));
        assert_eq!(again.fact, None);
        assert_eq!(room.get("a"), "xx");
        assert_eq!(settle_file(&guard), FileState::After);
    }

    #[test]
    fn every_instant_of_a_crash_can_be_told_from_the_file() {
        let room = ResultRoom::new();
        let path = room.put("a", "old");
        let change = write("a", "new");
        let guard = prepare(&change, &room.ctx, Some(&hash("old"))).unwrap();

        let staged = staged::stage(&path, b"new").unwrap();
        // Killed before the rename: `forget` leaves the staged file in place.
        std::mem::forget(staged);
        assert_eq!(room.names().len(), 2);
        assert_eq!(settle_file(&guard), FileState::Before);
        assert_eq!(room.names(), ["a"], "and is cleared away");

        let staged = staged::stage(&path, b"new").unwrap();
        staged.commit(Some(&hash("old"))).unwrap();
        assert_eq!(settle_file(&guard), FileState::After);

        room.put("a", "theirs");
        assert!(matches!(settle_file(&guard), FileState::Conflict(why) if why.contains("changed")));
        assert!(error(&apply(&change, &guard, &room.ctx)).contains("nothing was changed"));
        fs::remove_file(&path).unwrap();
        assert!(matches!(settle_file(&guard), FileState::Conflict(why) if why.contains("removed")));
        fs::create_dir(&path).unwrap();
        assert!(matches!(settle_file(&guard), FileState::Conflict(why) if why.contains("folder")));
        assert!(matches!(
            settle_file(&Guard::Opaque),
            FileState::Conflict(_)
        ));
    }

    #[test]
    fn a_link_is_written_through_and_mode_is_kept() {
        let room = ResultRoom::new();
        let path = room.put("real/a", "old");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real/a", room.path("link")).unwrap();
        let change = edit("link", "old", "new");
        let guard = prepare(&change, &room.ctx, Some(&hash("old"))).unwrap();
        let ran = apply(&change, &guard, &room.ctx);
        assert!(matches!(&ran.fact, Some(Fact::Wrote { path, .. }) if *path == room.key("real/a")));
        assert!(
            fs::symlink_metadata(room.path("link"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(room.get("real/a"), "new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_file_that_another_program_writes_is_refused_before_anything_is_recorded() {
        let room = ResultRoom::new();
        let path = room.put("log", "one\n");
        let change = edit("log", "one", "1");
        let guard = prepare(&change, &room.ctx, Some(&hash("one\n"))).unwrap();
        let mut writer = fs::File::options().append(true).open(path).unwrap();
        let said = refused(&room, &change, Some(&hash("one\n")));
        assert!(
            said.contains("cannot write log: another program has it open"),
            "{said}"
        );
        let ran = apply(&change, &guard, &room.ctx);
        assert!(error(&ran).contains("open for writing"));
        assert_eq!(ran.fact, None);
        std::io::Write::write_all(&mut writer, b"two\n").unwrap();
        assert_eq!(room.get("log"), "one\ntwo\n");
    }

    #[test]
    fn a_broken_hard_link_is_reported() {
        let room = ResultRoom::new();
        let path = room.put("a", "old");
        fs::hard_link(&path, room.path("b")).unwrap();
        for (change, words) in [
            (edit("a", "old", "new"), "edited a: line 1, +1 −1"),
            (write("b", "newer"), "overwrote b: line 1, +1 −1"),
        ] {
            fs::remove_file(room.path("c")).unwrap_or_default();
            fs::hard_link(room.path("b"), room.path("c")).unwrap();
            let guard = prepare(&change, &room.ctx, Some(&hash("old"))).unwrap();
            let ran = apply(&change, &guard, &room.ctx);
            assert!(done(&ran).starts_with(words), "{ran:?}");
            assert!(
                done(&ran).contains("hard links), which keep the old content"),
                "{ran:?}"
            );
        }
        assert_eq!(
            (room.get("a"), room.get("b"), room.get("c")),
            ("new".into(), "newer".into(), "old".into())
        );
    }

    #[test]
    fn a_link_that_was_moved_meanwhile_is_not_followed() {
        let room = ResultRoom::new();
        room.put("one", "x");
        room.put("two", "x");
        symlink("one", room.path("link")).unwrap();
        let change = write("link", "y");
        let guard = prepare(&change, &room.ctx, Some(&hash("x"))).unwrap();
        fs::remove_file(room.path("link")).unwrap();
        symlink("two", room.path("link")).unwrap();
        assert!(error(&apply(&change, &guard, &room.ctx)).contains("another file"));
        assert_eq!((room.get("one"), room.get("two")), ("x".into(), "x".into()));
    }

    #[test]
    fn a_change_that_cannot_be_written_is_refused_without_traces() {
        let room = ResultRoom::new();
        let path = room.put("locked", "x");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        room.put("binary", b"\xff\xfe");
        room.put("dir/x", "");
        let seen = hash("x");
        let check = |change: &FileChange, seen: &str, why: &str| {
            let said = refused(&room, change, Some(seen));
            assert!(said.contains(why), "{said}");
        };
        check(&write("locked", "y"), &seen, "read-only");
        check(&edit("binary", "x", "y"), &hash(b"\xff\xfe"), "not UTF-8");
        check(&write("dir", "y"), &seen, "a folder");
        check(&write("locked/a", "y"), &seen, "locked/a");
        check(&write("/dev/null", "y"), &seen, "a device");
        check(&write("a\0", "y"), &seen, "NUL");
        assert_eq!(room.names(), ["binary", "dir", "locked"]);
    }

    #[test]
    fn a_file_over_the_limit_is_refused() {
        let room = ResultRoom::new();
        let path = room.put("big", "");
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(MAX_FILE_BYTES + 1)
            .unwrap();
        assert!(refused(&room, &write("big", "x"), None).contains("over 16 MiB"));
    }

    #[test]
    fn the_same_content_is_not_written_again() {
        let room = ResultRoom::new();
        let path = room.put("a", "x");
        let inode = fs::metadata(&path).unwrap().ino();
        let change = write("a", "x");
        let guard = prepare(&change, &room.ctx, Some(&hash("x"))).unwrap();
        let ran = apply(&change, &guard, &room.ctx);
        assert!(done(&ran).contains("already"));
        assert!(
            matches!(ran.fact, Some(Fact::Seen { part: None, .. })),
            "{ran:?}"
        );
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_prepared_change_is_applied_and_recognized_in_the_file(
            before in "[ab\r\n]{1,20}", old in "[ab\n]{1,2}", new in "[ab\n]{0,3}",
        ) {
            let room = ResultRoom::new();
            room.put("a", &before);
            let change = edit("a", &old, &new);
            let Ok(guard) = prepare(&change, &room.ctx, Some(&hash(&before))) else {
                prop_assert_eq!(room.get("a"), before);
                return Ok(());
            };
            prop_assert_eq!(settle_file(&guard), FileState::Before);
            done(&apply(&change, &guard, &room.ctx));
            prop_assert_eq!(settle_file(&guard), FileState::After);
            let after = room.get("a");
            prop_assert_ne!(&after, &before);
            error(&apply(&change, &guard, &room.ctx));
            prop_assert_eq!(room.get("a"), after);
            prop_assert_eq!(room.names(), ["a"]);
        }
    }
}
