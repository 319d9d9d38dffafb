/* The job file, the worker's lines and its flat files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/worker/flat.h"
#include "common/swarm/job-file.h"
#include "tests/lib/cmocka.h"

#define TICKET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SHARD(name)                                                                                \
    "{\"shard\":\"" name "\",\"base_version\":6,\"root\":\"" TICKET                                \
    "\",\"state\":\"/s\",\"moments\":\"/m\",\"residual\":\"/r\"}"
#define JOB(chunks, shards)                                                                        \
    "{\"manifest\":\"/p/manifest\",\"ticket\":\"" TICKET                                           \
    "\",\"trunk_version\":7,\"chunks\":[" chunks "],\"shards\":[" shards                           \
    "],\"threads\":2,\"recompute\":true,\"device\":\"cpu\",\"checkpoint_s\":60}"

static void a_job_file_comes_back_as_it_was_written(void **state)
{
    (void)state;
    static const char text[] = JOB("\"/c1\",\"/c2\"", SHARD("trunk") "," SHARD("ffn.0.1.2"));
    struct skep_job_file job = {0};
    struct skep_job_file again = {0};
    assert_int_equal(skep_job_file_decode(text, strlen(text), &job, NULL), 0);
    char *written = skep_job_file_encode(&job);
    assert_int_equal(skep_job_file_decode(written, strlen(written), &again, NULL), 0);
    assert_int_equal(again.trunk_version, 7);
    assert_int_equal(again.chunk_count, 2);
    assert_string_equal(again.chunks[1], "/c2");
    assert_int_equal(again.shard_count, 2);
    assert_int_equal(again.shards[1].shard.column, 2);
    assert_string_equal(again.shards[1].residual, "/r");
    assert_int_equal(again.shards[1].base_version, 6);
    assert_memory_equal(again.shards[1].root.bytes, job.ticket.bytes, SKEP_ID_SIZE);
    assert_int_equal(again.threads, 2);
    assert_true(again.recompute);
    assert_string_equal(again.device, "cpu");
    assert_int_equal(again.checkpoint_s, 60);
    assert_memory_equal(again.ticket.bytes, job.ticket.bytes, sizeof job.ticket.bytes);
    free(written);
    skep_job_file_done(&job);
    skep_job_file_done(&again);
}

static void a_wrong_job_file_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "{}",
        JOB("", SHARD("trunk")),
        JOB("\"/c\"", ""),
        JOB("\"/c\"", SHARD("ffn.0.0.0")),
        JOB("\"/c\"", SHARD("trunk") "," SHARD("trunk")),
        JOB("\"/c\"", SHARD("trunk") "," SHARD("ffn.00.0.0")),
        JOB("5", SHARD("trunk")),
        JOB("\"/c\"", SHARD("trunk") "],\"threads\":0,\"more\":["),
        JOB("\"/c\"", SHARD("trunk") ",{\"shard\":\"ffn.0.0.0\",\"more\":1}"),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct skep_job_file job = {0};
        struct skep_error err = {0};
        assert_int_not_equal(skep_job_file_decode(wrong[i], strlen(wrong[i]), &job, &err), 0);
        assert_true(err.text[0] != '\0');
        assert_null(job.manifest);
    }
}

static void a_job_is_the_same_job_however_it_is_computed_and_wherever_it_lies(void **state)
{
    (void)state;
    static const char text[] = JOB("\"/c1\"", SHARD("trunk") "," SHARD("ffn.0.1.2"));
    struct skep_job_file job = {0};
    assert_int_equal(skep_job_file_decode(text, strlen(text), &job, NULL), 0);
    struct skep_hash before = skep_job_file_identity(&job);
    job.threads = 7;
    job.recompute = false;
    job.shards[0].state[0] = '+';
    struct skep_hash moved = skep_job_file_identity(&job);
    assert_memory_equal(before.bytes, moved.bytes, SKEP_ID_SIZE);
    job.shards[1].root.bytes[0] ^= 1;
    struct skep_hash other = skep_job_file_identity(&job);
    assert_memory_not_equal(before.bytes, other.bytes, SKEP_ID_SIZE);
    job.shards[1].root.bytes[0] ^= 1;
    job.ticket.bytes[31] ^= 1;
    other = skep_job_file_identity(&job);
    assert_memory_not_equal(before.bytes, other.bytes, SKEP_ID_SIZE);
    skep_job_file_done(&job);
}

static void the_workers_lines_come_back(void **state)
{
    (void)state;
    struct skep_job_event done = {
        .kind = SKEP_JOB_DONE, .tokens = 1234, .loss = 1.5, .loss_first = 2.5, .peak_bytes = 99};
    struct skep_job_event event;
    char *line = skep_job_event_encode(&done);
    assert_int_equal(skep_job_event_decode(line, &event, NULL), 0);
    assert_int_equal(event.kind, SKEP_JOB_DONE);
    assert_int_equal(event.tokens, 1234);
    assert_true(event.loss == 1.5 && event.loss_first == 2.5);
    assert_int_equal(event.peak_bytes, 99);
    free(line);
    assert_int_equal(
        skep_job_event_decode("{\"event\":\"error\",\"message\":\"no disk\"}", &event, NULL), 0);
    assert_string_equal(event.message, "no disk");
    assert_false(event.damaged);
    assert_int_equal(event.code, SKEP_OK);
    struct skep_job_event damaged = {.kind = SKEP_JOB_ERROR,
                                     .code = SKEP_ERR_HASH,
                                     .message = "it changed",
                                     .damaged = true,
                                     .shard = {.kind = SKEP_SHARD_FFN, .layer = 1, .column = 3}};
    line = skep_job_event_encode(&damaged);
    assert_int_equal(skep_job_event_decode(line, &event, NULL), 0);
    assert_true(event.damaged && skep_shard_equal(&event.shard, &damaged.shard));
    assert_int_equal(event.code, SKEP_ERR_HASH);
    free(line);
    assert_int_equal(
        skep_job_event_decode("{\"event\":\"error\",\"message\":\"\",\"reason\":\"rain\"}", &event,
                              NULL),
        0);
    assert_int_equal(event.code, SKEP_OK);
    done.loss = 1e30; /* and that is no reason not to hear that it is done */
    line = skep_job_event_encode(&done);
    assert_int_equal(skep_job_event_decode(line, &event, NULL), 0);
    assert_true(event.loss == 1e30);
    free(line);
    struct skep_job_event stopped = {.kind = SKEP_JOB_STOPPED, .step = 5, .tokens = 6};
    line = skep_job_event_encode(&stopped);
    assert_int_equal(skep_job_event_decode(line, &event, NULL), 0);
    assert_true(event.kind == SKEP_JOB_STOPPED && event.step == 5 && event.tokens == 6);
    free(line);
    assert_int_not_equal(skep_job_event_decode("{\"event\":\"dance\"}", &event, NULL), 0);
    assert_int_not_equal(
        skep_job_event_decode("{\"event\":\"progress\",\"tokens\":-1}", &event, NULL), 0);
    assert_int_not_equal(skep_job_event_decode("hello", &event, NULL), 0);
}

