/* Sessions with keepers, and gradients that become signed updates (experts.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/network/experts-internal.h"
#include "client/network/transport.h"
#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "common/crypto/random.h"
#include "common/swarm/replicas.h"
#include "common/swarm/statement.h"
#include "common/swarm/update-open.h"
#include "common/sys/clock.h"
#include "common/wire/base64.h"
#include "common/wire/json.h"

#define SESSION_ANSWER 4096u /* bytes at most: a token, or a sentence */

/* ---- sessions ---- */

static char *sign_session(const struct skep_caller *caller, size_t keeper)
{
    struct skep_caller_statement statement = {.project = caller->manifest->project,
                                              .keeper = caller->keepers[keeper].record.keeper,
                                              .caller = caller->id,
                                              .time_s = skep_clock_unix_s()};
    skep_random_bytes(statement.nonce.bytes, sizeof statement.nonce.bytes);
    char *payload = skep_caller_statement_encode(&statement);
    char *text = skep_statement_sign_text(caller->key, SKEP_TYPE_CALLER, payload);
    free(payload);
    return text;
}

static int open_session(struct skep_caller_line *line, size_t keeper,
                        char ret_token[SKEP_CALLER_TOKEN_SIZE], struct skep_error *err)
{
    char *body = sign_session(line->caller, keeper);
    struct skep_http_request request = {
        .method = "POST", .body = body, .body_size = strlen(body), .limit = SESSION_ANSWER};
    struct skep_http_answer answer = {0};
    struct skep_error failure = {0};
    struct skep_json *root = NULL;
    uint8_t token[SKEP_ID_SIZE];
    char *path = skep_caller_address(line->caller, keeper, "experts/sessions", &request);
    int rc = skep_caller_exchange(line, &request, &answer, &failure);
    rc = skep_answer_json(rc, &answer, &failure, "session", &root, err);
    if (rc == SKEP_OK) {
        rc = skep_json_get_hex(root, "session", "token", token, sizeof token, err);
    }
    if (rc == SKEP_OK) {
        int at = snprintf(ret_token, SKEP_CALLER_TOKEN_SIZE, "Bearer ");
        skep_hex_encode(token, sizeof token, ret_token + at);
    }
    skep_json_free(root);
    skep_http_answer_done(&answer);
    free(path);
    free(body);
    return rc;
}

/* Is there a session that was not refused? Also how many were tried to be opened until now. */
static bool known_token(struct skep_caller *caller, const struct skep_caller_keeper *keeper,
                        const char *stale, char ret_token[SKEP_CALLER_TOKEN_SIZE],
                        size_t *ret_openings)
{
    pthread_mutex_lock(&caller->lock);
    memcpy(ret_token, keeper->token, SKEP_CALLER_TOKEN_SIZE);
    *ret_openings = keeper->openings;
    pthread_mutex_unlock(&caller->lock);
    return ret_token[0] != '\0' && (stale == NULL || strcmp(ret_token, stale) != 0);
}

/* With the keeper's `opening`. Whoever waits for it meanwhile takes what came of it, so that a keeper that lets us wait does so to
 * each thread once and not to one after the other. */
static int open_next(struct skep_caller_line *line, size_t keeper,
                     char ret_token[SKEP_CALLER_TOKEN_SIZE])
{
    struct skep_caller *caller = line->caller;
    struct skep_caller_keeper *known = &caller->keepers[keeper];
    known->opening_result = open_session(line, keeper, ret_token, &known->opening_err);
    pthread_mutex_lock(&caller->lock);
    known->openings++;
    if (known->opening_result == SKEP_OK) {
        memcpy(known->token, ret_token, sizeof known->token);
    } else {
        known->token[0] = '\0';
    }
    pthread_mutex_unlock(&caller->lock);
    return known->opening_result;
}

int skep_caller_session(struct skep_caller_line *line, size_t keeper, const char *stale,
                        char ret_token[SKEP_CALLER_TOKEN_SIZE], struct skep_error *err)
{
    struct skep_caller *caller = line->caller;
    struct skep_caller_keeper *known = &caller->keepers[keeper];
    char token[SKEP_CALLER_TOKEN_SIZE];
    size_t openings = 0;
    int rc = SKEP_OK;
    if (!known_token(caller, known, stale, token, &openings)) {
        pthread_mutex_lock(&known->opening);
        size_t seen = openings;
        if (!known_token(caller, known, stale, token, &openings)) {
            rc = openings == seen ? open_next(line, keeper, token) : known->opening_result;
            if (rc != SKEP_OK && err != NULL) {
                *err = known->opening_err;
            }
        }
        pthread_mutex_unlock(&known->opening);
    }
    if (rc == SKEP_OK) {
        memcpy(ret_token, token, sizeof token);
    }
    return rc;
}

