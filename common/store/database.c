#include "common/store/database.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"

#define APPLICATION_ID 0x536b6570 /* "Skep" */
#define BUSY_MS 5000

struct skep_query {
    sqlite3_stmt *statement;
    struct skep_db *db;
};

struct skep_db {
    sqlite3 *handle;
    char *path;
    const char *const *sql;
    size_t sql_count;
    struct skep_query *queries;
};

/* A quota and a limit of the process show as failed input or output, just as a broken disk does. What the system said tells
 * them apart; SQLite may have cleaned up since and lost it, then a failed write is taken for a full disk unless it is EIO. */
static bool could_not_grow(int result, int system_errno)
{
    switch (system_errno) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return true;
    case EIO:
        return false;
    default:
        return result == SQLITE_IOERR_WRITE || result == SQLITE_IOERR_TRUNCATE ||
               result == SQLITE_IOERR_SHMSIZE;
    }
}

static enum skep_err code_of(int result, int system_errno)
{
    switch (result & 0xff) {
    case SQLITE_FULL:
        return SKEP_ERR_FULL;
    case SQLITE_IOERR:
        return could_not_grow(result, system_errno) ? SKEP_ERR_FULL : SKEP_ERR_IO;
    case SQLITE_CONSTRAINT:
        return result == SQLITE_CONSTRAINT_FOREIGNKEY ? SKEP_ERR_NOT_FOUND : SKEP_ERR_DUPLICATE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return SKEP_ERR_IN_USE;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return SKEP_ERR_FORMAT;
    default:
        return SKEP_ERR_IO;
    }
}

static int failed(const struct skep_db *db, struct skep_error *err)
{
    int result = sqlite3_extended_errcode(db->handle);
    return skep_error_set(err, code_of(result, sqlite3_system_errno(db->handle)),
                          "%s: the database says: %s", db->path, sqlite3_errmsg(db->handle));
}

static int execute(struct skep_db *db, const char *sql, struct skep_error *err)
{
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? SKEP_OK : failed(db, err);
}

static int read_number(struct skep_db *db, const char *sql, int *ret_value, struct skep_error *err)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        int result = failed(db, err);
        sqlite3_finalize(statement);
        return result;
    }
    *ret_value = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return SKEP_OK;
}

static int create(struct skep_db *db, const char *schema, int version, struct skep_error *err)
{
    char *sql = skep_format("BEGIN;%s;PRAGMA application_id = %d;PRAGMA user_version = %d;COMMIT",
                            schema, APPLICATION_ID, version);
    int result = execute(db, sql, err);
    free(sql);
    return result;
}

/* Reads only, so that a file which is not ours stays as it is. Most programs leave both numbers at 0: a file is new only if
 * it has no tables either. */
static int check_kind(struct skep_db *db, int version, bool *ret_new, struct skep_error *err)
{
    int application = 0;
    int found = 0;
    int tables = 0;
    int result = read_number(db, "PRAGMA application_id", &application, err);
    if (result == SKEP_OK) {
        result = read_number(db, "PRAGMA user_version", &found, err);
    }
    if (result == SKEP_OK) {
        result = read_number(db, "SELECT count(*) FROM sqlite_master", &tables, err);
    }
    if (result != SKEP_OK) {
        return result;
    }
    bool is_new = application == 0 && found == 0 && tables == 0;
    if (!is_new && (application != APPLICATION_ID || found != version)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s is a database of kind %08x, schema %d; this program needs kind "
                              "%08x, schema %d: use the program that wrote it or another folder",
                              db->path, (unsigned)application, found, (unsigned)APPLICATION_ID,
                              version);
    }
    *ret_new = is_new;
    return SKEP_OK;
}

/* The file is checked before anything is written to it: already journal_mode changes it. */
static int prepare(struct skep_db *db, const char *schema, int version, struct skep_error *err)
{
    bool is_new = false;
    int result = check_kind(db, version, &is_new, err);
    if (result == SKEP_OK) {
        result = execute(db,
                         "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                         "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF",
                         err);
    }
    if (result == SKEP_OK && is_new) {
        result = create(db, schema, version, err);
    }
    return result;
}

