-- Sessions of other agents. `replica`: the agent that a copy is of. Only an import appends to it.
ALTER TABLE sessions ADD COLUMN replica TEXT;

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
