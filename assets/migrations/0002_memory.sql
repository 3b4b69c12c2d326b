-- Schema 2: what is kept to be found again, and the summary of each conversation.
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
