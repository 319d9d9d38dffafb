/* The manifest's ranges and relations, its shards in order, and envelopes around it. */
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "tests/lib/cmocka.h"
#include "tests/lib/vectors.h"
#include "tests/unit/wire/examples.h"

static void assert_check(const struct skep_manifest *manifest, const char *sentence)
{
    struct skep_error err = {0};
    assert_int_not_equal(skep_manifest_check(manifest, &err), SKEP_OK);
    assert_string_equal(err.text, sentence);
}

static void the_defaults_are_admissible(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    example_manifest(&manifest);
    struct skep_error err = {0};
    if (skep_manifest_check(&manifest, &err) != SKEP_OK) {
        fail_msg("%s", err.text);
    }
    skep_manifest_done(&manifest);
}

static void settings_can_be_checked_before_there_is_data(void **state)
{
    (void)state;
    struct skep_manifest manifest = {0};
    skep_manifest_defaults(&manifest);
    manifest.name = skep_strdup("x");
    assert_int_equal(skep_manifest_check_settings(&manifest, NULL), SKEP_OK);
    assert_int_not_equal(skep_manifest_check(&manifest, NULL), SKEP_OK);
    skep_manifest_done(&manifest);
}

static void the_model_is_held_to_its_relations(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    example_manifest(&manifest);
    struct skep_model_config good = manifest.model;
    manifest.model.heads = 3;
    assert_check(&manifest, "manifest.model: field dim is 128; allowed: a multiple of heads (3)");
    manifest.model = good;
    manifest.model.vocabulary = 255;
    assert_check(&manifest,
                 "manifest.model: field vocabulary is 255; allowed: an integer from 256 to 256");
    manifest.model = good;
    manifest.model.prefix = 128;
    assert_check(&manifest, "manifest.model: field prefix is 128; allowed: 1 to 127, less than "
                            "context (128)");
    manifest.model = good;
    manifest.model.experts_per_token = 5;
    assert_check(&manifest, "manifest.model: field experts_per_token is 5; allowed: 1 to "
                            "rows_per_token * columns (4)");
    manifest.model = good;
    manifest.model.rows_per_token = 3;
    assert_check(&manifest, "manifest.model: field rows_per_token is 3; allowed: 1 to rows (2)");
    manifest.model = good;
    manifest.model.route = (enum skep_route)2;
    assert_check(&manifest, "manifest.model: field route is choice 2; allowed: 0 to 1");
    manifest.model = good;
    manifest.model.dim = SKEP_LIMIT_DIM;
    struct skep_error err = {0};
    assert_int_equal(skep_manifest_check(&manifest, &err), SKEP_ERR_TOO_LARGE);
    assert_non_null(strstr(err.text, "allowed: at most 1073741824"));
    skep_manifest_done(&manifest);
}

static void the_sections_are_held_to_their_ranges(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    example_manifest(&manifest);
    manifest.training.donor_rows = 3;
    assert_check(&manifest, "manifest.training: field donor_rows is 3; allowed: rows_per_token (1) "
                            "to rows (2)");
    manifest.training.donor_rows = 1;
    manifest.training.learning_rate = 0;
    assert_check(&manifest,
                 "manifest.training: field learning_rate is 0; allowed: a number from 1e-08 to 1");
    manifest.training.learning_rate = 0.002;
    manifest.merge.liars_permille = 500;
    assert_check(&manifest,
                 "manifest.merge: field liars_permille is 500; allowed: an integer from 0 to 499");
    manifest.merge.liars_permille = 250;
    manifest.update.mask = (enum skep_mask)2;
    assert_check(&manifest, "manifest.update: field mask is choice 2; allowed: 0 to 1");
    manifest.update.mask = SKEP_MASK_COMMON;
    manifest.trust.stamp_bits = 13;
    assert_check(&manifest,
                 "manifest.trust: field stamp_bits is 13; allowed: an integer from 0 to 12");
    manifest.trust.stamp_bits = 12;
    manifest.trust.audits = true;
    assert_check(&manifest, "manifest.trust: field remote is true; allowed: false with audits, for "
                            "nobody can repeat a remote call");
    manifest.trust.remote = false;
    manifest.merge.least_updates = 9;
    manifest.merge.most_updates = 8;
    assert_check(&manifest,
                 "manifest.merge: field least_updates is 9; allowed: 1 to most_updates (8)");
    manifest.merge.least_updates = 1;
    assert_check(&manifest,
                 "manifest.merge: field overlap_permille is 400; allowed: 0 with update.mask "
                 "common, where all send the same places");
    manifest.merge.overlap_permille = 0;
    manifest.chunk_bytes = 64;
    struct skep_error err = {0};
    assert_int_equal(skep_manifest_check(&manifest, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "train: field chunks has 3 names; allowed: 2049"));
    skep_manifest_done(&manifest);
}

