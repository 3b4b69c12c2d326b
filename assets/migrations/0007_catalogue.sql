-- Catalogue: what servers of tools (MCP) said of themselves last. A session begins with it and waits
-- for no server. It is a cache: what is lost of it is asked for again, so no journal has it.
CREATE TABLE catalogue (
  server      TEXT    NOT NULL,                     -- as the config names it
  config_hash TEXT    NOT NULL,                     -- of its definition: a changed one is not known
  at_ms       INTEGER NOT NULL,                     -- UTC; when it was said
  body        TEXT    NOT NULL,                     -- JSON
  PRIMARY KEY (server, config_hash)
) STRICT, WITHOUT ROWID;
