-- Files in time: what the workspaces' files were. Rows of `entries` are unchanged.
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
DROP VIEW checkpoints;
CREATE VIEW checkpoints AS
SELECT s.id AS session, e.id AS entry, e.parent, e.seq, e.at_ms,
       CASE e.kind WHEN 'saved' THEN json_extract(e.body, '$.reason') ELSE e.kind END AS reason,
       e.plan_step
FROM entries e JOIN sessions s ON s.key = e.session
WHERE e.kind IN ('replied', 'finished', 'saved', 'closed', 'continued')
  AND NOT (e.kind = 'saved' AND json_extract(e.body, '$.reason') = 'files');