/* ---- updates ---- */

/* All shards of one skep_caller_line_update() and what became of them. */
struct updates {
    struct skep_caller_line *line;
    const struct skep_shard *shards;
    size_t count;
    size_t *places;  /* in the manifest's order; SIZE_MAX: no such expert */
    size_t *keepers; /* whom each is asked of */
    double loss_first;
    double loss_last;
    enum skep_caller_outcome *outcomes;
    int result; /* of the first that failed */
    struct skep_error *err;
};

static void fail(struct updates *updates, size_t i, int result, const struct skep_error *err)
{
    updates->outcomes[i] = SKEP_CALLER_FAILED;
    if (updates->result == SKEP_OK) {
        updates->result = result;
        if (updates->err != NULL) {
            *updates->err = *err;
        }
    }
}

static size_t find(const struct updates *updates, size_t keeper, const struct skep_shard *shard)
{
    for (size_t i = 0; i < updates->count; i++) {
        if (updates->keepers[i] == keeper && skep_shard_equal(&updates->shards[i], shard)) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Is this what was asked for? What the body holds, only the keeper knows; that it is admissible is for the others to check. */
static int check_statement(const struct updates *updates, size_t i,
                           const struct skep_update_statement *statement,
                           const struct skep_buffer *body, struct skep_error *err)
{
    struct skep_caller *caller = updates->line->caller;
    const struct skep_caller_route *route = &caller->routes[updates->places[i]];
    pthread_mutex_lock(&caller->lock);
    bool repeated = route->has_base && statement->base_version <= route->base_version;
    pthread_mutex_unlock(&caller->lock);
    struct skep_hash hash = skep_hash_of(body->data, body->size);
    if (memcmp(statement->project.bytes, caller->manifest->project.bytes, SKEP_ID_SIZE) != 0 ||
        !skep_peer_id_equal(&statement->donor, &caller->id) ||
        !skep_shard_equal(&statement->shard, &updates->shards[i])) {
        return skep_error_set(err, SKEP_ERR_REFUSED,
                              "the keeper wants another project, donor or shard signed");
    }
    if (!skep_hash_equal(&hash, &statement->body)) {
        return skep_error_set(err, SKEP_ERR_HASH,
                              "the keeper wants another body signed than it sent");
    }
    if (repeated) {
        return skep_error_set(err, SKEP_ERR_STALE,
                              "the keeper's update is from version %llu, and there was one from it "
                              "or a newer one before",
                              (unsigned long long)statement->base_version);
    }
    return SKEP_OK;
}

static int hand_in(struct updates *updates, size_t keeper, const struct skep_buffer *file,
                   struct skep_error *err)
{
    struct skep_caller *caller = updates->line->caller;
    struct skep_http_request request = {.method = "POST",
                                        .content_type = "application/octet-stream",
                                        .body = file->data,
                                        .body_size = file->size,
                                        .body_stays = true};
    struct skep_http_answer answer = {0};
    struct skep_error failure = {0};
    char *path = skep_caller_address(caller, keeper, "updates", &request);
    int rc = skep_caller_exchange(updates->line, &request, &answer, &failure);
    if (rc != SKEP_OK) {
        skep_caller_set_aside(caller, keeper);
    }
    rc = skep_answer_check(rc, &answer, &failure, "update", err);
    skep_http_answer_done(&answer);
    free(path);
    return rc;
}

/* Hands a file to the keepers of the shard; well if one took it: others that miss it get it from that one when they agree. So those that
 * did not answer lately are only asked if nobody else took it, and a dead keeper does not cost its time for each shard.
 * `ret_vouched` if one took it that has no hand in it, or there is none. */
static int publish(struct updates *updates, size_t i, const struct skep_buffer *file,
                   bool *ret_vouched, struct skep_error *err)
{
    struct skep_caller *caller = updates->line->caller;
    const struct skep_caller_route *route = &caller->routes[updates->places[i]];
    bool asked[SKEP_LIMIT_KEEPERS] = {false};
    bool taken = false;
    bool vouched = route->count == 1;
    int rc = SKEP_ERR_NETWORK;
    for (int turn = 0; turn < 2 && !taken; turn++) {
        for (size_t n = 0; n < route->count; n++) {
            size_t keeper = route->keepers[n];
            if (asked[n] || (turn == 0 && skep_caller_is_aside(caller, keeper))) {
                continue;
            }
            asked[n] = true;
            rc = hand_in(updates, keeper, file, err);
            taken = taken || rc == SKEP_OK;
            vouched = vouched || (rc == SKEP_OK && keeper != updates->keepers[i]);
        }
    }
    *ret_vouched = vouched;
    return taken ? SKEP_OK : rc;
}

static int take_update(struct updates *updates, size_t i, const char *text, const char *base64,
                       struct skep_error *err)
{
    struct skep_caller *caller = updates->line->caller;
    struct skep_update_statement statement;
    struct skep_buffer body = {.limit = SKEP_LIMIT_UPDATE_BYTES};
    struct skep_buffer file = {0};
    bool vouched = false;
    int rc = skep_update_statement_decode(text, strlen(text), &statement, err);
    if (rc == SKEP_OK && !skep_base64_decode(base64, strlen(base64), &body)) {
        rc = skep_error_set(err, SKEP_ERR_FORMAT, "the body of an update is no base64");
    }
    if (rc == SKEP_OK) {
        rc = check_statement(updates, i, &statement, &body, err);
    }
    if (rc == SKEP_OK) {
        pthread_mutex_lock(&caller->lock);
        statement.stamp = caller->stamp;
        pthread_mutex_unlock(&caller->lock);
        statement.loss_first = updates->loss_first;
        statement.loss_last = updates->loss_last;
        skep_update_seal(caller->key, &statement, &body, &file);
        rc = publish(updates, i, &file, &vouched, err);
    }
    if (rc == SKEP_OK) {
        struct skep_caller_route *route = &caller->routes[updates->places[i]];
        pthread_mutex_lock(&caller->lock);
        if (vouched) { /* else a keeper could claim a version far ahead, and nobody's update would be new again */
            route->has_base = true;
            route->base_version = statement.base_version;
        }
        pthread_mutex_unlock(&caller->lock);
        updates->outcomes[i] = SKEP_CALLER_PUBLISHED;
    }
    skep_buffer_done(&body);
    skep_buffer_done(&file);
    return rc;
}

/* One item of the answer's list. */
static int read_update(struct updates *updates, size_t keeper, const struct skep_json *item,
                       struct skep_error *err)
{
    struct skep_shard shard;
    const char *text = NULL;
    const char *base64 = NULL;
    int rc = skep_json_get_shard(item, "update", "shard", &shard, err);
    if (rc == SKEP_OK) {
        rc = skep_json_get_text(item, "update", "statement", &text, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_json_get_text(item, "update", "body", &base64, err);
    }
    size_t i = rc == SKEP_OK ? find(updates, keeper, &shard) : SIZE_MAX;
    if (i == SIZE_MAX) {
        return rc != SKEP_OK ? rc
                             : skep_error_set(err, SKEP_ERR_REFUSED,
                                              "the keeper wants a shard signed that was not asked");
    }
    if (updates->outcomes[i] != SKEP_CALLER_EMPTY) {
        return skep_error_set(err, SKEP_ERR_REFUSED,
                              "the keeper wants more than one update of a shard signed");
    }
    struct skep_error reason = {0};
    int result = take_update(updates, i, text, base64, &reason);
    if (result != SKEP_OK) {
        fail(updates, i, result, &reason);
    }
    return SKEP_OK;
}

static int read_answer(struct updates *updates, size_t keeper, const struct skep_json *root,
                       struct skep_error *err)
{
    const struct skep_json *made = NULL;
    const struct skep_json *early = NULL;
    int rc = skep_json_get_array(root, "updates", "updates", updates->count, &made, err);
    if (rc == SKEP_OK) {
        rc = skep_json_get_array(root, "updates", "early", updates->count, &early, err);
    }
    for (size_t n = 0; rc == SKEP_OK && n < skep_json_array_size(early); n++) {
        const char *name = skep_json_text(skep_json_array_at(early, n));
        struct skep_shard shard;
        size_t i = name != NULL && skep_shard_parse(name, &shard) ? find(updates, keeper, &shard)
                                                                  : SIZE_MAX;
        if (i != SIZE_MAX) {
            updates->outcomes[i] = SKEP_CALLER_EARLY;
        }
    }
    for (size_t n = 0; rc == SKEP_OK && n < skep_json_array_size(made); n++) {
        rc = read_update(updates, keeper, skep_json_array_at(made, n), err);
    }
    return rc;
}

static char *request_text(const struct updates *updates, size_t keeper)
{
    struct skep_json *list = skep_json_array_new();
    for (size_t i = 0; i < updates->count; i++) {
        char name[SKEP_SHARD_TEXT_SIZE];
        if (updates->keepers[i] == keeper) {
            skep_shard_format(&updates->shards[i], name);
            skep_json_push_text(list, name);
        }
    }
    struct skep_json *root = skep_json_object_new();
    skep_json_set_take(root, "shards", list);
    char *text = skep_json_write(root, false);
    skep_json_free(root);
    return text;
}

/* Asks one keeper for all that it may have of ours. Without a session there is nothing to ask for. */
static int ask(struct updates *updates, size_t keeper, struct skep_error *err)
{
    struct skep_caller_line *line = updates->line;
    struct skep_caller *caller = line->caller;
    struct skep_http_answer answer = {0};
    struct skep_error failure = {0};
    struct skep_json *root = NULL;
    char token[SKEP_CALLER_TOKEN_SIZE];
    pthread_mutex_lock(&caller->lock);
    memcpy(token, caller->keepers[keeper].token, sizeof token);
    pthread_mutex_unlock(&caller->lock);
    if (token[0] == '\0') {
        return SKEP_OK;
    }
    char *text = request_text(updates, keeper);
    struct skep_http_request request = {
        .method = "POST", .authorization = token, .body = text, .body_size = strlen(text)};
    char *path = skep_caller_address(caller, keeper, "experts/updates", &request);
    int rc = skep_caller_exchange(line, &request, &answer, &failure);
    if (rc != SKEP_OK || answer.status != 401) { /* a session that has ended holds nothing */
        rc = skep_answer_json(rc, &answer, &failure, "updates", &root, err);
        rc = rc == SKEP_OK ? read_answer(updates, keeper, root, err) : rc;
    }
    skep_json_free(root);
    skep_http_answer_done(&answer);
    free(path);
    free(text);
    return rc;
}

static void ask_all(struct updates *updates)
{
    const struct skep_caller *caller = updates->line->caller;
    for (size_t k = 0; k < caller->keeper_count; k++) {
        struct skep_error err = {0};
        bool wanted = false;
        for (size_t i = 0; i < updates->count; i++) {
            wanted = wanted || updates->keepers[i] == k;
        }
        int rc = wanted ? ask(updates, k, &err) : SKEP_OK;
        for (size_t i = 0; rc != SKEP_OK && i < updates->count; i++) {
            if (updates->keepers[i] == k && updates->outcomes[i] == SKEP_CALLER_EMPTY) {
                fail(updates, i, rc, &err);
            }
        }
    }
}

int skep_caller_line_update(struct skep_caller_line *line, const struct skep_shard *shards,
                            size_t count, double loss_first, double loss_last,
                            enum skep_caller_outcome *ret_outcomes, struct skep_error *err)
{
    struct skep_caller *caller = line->caller;
    if (caller->key == NULL) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "an update needs the key of the caller");
    }
    struct updates updates = {.line = line,
                              .shards = shards,
                              .count = count,
                              .places = skep_alloc(count + 1, sizeof(size_t)),
                              .keepers = skep_alloc(count + 1, sizeof(size_t)),
                              .loss_first = loss_first,
                              .loss_last = loss_last,
                              .outcomes = ret_outcomes,
                              .err = err};
    for (size_t i = 0; i < count; i++) {
        ret_outcomes[i] = SKEP_CALLER_EMPTY;
        updates.places[i] = skep_manifest_shard_index(caller->manifest, &shards[i]);
        updates.keepers[i] = updates.places[i] != SIZE_MAX
                                 ? skep_caller_choose(caller, updates.places[i])
                                 : SIZE_MAX;
    }
    ask_all(&updates);
    free(updates.places);
    free(updates.keepers);
    return updates.result;
}
