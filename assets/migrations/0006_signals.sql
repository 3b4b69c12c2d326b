-- Signals: what another process wants of a session. Rows of `entries` are unchanged.
--
-- A row is deleted in the transaction of the entry that it becomes, so it is obeyed once.
CREATE TABLE signals (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,        -- never used twice
  session INTEGER NOT NULL REFERENCES sessions (key),
  at_ms   INTEGER NOT NULL,                         -- UTC
  origin  TEXT    NOT NULL,                         -- who sent it: cli
  body    TEXT    NOT NULL                          -- JSON
) STRICT;

-- What providers themselves say that the session's own answers cost, in 10⁻⁹ US dollars. NULL:
-- nothing was asked yet, or one of them did not say.
ALTER TABLE sessions ADD COLUMN billed INTEGER;

-- A person was asked, and has not answered, as the last append says.
ALTER TABLE sessions ADD COLUMN asks INTEGER NOT NULL DEFAULT 0;
