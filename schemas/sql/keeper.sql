-- What a keeper must not forget. Compiled into skep-keeper; PRAGMA user_version counts changes of this schema.
-- Identities and hashes are blobs of 32 bytes, shards their text (trunk, ffn.<layer>.<row>.<column>).

CREATE TABLE project (
    id       BLOB PRIMARY KEY,
    manifest TEXT NOT NULL            -- envelope as it came
) WITHOUT ROWID;

CREATE TABLE version (
    project BLOB NOT NULL REFERENCES project(id),
    shard   TEXT NOT NULL,
    version INTEGER NOT NULL,
    payload BLOB NOT NULL,            -- SHA-256 of the seal's payload (of the manifest's for version 0)
    root    BLOB NOT NULL,            -- root hash of the state's chunks
    state   BLOB NOT NULL,            -- SHA-256 of the state file, its name among the blobs
    seal    TEXT,                     -- envelope; NULL for version 0
    UNIQUE (project, shard, version)
);

CREATE TABLE receipt (
    project      BLOB NOT NULL,
    shard        TEXT NOT NULL,
    version      INTEGER NOT NULL,
    update_hash  BLOB NOT NULL,
    donor        BLOB NOT NULL,
    base_version INTEGER NOT NULL,
    credit_micro INTEGER NOT NULL,    -- millionths of a credit
    merged       INTEGER NOT NULL,    -- 0: stands in the list only
    copy         INTEGER NOT NULL,    -- a near-copy of another
    agreement    INTEGER NOT NULL,    -- with the others that were merged, in thousandths
    PRIMARY KEY (project, shard, version, update_hash),
    FOREIGN KEY (project, shard, version) REFERENCES version(project, shard, version)
) WITHOUT ROWID;
CREATE INDEX receipt_of_donor ON receipt (project, donor);

CREATE TABLE reputation (             -- of donors, as the trunk's seals give it (common/swarm/reputation.h)
    project   BLOB NOT NULL REFERENCES project(id),
    donor     BLOB NOT NULL,
    earned    INTEGER NOT NULL,       -- valid audits in a row at version seen, in units of 2^-16
    seen      INTEGER NOT NULL,       -- trunk version that last merged an update of this donor
    merged    INTEGER NOT NULL,
    banned_at INTEGER,                -- trunk version; NULL: not banned
    PRIMARY KEY (project, donor)
) WITHOUT ROWID;

CREATE TABLE waiting (                -- admitted updates that no version has merged yet; rivals of one donor and base too
    project      BLOB NOT NULL REFERENCES project(id),
    shard        TEXT NOT NULL,
    update_hash  BLOB NOT NULL,
    donor        BLOB NOT NULL,
    base_version INTEGER NOT NULL,
    PRIMARY KEY (project, shard, update_hash)
) WITHOUT ROWID;

CREATE TABLE vote (                   -- promise and vote for the version being agreed on
    project      BLOB NOT NULL REFERENCES project(id),
    shard        TEXT NOT NULL,
    version      INTEGER NOT NULL,
    promised     INTEGER NOT NULL,
    vote_attempt INTEGER,             -- NULL: no vote yet
    vote_payload BLOB,
    PRIMARY KEY (project, shard, version)
) WITHOUT ROWID;

CREATE TABLE audit (                  -- updates of projects with audits: what their donors committed to, and what this keeper found
    project      BLOB NOT NULL REFERENCES project(id),
    update_hash  BLOB NOT NULL,
    shard        TEXT NOT NULL,
    donor        BLOB NOT NULL,
    ticket       BLOB NOT NULL,       -- of the job, which has several updates
    base_version INTEGER NOT NULL,
    before       BLOB NOT NULL,       -- the donor's history of the shard
    after        BLOB NOT NULL,
    came_s       INTEGER NOT NULL,    -- Unix time
    verdict      INTEGER NOT NULL,    -- 0 open, 1 valid, 2 invalid, 3 unanswered, 4 not drawn
    distance     REAL NOT NULL,       -- of the published body from the repeated one
    overlap      REAL NOT NULL,
    seconds      REAL NOT NULL,       -- that repeating the job took
    PRIMARY KEY (project, update_hash)
) WITHOUT ROWID;
CREATE INDEX audit_of_donor ON audit (project, donor, shard, base_version);
CREATE INDEX audit_by_verdict ON audit (project, verdict, shard, base_version);
