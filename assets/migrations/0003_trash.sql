-- A session in the trash is not listed and not found; it can be opened by its id.
ALTER TABLE sessions ADD COLUMN trashed_ms INTEGER;                  -- UTC; NULL: not in the trash

-- As stored: its own entries and the blobs that came with them. Kept by every append.
ALTER TABLE sessions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

-- Which blobs came with which entries is not known any more: those are not counted.
UPDATE sessions SET bytes = own.bytes
FROM (SELECT session, sum(octet_length(body)) AS bytes FROM entries GROUP BY session) AS own
WHERE own.session = sessions.key;
