#include "client/agent/outbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/agent/showing.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/swarm/replicas.h"
#include "common/swarm/reputation.h"
#include "common/swarm/update-open.h"
#include "common/sys/clock.h"
#include "common/sys/file.h"

#define TICK_MS 250u
#define SEND_TIMEOUT_MS 20000u
#define RETRY_FIRST_MS 1000u
#define RETRY_MOST_MS 30000u
#define DELIVERIES 4096u /* more than this waiting: the oldest are given up */

struct target {
    struct skep_peer_id keeper;
    bool acknowledged;
    bool refused;
    bool busy;
    unsigned failures;
    uint64_t next_ms;
};

struct delivery {
    struct skep_outbox *outbox;
    struct delivery *next;
    struct skep_hash hash;
    struct skep_update_statement statement;
    size_t shard_index;
    size_t target_count;
    struct target *targets;
    size_t quorum;
    uint64_t held_until_ms; /* the trunk's: not before the experts' are in, or this */
    char refusal[256];      /* what a keeper that refused it said last */
    bool settled;
    bool over; /* to be removed once nothing is busy */
};

struct skep_outbox {
    struct skep_session *session;
    char *folder;
    char *own;
    struct delivery *deliveries;
    size_t count;
    uint64_t now_ms;    /* of the last step */
    uint64_t *own_base; /* per shard: base version + 1 of the moments in place, 0 unknown */
    struct skep_timer *timer;
    struct skep_showing *showing;
    int audits_passed; /* -1: nobody has said it */
    skep_outbox_settled settled;
    void *user;
};

struct sending {
    struct delivery *delivery;
    size_t target;
};

static char *path_of(const struct skep_outbox *outbox, const struct skep_hash *hash,
                     const char *what)
{
    return skep_format("%s/%s.%s", outbox->folder, skep_id_text(hash->bytes), what);
}

