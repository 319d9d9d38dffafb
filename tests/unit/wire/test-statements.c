/*
 * Every statement, one table: reading gives back what was written, every missing, unknown or wrongly typed field is refused by
 * name, and no truncation or damage gets further than a sentence.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/wire/json.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/wire/examples.h"

/* --- the kinds of payload, each as: text of the example; decode, encode again, free --- */

static char *manifest_text(void)
{
    struct skep_manifest manifest;
    example_manifest(&manifest);
    char *text = skep_manifest_encode(&manifest);
    skep_manifest_done(&manifest);
    return text;
}

static int manifest_again(const void *text, size_t size, char **ret_text, struct skep_error *err)
{
    struct skep_manifest manifest = {0};
    int rc = skep_manifest_decode(text, size, &manifest, err);
    if (rc == SKEP_OK) {
        *ret_text = skep_manifest_encode(&manifest);
    }
    skep_manifest_done(&manifest);
    return rc;
}

static char *record_text(void)
{
    struct skep_record record;
    example_record(&record);
    char *text = skep_record_encode(&record);
    skep_record_done(&record);
    return text;
}

static int record_again(const void *text, size_t size, char **ret_text, struct skep_error *err)
{
    struct skep_record record = {0};
    int rc = skep_record_decode(text, size, &record, err);
    if (rc == SKEP_OK) {
        *ret_text = skep_record_encode(&record);
    }
    skep_record_done(&record);
    return rc;
}

static char *update_text(void)
{
    struct skep_update_statement statement;
    example_update(&statement);
    return skep_update_statement_encode(&statement);
}

static char *caller_text(void)
{
    struct skep_caller_statement statement;
    example_caller(&statement);
    return skep_caller_statement_encode(&statement);
}

static int caller_again(const void *text, size_t size, char **ret_text, struct skep_error *err)
{
    struct skep_caller_statement statement;
    int rc = skep_caller_statement_decode(text, size, &statement, err);
    if (rc == SKEP_OK) {
        *ret_text = skep_caller_statement_encode(&statement);
    }
    return rc;
}

static int update_again(const void *text, size_t size, char **ret_text, struct skep_error *err)
{
    struct skep_update_statement statement;
    int rc = skep_update_statement_decode(text, size, &statement, err);
    if (rc == SKEP_OK) {
        *ret_text = skep_update_statement_encode(&statement);
    }
    return rc;
}

static char *seal_text(void)
{
    struct skep_seal seal;
    example_seal(&seal);
    struct skep_seal copy;
    skep_seal_copy(&seal, &copy);
    skep_seal_done(&seal);
    char *text = skep_seal_encode(&copy);
    skep_seal_done(&copy);
    return text;
}

static int seal_again(const void *text, size_t size, char **ret_text, struct skep_error *err)
{
    struct skep_seal seal = {0};
    int rc = skep_seal_decode(text, size, &seal, err);
    if (rc == SKEP_OK) {
        *ret_text = skep_seal_encode(&seal);
    }
    skep_seal_done(&seal);
    return rc;
}

static char *message_text(enum skep_message_kind kind)
{
    struct skep_message message;
    example_message(kind, &message);
    char *text = skep_message_encode(&message);
    skep_message_done(&message);
    return text;
}

static char *prepare_text(void)
{
    return message_text(SKEP_MESSAGE_PREPARE);
}

static char *promise_text(void)
{
    return message_text(SKEP_MESSAGE_PROMISE);
}

static char *propose_text(void)
{
    return message_text(SKEP_MESSAGE_PROPOSE);
}

static char *vote_text(void)
{
    return message_text(SKEP_MESSAGE_VOTE);
}

static char *sealed_text(void)
{
    return message_text(SKEP_MESSAGE_SEALED);
}

static int message_again(const void *text, size_t size, char **ret_text, struct skep_error *err)
{
    struct skep_message message = {0};
    int rc = skep_message_decode(text, size, &message, err);
    if (rc == SKEP_OK) {
        *ret_text = skep_message_encode(&message);
    }
    skep_message_done(&message);
    return rc;
}

