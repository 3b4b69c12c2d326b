BEGIN;
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
, trashed_ms INTEGER, bytes INTEGER NOT NULL DEFAULT 0) STRICT;
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
, tip BLOB) STRICT;
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
CREATE VIRTUAL TABLE entry_index USING fts5 (text, content = '', tokenize = 'unicode61 remove_diacritics 2');
CREATE TABLE indexed (upto INTEGER NOT NULL) STRICT;
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
CREATE TABLE conversation_context (
  conversation_id    TEXT    PRIMARY KEY REFERENCES sessions (id),
  summary            TEXT    NOT NULL,
  message_count      INTEGER NOT NULL,              -- entries that the summary stands for
  last_summarised_at INTEGER NOT NULL,              -- UTC, milliseconds
  updated_at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE places (
  key  INTEGER PRIMARY KEY,
  root BLOB    NOT NULL UNIQUE
) STRICT;
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
CREATE TABLE tree_uses (
  session INTEGER NOT NULL REFERENCES sessions (key),
  tree    INTEGER NOT NULL REFERENCES trees (id),
  PRIMARY KEY (tree, session)
) STRICT, WITHOUT ROWID;
CREATE VIEW checkpoints AS
SELECT s.id AS session, e.id AS entry, e.parent, e.seq, e.at_ms,
       CASE e.kind WHEN 'saved' THEN json_extract(e.body, '$.reason') ELSE e.kind END AS reason,
       e.plan_step
FROM entries e JOIN sessions s ON s.key = e.session
WHERE e.kind IN ('replied', 'finished', 'saved', 'closed', 'continued')
  AND NOT (e.kind = 'saved' AND json_extract(e.body, '$.reason') = 'files');
PRAGMA defer_foreign_keys = 1;
INSERT INTO sessions VALUES (1, '01a2029a-3dab-7454-8087-3bbf45dc089e', '/home/ann/project', '/home/ann/project/src', 24, 24, NULL, NULL, 1000, 2000, 'The parser', '0.2.0', 'ollama/small', 1, 10, 20, 30, 40, NULL, 2779);
INSERT INTO sessions VALUES (2, '01a2029a-3dc7-701a-96e7-71ee1890c647', '/elsewhere', '/elsewhere/src', 26, 2, NULL, NULL, 1000, 2000, NULL, '0.1.0', 'anthropic/large', 0, 0, 0, 0, 0, NULL, 465);
INSERT INTO sessions VALUES (3, '01a2029a-3dce-7398-a670-f32952d009b0', '/home/ann/project', '/home/ann/project/src', 27, 4, 1, 2, 3000, 3000, 'The parser', '0.2.0', 'ollama/small', 0, 0, 0, 0, 0, NULL, 83);
INSERT INTO sessions VALUES (4, '01a2029a-3dd2-730e-b5a1-1f349fce6cf6', '/elsewhere', '/elsewhere/src', 29, 2, NULL, NULL, 1000, 2000, 'thrown away', '0.1.0', 'anthropic/large', 0, 0, 0, 0, 0, 4000, 309);
INSERT INTO entries VALUES (1, NULL, 1, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (2, 1, 1, 1, 2000, 'said', X'9F4B72B6ACCB03CBE696FD6A61A97FBF', NULL, '{"kind":"said","text":"fix the parser 🦀\nplease","images":[{"media_type":"image/png","blob":{"hash":"a44f3e796c45d46cd28ea65a29e5fe12c82435590e4e3a3bb0a9611c899a67c9","bytes":60}}],"via":"queue"}', X'F3E4D6D2F824EA067E1E7936844F9269');
INSERT INTO entries VALUES (3, 2, 1, 2, 2000, 'replied', X'D1D9D6EE268A014AE7D2DD17BF7587C4', NULL, '{"kind":"replied","blocks":[{"type":"thinking","text":"hm","sealed":{"signature":"s"}},{"type":"text","text":"I look at it."},{"type":"call","name":"read","arguments":"{\"path\":\"a.rs\"}"},{"type":"call","name":"bash","arguments":"not json"}],"usage":{"input":10,"cached":20,"cache_written":30,"output":40},"stop":"tool_use","model":"openai/other","took_ms":1234,"asked_bytes":0}', X'EEFDA0EDA9620E85C97E6C43686D49F8');
INSERT INTO entries VALUES (4, 3, 1, 3, 2000, 'decided', X'EEE8F78F135BF86E8D46362DA3988EA6', NULL, '{"kind":"decided","call":{"reply":2,"index":1},"verdict":{"verdict":"deny","reason":"no"},"by":"person"}', X'B4F9025079A9FD8F86EE60ACAB8A2A3F');
INSERT INTO entries VALUES (5, 4, 1, 4, 2000, 'started', X'F004281C390A5874EF13856766BB114E', NULL, '{"kind":"started","call":{"reply":2,"index":2},"guard":{"class":"checked","path":"a.rs","before":null,"after":"ab"}}', X'0B438947BBD2257C76318003C03CC0E5');
INSERT INTO entries VALUES (6, 5, 1, 5, 2000, 'started', X'BDE509994110EEA907D999E695DC536C', NULL, '{"kind":"started","call":{"reply":2,"index":3},"guard":{"class":"supervised","run":"run-1","boot":"b","background":true}}', X'E40FA5FE8952445D01D46C430150BB08');
INSERT INTO entries VALUES (7, 6, 1, 6, 2000, 'started', X'6C35E42FD1F7CC62B905101BF636EEE8', NULL, '{"kind":"started","call":{"reply":2,"index":4},"guard":{"class":"opaque"}}', X'D4848C9F056787B76F1BA5F3B030EB99');
INSERT INTO entries VALUES (8, 7, 1, 7, 2000, 'finished', X'70F5F7E98EC56538E36DDCBD67785BA6', NULL, X'28B52FFD60E10AED050002CD2824A025CD01FFFFA3ABEA23118F10236DE946FFDD565A68D37F0892B4D1A646DA8F41551602B59E994B02C0E4E5E6B15BBE3172536B25D45EF63CB09BAF3650BCD6D18A422D261833D868D4C44AC940E768A76824F53A9C14F7715C53C825D4D41AB48120C4DF279293D33D5320BB39C14041C707BF9F869EA7FB5958DE5171A7FB1650DA2C283795D81BDAC57773F607B834E1740F21B79BBB4EE48B0FF9DEC517701A07007F948EC3F59509B36CF032CDA5E2EF4F01D75BD903', X'6CF52182B81C587B22D4E09C16711C3E');
INSERT INTO entries VALUES (9, 8, 1, 8, 2000, 'finished', X'609F13636A93822A35939BA22F134E40', NULL, '{"kind":"finished","call":{"reply":2,"index":1},"outcome":{"outcome":"denied","reason":"no"}}', X'5981870344AEE01F0F3D3F5BAA8F10E1');
INSERT INTO entries VALUES (10, 9, 1, 9, 2000, 'finished', X'934FDAC977B1F6A370096345FFB18BD6', 'tests', '{"kind":"finished","call":{"reply":2,"index":2},"outcome":{"outcome":"done","output":{"text":"plan kept"}},"fact":{"fact":"planned","plan":{"steps":[{"text":"tests","state":"current"}]}}}', X'F9D414EF954BC0F01ACA92C4404479B7');
INSERT INTO entries VALUES (11, 10, 1, 10, 2000, 'finished', X'E0C1D54CA8F0FD32D6A2C3C71338AE18', 'tests', '{"kind":"finished","call":{"reply":2,"index":3},"outcome":{"outcome":"error","output":{"text":"exit 1"}},"fact":{"fact":"ran","exit_code":1,"took_ms":5}}', X'BA40E3564F4E32F0FDAF9B2238285392');
INSERT INTO entries VALUES (12, 11, 1, 11, 2000, 'finished', X'E688A49E0E8C1DA064EE0F415FB769F1', 'tests', '{"kind":"finished","call":{"reply":2,"index":4},"outcome":{"outcome":"interrupted","output":{"text":"so far"},"why":"killed"}}', X'858ED801114C4C11340B663B1CE4070E');
INSERT INTO entries VALUES (13, 12, 1, 12, 2000, 'rendered', X'04E9500D73A31A4EE93B43DDB9FE362D', NULL, '{"kind":"rendered","version":"0.2.0","layers":{"system":"","tools":[],"instructions":""}}', X'154397A5532B3607D49E0DD9AB4CFD7E');
INSERT INTO entries VALUES (14, 13, 1, 13, 2000, 'stopped', X'DB7F6AF493DD554B0A8184D1F16078A2', NULL, '{"kind":"stopped","draft":"I was"}', X'27680CA1DF98072930D7827A6A09981C');
INSERT INTO entries VALUES (15, 14, 1, 14, 2000, 'failed', X'7E3F5FE219CECA5FB3C3F29F4BDCF79B', NULL, '{"kind":"failed","error":{"class":"overloaded","message":"no"}}', X'F79194FDE4072CDF6FDF758C18FA80AA');
INSERT INTO entries VALUES (16, 15, 1, 15, 2000, 'noted', X'43A1397E6EF115BB9DD6C19131D20E3F', NULL, '{"kind":"noted","text":"a.rs changed","about":{"about":"background_ended","id":"1","exit_code":0}}', X'9995F5F8F0CD0EB84AA53D05D678A5DE');
INSERT INTO entries VALUES (17, 16, 1, 16, 2000, 'closed', X'4B594E889D0733D87A0ED83092874377', 'tests', '{"kind":"closed","window":0,"first":1,"last":3,"summary":"so","by":"digest"}', X'04B2AD397DA1B4C5659F456CC638D4AC');
INSERT INTO entries VALUES (18, 17, 1, 17, 2000, 'continued', X'CBED0F6FEE9B7AE6B3FEC70B0539EFAF', 'tests', '{"kind":"continued","note":"go on","by":"digest"}', X'2718C67D1887E3CB0BFD2E1C3E94129E');
INSERT INTO entries VALUES (19, 18, 1, 18, 2000, 'saved', X'19D0F28050FFFE46693D4BA34B54EB87', 'tests', '{"kind":"saved","reason":"timer"}', X'7E38030D2445944B93CF5A0A8DBC8DB8');
INSERT INTO entries VALUES (20, 19, 1, 19, 2000, 'chose', X'56E9CEE6E9D66FF62BB00F993AE4815F', NULL, '{"kind":"chose","model":"ollama/small","mode":"acceptEdits"}', X'07E041FE56908898CA442D82C07A0794');
INSERT INTO entries VALUES (21, 20, 1, 20, 2000, 'checked', X'B67D57388D27675E83A7D33FEE34189E', NULL, '{"kind":"checked","answer":2,"unfit":{"path":"/n","why":"want integer"},"told":"at /n: want integer"}', X'8AE262D81FF3F1545B2018BDEE90278E');
INSERT INTO entries VALUES (22, 21, 1, 21, 2000, 'named', X'4D926C9DDA03EF61406C2E91B8E9061A', NULL, '{"kind":"named","title":"The parser"}', X'9780992FD889965EF722D61A09F4D15F');
INSERT INTO entries VALUES (23, 22, 1, 22, 2000, 'learned', X'71E9CC1F8D3E220D351164F94411D5BB', NULL, '{"kind":"learned","model":"ollama/small","limit":4096,"bytes":0}', X'653E38E7F02D39FFC2B4EE0978AA0A5C');
INSERT INTO entries VALUES (24, 23, 1, 23, 2000, 'woke', X'7E2944AF3B62B4638645EFA073D53AEF', NULL, '{"kind":"woke","by":"start","found":"a crash"}', X'7E9BC6023FC6EF40080CAA3A749EAA95');
INSERT INTO entries VALUES (25, NULL, 2, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (26, 25, 2, 1, 2000, 'finished', X'D076F3A9C297D2C1F5C6E401C99897F1', NULL, '{"kind":"finished","call":{"reply":1,"index":0},"outcome":{"outcome":"done","output":{"text":"kept"}},"fact":{"fact":"remembered","memory":{"kind":"semantic","topic":"tests","text":"the tests need docker"}}}', X'2394DDDF8FA5B288A9F53AC5FD309F8E');
INSERT INTO entries VALUES (27, 3, 3, 3, 3000, 'forked', X'7BD04FE817BFB197BCAFABA09CBB439F', NULL, '{"kind":"forked","from":{"session":"01a2029a-3dab-7454-8087-3bbf45dc089e","seq":2}}', X'DB9806E3F9A49AC79C65C44EB9BB16C3');
INSERT INTO entries VALUES (28, NULL, 4, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (29, 28, 4, 1, 2000, 'said', X'D38D2CCBF0D22C3B834158FC24B600A1', NULL, '{"kind":"said","text":"thrown away","via":"prompt"}', X'B42DA1EE7A1CAA0AD76EE4A71AE881A3');
INSERT INTO blobs VALUES (1, X'A44F3E796C45D46CD28EA65A29E5FE12C82435590E4E3A3BB0A9611C899A67C9', 60, 'zstd', X'28B52FFD203C5D0000286C696E650A0100C459B4');
INSERT INTO drafts VALUES (1, 'input', 0, 'unsent');
INSERT INTO drafts VALUES (1, 'stream', 0, 'half an ');
INSERT INTO drafts VALUES (1, 'stream', 1, 'answer');
INSERT INTO inbox VALUES (1, 1, 2500, '{"text":"and then","via":"queue"}');
INSERT INTO model_limits VALUES ('ollama/small', 4096, NULL);
INSERT INTO indexed VALUES (0);
INSERT INTO memories VALUES (1, '/elsewhere', 2, 1, 'semantic', 'tests', 'the tests need docker', 0, 2000, 2000);
INSERT INTO conversation_context VALUES ('01a2029a-3dab-7454-8087-3bbf45dc089e', 'so', 4, 2000, 2000);
INSERT INTO meta VALUES ('store', 'bc1b15b6-84f3-4cf5-a5e4-ad6dffc770cf');
INSERT INTO meta VALUES ('tips_end', 0);
INSERT INTO meta VALUES ('tips_upto', 0);
INSERT INTO memory_index (memory_index) VALUES ('rebuild');
PRAGMA user_version = 5;
COMMIT;
