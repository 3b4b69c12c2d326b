-- Telemetry: how far the spans of a session were sent. Only with `[telemetry]` there are rows.
CREATE TABLE telemetry (
  session TEXT    NOT NULL PRIMARY KEY,             -- its id
  seq     INTEGER NOT NULL,                         -- the spans that end before this entry were sent
  turn    INTEGER NOT NULL,                         -- the first entry that the next spans need
  trace   BLOB    NOT NULL,                         -- id of the trace, 16 bytes
  parent  BLOB                                      -- the span above the session's, 8 bytes
) STRICT, WITHOUT ROWID;