static char *envelope_text(void)
{
    struct skep_envelope envelope;
    example_envelope(&envelope);
    char *text = skep_envelope_write(&envelope);
    skep_envelope_done(&envelope);
    return text;
}

static int envelope_again(const void *text, size_t size, char **ret_text, struct skep_error *err)
{
    struct skep_envelope envelope = {0};
    int rc = skep_envelope_parse(text, size, &envelope, err);
    if (rc == SKEP_OK) {
        *ret_text = skep_envelope_write(&envelope);
    }
    skep_envelope_done(&envelope);
    return rc;
}

static char *chunks_text(void)
{
    struct skep_chunks chunks;
    example_chunks(&chunks);
    struct skep_json *root = skep_chunks_to_json(&chunks);
    char *text = skep_json_write(root, false);
    skep_json_free(root);
    skep_chunks_done(&chunks);
    return text;
}

static int chunks_again(const void *text, size_t size, char **ret_text, struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_chunks chunks = {0};
    int rc = skep_json_parse(text, size, "chunk list", &root, err);
    if (rc == SKEP_OK) {
        rc = skep_chunks_from_json(root, &chunks, err);
    }
    skep_json_free(root);
    if (rc == SKEP_OK) {
        root = skep_chunks_to_json(&chunks);
        *ret_text = skep_json_write(root, false);
        skep_json_free(root);
    }
    skep_chunks_done(&chunks);
    return rc;
}

static const struct {
    const char *name;
    char *(*text)(void);
    int (*again)(const void *text, size_t size, char **ret_text, struct skep_error *err);
} KINDS[] = {
    {"manifest", manifest_text, manifest_again},
    {"record", record_text, record_again},
    {"update", update_text, update_again},
    {"caller", caller_text, caller_again},
    {"seal", seal_text, seal_again},
    {"prepare", prepare_text, message_again},
    {"promise", promise_text, message_again},
    {"propose", propose_text, message_again},
    {"vote", vote_text, message_again},
    {"sealed", sealed_text, message_again},
    {"envelope", envelope_text, envelope_again},
    {"chunks", chunks_text, chunks_again},
};
#define KIND_COUNT (sizeof KINDS / sizeof KINDS[0])

static void every_statement_survives_reading_and_writing(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        char *text = KINDS[i].text();
        char *again = NULL;
        struct skep_error err = {0};
        if (KINDS[i].again(text, strlen(text), &again, &err) != SKEP_OK) {
            fail_msg("%s: %s", KINDS[i].name, err.text);
        }
        assert_string_equal(text, again);
        free(text);
        free(again);
    }
}

/* The text of an object with one member left out, made null, or one more put in. */
static char *changed(const struct skep_json *root, const char *key, bool nulled)
{
    struct skep_json *copy = skep_json_object_new();
    const struct skep_json *value = NULL;
    for (const char *at = skep_json_next(root, NULL, &value); at != NULL;
         at = skep_json_next(root, at, &value)) {
        if (strcmp(at, key) != 0) {
            skep_json_set_take(copy, at, skep_json_copy(value));
        }
    }
    if (nulled) {
        skep_json_set_null(copy, key);
    }
    char *text = skep_json_write(copy, false);
    skep_json_free(copy);
    return text;
}

static void assert_refused(size_t kind, const char *key, char *take_text)
{
    char *again = NULL;
    struct skep_error err = {0};
    int rc = KINDS[kind].again(take_text, strlen(take_text), &again, &err);
    if (rc == SKEP_OK || strstr(err.text, key) == NULL) {
        fail_msg("%s with %s changed: %d \"%s\"", KINDS[kind].name, key, rc, err.text);
    }
    assert_int_equal(rc, err.code);
    free(take_text);
}