static void audits_are_refused_where_nobody_could_repeat_a_job(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    example_manifest(&manifest);
    manifest.trust = (struct skep_trust_config){.audits = true};
    manifest.replicas = 2;
    assert_int_equal(skep_manifest_check(&manifest, NULL), SKEP_OK);
    manifest.replicas = 1;
    assert_check(&manifest, "manifest: field keepers has 2 names; allowed with trust.audits: at "
                            "most replicas (1), for only keepers of all shards can repeat jobs");
    manifest.model.dim = 512;
    manifest.model.hidden = 5455; /* 2 d h + 3 d + h */
    assert_check(&manifest, "manifest.trust: field audits is true; allowed: false for a shard of "
                            "5592911 parameters, whose history of 67115044 bytes does not fit into "
                            "one request (67108864)");
    manifest.model.hidden = 5454;
    manifest.replicas = 2;
    assert_int_equal(skep_manifest_check(&manifest, NULL), SKEP_OK);
    manifest.model.hidden = 5455;
    manifest.replicas = 1;
    manifest.trust.audits = false;
    assert_int_equal(skep_manifest_check(&manifest, NULL), SKEP_OK);
    skep_manifest_done(&manifest);
}

static void the_name_data_and_keepers_are_held_to_their_limits(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    example_manifest(&manifest);
    manifest.keepers[1] = manifest.keepers[0];
    struct skep_error err = {0};
    assert_int_equal(skep_manifest_check(&manifest, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "twice; allowed: once"));
    manifest.keeper_count = 0;
    assert_check(&manifest, "manifest: field keepers has 0 names; allowed: 1 to 64");
    manifest.train.size_bytes = 128;
    assert_check(&manifest, "manifest.train: field size_bytes is 128; allowed: 129 to 17179869184");
    manifest.name[0] = '\n';
    assert_check(&manifest, "manifest: field name has 10 bytes or a control character; allowed: 1 "
                            "to 100 bytes of text");
    skep_manifest_done(&manifest);
}

static void a_wrong_field_of_a_section_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"\"heads\":4", "\"heads\":\"four\"",
         "manifest.model: field heads is \"four\"; allowed: an integer from 1 to 16384"},
        {"\"heads\":4,", "",
         "manifest.model: field heads is missing; allowed: an integer from 1 to 16384"},
        {"\"document\"", "\"page\"",
         "manifest.model: field route is \"page\"; allowed: document, token"},
        {"\"lm\"", "\"gan\"", "manifest.model: field kind is \"gan\"; allowed: lm, classifier"},
        {"\"expert\":\"ffn\",", "", "manifest.model: field expert is missing; allowed: a text"},
        {"\"ffn\"", "\"gelu\"",
         "manifest.model: field expert is \"gelu\"; allowed: ffn, paper_ffn"},
        {"\"lm\"", "\"classifier\"",
         "manifest.model: unknown field \"vocabulary\" with value 256; allowed: kind, expert, "
         "inputs, classes, dim, hidden, layers, rows, columns, experts_per_token"},
        {"\"beta1\":0.9", "\"beta1\":1",
         "manifest.training: field beta1 is 1; allowed: a number from 0 to 0.9999"},
        {"\"mean\"", "\"sum\"",
         "manifest.merge: field rule is \"sum\"; allowed: mean, coordinate_median, trimmed_mean, "
         "krum, multi_krum, geometric_median, centered_clip, nnm_trimmed_mean, "
         "nnm_geometric_median"},
        {"\"keep\":256", "\"keep\":256,\"kept\":1",
         "manifest.update: unknown field \"kept\" with value 1; allowed: keep, mask, "
         "error_decay_permille, "
         "scale_ceiling"},
        {"\"replicas\":4", "\"replicas\":65",
         "manifest: field replicas is 65; allowed: an integer from 1 to 64"},
    };
    struct skep_manifest manifest;
    example_manifest(&manifest);
    char *text = skep_manifest_encode(&manifest);
    skep_manifest_done(&manifest);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *at = strstr(text, cases[i][0]);
        assert_non_null(at);
        char *wrong =
            skep_format("%.*s%s%s", (int)(at - text), text, cases[i][1], at + strlen(cases[i][0]));
        struct skep_error err = {0};
        assert_int_not_equal(skep_manifest_decode(wrong, strlen(wrong), &manifest, &err), SKEP_OK);
        assert_string_equal(err.text, cases[i][2]);
        free(wrong);
    }
    free(text);
}

