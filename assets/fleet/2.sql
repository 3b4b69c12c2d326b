-- Version 2: mail, the files of a session, and tasks that any worker continues.

-- The oldest version of a program that can use these tables.
ALTER TABLE rewake.meta ADD COLUMN oldest integer NOT NULL DEFAULT 1;

-- Where the files of the session are: JSON (docs/fleet.md).
ALTER TABLE rewake.sessions ADD COLUMN files text CHECK (length(files) <= 100000);

-- Messages and signals for a session, until they are entries of it.
CREATE TABLE rewake.mail (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session uuid NOT NULL REFERENCES rewake.sessions,
    kind text NOT NULL CHECK (kind IN ('message', 'signal')),
    -- The JSON of a message or a signal of the data folder (docs/storage.md).
    body text NOT NULL CHECK (octet_length(body) <= 12000000),
    -- The role that sent it.
    origin name NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON rewake.mail (session, id);

-- Sessions that any worker may start and continue.
CREATE TABLE rewake.tasks (
    session uuid PRIMARY KEY REFERENCES rewake.sessions,
    -- Given by the caller: the same task again is not another one.
    key text UNIQUE CHECK (length(key) <= 200),
    repo text NOT NULL CHECK (length(repo) <= 2000),
    -- The commit that it begins with.
    commit text NOT NULL CHECK (commit ~ '^[0-9a-f]{40}([0-9a-f]{24})?$'),
    -- A worker needs all of them.
    labels text[] NOT NULL CHECK (cardinality(labels) <= 20),
    -- A wish: the config of the worker limits it.
    usd double precision CHECK (usd > 0 AND usd < 'infinity'),
    -- Time for which a question waits, milliseconds. NULL: questions are denied.
    ask_ms bigint CHECK (ask_ms BETWEEN 0 AND 604800000),
    -- Number of workers that took it since one ended well.
    starts integer NOT NULL DEFAULT 0,
    -- Nobody takes it until somebody sends `go`.
    paused boolean NOT NULL DEFAULT false,
    -- The exit code of the worker that ended it last. NULL: none did since it was taken.
    exit integer,
    origin name NOT NULL,
    created timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX ON rewake.sessions (state) WHERE state IN ('queued', 'working', 'asks');

-- Writes the rows of entries. A false object, which somebody sent earlier, is replaced.
CREATE FUNCTION rewake.append_2(
    session uuid, fence bigint, at_length bigint,
    bodies bytea[], macs bytea[], hashes bytea[], objects bytea[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM rewake.append_1(session, fence, at_length, bodies, macs, '{}', '{}');
    IF cardinality(hashes) <> cardinality(objects) THEN
        RAISE EXCEPTION 'the arrays have different lengths' USING ERRCODE = 'array_subscript_error';
    END IF;
    INSERT INTO rewake.objects AS o (session, hash, body)
    SELECT DISTINCT ON (h) append_2.session, h, b FROM unnest(hashes, append_2.objects) AS x (h, b)
    ON CONFLICT ON CONSTRAINT objects_pkey DO UPDATE SET body = excluded.body
    WHERE o.body IS DISTINCT FROM excluded.body;
END
$$;

-- As push_1. The messages and signals that these entries are go away with it. `files`: NULL keeps
-- what is there.
CREATE FUNCTION rewake.push_2(
    session uuid, fence bigint, before bytea, at_length bigint,
    after bytea, bodies bytea[], macs bytea[], hashes bytea[], objects bytea[],
    title text, state text, needs integer, taken bigint[], files text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE rewake.sessions s
    SET tip = after, length = at_length + cardinality(bodies),
        updated = clock_timestamp(), lease_until = clock_timestamp() + m.lease,
        title = push_2.title, state = push_2.state, needs = greatest(s.needs, push_2.needs),
        files = coalesce(push_2.files, s.files)
    FROM rewake.meta m
    WHERE s.id = push_2.session AND s.fence = push_2.fence AND s.tip = before
      AND s.length = at_length AND s.role = session_user AND s.lease_until > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rewake.append_2(session, fence, at_length, bodies, macs, hashes, objects);
    DELETE FROM rewake.mail m WHERE m.session = push_2.session AND m.id = ANY (taken);
    RETURN true;
END
$$;

-- Sends a message or a signal. Returns its number, 0 if there is no such session, and -1 if it took
-- effect at once.
CREATE FUNCTION rewake.send_1(
    session uuid, kind text, body text, hashes bytea[], objects bytea[]
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE sent bigint;
BEGIN
    PERFORM FROM rewake.sessions s WHERE s.id = send_1.session;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF (SELECT count(*) FROM rewake.mail m WHERE m.session = send_1.session) >= 1000 THEN
        RAISE EXCEPTION 'session % has 1000 messages and signals already', session
            USING ERRCODE = 'configuration_limit_exceeded';
    END IF;
    -- Nobody takes a paused task, so the pause needs no entry.
    IF kind = 'signal' AND body::jsonb ->> 'signal' = 'pause' THEN
        UPDATE rewake.tasks t SET paused = true FROM rewake.sessions s
        WHERE t.session = send_1.session AND s.id = t.session
          AND (s.lease_until IS NULL OR s.lease_until <= clock_timestamp());
        IF FOUND THEN
            RETURN -1;
        END IF;
    END IF;
    INSERT INTO rewake.objects (session, hash, body)
    SELECT send_1.session, h, o FROM unnest(hashes, send_1.objects) AS x (h, o)
    ON CONFLICT DO NOTHING;
    INSERT INTO rewake.mail (session, kind, body, origin)
    VALUES (send_1.session, send_1.kind, send_1.body, session_user)
    RETURNING id INTO sent;
    IF kind = 'signal' AND body::jsonb ->> 'signal' = 'go_on' THEN
        UPDATE rewake.tasks t SET paused = false, starts = 0 WHERE t.session = send_1.session;
    END IF;
    PERFORM pg_notify('rewake', session::text);
    RETURN sent;
END
$$;

-- Removes messages and signals that can become no entry.
CREATE FUNCTION rewake.forget_1(session uuid, fence bigint, ids bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM rewake.mail m USING rewake.sessions s
    WHERE m.session = $1 AND m.id = ANY ($3)
      AND s.id = $1 AND s.fence = $2 AND s.role = session_user
      AND s.lease_until > clock_timestamp()
$$;

-- Creates a task, with its first message. Returns its session. The same key again: the session that
-- it has.
CREATE FUNCTION rewake.submit_1(
    session uuid, key text, repo text, commit text, labels text[], usd double precision,
    ask_ms bigint, tip bytea, header text, title text, message text
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE known uuid;
BEGIN
    IF key IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('rewake task ' || key, 0));
        SELECT t.session INTO known FROM rewake.tasks t WHERE t.key = submit_1.key;
        IF FOUND THEN
            RETURN known;
        END IF;
    END IF;
    INSERT INTO rewake.sessions
        (id, fence, home, boot, host, role, tip, length, header, title, state, needs)
    VALUES (submit_1.session, 0, '', '', '', session_user, submit_1.tip, 0,
            submit_1.header, submit_1.title, 'queued', 0);
    INSERT INTO rewake.tasks (session, key, repo, commit, labels, usd, ask_ms, origin)
    VALUES (submit_1.session, submit_1.key, submit_1.repo, submit_1.commit, submit_1.labels,
            submit_1.usd, submit_1.ask_ms, session_user);
    PERFORM rewake.send_1(session, 'message', message, '{}', '{}');
    RETURN submit_1.session;
END
$$;

-- Takes a task that no living worker has: one that waits, whose worker died, or that got mail. A task
-- that three workers left without an end is paused. Returns the machine and the end of the lease
-- before, and whether that was another data folder or machine.
CREATE FUNCTION rewake.take_1(
    labels text[], home text, boot text, host text, level integer, skip uuid[]
) RETURNS TABLE (session uuid, moved boolean, from_host text, from_until timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    task record;
BEGIN
    LOOP
        SELECT s.id, s.home, s.host, s.lease_until, s.updated, t.starts INTO task
        FROM rewake.sessions s JOIN rewake.tasks t ON t.session = s.id
        WHERE (s.lease_until IS NULL OR s.lease_until <= clock_timestamp())
          AND NOT t.paused AND t.labels <@ take_1.labels AND s.needs <= level
          AND NOT s.id = ANY (skip)
          AND s.id IN (SELECT w.id FROM rewake.sessions w
                       WHERE w.state IN ('queued', 'working')
                       UNION SELECT m.session FROM rewake.mail m)
        ORDER BY s.updated LIMIT 1
        FOR UPDATE OF s, t SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        UPDATE rewake.tasks t SET starts = t.starts + 1, paused = t.starts >= 3, exit = NULL
        WHERE t.session = task.id;
        IF task.starts >= 3 THEN
            UPDATE rewake.sessions s SET lease_until = NULL WHERE s.id = task.id;
            CONTINUE;
        END IF;
        UPDATE rewake.sessions s
        SET fence = s.fence + 1, home = take_1.home, boot = take_1.boot, host = take_1.host,
            role = session_user, lease_until = clock_timestamp() + m.lease
        FROM rewake.meta m WHERE s.id = task.id;
        RETURN QUERY SELECT task.id, task.home <> take_1.home AND task.home <> '',
                            task.host, coalesce(task.lease_until, task.updated);
        RETURN;
    END LOOP;
END
$$;

-- Gives a task back after its worker ended. `state` NULL keeps what the entries say: other workers
-- continue a task at work. Otherwise nobody takes it until it gets mail.
CREATE FUNCTION rewake.end_1(session uuid, home text, boot text, state text, exit integer)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE now_is text;
BEGIN
    UPDATE rewake.sessions s
    SET fence = s.fence + 1, lease_until = NULL, state = coalesce(end_1.state, s.state)
    WHERE s.id = end_1.session AND s.home = end_1.home AND s.boot = end_1.boot
      AND s.role = session_user
    RETURNING s.state INTO now_is;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- One that another worker continues did not end well.
    UPDATE rewake.tasks t
    SET starts = CASE WHEN now_is IN ('queued', 'working', 'failed') THEN t.starts ELSE 0 END,
        exit = CASE WHEN now_is IN ('queued', 'working') THEN NULL ELSE end_1.exit END
    WHERE t.session = end_1.session;
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION rewake.append_2, rewake.push_2, rewake.send_1, rewake.forget_1,
    rewake.submit_1, rewake.take_1, rewake.end_1 FROM PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA rewake TO rewake_reader;
GRANT EXECUTE ON FUNCTION rewake.push_2, rewake.forget_1, rewake.take_1, rewake.end_1
    TO rewake_worker;
GRANT EXECUTE ON FUNCTION rewake.send_1, rewake.submit_1 TO rewake_submitter, rewake_worker;