static void every_missing_unknown_or_null_field_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        char *text = KINDS[i].text();
        struct skep_json *root = NULL;
        assert_int_equal(skep_json_parse(text, strlen(text), "example", &root, NULL), SKEP_OK);
        const struct skep_json *value = NULL;
        for (const char *key = skep_json_next(root, NULL, &value); key != NULL;
             key = skep_json_next(root, key, &value)) {
            assert_refused(i, key, changed(root, key, false));
            assert_refused(i, key, changed(root, key, true));
        }
        assert_refused(i, "surprise", changed(root, "surprise", true));
        skep_json_free(root);
        free(text);
    }
}

static void no_truncated_statement_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        char *text = KINDS[i].text();
        for (size_t cut = 0; cut < strlen(text); cut++) {
            /* A copy of exactly that size, so that a sanitizer sees any read beyond. */
            char *part = skep_alloc(cut, 1);
            memcpy(part, text, cut);
            char *again = NULL;
            struct skep_error err = {0};
            assert_int_not_equal(KINDS[i].again(part, cut, &again, &err), SKEP_OK);
            assert_true(err.text[0] != '\0');
            free(part);
        }
        free(text);
    }
}

/* What still reads after damage (a digit of a hash) must be a statement like any other. One bit of each byte: all eight take seconds. */
static void no_damaged_byte_gets_further_than_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        char *text = KINDS[i].text();
        size_t size = strlen(text);
        for (size_t at = 0; at < size; at++) {
            char mask = (char)(1 << at % 8);
            text[at] = (char)(text[at] ^ mask);
            char *again = NULL;
            struct skep_error err = {0};
            if (KINDS[i].again(text, size, &again, &err) == SKEP_OK) {
                char *third = NULL;
                assert_int_equal(KINDS[i].again(again, strlen(again), &third, &err), SKEP_OK);
                assert_string_equal(again, third);
                free(third);
            } else {
                assert_true(err.text[0] != '\0');
            }
            free(again);
            text[at] = (char)(text[at] ^ mask);
        }
        free(text);
    }
}

/* Replaces the first `from` of the example's text and expects the sentence. */
static void assert_sentence(const char *name, const char *from, const char *to,
                            const char *sentence)
{
    size_t kind = 0;
    while (strcmp(KINDS[kind].name, name) != 0) {
        kind++;
    }
    char *text = KINDS[kind].text();
    char *at = strstr(text, from);
    assert_non_null(at);
    char *wrong = skep_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    char *again = NULL;
    struct skep_error err = {0};
    assert_int_not_equal(KINDS[kind].again(wrong, strlen(wrong), &again, &err), SKEP_OK);
    assert_string_equal(err.text, sentence);
    free(text);
    free(wrong);
}