static void a_classifier_comes_back_with_what_it_implies(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    example_classifier(&manifest);
    char *text = skep_manifest_encode(&manifest);
    assert_null(strstr(text, "\"heads\""));
    assert_null(strstr(text, "\"route\""));
    assert_non_null(
        strstr(text, "\"kind\":\"classifier\",\"expert\":\"paper_ffn\",\"inputs\":784,"));
    struct skep_manifest again = {0};
    struct skep_error err = {0};
    skep_manifest_decode(text, strlen(text), &again, &err);
    assert_string_equal(err.text, "");
    assert_memory_equal(&again.model, &manifest.model, sizeof again.model);
    assert_int_equal(again.model.context, 1);
    assert_int_equal(again.model.rows_per_token, 4);
    assert_int_equal(again.model.route, SKEP_ROUTE_TOKEN);
    assert_int_equal(skep_model_config_window(&again.model), 785);
    free(text);
    skep_manifest_done(&again);
    skep_manifest_done(&manifest);
}

/* What is signed and hashed: another order or spelling would be another project. */
static void manifests_are_written_to_the_golden_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"manifest-lm.hex", "manifest-classifier.hex"};
    for (size_t i = 0; i < 2; i++) {
        struct skep_manifest manifest;
        struct skep_buffer golden = {0};
        i == 0 ? example_manifest(&manifest) : example_classifier(&manifest);
        skep_test_vector_read(names[i], &golden);
        char *text = skep_manifest_encode(&manifest);
        assert_int_equal(strlen(text), golden.size);
        assert_memory_equal(text, golden.data, golden.size);
        struct skep_manifest read = {0};
        assert_int_equal(skep_manifest_decode(golden.data, golden.size, &read, NULL), SKEP_OK);
        assert_memory_equal(&read.model, &manifest.model, sizeof read.model);
        free(text);
        skep_buffer_done(&golden);
        skep_manifest_done(&read);
        skep_manifest_done(&manifest);
    }
}

static void a_classifier_is_held_to_its_relations(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    example_classifier(&manifest);
    assert_int_equal(skep_manifest_check(&manifest, NULL), SKEP_OK);
    struct skep_model_config good = manifest.model;
    manifest.model.experts_per_token = 17;
    assert_check(&manifest, "manifest.model: field experts_per_token is 17; allowed: 1 to rows * "
                            "columns (16)");
    manifest.model = good;
    manifest.model.context = 2;
    assert_check(&manifest,
                 "manifest.model: field context is 2; allowed in a model of kind classifier: 1");
    manifest.model = good;
    manifest.model.inputs = 65537;
    assert_check(&manifest,
                 "manifest.model: field inputs is 65537; allowed: an integer from 1 to 65536");
    manifest.model = good;
    manifest.model.kind = (enum skep_model_kind)2;
    assert_check(&manifest, "manifest.model: field kind is choice 2; allowed: 0 to 1");
    manifest.model = good;
    manifest.train.size_bytes -= 1;
    assert_check(&manifest, "manifest.train: field size_bytes is 78499; allowed: a multiple of the "
                            "record's 785 bytes (inputs + 1), such as 77715");
    manifest.train.size_bytes = 784;
    assert_check(&manifest, "manifest.train: field size_bytes is 784; allowed: 785 to 17179869184");
    manifest.train.size_bytes = 78500;
    manifest.chunk_bytes = 65536;
    assert_check(&manifest, "manifest: field chunk_bytes is 65536; allowed: a multiple of the "
                            "record's 785 bytes (inputs + 1), such as 65155");
    skep_manifest_done(&manifest);
}