static void change_byte(const char *path, long place)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, place, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, place, SEEK_SET), 0);
    fputc(byte ^ 1, file);
    assert_int_equal(fclose(file), 0);
}

static void flat_files_keep_numbers_and_refuse_other_shapes(void **state)
{
    (void)state;
    char path[] = "/tmp/skep-flat-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    const float first[3] = {1, -2.5f, 3e-20f};
    const float second[3] = {4, 5, 6};
    assert_int_equal(skep_flat_write(path, 9, (const float *const[]){first, second}, 2, 3, NULL),
                     0);
    float a[3] = {0};
    float b[3] = {0};
    uint64_t step = 0;
    assert_int_equal(skep_flat_read(path, &step, (float *const[]){a, b}, 2, 3, NULL), 0);
    assert_int_equal(step, 9);
    assert_memory_equal(a, first, sizeof a);
    assert_memory_equal(b, second, sizeof b);
    assert_int_equal(skep_flat_read(path, &step, (float *const[]){a}, 1, 3, NULL), SKEP_ERR_FORMAT);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(skep_flat_read(path, &step, (float *const[]){a, b}, 2, 3, NULL),
                     SKEP_ERR_FORMAT);
    assert_int_equal(skep_flat_write(path, 9, (const float *const[]){first, second}, 2, 3, NULL),
                     0);
    change_byte(path, 30);
    assert_int_equal(skep_flat_read(path, &step, (float *const[]){a, b}, 2, 3, NULL),
                     SKEP_ERR_HASH);
    const float bad[1] = {NAN};
    assert_int_equal(skep_flat_write(path, 0, (const float *const[]){bad}, 1, 1, NULL), 0);
    assert_int_equal(skep_flat_read(path, &step, (float *const[]){a}, 1, 1, NULL), SKEP_ERR_FORMAT);
    unlink(path);
    a[0] = 42;
    assert_int_equal(skep_flat_read(path, &step, (float *const[]){a}, 1, 3, NULL), 0);
    assert_true(a[0] == 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_file_comes_back_as_it_was_written),
        cmocka_unit_test(a_wrong_job_file_is_refused_with_a_sentence),
        cmocka_unit_test(a_job_is_the_same_job_however_it_is_computed_and_wherever_it_lies),
        cmocka_unit_test(the_workers_lines_come_back),
        cmocka_unit_test(flat_files_keep_numbers_and_refuse_other_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