static void values_out_of_range_are_refused_with_field_value_and_range(void **state)
{
    (void)state;
    assert_sentence(
        "record", "127.0.0.2", "keeper.example",
        "record: field host is \"keeper.example\"; allowed: a numeric IPv4 or IPv6 address");
    assert_sentence("record", ":4433", ":0",
                    "record: field port is 0; allowed: an integer from 1 to 65535");
    assert_sentence("seal", "\"version\":5", "\"version\":0",
                    "seal: field version is 0; allowed: an integer from 1 to 9007199254740991");
    assert_sentence(
        "seal", "\"base_version\":3", "\"base_version\":5",
        "seal.receipts: field base_version is 5; allowed: less than the seal's version (5)");
    assert_sentence(
        "seal", "\"base_version\":2", "\"base_version\":6",
        "seal.findings: field base_version is 6; allowed: less than the seal's version (5)");
    assert_sentence("seal", "\"agreement\":-17", "\"agreement\":-1001",
                    "seal.receipts: field agreement is -1001; allowed: an integer from -1000 to "
                    "1000");
    assert_sentence("seal", "\"credit_micro\":0", "\"credit_micro\":3",
                    "seal.receipts: field credit_micro is 3; allowed: 0 for an update that was not "
                    "merged");
    assert_sentence("seal", "\"merged\":true,\"copy\":false", "\"merged\":true,\"copy\":true",
                    "seal.receipts: field copy is true; allowed: false for an update that was "
                    "merged");
    assert_sentence("seal", "\"invalid\"", "\"doubtful\"",
                    "seal.findings: field verdict is \"doubtful\"; allowed: valid, invalid");
    assert_sentence("seal", "\"norm\":987654321", "\"norm\":-1",
                    "seal: field norm is -1; allowed: an integer from 0 to 9007199254740991");
    assert_sentence("update", "\"stamp\":123456789", "\"stamp\":9007199254740992",
                    "update: field stamp is 9007199254740992; allowed: an integer from 0 to "
                    "9007199254740991");
    assert_sentence(
        "seal", "\"shard\":\"trunk\"", "\"shard\":\"ffn.01.0.0\"",
        "seal: field shard is \"ffn.01.0.0\"; allowed: trunk or ffn.<layer>.<row>.<column>");
    assert_sentence("update", "\"tokens\":20480", "\"tokens\":-1",
                    "update: field tokens is -1; allowed: an integer from 0 to 9007199254740991");
    assert_sentence(
        "prepare", "\"prepare\"", "\"decree\"",
        "message: field kind is \"decree\"; allowed: prepare, promise, propose, vote, sealed");
    assert_sentence(
        "prepare", "\"attempt\":3", "\"attempt\":4294967296",
        "message: field attempt is 4294967296; allowed: an integer from 0 to 4294967295");
    assert_sentence("chunks", "\"size_bytes\":10", "\"size_bytes\":13",
                    "chunk list: 3 chunks are named; expected 4 for 13 bytes in chunks of 4");
    assert_sentence("chunks", "\"chunk_bytes\":4", "\"chunk_bytes\":0",
                    "chunk list: field chunk_bytes is 0; allowed: an integer from 1 to 1048576");
}

static void receipts_stand_in_rising_order_without_repetition(void **state)
{
    (void)state;
    struct skep_seal seal;
    example_seal(&seal);
    seal.receipts[1].update = seal.receipts[0].update;
    char *text = skep_seal_encode(&seal);
    struct skep_seal again = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_seal_decode(text, strlen(text), &again, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "expected each once, in rising order"));
    free(text);
    skep_seal_done(&seal);
}

static void findings_stand_in_rising_order_without_repetition(void **state)
{
    (void)state;
    struct skep_seal seal;
    example_seal(&seal);
    seal.findings[1].update = seal.findings[0].update;
    char *text = skep_seal_encode(&seal);
    struct skep_seal again = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_seal_decode(text, strlen(text), &again, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "seal.findings: update "));
    assert_non_null(strstr(err.text, "expected each once, in rising order"));
    free(text);
    skep_seal_done(&seal);
}

static void a_seal_has_no_more_findings_than_allowed(void **state)
{
    (void)state;
    struct skep_finding findings[SKEP_LIMIT_FINDINGS + 1] = {0};
    struct skep_seal seal = {.version = 1, .findings = findings};
    for (size_t i = 0; i <= SKEP_LIMIT_FINDINGS; i++) {
        findings[i].update.bytes[0] = (uint8_t)i;
    }
    for (size_t more = 0; more < 2; more++) {
        struct skep_seal again = {0};
        struct skep_error err = {0};
        seal.finding_count = SKEP_LIMIT_FINDINGS + more;
        char *text = skep_seal_encode(&seal);
        int rc = skep_seal_decode(text, strlen(text), &again, &err);
        assert_int_equal(rc, more == 0 ? SKEP_OK : SKEP_ERR_FORMAT);
        assert_int_equal(again.finding_count, more == 0 ? SKEP_LIMIT_FINDINGS : 0);
        skep_seal_done(&again);
        free(text);
    }
}