static void large_classifiers_are_refused(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    struct skep_error err = {0};
    example_classifier(&manifest);
    manifest.model.dim = 4096;
    manifest.model.hidden = 16384; /* 4 (2 d h + h h) bytes are 1.6 GB */
    assert_int_equal(skep_manifest_check(&manifest, &err), SKEP_ERR_TOO_LARGE);
    assert_non_null(strstr(err.text, "allowed: at most 1073741824"));
    manifest.model.expert = SKEP_EXPERT_FFN;
    assert_int_not_equal(skep_manifest_check(&manifest, &err), SKEP_ERR_TOO_LARGE);
    manifest.model.inputs = 65536; /* d inputs */
    assert_int_equal(skep_manifest_check(&manifest, &err), SKEP_ERR_TOO_LARGE);
    skep_manifest_done(&manifest);
}

static void shards_have_one_order(void **state)
{
    (void)state;
    struct skep_manifest manifest = {0};
    skep_manifest_defaults(&manifest);
    manifest.model.layers = 3;
    size_t count = skep_manifest_shard_count(&manifest);
    assert_int_equal(count, 1 + 3 * 2 * 4);
    for (size_t i = 0; i < count; i++) {
        struct skep_shard shard = skep_manifest_shard(&manifest, i);
        assert_int_equal(skep_manifest_shard_index(&manifest, &shard), i);
    }
    char text[SKEP_SHARD_TEXT_SIZE];
    struct skep_shard last = skep_manifest_shard(&manifest, count - 1);
    skep_shard_format(&last, text);
    assert_string_equal(text, "ffn.2.1.3");
    last.column = 4;
    assert_true(skep_manifest_shard_index(&manifest, &last) == SIZE_MAX);
}

/* limits.h promises that the largest data sets fit into one statement. */
static void the_largest_manifest_fits_into_one_envelope(void **state)
{
    (void)state;
    struct skep_manifest manifest;
    example_manifest(&manifest);
    struct skep_data_set *sets[] = {&manifest.train, &manifest.heldout};
    for (int i = 0; i < 2; i++) {
        sets[i]->chunk_count = SKEP_LIMIT_CHUNKS;
        sets[i]->size_bytes = (uint64_t)SKEP_LIMIT_CHUNKS * manifest.chunk_bytes;
        free(sets[i]->chunks);
        sets[i]->chunks = skep_alloc(SKEP_LIMIT_CHUNKS, sizeof *sets[i]->chunks);
    }
    char *payload = skep_manifest_encode(&manifest);
    struct skep_envelope envelope;
    skep_envelope_init(&envelope, SKEP_TYPE_MANIFEST, payload, strlen(payload));
    static const uint8_t signature[64];
    skep_envelope_add(&envelope, &manifest.keepers[0], signature);
    char *text = skep_envelope_write(&envelope);
    struct skep_envelope again = {0};
    assert_int_equal(skep_envelope_parse(text, strlen(text), &again, NULL), SKEP_OK);
    struct skep_manifest read = {0};
    assert_int_equal(skep_manifest_decode(again.payload.data, again.payload.size, &read, NULL),
                     SKEP_OK);
    assert_int_equal(read.heldout.chunk_count, SKEP_LIMIT_CHUNKS);
    skep_manifest_done(&read);
    skep_manifest_done(&manifest);
    skep_envelope_done(&envelope);
    skep_envelope_done(&again);
    free(payload);
    free(text);
}

/* The example of the DSSE specification (protocol.md). */
static void the_signed_bytes_are_those_of_dsse(void **state)
{
    (void)state;
    struct skep_buffer bytes = {0};
    skep_envelope_pae("http://example.com/HelloWorld", "hello world", 11, &bytes);
    static const char expected[] = "DSSEv1 29 http://example.com/HelloWorld 11 hello world";
    assert_int_equal(bytes.size, sizeof expected - 1);
    assert_memory_equal(bytes.data, expected, bytes.size);
    skep_buffer_done(&bytes);
}

static void assert_envelope_refused(const char *text, enum skep_err code, const char *reason)
{
    struct skep_envelope envelope = {0};
    struct skep_error err = {0};
    assert_int_equal(skep_envelope_parse(text, strlen(text), &envelope, &err), code);
    if (strstr(err.text, reason) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, reason);
    }
}

