-- Schema 1. Migrations are add-only, and one that was ever released is never edited.
--
-- Rows of `entries` never change. A session is a named head in the tree of entries; its
-- chain is what is met when walking from `sessions.head` by `parent`. There is on purpose
-- no index on `entries`: each would cost a page of the log per commit, and the walk is fast.
-- Row ids rise in the order of recording, over all sessions and processes.

CREATE TABLE sessions (
  key           INTEGER PRIMARY KEY,
  id            TEXT    NOT NULL UNIQUE,            -- uuid v7
  workspace     TEXT    NOT NULL,                   -- canonical root: what counts as "here"
  folder        TEXT    NOT NULL,                   -- the folder it works in
  head          INTEGER NOT NULL REFERENCES entries (id) DEFERRABLE INITIALLY DEFERRED,
  length        INTEGER NOT NULL,                   -- entries in the chain; the head's seq is length - 1
  forked_from   INTEGER REFERENCES sessions (key),
  forked_seq    INTEGER,
  created_ms    INTEGER NOT NULL,
  updated_ms    INTEGER NOT NULL,
  -- What lists show, kept by every append, so that nothing has to be folded for them.
  title         TEXT,
  version       TEXT,
  model         TEXT,
  unfinished    INTEGER NOT NULL DEFAULT 0,
  input         INTEGER NOT NULL DEFAULT 0,         -- tokens
  cached        INTEGER NOT NULL DEFAULT 0,
  cache_written INTEGER NOT NULL DEFAULT 0,
  output        INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Its columns never change, so appending never touches it.
CREATE INDEX sessions_by_workspace ON sessions (workspace);

CREATE TABLE entries (
  id        INTEGER PRIMARY KEY,
  parent    INTEGER REFERENCES entries (id),        -- NULL: the first of its tree
  session   INTEGER NOT NULL REFERENCES sessions (key), -- the session that appended it
  seq       INTEGER NOT NULL,                       -- place in the chain, from 0
  at_ms     INTEGER NOT NULL,                       -- UTC
  kind      TEXT    NOT NULL,
  checksum  BLOB    NOT NULL,                       -- blake3 of parent, seq, at_ms and body, 16 bytes
  plan_step TEXT,                                   -- of checkpoints: the step that was being worked on
  body      ANY     NOT NULL                        -- text: JSON; blob: the same, zstd
) STRICT;

CREATE TABLE blobs (
  id       INTEGER PRIMARY KEY,
  hash     BLOB    NOT NULL UNIQUE,                 -- blake3 of the bytes before compression
  bytes    INTEGER NOT NULL,                        -- size before compression
  encoding TEXT    NOT NULL CHECK (encoding IN ('raw', 'zstd')),
  data     BLOB    NOT NULL
) STRICT;

CREATE TABLE drafts (
  session INTEGER NOT NULL REFERENCES sessions (key),
  kind    TEXT    NOT NULL CHECK (kind IN ('stream', 'input')),
  piece   INTEGER NOT NULL,
  text    TEXT    NOT NULL,
  PRIMARY KEY (session, kind, piece)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,        -- never used twice
  session INTEGER NOT NULL REFERENCES sessions (key),
  at_ms   INTEGER NOT NULL,
  body    TEXT    NOT NULL                          -- JSON
) STRICT;

CREATE TABLE model_limits (
  model           TEXT PRIMARY KEY,                 -- provider/model
  context_tokens  INTEGER,
  bytes_per_token REAL
) STRICT, WITHOUT ROWID;

-- Full text of what was said, answered and printed. It holds no copy of the text, and is
-- filled behind the commits: entries up to `indexed.upto` are in it.
CREATE VIRTUAL TABLE entry_index USING fts5 (text, content = '', tokenize = 'unicode61 remove_diacritics 2');
-- Fewer, larger pieces, merged less often: half of what is written otherwise.
INSERT INTO entry_index (entry_index, rank) VALUES ('hashsize', 4194304), ('automerge', 8);
CREATE TABLE indexed (upto INTEGER NOT NULL) STRICT;
INSERT INTO indexed VALUES (0);

CREATE VIEW checkpoints AS
SELECT s.id AS session, e.id AS entry, e.parent, e.seq, e.at_ms,
       CASE e.kind WHEN 'saved' THEN json_extract(e.body, '$.reason') ELSE e.kind END AS reason,
       e.plan_step
FROM entries e JOIN sessions s ON s.key = e.session
WHERE e.kind IN ('replied', 'finished', 'saved', 'closed', 'continued');