static void the_trunks_update_names_the_other_shards_of_its_job(void **state)
{
    (void)state;
    struct skep_update_part parts[2] = {{.shard = {SKEP_SHARD_FFN, 1, 0, 3}, .base_version = 7},
                                        {.shard = {SKEP_SHARD_FFN, 0, 2, 1}, .base_version = 4}};
    memset(parts[1].before.bytes, 0x5a, SKEP_ID_SIZE);
    struct skep_update_statement statement;
    struct skep_update_statement again = {0};
    struct skep_update_part *read = NULL;
    size_t count = 0;
    example_update(&statement);
    statement.shard = (struct skep_shard){.kind = SKEP_SHARD_TRUNK};
    statement.parts = parts;
    statement.part_count = 2;
    char *text = skep_update_statement_encode(&statement);
    assert_int_equal(skep_update_statement_decode(text, strlen(text), &again, NULL), SKEP_OK);
    assert_int_equal(again.part_count, 2);
    assert_null(again.parts);
    assert_int_equal(skep_update_parts_decode(text, strlen(text), &read, &count, NULL), SKEP_OK);
    assert_int_equal(count, 2);
    assert_true(skep_shard_equal(&read[1].shard, &parts[1].shard));
    assert_int_equal(read[0].base_version, 7);
    assert_true(skep_hash_equal(&read[1].before, &parts[1].before));
    free(text);
    free(read);
}

static void parts_twice_of_an_expert_or_of_the_trunk_are_refused(void **state)
{
    (void)state;
    struct skep_update_part parts[2] = {{.shard = {SKEP_SHARD_FFN, 1, 0, 3}},
                                        {.shard = {SKEP_SHARD_FFN, 1, 0, 3}}};
    struct skep_update_statement statement;
    struct skep_update_statement again;
    example_update(&statement);
    statement.parts = parts;
    for (size_t i = 0; i < 3; i++) {
        static const char *const sentences[] = {
            "update.shards: ffn.1.0.3 is there twice", "update.shards: shard 0 is the trunk",
            "update: field shards has 2 shards; allowed: none but in the trunk's update"};
        struct skep_error err = {0};
        statement.shard = (struct skep_shard){.kind = i < 2 ? SKEP_SHARD_TRUNK : SKEP_SHARD_FFN};
        statement.part_count = 2;
        if (i == 1) {
            parts[0].shard = (struct skep_shard){.kind = SKEP_SHARD_TRUNK};
        }
        char *text = skep_update_statement_encode(&statement);
        assert_int_equal(skep_update_statement_decode(text, strlen(text), &again, &err),
                         SKEP_ERR_FORMAT);
        assert_non_null(strstr(err.text, sentences[i]));
        free(text);
    }
}

static void a_promise_without_a_vote_says_nothing_of_it(void **state)
{
    (void)state;
    struct skep_message message;
    example_message(SKEP_MESSAGE_PROMISE, &message);
    message.has_vote = false;
    char *text = skep_message_encode(&message);
    skep_message_done(&message);
    struct skep_message again = {0};
    assert_int_equal(skep_message_decode(text, strlen(text), &again, NULL), SKEP_OK);
    assert_false(again.has_vote);
    assert_int_equal(again.seal_payload.size, 0);
    skep_message_done(&again);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_statement_survives_reading_and_writing),
        cmocka_unit_test(every_missing_unknown_or_null_field_is_refused_by_name),
        cmocka_unit_test(no_truncated_statement_is_read),
        cmocka_unit_test(no_damaged_byte_gets_further_than_a_sentence),
        cmocka_unit_test(values_out_of_range_are_refused_with_field_value_and_range),
        cmocka_unit_test(receipts_stand_in_rising_order_without_repetition),
        cmocka_unit_test(findings_stand_in_rising_order_without_repetition),
        cmocka_unit_test(a_seal_has_no_more_findings_than_allowed),
        cmocka_unit_test(the_trunks_update_names_the_other_shards_of_its_job),
        cmocka_unit_test(parts_twice_of_an_expert_or_of_the_trunk_are_refused),
        cmocka_unit_test(a_promise_without_a_vote_says_nothing_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
