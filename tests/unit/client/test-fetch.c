/* Fetching by chunks from replicas that live in memory: some good, some dead, some cut off, some lying. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/network/fetch.h"
#include "common/base/alloc.h"
#include "common/swarm/chunk-hash.h"
#include "tests/lib/cmocka.h"

#define SIZE 1000u
#define CHUNK 64u

enum manner {
    GOOD,
    DEAD,
    CUT_OFF, /* half of what was asked for, then the connection breaks */
    LYING,
    GONE, /* 404 */
};

struct request {
    int port;
    uint64_t first;
    uint64_t last;
    skep_http_callback callback;
    void *user;
};

struct world {
    uint8_t file[SIZE];
    struct skep_chunks chunks;
    char folder[32];
    char path[64];
    enum manner manners[3];
    struct request queue[64];
    size_t queued;
    size_t served[3];
    uint64_t bytes;
    unsigned lied;
    unsigned aside;
    bool done;
    int result;
};

static void fake_send(void *user, const struct skep_http_request *request,
                      skep_http_callback callback, void *callback_user)
{
    struct world *world = user;
    assert_true(request->ranged);
    assert_string_equal(request->path, "/state");
    assert_true(world->queued < 64);
    world->queue[world->queued++] = (struct request){.port = request->port,
                                                     .first = request->range_first,
                                                     .last = request->range_last,
                                                     .callback = callback,
                                                     .user = callback_user};
}

static void serve(struct world *world, const struct request *request)
{
    struct skep_http_answer answer = {.status = 206};
    struct skep_error err = {0};
    size_t size = (size_t)(request->last - request->first + 1);
    enum manner manner = world->manners[request->port];
    int result = 0;
    skep_buffer_append(&answer.body, world->file + request->first, size);
    world->served[request->port]++;
    if (manner == DEAD) {
        result = skep_error_set(&err, SKEP_ERR_NETWORK, "connection refused");
        answer.body.size = 0;
        answer.status = 0;
    } else if (manner == CUT_OFF) {
        result = skep_error_set(&err, SKEP_ERR_NETWORK, "connection reset");
        answer.body.size = size / 2;
    } else if (manner == LYING) {
        answer.body.data[size / 2] ^= 1;
    } else if (manner == GONE) {
        answer.status = 404;
        answer.body.size = 0;
    } else {
        world->bytes += size;
    }
    request->callback(request->user, result, &answer, &err);
    skep_http_answer_done(&answer);
}

static void run(struct world *world)
{
    for (size_t i = 0; i < world->queued; i++) {
        struct request request = world->queue[i];
        serve(world, &request);
    }
}

static void on_aside(void *user, const struct skep_peer_id *keeper, bool lied)
{
    struct world *world = user;
    (void)keeper;
    world->aside++;
    world->lied += lied;
}

static void on_done(void *user, int result, const struct skep_error *err)
{
    struct world *world = user;
    (void)err;
    assert_false(world->done);
    world->done = true;
    world->result = result;
}

static void start(struct world *world, const struct skep_transport *transport, size_t sources)
{
    struct skep_fetch_source list[3] = {0};
    for (size_t i = 0; i < sources; i++) {
        list[i].port = (uint16_t)i;
        list[i].keeper.bytes[0] = (uint8_t)i;
        snprintf(list[i].host, sizeof list[i].host, "127.0.0.%zu", i + 1);
    }
    struct skep_fetch_options options = {.chunks = &world->chunks,
                                         .path = world->path,
                                         .url_path = "/state",
                                         .sources = list,
                                         .source_count = sources,
                                         .on_aside = on_aside,
                                         .on_done = on_done,
                                         .user = world};
    world->done = false;
    world->queued = 0;
    skep_fetch_start(transport, &options);
}