int skep_db_open(const char *path, const char *schema, int version, const char *const *sql,
                 size_t sql_count, struct skep_db **ret_db, struct skep_error *err)
{
    struct skep_db *db = skep_alloc(1, sizeof *db);
    db->path = skep_strdup(path);
    db->sql = sql;
    db->sql_count = sql_count;
    db->queries = skep_alloc(sql_count, sizeof *db->queries);
    int result = SKEP_OK;
    if (sqlite3_open_v2(path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK) {
        result = failed(db, err);
        goto out;
    }
    sqlite3_extended_result_codes(db->handle, 1);
    sqlite3_busy_timeout(db->handle, BUSY_MS);
    result = prepare(db, schema, version, err);
out:
    if (result != SKEP_OK) {
        skep_db_close(db);
        return result;
    }
    *ret_db = db;
    return SKEP_OK;
}

void skep_db_close(struct skep_db *db)
{
    if (db == NULL) {
        return;
    }
    for (size_t i = 0; i < db->sql_count; i++) {
        sqlite3_finalize(db->queries[i].statement);
    }
    sqlite3_close(db->handle);
    free(db->queries);
    free(db->path);
    free(db);
}

int skep_db_begin(struct skep_db *db, struct skep_error *err)
{
    return execute(db, "BEGIN IMMEDIATE", err);
}

int skep_db_end(struct skep_db *db, int result, struct skep_error *err)
{
    if (result == SKEP_OK) {
        result = execute(db, "COMMIT", err);
    }
    if (result != SKEP_OK && !sqlite3_get_autocommit(db->handle)) {
        execute(db, "ROLLBACK", NULL);
    }
    return result;
}

struct skep_query *skep_db_use(struct skep_db *db, size_t index, struct skep_error *err)
{
    struct skep_query *query = &db->queries[index];
    query->db = db;
    if (query->statement == NULL &&
        sqlite3_prepare_v3(db->handle, db->sql[index], -1, SQLITE_PREPARE_PERSISTENT,
                           &query->statement, NULL) != SQLITE_OK) {
        failed(db, err);
        return NULL;
    }
    skep_query_reset(query);
    return query;
}

int skep_db_failure(const struct skep_error *err)
{
    return err != NULL && err->code != SKEP_OK ? (int)err->code : SKEP_ERR_IO;
}

void skep_query_bind_id(struct skep_query *query, int place, const uint8_t bytes[SKEP_ID_SIZE])
{
    sqlite3_bind_blob(query->statement, place, bytes, SKEP_ID_SIZE, SQLITE_TRANSIENT);
}

void skep_query_bind_blob(struct skep_query *query, int place, const void *data, size_t size)
{
    sqlite3_bind_blob64(query->statement, place, data, size, SQLITE_TRANSIENT);
}

void skep_query_bind_integer(struct skep_query *query, int place, int64_t value)
{
    sqlite3_bind_int64(query->statement, place, value);
}

void skep_query_bind_real(struct skep_query *query, int place, double value)
{
    sqlite3_bind_double(query->statement, place, value);
}

void skep_query_bind_text(struct skep_query *query, int place, const char *text)
{
    sqlite3_bind_text(query->statement, place, text, -1, SQLITE_TRANSIENT);
}

void skep_query_bind_shard(struct skep_query *query, int place, const struct skep_shard *shard)
{
    char text[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, text);
    skep_query_bind_text(query, place, text);
}

void skep_query_bind_null(struct skep_query *query, int place)
{
    sqlite3_bind_null(query->statement, place);
}

int skep_query_step(struct skep_query *query, struct skep_error *err)
{
    int result = sqlite3_step(query->statement);
    if (result == SQLITE_ROW) {
        return 1;
    }
    if (result == SQLITE_DONE) {
        skep_query_reset(query);
        return 0;
    }
    result = failed(query->db, err);
    skep_query_reset(query);
    return result;
}

int skep_query_run(struct skep_query *query, struct skep_error *err)
{
    int result = skep_query_step(query, err);
    skep_query_reset(query);
    return result < 0 ? result : SKEP_OK;
}

size_t skep_db_changed(const struct skep_db *db)
{
    return (size_t)sqlite3_changes(db->handle);
}

void skep_query_reset(struct skep_query *query)
{
    sqlite3_reset(query->statement);
}

void skep_query_id(struct skep_query *query, int column, uint8_t to[SKEP_ID_SIZE])
{
    const void *bytes = sqlite3_column_blob(query->statement, column);
    if (bytes != NULL && sqlite3_column_bytes(query->statement, column) == SKEP_ID_SIZE) {
        memcpy(to, bytes, SKEP_ID_SIZE);
    } else {
        memset(to, 0, SKEP_ID_SIZE);
    }
}

int64_t skep_query_integer(struct skep_query *query, int column)
{
    return sqlite3_column_int64(query->statement, column);
}

double skep_query_real(struct skep_query *query, int column)
{
    return sqlite3_column_double(query->statement, column);
}

const char *skep_query_text(struct skep_query *query, int column)
{
    return (const char *)sqlite3_column_text(query->statement, column);
}

const void *skep_query_blob(struct skep_query *query, int column, size_t *ret_size)
{
    const void *data = sqlite3_column_blob(query->statement, column);
    *ret_size = (size_t)sqlite3_column_bytes(query->statement, column);
    return data;
}

bool skep_query_is_null(struct skep_query *query, int column)
{
    return sqlite3_column_type(query->statement, column) == SQLITE_NULL;
}
