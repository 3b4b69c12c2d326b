-- The schema, number 10. Formats begin with version 0.1.0; no database of a lower number is opened.
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
  output        INTEGER NOT NULL DEFAULT 0,
  -- A session in the trash is not listed and not found; it can be opened by its id.
  trashed_ms    INTEGER,                            -- UTC; NULL: not in the trash
  bytes         INTEGER NOT NULL DEFAULT 0,         -- as stored: its own entries and the blobs that came with them
  -- What providers themselves say that the session's own answers cost, in 10⁻⁹ US dollars. NULL:
  -- nothing was asked yet, or one of them did not say.
  billed        INTEGER,
  asks          INTEGER NOT NULL DEFAULT 0,         -- a person was asked, and has not answered, as the last append says
  -- The agent that a copy is of. Only an import appends to it.
  replica       TEXT
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
  body      ANY     NOT NULL,                       -- text: JSON; blob: the same, zstd
  -- Each entry names all before it by a hash that depends on no row id: blake3 of the tip of the
  -- entry before, seq, at_ms and the JSON of the body; its first 16 bytes.
  tip       BLOB    NOT NULL
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

-- What is kept to be found again, and the summary of each conversation.
--
-- Both follow from entries and are written in the transaction that records them. Nothing is
-- folded from them: a prompt is built from the entries alone.

-- One row for each `Finished` with the fact `remembered`.
CREATE TABLE memories (
  id           INTEGER PRIMARY KEY,
  workspace    TEXT    NOT NULL,
  session      INTEGER NOT NULL REFERENCES sessions (key), -- the session that recorded it
  seq          INTEGER NOT NULL,                    -- its entry
  kind         TEXT    NOT NULL CHECK (kind IN ('episodic', 'semantic', 'procedural')),
  topic        TEXT,
  text         TEXT    NOT NULL,
  uses         INTEGER NOT NULL DEFAULT 0,          -- how often a search found it
  created_ms   INTEGER NOT NULL,
  last_used_ms INTEGER NOT NULL,
  UNIQUE (session, seq)
) STRICT;

CREATE VIRTUAL TABLE memory_index USING fts5 (
  text, topic, content = 'memories', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);