static int world_new(void **state)
{
    struct world *world = skep_alloc(1, sizeof *world);
    for (size_t i = 0; i < SIZE; i++) {
        world->file[i] = (uint8_t)(i * 31 + i / 7);
    }
    skep_chunks_of(world->file, SIZE, CHUNK, &world->chunks);
    snprintf(world->folder, sizeof world->folder, "/tmp/skep-fetch-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    snprintf(world->path, sizeof world->path, "%s/state", world->folder);
    *state = world;
    return 0;
}

static int world_free(void **state)
{
    struct world *world = *state;
    char part[80];
    snprintf(part, sizeof part, "%s.part", world->path);
    unlink(part);
    unlink(world->path);
    rmdir(world->folder);
    skep_chunks_done(&world->chunks);
    free(world);
    return 0;
}

static void assert_fetched(struct world *world)
{
    uint8_t data[SIZE + 1];
    assert_true(world->done);
    assert_int_equal(world->result, 0);
    FILE *file = fopen(world->path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(data, 1, sizeof data, file), SIZE);
    fclose(file);
    assert_memory_equal(data, world->file, SIZE);
}

static void three_replicas_share_the_work(void **state)
{
    struct world *world = *state;
    struct skep_transport transport = {.send = fake_send, .user = world};
    start(world, &transport, 3);
    run(world);
    assert_fetched(world);
    assert_true(world->served[0] > 0 && world->served[1] > 0 && world->served[2] > 0);
    assert_int_equal(world->bytes, SIZE);
}

static void
a_replica_that_vanishes_in_the_middle_is_set_aside_and_its_whole_chunks_are_kept(void **state)
{
    struct world *world = *state;
    struct skep_transport transport = {.send = fake_send, .user = world};
    world->manners[1] = CUT_OFF;
    world->manners[2] = DEAD;
    start(world, &transport, 3);
    run(world);
    assert_fetched(world);
    assert_int_equal(world->aside, 2);
    assert_int_equal(world->lied, 0);
    assert_int_equal(world->served[1], 1);
    assert_true(world->bytes < SIZE); /* something of the broken transfer was used */
}

static void a_liar_is_named_and_its_bytes_are_not_used(void **state)
{
    struct world *world = *state;
    struct skep_transport transport = {.send = fake_send, .user = world};
    world->manners[0] = LYING;
    start(world, &transport, 2);
    run(world);
    assert_fetched(world);
    assert_int_equal(world->lied, 1);
    assert_int_equal(world->served[0], 1);
}

static void a_fetch_that_failed_goes_on_where_it_was(void **state)
{
    struct world *world = *state;
    struct skep_transport transport = {.send = fake_send, .user = world};
    world->manners[0] = CUT_OFF;
    world->manners[1] = GONE;
    start(world, &transport, 2);
    run(world);
    assert_true(world->done);
    assert_int_equal(world->result, SKEP_ERR_NETWORK);
    assert_int_equal(access(world->path, F_OK), -1);
    world->manners[0] = GOOD;
    start(world, &transport, 1);
    run(world);
    assert_fetched(world);
    assert_true(world->bytes < SIZE);
}

static void a_part_file_that_rotted_is_fetched_again_where_it_rotted(void **state)
{
    struct world *world = *state;
    struct skep_transport transport = {.send = fake_send, .user = world};
    char part[80];
    snprintf(part, sizeof part, "%s.part", world->path);
    world->file[SIZE / 2] ^= 255;
    FILE *file = fopen(part, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(world->file, 1, SIZE, file), SIZE);
    fclose(file);
    world->file[SIZE / 2] ^= 255;
    start(world, &transport, 1);
    run(world);
    assert_fetched(world);
    assert_int_equal(world->bytes, CHUNK);
}

static void without_any_replica_it_fails_at_once(void **state)
{
    struct world *world = *state;
    struct skep_transport transport = {.send = fake_send, .user = world};
    start(world, &transport, 0);
    assert_true(world->done);
    assert_int_equal(world->result, SKEP_ERR_NETWORK);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, world_new, world_free)
    const struct CMUnitTest tests[] = {
        CASE(three_replicas_share_the_work),
        CASE(a_replica_that_vanishes_in_the_middle_is_set_aside_and_its_whole_chunks_are_kept),
        CASE(a_liar_is_named_and_its_bytes_are_not_used),
        CASE(a_fetch_that_failed_goes_on_where_it_was),
        CASE(a_part_file_that_rotted_is_fetched_again_where_it_rotted),
        CASE(without_any_replica_it_fails_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
