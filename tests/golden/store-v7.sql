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
, trashed_ms INTEGER, bytes INTEGER NOT NULL DEFAULT 0, billed INTEGER, asks INTEGER NOT NULL DEFAULT 0) STRICT;
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
CREATE TABLE signals (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,        -- never used twice
  session INTEGER NOT NULL REFERENCES sessions (key),
  at_ms   INTEGER NOT NULL,                         -- UTC
  origin  TEXT    NOT NULL,                         -- who sent it: cli
  body    TEXT    NOT NULL                          -- JSON
) STRICT;
CREATE TABLE catalogue (
  server      TEXT    NOT NULL,                     -- as the config names it
  config_hash TEXT    NOT NULL,                     -- of its definition: a changed one is not known
  at_ms       INTEGER NOT NULL,                     -- UTC; when it was said
  body        TEXT    NOT NULL,                     -- JSON
  PRIMARY KEY (server, config_hash)
) STRICT, WITHOUT ROWID;
PRAGMA defer_foreign_keys = 1;
INSERT INTO sessions VALUES (1, '01a205a9-70c5-76ec-968b-1f2e9d3d81d3', '/home/ann/project', '/home/ann/project/src', 27, 27, NULL, NULL, 1000, 2000, 'The parser', '0.2.0', 'ollama/small', 1, 10, 20, 30, 40, NULL, 2928, NULL, 1);
INSERT INTO sessions VALUES (2, '01a205a9-70cb-76d7-8991-64c7fd2e92e3', '/elsewhere', '/elsewhere/src', 29, 2, NULL, NULL, 1000, 2000, NULL, '0.1.0', 'anthropic/large', 0, 0, 0, 0, 0, NULL, 465, NULL, 0);
INSERT INTO sessions VALUES (3, '01a205a9-70cc-7137-9d48-1ab32acc6cf6', '/home/ann/project', '/home/ann/project/src', 30, 4, 1, 2, 3000, 3000, 'The parser', '0.2.0', 'ollama/small', 0, 0, 0, 0, 0, NULL, 83, NULL, 0);
INSERT INTO sessions VALUES (4, '01a205a9-70cc-7137-9d48-1ab4b6466c36', '/elsewhere', '/elsewhere/src', 32, 2, NULL, NULL, 1000, 2000, 'thrown away', '0.1.0', 'anthropic/large', 0, 0, 0, 0, 0, 4000, 309, NULL, 0);
INSERT INTO entries VALUES (1, NULL, 1, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (2, 1, 1, 1, 2000, 'said', X'9F4B72B6ACCB03CBE696FD6A61A97FBF', NULL, '{"kind":"said","text":"fix the parser 🦀\nplease","images":[{"media_type":"image/png","blob":{"hash":"a44f3e796c45d46cd28ea65a29e5fe12c82435590e4e3a3bb0a9611c899a67c9","bytes":60}}],"via":"queue"}', X'F3E4D6D2F824EA067E1E7936844F9269');
INSERT INTO entries VALUES (3, 2, 1, 2, 2000, 'replied', X'D1D9D6EE268A014AE7D2DD17BF7587C4', NULL, '{"kind":"replied","blocks":[{"type":"thinking","text":"hm","sealed":{"signature":"s"}},{"type":"text","text":"I look at it."},{"type":"call","name":"read","arguments":"{\"path\":\"a.rs\"}"},{"type":"call","name":"bash","arguments":"not json"}],"usage":{"input":10,"cached":20,"cache_written":30,"output":40},"stop":"tool_use","model":"openai/other","took_ms":1234,"asked_bytes":0}', X'EEFDA0EDA9620E85C97E6C43686D49F8');
INSERT INTO entries VALUES (4, 3, 1, 3, 2000, 'decided', X'EEE8F78F135BF86E8D46362DA3988EA6', NULL, '{"kind":"decided","call":{"reply":2,"index":1},"verdict":{"verdict":"deny","reason":"no"},"by":"person"}', X'B4F9025079A9FD8F86EE60ACAB8A2A3F');
INSERT INTO entries VALUES (5, 4, 1, 4, 2000, 'asked', X'18F5B1A49F81FA643C252937B5E8701C', NULL, '{"kind":"asked","call":{"reply":2,"index":3},"why":"it writes","rule":"Bash(make:*)","at":"/w/a.rs"}', X'839352851B395E5219AB6D3D30B664D6');
INSERT INTO entries VALUES (6, 5, 1, 5, 2000, 'started', X'47BE5CA86336C2D774825EDCBDE6ADAD', NULL, '{"kind":"started","call":{"reply":2,"index":2},"guard":{"class":"checked","path":"a.rs","before":null,"after":"ab"}}', X'BD606439A6AC170AC83726E474F3E2D5');
INSERT INTO entries VALUES (7, 6, 1, 6, 2000, 'started', X'A1B58BEED8737E810157A54C1A0C4429', NULL, '{"kind":"started","call":{"reply":2,"index":3},"guard":{"class":"supervised","run":"run-1","boot":"b","background":true}}', X'D8C3F6966389FEDC1C92E4D793ACD6A3');
INSERT INTO entries VALUES (8, 7, 1, 7, 2000, 'started', X'51D730BCCC3B80C55B2250D3B990261D', NULL, '{"kind":"started","call":{"reply":2,"index":4},"guard":{"class":"opaque"}}', X'E3E8CC8370AFE3FAB98559B1AF6960CE');
INSERT INTO entries VALUES (9, 8, 1, 8, 2000, 'finished', X'EBAAC72BFE936A0C7889C732BB18CA25', NULL, X'28B52FFD60E10AED050002CD2824A025CD01FFFFA3ABEA23118F10236DE946FFDD565A68D37F0892B4D1A646DA8F41551602B59E994B02C0E4E5E6B15BBE3172536B25D45EF63CB09BAF3650BCD6D18A422D261833D868D4C44AC940E768A76824F53A9C14F7715C53C825D4D41AB48120C4DF279293D33D5320BB39C14041C707BF9F869EA7FB5958DE5171A7FB1650DA2C283795D81BDAC57773F607B834E1740F21B79BBB4EE48B0FF9DEC517701A07007F948EC3F59509B36CF032CDA5E2EF4F01D75BD903', X'17BD6B1178DF946F68AE50ABE6F5790D');
INSERT INTO entries VALUES (10, 9, 1, 9, 2000, 'finished', X'895EB29EED3FC88B7CD03862A13D2E91', NULL, '{"kind":"finished","call":{"reply":2,"index":1},"outcome":{"outcome":"denied","reason":"no"}}', X'2DF99B5E89D113EE27B31FAD9E5AF1FC');
INSERT INTO entries VALUES (11, 10, 1, 10, 2000, 'finished', X'8D51C30AE63453C0B195D840303A9B97', 'tests', '{"kind":"finished","call":{"reply":2,"index":2},"outcome":{"outcome":"done","output":{"text":"plan kept"}},"fact":{"fact":"planned","plan":{"steps":[{"text":"tests","state":"current"}]}}}', X'7ADB1063757312A3283D2C0DC33D09C4');
INSERT INTO entries VALUES (12, 11, 1, 11, 2000, 'finished', X'17C19E4D4A7C42B19FC996CBFEB5B1E6', 'tests', '{"kind":"finished","call":{"reply":2,"index":3},"outcome":{"outcome":"error","output":{"text":"exit 1"}},"fact":{"fact":"ran","exit_code":1,"took_ms":5}}', X'3D1B3D22B6A00B834EC5B479B5A7F6AF');
INSERT INTO entries VALUES (13, 12, 1, 12, 2000, 'finished', X'56E8B5E8C297BD700C186A00D4DFC61A', 'tests', '{"kind":"finished","call":{"reply":2,"index":4},"outcome":{"outcome":"interrupted","output":{"text":"so far"},"why":"killed"}}', X'9242F7664341E7F40B8FF8AE65B0C427');
INSERT INTO entries VALUES (14, 13, 1, 13, 2000, 'rendered', X'E4FFCBA67EB83C1204E5CBE1BDD6FAE6', NULL, '{"kind":"rendered","version":"0.2.0","layers":{"system":"","tools":[],"instructions":""}}', X'4FF031F5F86E7B83ABBEA0BDED347C05');
INSERT INTO entries VALUES (15, 14, 1, 14, 2000, 'stopped', X'BF61F2E7829F84A3149977E1493334BE', NULL, '{"kind":"stopped","draft":"I was"}', X'D0B73530F63EB5B565D9DCF52B0E526D');
INSERT INTO entries VALUES (16, 15, 1, 15, 2000, 'paused', X'CCCB9349B8BA4A1FC86F0936B691E9A7', NULL, '{"kind":"paused","origin":"cli"}', X'41493AF6617B2ACA462941E791E5A75F');
INSERT INTO entries VALUES (17, 16, 1, 16, 2000, 'lifted', X'78FEA7EBBB17F8950B397F7C0F93AAB1', NULL, '{"kind":"lifted"}', X'EEF0782E7CCFF889CC270C3E99777546');
INSERT INTO entries VALUES (18, 17, 1, 17, 2000, 'failed', X'3D840B822DE562FFAD1927545B69F44D', NULL, '{"kind":"failed","error":{"class":"overloaded","message":"no"}}', X'FBAA708664CB024982271D11EEB000C4');
INSERT INTO entries VALUES (19, 18, 1, 18, 2000, 'noted', X'385E77D3C17F35661251FB8F5D135C97', NULL, '{"kind":"noted","text":"a.rs changed","about":{"about":"background_ended","id":"1","exit_code":0}}', X'E6E63BDE7743B6872F8A8E07FB6E0A32');
INSERT INTO entries VALUES (20, 19, 1, 19, 2000, 'closed', X'A857B10C0DB55A27FA5635443B1E892E', 'tests', '{"kind":"closed","window":0,"first":1,"last":3,"summary":"so","by":"digest"}', X'C38975174B0818949B5C976F744B60A4');
INSERT INTO entries VALUES (21, 20, 1, 20, 2000, 'continued', X'067C1EAD134847BD62C1AEA2DBA40BE5', 'tests', '{"kind":"continued","note":"go on","by":"digest"}', X'7896FF245A38EBC92BAE3A4BF612892A');
INSERT INTO entries VALUES (22, 21, 1, 21, 2000, 'saved', X'A1A30B43AB3BC7488B5FFD0641A34D59', 'tests', '{"kind":"saved","reason":"timer"}', X'072CE42974DBB3B81F5ED940FA4E2658');
INSERT INTO entries VALUES (23, 22, 1, 22, 2000, 'chose', X'FF02E1C4C8D80BA7EBCB1C748D82CD96', NULL, '{"kind":"chose","model":"ollama/small","mode":"acceptEdits"}', X'514D88EB8A12300AA3459ACAD24EB225');
INSERT INTO entries VALUES (24, 23, 1, 23, 2000, 'checked', X'62A28D2E598C6826FEEFB7FFC14A09F1', NULL, '{"kind":"checked","answer":2,"unfit":{"path":"/n","why":"want integer"},"told":"at /n: want integer"}', X'5DE3BECA6C85C414F6098F2CC26979CD');
INSERT INTO entries VALUES (25, 24, 1, 24, 2000, 'named', X'536A2E342D1EBAFCEABCA92AE301137B', NULL, '{"kind":"named","title":"The parser"}', X'A9AE877E817CB6AB77E9AE7FCBD965C0');
INSERT INTO entries VALUES (26, 25, 1, 25, 2000, 'learned', X'CFAA5F3CF229480287D7705A36E744A9', NULL, '{"kind":"learned","model":"ollama/small","limit":4096,"bytes":0}', X'C985CBCC34CDA948A54C62460C55BBC3');
INSERT INTO entries VALUES (27, 26, 1, 26, 2000, 'woke', X'F5D288D42E074980FD4339F7A475B34E', NULL, '{"kind":"woke","by":"start","found":"a crash"}', X'C17BD8DE8F9EFA30EBB4415734DCBB45');
INSERT INTO entries VALUES (28, NULL, 2, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (29, 28, 2, 1, 2000, 'finished', X'3A0B7C945CED9953EA784B624C6196A4', NULL, '{"kind":"finished","call":{"reply":1,"index":0},"outcome":{"outcome":"done","output":{"text":"kept"}},"fact":{"fact":"remembered","memory":{"kind":"semantic","topic":"tests","text":"the tests need docker"}}}', X'2394DDDF8FA5B288A9F53AC5FD309F8E');
INSERT INTO entries VALUES (30, 3, 3, 3, 3000, 'forked', X'CD5CEAD75C04DB54BA77A3A7D17FAE57', NULL, '{"kind":"forked","from":{"session":"01a205a9-70c5-76ec-968b-1f2e9d3d81d3","seq":2}}', X'4CF58888C417C6794C61D756B7E76F7D');
INSERT INTO entries VALUES (31, NULL, 4, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (32, 31, 4, 1, 2000, 'said', X'E3937414D02B6C8A88DC89FE7373AD86', NULL, '{"kind":"said","text":"thrown away","via":"prompt"}', X'B42DA1EE7A1CAA0AD76EE4A71AE881A3');
INSERT INTO blobs VALUES (1, X'A44F3E796C45D46CD28EA65A29E5FE12C82435590E4E3A3BB0A9611C899A67C9', 60, 'zstd', X'28B52FFD203C5D0000286C696E650A0100C459B4');
INSERT INTO drafts VALUES (1, 'input', 0, 'unsent');
INSERT INTO drafts VALUES (1, 'stream', 0, 'half an ');
INSERT INTO drafts VALUES (1, 'stream', 1, 'answer');
INSERT INTO inbox VALUES (1, 1, 2500, '{"text":"and then","via":"queue"}');
INSERT INTO model_limits VALUES ('ollama/small', 4096, NULL);
INSERT INTO indexed VALUES (0);
INSERT INTO memories VALUES (1, '/elsewhere', 2, 1, 'semantic', 'tests', 'the tests need docker', 0, 2000, 2000);
INSERT INTO conversation_context VALUES ('01a205a9-70c5-76ec-968b-1f2e9d3d81d3', 'so', 4, 2000, 2000);
INSERT INTO meta VALUES ('store', 'e4e45cb4-55a1-4af7-a49d-3019e42f04f2');
INSERT INTO meta VALUES ('tips_end', 0);
INSERT INTO meta VALUES ('tips_upto', 0);
INSERT INTO signals VALUES (1, 1, 2600, 'cli', '{"signal":"stop","seen":7}');
INSERT INTO signals VALUES (2, 1, 2600, 'cli', '{"signal":"pause","seen":7}');
INSERT INTO signals VALUES (3, 1, 2600, 'cli', '{"signal":"go_on"}');
INSERT INTO signals VALUES (4, 1, 2600, 'cli', '{"signal":"decide","call":{"reply":2,"index":1},"asked":4,"verdict":{"verdict":"allow"}}');
INSERT INTO signals VALUES (5, 1, 2600, 'cli', '{"signal":"decide","call":{"reply":2,"index":1},"asked":4,"verdict":{"verdict":"deny","reason":"no"}}');
INSERT INTO signals VALUES (6, 1, 2600, 'cli', '{"signal":"choose","model":"ollama/small","mode":"plan","effort":"high","temperature":0.5}');
INSERT INTO signals VALUES (7, 1, 2600, 'cli', '{"signal":"name","title":"The parser"}');
INSERT INTO signals VALUES (8, 1, 2600, 'cli', '{"signal":"compact"}');
INSERT INTO signals VALUES (9, 1, 2600, 'cli', '{"signal":"leave","seen":7}');
INSERT INTO signals VALUES (10, 1, 2600, 'cli', '{"signal":"limit","turns":3,"usd":1.5}');
INSERT INTO catalogue VALUES ('files', 'a hash', 2700, '{}');
INSERT INTO memory_index (memory_index) VALUES ('rebuild');
PRAGMA user_version = 7;
COMMIT;
