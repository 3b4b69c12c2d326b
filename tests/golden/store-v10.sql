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
CREATE TABLE telemetry (
  session TEXT    NOT NULL PRIMARY KEY,             -- its id
  seq     INTEGER NOT NULL,                         -- the spans that end before this entry were sent
  turn    INTEGER NOT NULL,                         -- the first entry that the next spans need
  trace   BLOB    NOT NULL,                         -- id of the trace, 16 bytes
  parent  BLOB                                      -- the span above the session's, 8 bytes
) STRICT, WITHOUT ROWID;
CREATE TABLE imported (
  path     TEXT    NOT NULL,                        -- of the file or the database
  id       TEXT    NOT NULL,                        -- of a session in a database; '' for a file
  bytes    INTEGER NOT NULL,                        -- size of the file when it was read
  modified INTEGER NOT NULL,                        -- time of its last change, nanoseconds since 1970
  about    TEXT    NOT NULL,                        -- JSON: what lists show
  session  TEXT,                                    -- ID of the copy; NULL: it was only listed
  PRIMARY KEY (path, id)
) STRICT, WITHOUT ROWID;
PRAGMA defer_foreign_keys = 1;
INSERT INTO sessions VALUES (1, '01a227ab-5a3c-7284-8a7e-da27437f9cb5', '/home/ann/project', '/home/ann/project/src', 29, 29, NULL, NULL, 1000, 2000, 'The parser', '0.2.0', 'ollama/small', 1, 10, 20, 30, 40, NULL, 3685, NULL, 1, NULL);
INSERT INTO sessions VALUES (2, '01a227ab-5aeb-75dc-a302-e3ce4ee8a7da', '/elsewhere', '/elsewhere/src', 31, 2, NULL, NULL, 1000, 2000, NULL, '0.1.0', 'anthropic/large', 0, 0, 0, 0, 0, NULL, 465, NULL, 0, NULL);
INSERT INTO sessions VALUES (3, '01a227ab-5af0-7d58-b9b0-67c64a09afe3', '/home/ann/project', '/home/ann/project/src', 32, 4, 1, 2, 3000, 3000, 'The parser', '0.2.0', 'ollama/small', 0, 0, 0, 0, 0, NULL, 83, NULL, 0, NULL);
INSERT INTO sessions VALUES (4, '01a227ab-5af4-7a36-aa68-24fd4892b6e6', '/elsewhere', '/elsewhere/src', 34, 2, NULL, NULL, 1000, 2000, 'thrown away', '0.1.0', 'anthropic/large', 0, 0, 0, 0, 0, 4000, 309, NULL, 0, NULL);
INSERT INTO sessions VALUES (5, '00000000-1388-7909-8909-090909090909', '/copied', '/copied', 37, 3, NULL, NULL, 5000, 5002, 'of another agent', 'import/1', 'claude/opus', 0, 0, 0, 0, 0, NULL, 670, NULL, 0, 'claude');
INSERT INTO sessions VALUES (6, '01a227ab-5b02-7c15-abec-270a4190b6ed', '/copied', '/copied', 38, 4, 5, 2, 6000, 6000, 'of another agent', 'import/1', 'claude/opus', 0, 0, 0, 0, 0, NULL, 117, NULL, 0, NULL);
INSERT INTO entries VALUES (1, NULL, 1, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (2, 1, 1, 1, 2000, 'said', X'9F4B72B6ACCB03CBE696FD6A61A97FBF', NULL, '{"kind":"said","text":"fix the parser 🦀\nplease","images":[{"media_type":"image/png","blob":{"hash":"a44f3e796c45d46cd28ea65a29e5fe12c82435590e4e3a3bb0a9611c899a67c9","bytes":60}}],"via":"queue"}', X'F3E4D6D2F824EA067E1E7936844F9269');
INSERT INTO entries VALUES (3, 2, 1, 2, 2000, 'replied', X'D1D9D6EE268A014AE7D2DD17BF7587C4', NULL, '{"kind":"replied","blocks":[{"type":"thinking","text":"hm","sealed":{"signature":"s"}},{"type":"text","text":"I look at it."},{"type":"call","name":"read","arguments":"{\"path\":\"a.rs\"}"},{"type":"call","name":"bash","arguments":"not json"}],"usage":{"input":10,"cached":20,"cache_written":30,"output":40},"stop":"tool_use","model":"openai/other","took_ms":1234,"asked_bytes":0}', X'EEFDA0EDA9620E85C97E6C43686D49F8');
INSERT INTO entries VALUES (4, 3, 1, 3, 2000, 'decided', X'EEE8F78F135BF86E8D46362DA3988EA6', NULL, '{"kind":"decided","call":{"reply":2,"index":1},"verdict":{"verdict":"deny","reason":"no"},"by":"person"}', X'B4F9025079A9FD8F86EE60ACAB8A2A3F');
INSERT INTO entries VALUES (5, 4, 1, 4, 2000, 'asked', X'18F5B1A49F81FA643C252937B5E8701C', NULL, '{"kind":"asked","call":{"reply":2,"index":3},"why":"it writes","rule":"Bash(make:*)","at":"/w/a.rs"}', X'839352851B395E5219AB6D3D30B664D6');
INSERT INTO entries VALUES (6, 5, 1, 5, 2000, 'asked', X'3AF801D389317A6AF3D8C453452C632C', NULL, '{"kind":"asked","call":{"reply":2,"index":2},"why":"who are you?","form":{"server":"far","key":"server/7","message":"who are you?","wanted":{"wanted":"form","fields":[{"name":"t","title":"T","is_required":true,"kind":"text","min_chars":1,"format":"email"},{"name":"n","title":"T","is_required":true,"kind":"number","is_integer":true,"min":0.5},{"name":"y","title":"T","is_required":true,"kind":"yes_no"},{"name":"o","title":"T","is_required":true,"kind":"one_of","choices":[{"value":"a","label":"A"}]},{"name":"s","title":"T","is_required":true,"kind":"some_of","choices":[{"value":"a","label":"A"}],"min":1}]}}}', X'84877893DD1E1A6A7FE19F06D83B305E');
INSERT INTO entries VALUES (7, 6, 1, 6, 2000, 'answered', X'0099ACEEC6F42C4966E9107BAFE041E3', NULL, '{"kind":"answered","call":{"reply":2,"index":2},"asked":5,"key":"server/7","answer":{"answer":"accept","values":{}},"by":"person","origin":"cli"}', X'A4AB79232F325F5968D9A140EA6B94AB');
INSERT INTO entries VALUES (8, 7, 1, 7, 2000, 'started', X'1237264C7C936455603BE032F8F82E0E', NULL, '{"kind":"started","call":{"reply":2,"index":2},"guard":{"class":"checked","path":"a.rs","before":null,"after":"ab"}}', X'70827CFBDCC060851D2657C417512C0B');
INSERT INTO entries VALUES (9, 8, 1, 8, 2000, 'started', X'927077FC98DFDF10163D67353530C64B', NULL, '{"kind":"started","call":{"reply":2,"index":3},"guard":{"class":"supervised","run":"run-1","boot":"b","background":true}}', X'DE864C55040D704AA15ACD7BEE4C2A2E');
INSERT INTO entries VALUES (10, 9, 1, 9, 2000, 'started', X'F44CCA8133EC4CD9786938DA611CBC4A', NULL, '{"kind":"started","call":{"reply":2,"index":4},"guard":{"class":"opaque"}}', X'DF079774E3A309E29E537912DD49E9EC');
INSERT INTO entries VALUES (11, 10, 1, 10, 2000, 'finished', X'FDC4523CD14CFB78D64026BD6CF0F86E', NULL, X'28B52FFD60E10AED050002CD2824A025CD01FFFFA3ABEA23118F10236DE946FFDD565A68D37F0892B4D1A646DA8F41551602B59E994B02C0E4E5E6B15BBE3172536B25D45EF63CB09BAF3650BCD6D18A422D261833D868D4C44AC940E768A76824F53A9C14F7715C53C825D4D41AB48120C4DF279293D33D5320BB39C14041C707BF9F869EA7FB5958DE5171A7FB1650DA2C283795D81BDAC57773F607B834E1740F21B79BBB4EE48B0FF9DEC517701A07007F948EC3F59509B36CF032CDA5E2EF4F01D75BD903', X'C4C723D6286786F954FF616F46639404');
INSERT INTO entries VALUES (12, 11, 1, 11, 2000, 'finished', X'CBB14E37E4FFC1920973B340B0C21389', NULL, '{"kind":"finished","call":{"reply":2,"index":1},"outcome":{"outcome":"denied","reason":"no"}}', X'B477A94D4B2D20A9F83F9446F99720FE');
INSERT INTO entries VALUES (13, 12, 1, 12, 2000, 'finished', X'645964C1E4F4A717BD89C8784C7FA159', 'tests', '{"kind":"finished","call":{"reply":2,"index":2},"outcome":{"outcome":"done","output":{"text":"plan kept"}},"fact":{"fact":"planned","plan":{"steps":[{"text":"tests","state":"current"}]}}}', X'42BB8ECAF28AFAB19B1DA33E3BA1AA43');
INSERT INTO entries VALUES (14, 13, 1, 13, 2000, 'finished', X'33E4F19C7C73DE457DC3258883F0FAA5', 'tests', '{"kind":"finished","call":{"reply":2,"index":3},"outcome":{"outcome":"error","output":{"text":"exit 1"}},"fact":{"fact":"ran","exit_code":1,"took_ms":5}}', X'94F64AB377C41AFF726A93FE58C86F06');
INSERT INTO entries VALUES (15, 14, 1, 14, 2000, 'finished', X'D756B422388BF40E42ECD8A658204700', 'tests', '{"kind":"finished","call":{"reply":2,"index":4},"outcome":{"outcome":"interrupted","output":{"text":"so far"},"why":"killed"}}', X'160E335C0032005A903053E3D4073923');
INSERT INTO entries VALUES (16, 15, 1, 15, 2000, 'rendered', X'59B28A0CA24E674A0CBF6AA204D01890', NULL, '{"kind":"rendered","version":"0.2.0","layers":{"system":"","tools":[],"instructions":""}}', X'429A4F833B82F1B558C5C26F44D38BCA');
INSERT INTO entries VALUES (17, 16, 1, 16, 2000, 'stopped', X'2F0DC9F563D4CB96E975251D95B06943', NULL, '{"kind":"stopped","draft":"I was"}', X'39C9008FDFF0F68EFCA955C323711A91');
INSERT INTO entries VALUES (18, 17, 1, 17, 2000, 'paused', X'0560B0D5243F1D8DFF0E12068106964F', NULL, '{"kind":"paused","origin":"cli"}', X'18A64FDE7C6B6CE611DA815583BB6097');
INSERT INTO entries VALUES (19, 18, 1, 18, 2000, 'lifted', X'447977535AAC0877CD03FBAD36C030B1', NULL, '{"kind":"lifted"}', X'3AC3308702E3911997089A817F8FE234');
INSERT INTO entries VALUES (20, 19, 1, 19, 2000, 'failed', X'3CC9E60F92215F539E1A0D481FBC0C41', NULL, '{"kind":"failed","error":{"class":"overloaded","message":"no"}}', X'80080665C2DADF69B27B4D71D94FF303');
INSERT INTO entries VALUES (21, 20, 1, 20, 2000, 'noted', X'1AA23537268C58A5776AE86D0BA30464', NULL, '{"kind":"noted","text":"a.rs changed","about":{"about":"background_ended","id":"1","exit_code":0}}', X'F8F6EA865FE79E09FC44EB7CE73EF22B');
INSERT INTO entries VALUES (22, 21, 1, 21, 2000, 'closed', X'BCF69B1BAC4FD23FBC1231CE98B1D67C', 'tests', '{"kind":"closed","window":0,"first":1,"last":3,"summary":"so","by":"digest"}', X'25BD9B775426F3DCA64374F6C338FB67');
INSERT INTO entries VALUES (23, 22, 1, 22, 2000, 'continued', X'57AED72A69B99230F879401B519A8983', 'tests', '{"kind":"continued","note":"go on","by":"digest"}', X'3815B15FC0EA7CE0835377EBA0B6BD86');
INSERT INTO entries VALUES (24, 23, 1, 23, 2000, 'saved', X'5A02F0AFA3B1E743640B7D7596B721B2', 'tests', '{"kind":"saved","reason":"timer"}', X'C60B5A1D561C47FDB813806CF21DA2D1');
INSERT INTO entries VALUES (25, 24, 1, 24, 2000, 'chose', X'C774130F94B9A999D668B2E3CE626F02', NULL, '{"kind":"chose","model":"ollama/small","mode":"acceptEdits"}', X'CFC779AECCBF262919FBC3FBDF4BF357');
INSERT INTO entries VALUES (26, 25, 1, 25, 2000, 'checked', X'A4EAA7F3A312CBC72A990069754A451B', NULL, '{"kind":"checked","answer":2,"unfit":{"path":"/n","why":"want integer"},"told":"at /n: want integer"}', X'37340E32AC18FEE6260E24E9E8D489F3');
INSERT INTO entries VALUES (27, 26, 1, 26, 2000, 'named', X'F4D01FE4F8EDACED6E9BD2D0D062D03D', NULL, '{"kind":"named","title":"The parser"}', X'50D410FCAB4F325B19FDF78E9A1031DA');
INSERT INTO entries VALUES (28, 27, 1, 27, 2000, 'learned', X'D022BD8237D8AF850F86F82A0580066A', NULL, '{"kind":"learned","model":"ollama/small","limit":4096,"bytes":0}', X'56F05D13087623621584E7B268705EE8');
INSERT INTO entries VALUES (29, 28, 1, 28, 2000, 'woke', X'198933F9EE7500C5A918800390FC1A8F', NULL, '{"kind":"woke","by":"start","found":"a crash"}', X'5077976F1BC78C6FD200B0A1804CC092');
INSERT INTO entries VALUES (30, NULL, 2, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (31, 30, 2, 1, 2000, 'finished', X'703433251B489257BFB3E7FD154E3615', NULL, '{"kind":"finished","call":{"reply":1,"index":0},"outcome":{"outcome":"done","output":{"text":"kept"}},"fact":{"fact":"remembered","memory":{"kind":"semantic","topic":"tests","text":"the tests need docker"}}}', X'2394DDDF8FA5B288A9F53AC5FD309F8E');
INSERT INTO entries VALUES (32, 3, 3, 3, 3000, 'forked', X'BC452EF31DE16D0C216DBB15A9A2C9C4', NULL, '{"kind":"forked","from":{"session":"01a227ab-5a3c-7284-8a7e-da27437f9cb5","seq":2}}', X'67C6ABDFE0DE526AF2049C74D63C5D45');
INSERT INTO entries VALUES (33, NULL, 4, 0, 1000, 'opened', X'F1AF8BFE39A6031801ED369490F1AB22', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"0.1.0","model":"anthropic/large","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""}}', X'24DB3D9292F96665081CE16CCDE630F1');
INSERT INTO entries VALUES (34, 33, 4, 1, 2000, 'said', X'D139B52AA6685CD7E7748E1B7D0D4055', NULL, '{"kind":"said","text":"thrown away","via":"prompt"}', X'B42DA1EE7A1CAA0AD76EE4A71AE881A3');
INSERT INTO entries VALUES (35, NULL, 5, 0, 5000, 'opened', X'E5B85EDAFBA1C8C4D362CD7AD1918C5C', NULL, '{"kind":"opened","folder":"/home/ann/project/src","version":"import/1","model":"claude","mode":"default","layers":{"system":"You are a coding agent.","tools":[{"name":"read","description":"Reads a file.","schema":{"type":"object"}}],"instructions":""},"imported":{"agent":"claude","agent_version":"2.1.197","id":"of claude"}}', X'28A447DB3DBABBC300713AE995ED4A07');
INSERT INTO entries VALUES (36, 35, 5, 1, 5001, 'said', X'0F3EFC680CC4F4D11B993525CBE40289', NULL, '{"kind":"said","text":"of another agent","via":"prompt"}', X'7531B67674C45E280AD65CF537FF54C6');
INSERT INTO entries VALUES (37, 36, 5, 2, 5002, 'replied', X'3025968C8FC853016E0A40EF6C1F8084', NULL, '{"kind":"replied","blocks":[{"type":"call","name":"bash","arguments":"{\"command\":\"ls\"}"}],"usage":{"input":0,"cached":0,"cache_written":0,"output":0},"stop":"tool_use","model":"claude/opus","took_ms":0,"asked_bytes":0,"source_usage":{"input":7,"cached":0,"cache_written":0,"output":2}}', X'F0B3BCF8D316895383AF18BA051E9393');
INSERT INTO entries VALUES (38, 37, 6, 3, 6000, 'forked', X'379DFA76646C0836808A16D46F641D96', NULL, '{"kind":"forked","from":{"session":"00000000-1388-7909-8909-090909090909","seq":2},"from_replica":{"agent":"claude"}}', X'7078AB79DBFB63FE57DC0BDFA0F62DAC');
INSERT INTO blobs VALUES (1, X'A44F3E796C45D46CD28EA65A29E5FE12C82435590E4E3A3BB0A9611C899A67C9', 60, 'zstd', X'28B52FFD203C5D0000286C696E650A0100C459B4');
INSERT INTO drafts VALUES (1, 'input', 0, 'unsent');
INSERT INTO drafts VALUES (1, 'stream', 0, 'half an ');
INSERT INTO drafts VALUES (1, 'stream', 1, 'answer');
INSERT INTO inbox VALUES (1, 1, 2500, '{"text":"and then","via":"queue"}');
INSERT INTO model_limits VALUES ('ollama/small', 4096, NULL);
INSERT INTO indexed VALUES (0);
INSERT INTO memories VALUES (1, '/elsewhere', 2, 1, 'semantic', 'tests', 'the tests need docker', 0, 2000, 2000);
INSERT INTO conversation_context VALUES ('01a227ab-5a3c-7284-8a7e-da27437f9cb5', 'so', 4, 2000, 2000);
INSERT INTO meta VALUES ('store', '053c6e66-352d-45c1-ae40-52803ba07248');
INSERT INTO signals VALUES (1, 1, 2600, 'cli', '{"seen":7,"signal":"stop"}');
INSERT INTO signals VALUES (2, 1, 2600, 'cli', '{"seen":7,"signal":"pause"}');
INSERT INTO signals VALUES (3, 1, 2600, 'cli', '{"signal":"go_on"}');
INSERT INTO signals VALUES (4, 1, 2600, 'cli', '{"asked":4,"call":{"index":1,"reply":2},"signal":"decide","verdict":{"verdict":"allow"}}');
INSERT INTO signals VALUES (5, 1, 2600, 'cli', '{"asked":4,"call":{"index":1,"reply":2},"signal":"decide","verdict":{"reason":"no","verdict":"deny"}}');
INSERT INTO signals VALUES (6, 1, 2600, 'cli', '{"effort":"high","mode":"plan","model":"ollama/small","signal":"choose","temperature":0.5}');
INSERT INTO signals VALUES (7, 1, 2600, 'cli', '{"signal":"name","title":"The parser"}');
INSERT INTO signals VALUES (8, 1, 2600, 'cli', '{"signal":"compact"}');
INSERT INTO signals VALUES (9, 1, 2600, 'cli', '{"seen":7,"signal":"leave"}');
INSERT INTO signals VALUES (10, 1, 2600, 'cli', '{"answer":{"answer":"decline"},"asked":4,"call":{"index":1,"reply":2},"signal":"answer"}');
INSERT INTO signals VALUES (11, 1, 2600, 'cli', '{"signal":"limit","turns":3,"usd":1.5}');
INSERT INTO catalogue VALUES ('files', 'a hash', 2700, '{}');
INSERT INTO telemetry VALUES ('01a227ab-5a3c-7284-8a7e-da27437f9cb5', 3, 1, X'07070707070707070707070707070707', X'0808080808080808');
INSERT INTO imported VALUES ('/source', '', 10, 11, '{}', '00000000-1388-7909-8909-090909090909');
INSERT INTO memory_index (memory_index) VALUES ('rebuild');
PRAGMA user_version = 10;
COMMIT;