char *skep_outbox_own_path(const struct skep_outbox *outbox, const struct skep_shard *shard,
                           const char *what)
{
    char name[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(shard, name);
    return skep_format("%s/%s.%s", outbox->own, name, what);
}

static void move_into_place(struct delivery *delivery, const char *what)
{
    struct skep_outbox *outbox = delivery->outbox;
    char *from = path_of(outbox, &delivery->hash, what);
    char *to = skep_outbox_own_path(outbox, &delivery->statement.shard, what);
    bool newer = delivery->statement.base_version + 1 >= outbox->own_base[delivery->shard_index];
    if ((newer ? rename(from, to) : unlink(from)) != 0 && errno != ENOENT) {
        skep_log(SKEP_LOG_WARNING, "cannot move %s to %s: %s", from, to, strerror(errno));
    }
    free(from);
    free(to);
}

static void remove_files(struct delivery *delivery)
{
    static const char *const kinds[] = {"update", "moments", "residual"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char *path = path_of(delivery->outbox, &delivery->hash, kinds[i]);
        (void)unlink(path);
        free(path);
    }
}

static void settle(struct delivery *delivery, bool accepted)
{
    struct skep_outbox *outbox = delivery->outbox;
    if (delivery->settled) {
        return;
    }
    delivery->settled = true;
    if (accepted) {
        move_into_place(delivery, "moments");
        move_into_place(delivery, "residual");
        outbox->own_base[delivery->shard_index] = delivery->statement.base_version + 1;
    } else {
        char name[SKEP_SHARD_TEXT_SIZE];
        skep_shard_format(&delivery->statement.shard, name);
        skep_log(SKEP_LOG_INFO, "the update of %s for version %llu was given up: %s", name,
                 (unsigned long long)delivery->statement.base_version,
                 delivery->refusal[0] != '\0' ? delivery->refusal : "it is too old");
    }
    outbox->settled(outbox->user, &delivery->statement, accepted);
}

/* Counts what the keepers said and decides. */
static void judge(struct delivery *delivery)
{
    struct skep_session *session = delivery->outbox->session;
    /* By a seal that was checked: a keeper's mere word could make us give up everything. */
    const struct skep_sealed *sealed = &session->sealed[delivery->shard_index];
    size_t acknowledged = 0;
    size_t refused = 0;
    for (size_t i = 0; i < delivery->target_count; i++) {
        acknowledged += delivery->targets[i].acknowledged;
        refused += delivery->targets[i].refused;
    }
    bool stale =
        sealed->known && sealed->version > delivery->statement.base_version + SKEP_LIMIT_STALENESS;
    if (acknowledged >= delivery->quorum) {
        settle(delivery, true);
    } else if (stale || refused > delivery->target_count - delivery->quorum) {
        settle(delivery, false);
    }
    if (stale || acknowledged + refused == delivery->target_count) {
        settle(delivery, false);
        delivery->over = true;
    }
}

static void take_answer(struct delivery *delivery, struct target *target, int rc,
                        const struct skep_error *err)
{
    switch (rc) {
    case 0:
        target->acknowledged = true;
        break;
    case SKEP_ERR_STATE: /* the keeper is behind: soon */
        target->next_ms = delivery->outbox->now_ms + RETRY_FIRST_MS;
        break;
    case SKEP_ERR_NETWORK:
    case SKEP_ERR_IO:
    case SKEP_ERR_FULL:
    case SKEP_ERR_MEMORY:
    case SKEP_ERR_CANCELLED: {
        uint64_t wait = (uint64_t)RETRY_FIRST_MS << (target->failures < 5 ? target->failures : 5);
        target->failures++;
        target->next_ms = delivery->outbox->now_ms + (wait < RETRY_MOST_MS ? wait : RETRY_MOST_MS);
        break;
    }
    default:
        snprintf(delivery->refusal, sizeof delivery->refusal, "%.255s", err->text);
        target->refused = true;
    }
}

static void push_trunk(struct skep_outbox *outbox);

/* A keeper that took the update may want to repeat its job, and says how far our probation is. */
static void look_for_wishes(struct delivery *delivery, const struct skep_http_answer *answer)
{
    struct skep_json *root = NULL;
    const char *wish = NULL;
    if (skep_json_parse(answer->body.data, answer->body.size, "update", &root, NULL) != 0) {
        return;
    }
    if (skep_json_get_text(root, "update", "evidence", &wish, NULL) == 0) {
        skep_showing_hurry(delivery->outbox->showing);
    }
    int64_t passed = 0;
    if (skep_json_has(root, "audits_passed") &&
        skep_json_get_integer(root, "update", "audits_passed", 0, SKEP_PROBATION, &passed, NULL) ==
            0) {
        delivery->outbox->audits_passed = (int)passed;
    }
    skep_json_free(root);
}

static void on_answer(void *user, int result, const struct skep_http_answer *answer,
                      const struct skep_error *failure)
{
    struct sending *sending = user;
    struct delivery *delivery = sending->delivery;
    struct target *target = &delivery->targets[sending->target];
    struct skep_error err = {0};
    int rc = skep_answer_check(result, answer, failure, "update", &err);
    free(sending);
    target->busy = false;
    take_answer(delivery, target, rc, &err);
    if (rc == 0) {
        look_for_wishes(delivery, answer);
    }
    if (!delivery->outbox->session->closing) {
        judge(delivery);
        push_trunk(delivery->outbox);
    }
}

/* False if the file is gone, which ends the delivery. */
static bool send_to(struct delivery *delivery, size_t i, const struct skep_record *record)
{
    struct skep_outbox *outbox = delivery->outbox;
    struct skep_session *session = outbox->session;
    struct skep_buffer file = {0};
    struct skep_error err = {0};
    char *path = path_of(outbox, &delivery->hash, "update");
    char *url = skep_format("/v1/projects/%s/updates", skep_id_text(session->project.bytes));
    int rc = skep_file_read(path, SKEP_LIMIT_UPDATE_BYTES, &file, &err);
    if (rc == 0) {
        struct sending *sending = skep_alloc(1, sizeof *sending);
        *sending = (struct sending){.delivery = delivery, .target = i};
        struct skep_http_request request = {.method = "POST",
                                            .host = record->host,
                                            .port = record->port,
                                            .path = url,
                                            .pin = &record->tls_pin,
                                            .content_type = "application/octet-stream",
                                            .body = file.data,
                                            .body_size = file.size,
                                            .timeout_ms = SEND_TIMEOUT_MS};
        delivery->targets[i].busy = true;
        session->transport.send(session->transport.user, &request, on_answer, sending);
    } else {
        skep_log(SKEP_LOG_WARNING, "an update is lost: %s", err.text);
    }
    skep_buffer_done(&file);
    free(path);
    free(url);
    return rc == 0;
}

/* Keepers close the experts' windows when the trunk's closes (swarm/round.h), so the trunk's update goes last. */
static bool is_held(const struct delivery *delivery)
{
    const struct skep_outbox *outbox = delivery->outbox;
    if (delivery->statement.shard.kind != SKEP_SHARD_TRUNK ||
        outbox->now_ms >= delivery->held_until_ms) {
        return false;
    }
    for (const struct delivery *at = outbox->deliveries; at != NULL; at = at->next) {
        if (at != delivery && !at->settled) {
            return true;
        }
    }
    return false;
}

static void push(struct delivery *delivery)
{
    struct skep_session *session = delivery->outbox->session;
    uint64_t now = delivery->outbox->now_ms;
    if (is_held(delivery)) {
        return;
    }
    for (size_t i = 0; i < delivery->target_count && !delivery->over; i++) {
        struct target *target = &delivery->targets[i];
        if (target->acknowledged || target->refused || target->busy || now < target->next_ms) {
            continue;
        }
        const struct skep_record *record = skep_peers_find_keeper(session->peers, &target->keeper);
        if (record == NULL) {
            target->next_ms = now + RETRY_FIRST_MS;
        } else if (!send_to(delivery, i, record)) {
            settle(delivery, false);
            delivery->over = true;
        }
    }
}

static void push_trunk(struct skep_outbox *outbox)
{
    for (struct delivery *at = outbox->deliveries; at != NULL; at = at->next) {
        if (at->statement.shard.kind == SKEP_SHARD_TRUNK && !at->over) {
            push(at);
        }
    }
}

static void delivery_free(struct delivery *delivery)
{
    free(delivery->targets);
    free(delivery);
}

static bool is_busy(const struct delivery *delivery)
{
    for (size_t i = 0; i < delivery->target_count; i++) {
        if (delivery->targets[i].busy) {
            return true;
        }
    }
    return false;
}

void skep_outbox_step(struct skep_outbox *outbox, uint64_t now_ms)
{
    outbox->now_ms = now_ms;
    struct delivery **at = &outbox->deliveries;
    while (*at != NULL) {
        struct delivery *delivery = *at;
        if (!delivery->over) {
            judge(delivery);
        }
        if (delivery->over && !is_busy(delivery)) {
            *at = delivery->next;
            outbox->count--;
            remove_files(delivery);
            delivery_free(delivery);
            continue;
        }
        push(delivery);
        at = &delivery->next;
    }
}

static void on_tick(void *user)
{
    skep_outbox_step(user, skep_clock_monotonic_ms());
}

/* A file of ours, opened and checked like a keeper does. */
static int take_file(struct skep_outbox *outbox, const void *data, size_t size,
                     struct delivery **ret_delivery, struct skep_error *err)
{
    const struct skep_manifest *manifest = &outbox->session->manifest;
    struct delivery *delivery = skep_alloc(1, sizeof *delivery);
    const uint8_t *body = NULL;
    size_t body_size = 0;
    int rc =
        skep_update_open(data, size, &delivery->statement, &delivery->hash, &body, &body_size, err);
    if (rc == 0) {
        delivery->shard_index = skep_manifest_shard_index(manifest, &delivery->statement.shard);
        if (delivery->shard_index == SIZE_MAX || outbox->count >= DELIVERIES) {
            rc = skep_error_set(err, SKEP_ERR_REFUSED,
                                "the update is not of this model, or %u are waiting already",
                                DELIVERIES);
        }
    }
    if (rc != 0) {
        free(delivery);
        return rc;
    }
    struct skep_replicas replicas = skep_replicas_of(manifest, &delivery->statement.shard);
    delivery->outbox = outbox;
    delivery->quorum = skep_replicas_quorum(&replicas);
    delivery->held_until_ms = outbox->now_ms + SKEP_OUTBOX_TRUNK_HELD_MS;
    delivery->target_count = replicas.count;
    delivery->targets = skep_alloc(replicas.count, sizeof *delivery->targets);
    for (size_t i = 0; i < replicas.count; i++) {
        delivery->targets[i].keeper = replicas.keepers[i];
    }
    skep_showing_introduce(outbox->showing, &delivery->statement.donor);
    delivery->next = outbox->deliveries;
    outbox->deliveries = delivery;
    outbox->count++;
    *ret_delivery = delivery;
    return 0;
}

static void take_up(void *user, const char *name)
{
    struct skep_outbox *outbox = user;
    const char *dot = strrchr(name, '.');
    if (dot == NULL || strcmp(dot, ".update") != 0) {
        return;
    }
    char *path = skep_format("%s/%s", outbox->folder, name);
    struct skep_buffer file = {0};
    struct skep_error err = {0};
    struct delivery *delivery = NULL;
    int rc = skep_file_read(path, SKEP_LIMIT_UPDATE_BYTES, &file, &err);
    if (rc == 0) {
        rc = take_file(outbox, file.data, file.size, &delivery, &err);
    }
    if (rc != 0) {
        skep_log(SKEP_LOG_WARNING, "%s is dropped: %s", path, err.text);
        (void)unlink(path);
    }
    skep_buffer_done(&file);
    free(path);
}

int skep_outbox_new(struct skep_session *session, skep_outbox_settled settled, void *user,
                    struct skep_outbox **ret_outbox, struct skep_error *err)
{
    struct skep_outbox *outbox = skep_alloc(1, sizeof *outbox);
    outbox->audits_passed = -1;
    outbox->session = session;
    outbox->settled = settled;
    outbox->user = user;
    outbox->now_ms = skep_clock_monotonic_ms();
    outbox->folder = skep_format("%s/outbox", session->folder);
    outbox->own = skep_format("%s/own", session->folder);
    outbox->own_base = skep_alloc(session->heads.count, sizeof *outbox->own_base);
    outbox->timer = skep_timer_new(session->loop, on_tick, outbox);
    int rc = skep_folder_make(outbox->folder, err);
    if (rc == 0) {
        rc = skep_folder_make(outbox->own, err);
    }
    if (rc == 0) {
        rc = skep_showing_new(session, &outbox->showing, err);
    }
    if (rc == 0) {
        rc = skep_folder_list(outbox->folder, take_up, outbox, err);
    }
    if (rc != 0) {
        skep_outbox_free(outbox);
        return rc;
    }
    skep_timer_start(outbox->timer, TICK_MS, TICK_MS);
    *ret_outbox = outbox;
    return 0;
}

void skep_outbox_free(struct skep_outbox *outbox)
{
    if (outbox == NULL) {
        return;
    }
    skep_timer_free(outbox->timer);
    while (outbox->deliveries != NULL) {
        struct delivery *delivery = outbox->deliveries;
        outbox->deliveries = delivery->next;
        delivery_free(delivery);
    }
    skep_showing_free(outbox->showing);
    free(outbox->folder);
    free(outbox->own);
    free(outbox->own_base);
    free(outbox);
}

struct skep_showing *skep_outbox_showing(const struct skep_outbox *outbox)
{
    return outbox->showing;
}

/* A file of the job, which may be missing, into the outbox. */
static int move_beside(const char *from, const char *to, struct skep_error *err)
{
    if (rename(from, to) == 0 || errno == ENOENT) {
        return 0;
    }
    int number = errno;
    return skep_error_set(err, skep_err_from_errno(number), "cannot move %s to %s: %s", from, to,
                          strerror(number));
}

int skep_outbox_add(struct skep_outbox *outbox, const struct skep_buffer *file,
                    const char *moments_path, const char *residual_path, struct skep_error *err)
{
    struct delivery *delivery = NULL;
    uint64_t now_ms = skep_clock_monotonic_ms();
    /* many are added in one go and each waits for the disk: the last step may be long ago */
    outbox->now_ms = now_ms > outbox->now_ms ? now_ms : outbox->now_ms;
    int rc = take_file(outbox, file->data, file->size, &delivery, err);
    if (rc != 0) {
        return rc;
    }
    char *moments = path_of(outbox, &delivery->hash, "moments");
    char *residual = path_of(outbox, &delivery->hash, "residual");
    char *path = path_of(outbox, &delivery->hash, "update");
    /* the update last: where it is, all of it is */
    rc = move_beside(moments_path, moments, err);
    if (rc == 0) {
        rc = move_beside(residual_path, residual, err);
    }
    if (rc == 0) {
        rc = skep_file_write(path, 0600, file->data, file->size, err);
    }
    free(moments);
    free(residual);
    free(path);
    if (rc == 0) {
        push(delivery);
    } else {
        delivery->settled = true;
        delivery->over = true;
    }
    return rc;
}

bool skep_outbox_has_accepted(const struct skep_outbox *outbox, size_t shard, uint64_t base_version)
{
    return outbox->own_base[shard] == base_version + 1;
}

int skep_outbox_audits_passed(const struct skep_outbox *outbox)
{
    return outbox->audits_passed;
}

size_t skep_outbox_unsettled(const struct skep_outbox *outbox)
{
    size_t count = 0;
    for (const struct delivery *at = outbox->deliveries; at != NULL; at = at->next) {
        count += !at->settled;
    }
    return count;
}
