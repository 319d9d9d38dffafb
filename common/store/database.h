/*
 * SQLite behind a face without SQLite: open with schema check, statements prepared once, values bound by place. Internal to
 * this folder.
 *
 * A statement in use is taken with skep_db_use(), which rewinds it; binds take places from 1, as SQLite does; columns count from 0.
 */
#ifndef SKEP_STORE_DATABASE_H
#define SKEP_STORE_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"

struct skep_db;
struct skep_query; /* a prepared statement, owned by the database */

/* Opens or creates with `schema` as user_version `version`. A newer or foreign file is
 * SKEP_ERR_FORMAT and stays as it is. `sql` lists the
 * statements that skep_db_use() will name by index; borrowed for ever. */
int skep_db_open(const char *path, const char *schema, int version, const char *const *sql,
                 size_t sql_count, struct skep_db **ret_db, struct skep_error *err);
void skep_db_close(struct skep_db *db);

int skep_db_begin(struct skep_db *db, struct skep_error *err);
/* Commits if `result` is 0, else rolls back; returns the first failure. */
int skep_db_end(struct skep_db *db, int result, struct skep_error *err);

/* NULL with *err if it cannot be prepared; then skep_db_failure() is the code to return. */
struct skep_query *skep_db_use(struct skep_db *db, size_t index, struct skep_error *err);
int skep_db_failure(const struct skep_error *err);
void skep_query_bind_id(struct skep_query *query, int place, const uint8_t bytes[SKEP_ID_SIZE]);
void skep_query_bind_blob(struct skep_query *query, int place, const void *data, size_t size);
void skep_query_bind_integer(struct skep_query *query, int place, int64_t value);
void skep_query_bind_real(struct skep_query *query, int place, double value);
void skep_query_bind_text(struct skep_query *query, int place, const char *text);
void skep_query_bind_shard(struct skep_query *query, int place, const struct skep_shard *shard);
void skep_query_bind_null(struct skep_query *query, int place);

/* Next row: 1 if there is one, 0 at the end, negative on failure (SKEP_ERR_FULL, SKEP_ERR_DUPLICATE for a broken
 * UNIQUE, SKEP_ERR_NOT_FOUND for a broken FOREIGN KEY). */
int skep_query_step(struct skep_query *query, struct skep_error *err);
/* Runs a statement that gives no rows. */
int skep_query_run(struct skep_query *query, struct skep_error *err);
/* Rows that the last statement which went well has added, changed or removed. */
size_t skep_db_changed(const struct skep_db *db);
/* Ends the use, so that no lock is kept. */
void skep_query_reset(struct skep_query *query);

/* 32 bytes, or zeros if the column holds something else. */
void skep_query_id(struct skep_query *query, int column, uint8_t to[SKEP_ID_SIZE]);
int64_t skep_query_integer(struct skep_query *query, int column);
double skep_query_real(struct skep_query *query, int column);
/* Borrowed until the next step; NULL for NULL. */
const char *skep_query_text(struct skep_query *query, int column);
const void *skep_query_blob(struct skep_query *query, int column, size_t *ret_size);
bool skep_query_is_null(struct skep_query *query, int column);

#endif
