-- Each entry names all before it by a hash that depends on no row id: blake3 of the tip of the
-- entry before, seq, at_ms and the JSON of the body; its first 16 bytes. NULL: recorded by an
-- older version, and not computed yet.
ALTER TABLE entries ADD COLUMN tip BLOB;

-- What is known of the store as a whole. `tips_upto`: rows up to it have been given their tip;
-- `tips_end`: the last row that was recorded without one.
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES
  ('store', lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
    || '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
  ('tips_upto', 0),
  ('tips_end', (SELECT coalesce(max(id), 0) FROM entries));