#define SIG64                                                                                      \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
#define ONE "{\"keyid\":\"" ID64 "\",\"sig\":\"" SIG64 "\"}"
#define ID64 "1111111111111111111111111111111111111111111111111111111111111111"
#define HEAD "{\"payload\":\"aGk=\",\"payloadType\":\"a/b\",\"signatures\":["

static void envelopes_of_a_wrong_shape_are_refused(void **state)
{
    (void)state;
    struct skep_envelope envelope = {0};
    static const char good[] = HEAD ONE "]}";
    assert_int_equal(skep_envelope_parse(good, sizeof good - 1, &envelope, NULL), SKEP_OK);
    assert_int_equal(envelope.payload.size, 2);
    skep_envelope_done(&envelope);
    assert_envelope_refused(HEAD "]}", SKEP_ERR_SIGNATURE, "signatures is empty");
    assert_envelope_refused(HEAD ONE "," ONE "]}", SKEP_ERR_FORMAT, "signed twice");
    assert_envelope_refused(HEAD "{\"keyid\":\"" ID64 "\",\"sig\":\"AAAA\"}]}", SKEP_ERR_FORMAT,
                            "not canonical base64 of 64 bytes");
    assert_envelope_refused(HEAD "{\"keyid\":\"11\",\"sig\":\"" SIG64 "\"}]}", SKEP_ERR_FORMAT,
                            "field keyid is \"11\"");
    assert_envelope_refused("{\"payload\":\"aGl=\",\"payloadType\":\"a/b\",\"signatures\":[" ONE
                            "]}",
                            SKEP_ERR_FORMAT, "payload of 4 letters is not canonical base64");
    assert_envelope_refused("{\"payload\":\"aGk=\",\"payloadType\":\"a b\",\"signatures\":[" ONE
                            "]}",
                            SKEP_ERR_FORMAT, "payloadType has 3 bytes");
    struct skep_error err = {0};
    assert_int_equal(
        skep_envelope_parse(good, (size_t)SKEP_LIMIT_STATEMENT_BYTES + 1, &envelope, &err),
        SKEP_ERR_TOO_LARGE);
}

static void an_envelope_takes_one_signature_of_each_signer_up_to_the_limit(void **state)
{
    (void)state;
    struct skep_envelope envelope;
    skep_envelope_init(&envelope, "a/b", "hi", 2);
    uint8_t signature[64] = {0};
    for (unsigned i = 0; i <= SKEP_LIMIT_SIGNATURES; i++) {
        struct skep_peer_id signer = {{(uint8_t)i}};
        skep_envelope_add(&envelope, &signer, signature);
        skep_envelope_add(&envelope, &signer, signature);
    }
    assert_int_equal(envelope.signature_count, SKEP_LIMIT_SIGNATURES + 1);
    char *text = skep_envelope_write(&envelope);
    assert_envelope_refused(text, SKEP_ERR_FORMAT, "allowed: an array of at most 64 items");
    free(text);
    skep_envelope_done(&envelope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_admissible),
        cmocka_unit_test(settings_can_be_checked_before_there_is_data),
        cmocka_unit_test(the_model_is_held_to_its_relations),
        cmocka_unit_test(the_sections_are_held_to_their_ranges),
        cmocka_unit_test(audits_are_refused_where_nobody_could_repeat_a_job),
        cmocka_unit_test(the_name_data_and_keepers_are_held_to_their_limits),
        cmocka_unit_test(a_wrong_field_of_a_section_is_refused_by_name),
        cmocka_unit_test(a_classifier_comes_back_with_what_it_implies),
        cmocka_unit_test(manifests_are_written_to_the_golden_bytes),
        cmocka_unit_test(a_classifier_is_held_to_its_relations),
        cmocka_unit_test(large_classifiers_are_refused),
        cmocka_unit_test(shards_have_one_order),
        cmocka_unit_test(the_largest_manifest_fits_into_one_envelope),
        cmocka_unit_test(the_signed_bytes_are_those_of_dsse),
        cmocka_unit_test(envelopes_of_a_wrong_shape_are_refused),
        cmocka_unit_test(an_envelope_takes_one_signature_of_each_signer_up_to_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
