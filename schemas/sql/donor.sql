-- What a donor keeps: receipts it can show to anybody, and numbers it remembers by name.

CREATE TABLE receipt (
    project      BLOB NOT NULL,
    shard        TEXT NOT NULL,
    version      INTEGER NOT NULL,
    credit_micro INTEGER NOT NULL,    -- granted to this donor by that seal, millionths of a credit
    seal         TEXT NOT NULL,       -- envelope
    UNIQUE (project, shard, version)
);

CREATE TABLE mark (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
