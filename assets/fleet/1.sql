-- The shared log of sessions, version 1. `rewake fleet init` runs this in one transaction.
--
-- Tables only grow. Functions have a version in their name, so that old and new workers use one
-- database. Nobody but the owner writes a table: every change is one of the functions below, which
-- run with the rights of the owner and a fixed search_path.

CREATE SCHEMA rewake;

CREATE TABLE rewake.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    schema integer NOT NULL,
    lease interval NOT NULL,
    work_dir text
);

CREATE TABLE rewake.sessions (
    id uuid PRIMARY KEY,
    -- The number of the last claim. Only the holder of this number appends.
    fence bigint NOT NULL,
    -- The data folder and the machine that may claim the session, and the start of that machine.
    home text NOT NULL CHECK (length(home) <= 200),
    boot text NOT NULL CHECK (length(boot) <= 200),
    -- The name of that machine, for people.
    host text NOT NULL CHECK (length(host) <= 200),
    role name NOT NULL,
    -- By the clock of this server. NULL: released.
    lease_until timestamptz,
    -- The chained hash of the last entry.
    tip bytea NOT NULL CHECK (length(tip) = 16),
    -- Number of entries.
    length bigint NOT NULL,
    -- Where the session works: JSON.
    header text NOT NULL CHECK (length(header) <= 100000),
    title text NOT NULL CHECK (length(title) <= 1000),
    -- idle, working or asks.
    state text NOT NULL CHECK (length(state) <= 100),
    -- The level of the newest kind of entry: older versions leave such sessions to newer ones.
    needs integer NOT NULL,
    created timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX ON rewake.sessions (updated DESC);
CREATE INDEX ON rewake.sessions (lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE rewake.lines (
    session uuid NOT NULL REFERENCES rewake.sessions,
    seq bigint NOT NULL,
    fence bigint NOT NULL,
    -- A line of a journal (docs/storage.md), compressed with zstd.
    body bytea NOT NULL,
    -- By a key of the data folder that recorded it, so that it knows its own entries.
    mac bytea NOT NULL CHECK (length(mac) = 32),
    PRIMARY KEY (session, seq)
);
ALTER TABLE rewake.lines ALTER body SET STORAGE EXTERNAL;

-- Outputs and images that entries refer to, by their blake3.
CREATE TABLE rewake.objects (
    session uuid NOT NULL REFERENCES rewake.sessions,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    body bytea NOT NULL,
    PRIMARY KEY (session, hash)
);
ALTER TABLE rewake.objects ALTER body SET STORAGE EXTERNAL;

-- Writes the rows of entries. Only the two functions below may call it.
CREATE FUNCTION rewake.append_1(
    session uuid, fence bigint, at_length bigint,
    bodies bytea[], macs bytea[], hashes bytea[], objects bytea[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE n integer := cardinality(bodies);
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        RAISE EXCEPTION 'synchronous_commit is %: entries could be lost',
            current_setting('synchronous_commit') USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF n < 1 OR cardinality(macs) <> n
       OR cardinality(hashes) <> cardinality(objects) THEN
        RAISE EXCEPTION 'the arrays have different lengths' USING ERRCODE = 'array_subscript_error';
    END IF;
    INSERT INTO rewake.lines (session, seq, fence, body, mac)
    SELECT append_1.session, at_length + i - 1, append_1.fence, b, m
    FROM unnest(bodies, macs) WITH ORDINALITY AS l (b, m, i);
    INSERT INTO rewake.objects (session, hash, body)
    SELECT append_1.session, h, o FROM unnest(hashes, append_1.objects) AS x (h, o)
    ON CONFLICT DO NOTHING;
END
$$;

-- Creates a session with its first entries and a lease. Returns its fence, and 0 if the ID is taken.
CREATE FUNCTION rewake.create_1(
    session uuid, home text, boot text, host text, header text,
    after bytea, bodies bytea[], macs bytea[], hashes bytea[], objects bytea[],
    title text, state text, needs integer
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO rewake.sessions
        (id, fence, home, boot, host, role, lease_until, tip, length, header, title, state, needs)
    SELECT create_1.session, 1, create_1.home, create_1.boot, create_1.host, session_user,
           clock_timestamp() + m.lease, after, cardinality(bodies),
           create_1.header, create_1.title, create_1.state, create_1.needs
    FROM rewake.meta m
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    PERFORM rewake.append_1(session, 1, 0, bodies, macs, hashes, objects);
    RETURN 1;
END
$$;

-- Takes the lease of a session for the data folder that recorded it. A lease of an earlier start of
-- the machine is waited for. Returns no row if the session is not of this folder, or is held.
CREATE FUNCTION rewake.claim_1(session uuid, home text, boot text, host text)
RETURNS TABLE (fence bigint, tip bytea, length bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE rewake.sessions s
    SET fence = s.fence + 1, boot = $3, host = $4, lease_until = clock_timestamp() + m.lease
    FROM rewake.meta m
    WHERE s.id = $1 AND s.home = $2 AND s.role = session_user
      AND (s.boot = $3 OR s.lease_until IS NULL OR s.lease_until <= clock_timestamp())
    RETURNING s.fence, s.tip, s.length
$$;

-- Appends entries, if the caller still holds the session and nobody appended meanwhile. Returns
-- whether it did.
CREATE FUNCTION rewake.push_1(
    session uuid, fence bigint, before bytea, at_length bigint,
    after bytea, bodies bytea[], macs bytea[], hashes bytea[], objects bytea[],
    title text, state text, needs integer
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE rewake.sessions s
    SET tip = after, length = at_length + cardinality(bodies),
        updated = clock_timestamp(), lease_until = clock_timestamp() + m.lease,
        title = push_1.title, state = push_1.state, needs = greatest(s.needs, push_1.needs)
    FROM rewake.meta m
    WHERE s.id = push_1.session AND s.fence = push_1.fence AND s.tip = before
      AND s.length = at_length AND s.role = session_user AND s.lease_until > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM rewake.append_1(session, fence, at_length, bodies, macs, hashes, objects);
    RETURN true;
END
$$;

-- Extends the lease. Returns whether the caller holds it.
CREATE FUNCTION rewake.beat_1(session uuid, fence bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE rewake.sessions s
    SET lease_until = clock_timestamp() + m.lease
    FROM rewake.meta m
    WHERE s.id = beat_1.session AND s.fence = beat_1.fence AND s.role = session_user
      AND s.lease_until > clock_timestamp();
    RETURN FOUND;
END
$$;

-- Gives the lease back.
CREATE FUNCTION rewake.release_1(session uuid, fence bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE rewake.sessions s SET lease_until = NULL
    WHERE s.id = $1 AND s.fence = $2 AND s.role = session_user
$$;

-- Roles are of the whole server, so another database may have made them.
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['rewake_reader', 'rewake_submitter', 'rewake_worker'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', name);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$$;
GRANT rewake_reader TO rewake_worker, rewake_submitter;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA rewake FROM PUBLIC;
GRANT USAGE ON SCHEMA rewake TO rewake_reader, rewake_submitter, rewake_worker;
GRANT SELECT ON ALL TABLES IN SCHEMA rewake TO rewake_reader;
GRANT EXECUTE ON FUNCTION rewake.create_1, rewake.claim_1, rewake.push_1, rewake.beat_1,
    rewake.release_1 TO rewake_worker;