-- The last `Closed` of each session. A row that is missing is made from the entries when it
-- is asked for: bodies may be compressed, which SQL cannot read.
CREATE TABLE conversation_context (
  conversation_id    TEXT    PRIMARY KEY REFERENCES sessions (id),
  summary            TEXT    NOT NULL,
  message_count      INTEGER NOT NULL,              -- entries that the summary stands for
  last_summarised_at INTEGER NOT NULL,              -- UTC, milliseconds
  updated_at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is known of the store as a whole.
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES
  ('store', lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
    || '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))));

-- Files in time: what the workspaces' files were.
--
-- An entry names a tree; a tree is a delta to its parent; a delta names contents by their hash.

-- Workspaces, by their canonical root.
CREATE TABLE places (
  key  INTEGER PRIMARY KEY,
  root BLOB    NOT NULL UNIQUE
) STRICT;

-- Files in the folder `files/packs`, for contents that are large, or many at once.
CREATE TABLE packs (
  id    INTEGER PRIMARY KEY,
  name  TEXT    NOT NULL UNIQUE,
  bytes INTEGER NOT NULL                             -- of it that rows name
) STRICT;

CREATE TABLE contents (
  id     INTEGER PRIMARY KEY,
  hash   BLOB    NOT NULL UNIQUE,                    -- blake3 of the bytes before compression
  bytes  INTEGER NOT NULL,                           -- size before compression
  stored INTEGER NOT NULL,                           -- size as stored, zstd
  base   INTEGER REFERENCES contents (id),           -- the content that is its dictionary
  depth  INTEGER NOT NULL CHECK (depth BETWEEN 0 AND 16), -- bases below it
  pack   INTEGER REFERENCES packs (id),
  at     INTEGER,                                    -- where in the pack
  data   BLOB,                                       -- or the bytes themselves
  CHECK ((pack IS NULL) = (data IS NOT NULL) AND (pack IS NULL) = (at IS NULL))
) STRICT;
CREATE INDEX contents_by_pack ON contents (pack) WHERE pack IS NOT NULL;
CREATE INDEX contents_by_base ON contents (base) WHERE base IS NOT NULL;

CREATE TABLE trees (
  id     INTEGER PRIMARY KEY,
  name   BLOB    NOT NULL UNIQUE,                    -- blake3 of the parent's name and the delta, 16 bytes
  place  INTEGER NOT NULL REFERENCES places (key),
  parent INTEGER REFERENCES trees (id),              -- NULL: the delta is from nothing
  at_ms  INTEGER NOT NULL,                           -- UTC
  cause  TEXT    NOT NULL,                           -- first, call, outside
  live   TEXT,                                       -- commands that ran meanwhile
  files  INTEGER NOT NULL,
  bytes  INTEGER NOT NULL,
  since  INTEGER NOT NULL,                           -- bytes of deltas since the last whole one
  depth  INTEGER NOT NULL,                           -- deltas since the last whole one
  body   BLOB    NOT NULL                            -- the delta, zstd
) STRICT;
CREATE INDEX trees_by_place ON trees (place);
CREATE INDEX trees_by_parent ON trees (parent) WHERE parent IS NOT NULL;

-- Which sessions name which trees in entries of their own. It follows from the entries.
CREATE TABLE tree_uses (
  session INTEGER NOT NULL REFERENCES sessions (key),
  tree    INTEGER NOT NULL REFERENCES trees (id),
  PRIMARY KEY (tree, session)
) STRICT, WITHOUT ROWID;

-- What is saved of the files belongs to the checkpoint before it.
CREATE VIEW checkpoints AS
SELECT s.id AS session, e.id AS entry, e.parent, e.seq, e.at_ms,
       CASE e.kind WHEN 'saved' THEN json_extract(e.body, '$.reason') ELSE e.kind END AS reason,
       e.plan_step
FROM entries e JOIN sessions s ON s.key = e.session
WHERE e.kind IN ('replied', 'finished', 'saved', 'closed', 'continued')
  AND NOT (e.kind = 'saved' AND json_extract(e.body, '$.reason') = 'files');

-- Signals: what another process wants of a session.
--
-- A row is deleted in the transaction of the entry that it becomes, so it is obeyed once.
CREATE TABLE signals (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,        -- never used twice
  session INTEGER NOT NULL REFERENCES sessions (key),
  at_ms   INTEGER NOT NULL,                         -- UTC
  origin  TEXT    NOT NULL,                         -- who sent it: cli
  body    TEXT    NOT NULL                          -- JSON
) STRICT;

-- Catalogue: what servers of tools (MCP) said of themselves last. A session begins with it and waits
-- for no server. It is a cache: what is lost of it is asked for again, so no journal has it.
CREATE TABLE catalogue (
  server      TEXT    NOT NULL,                     -- as the config names it
  config_hash TEXT    NOT NULL,                     -- of its definition: a changed one is not known
  at_ms       INTEGER NOT NULL,                     -- UTC; when it was said
  body        TEXT    NOT NULL,                     -- JSON
  PRIMARY KEY (server, config_hash)
) STRICT, WITHOUT ROWID;

-- Telemetry: how far the spans of a session were sent. Only with `[telemetry]` there are rows.
CREATE TABLE telemetry (
  session TEXT    NOT NULL PRIMARY KEY,             -- its id
  seq     INTEGER NOT NULL,                         -- the spans that end before this entry were sent
  turn    INTEGER NOT NULL,                         -- the first entry that the next spans need
  trace   BLOB    NOT NULL,                         -- id of the trace, 16 bytes
  parent  BLOB                                      -- the span above the session's, 8 bytes
) STRICT, WITHOUT ROWID;

-- What was read of the sessions of other agents, so that an unchanged one is not read again. It is
-- a cache and may be deleted.
CREATE TABLE imported (
  path     TEXT    NOT NULL,                        -- of the file or the database
  id       TEXT    NOT NULL,                        -- of a session in a database; '' for a file
  bytes    INTEGER NOT NULL,                        -- size of the file when it was read
  modified INTEGER NOT NULL,                        -- time of its last change, nanoseconds since 1970
  about    TEXT    NOT NULL,                        -- JSON: what lists show
  session  TEXT,                                    -- ID of the copy; NULL: it was only listed
  PRIMARY KEY (path, id)
) STRICT, WITHOUT ROWID;
