/*
 * Updates: the first byte says what follows, `b` a body for the small layout below, `s` the JSON of a statement, anything else a file.
 * There is one encoding of each body, so what is decoded encodes to the identical bytes; a statement is admitted or refused for a
 * reason, and what is admitted keeps the rules; a file's statement and body go the same ways.
 */
#include "common/merge/mask.h"
#include "common/swarm/admission.h"
#include "common/swarm/ticket.h"
#include "common/swarm/update-open.h"
#include "tests/fuzz/fuzz.h"

#define TENSORS 4
#define CEILING 1.0

const char *const fuzz_sentence = "updates from strangers are refused or encode to the same bytes";

static void layout_of(struct skep_tiling tilings[TENSORS])
{
    /* One tile of one value kept, two tiles of all kept, an odd row, a full block beside a second one. */
    static const uint32_t dims[TENSORS][2] = {{6, 10}, {66, 1}, {7, 0}, {64, 128}};
    static const uint32_t counts[TENSORS] = {2, 2, 1, 2};
    static const uint32_t keeps[TENSORS] = {64, 4096, 1024, 64};
    for (size_t t = 0; t < TENSORS; t++) {
        tilings[t] = skep_tiling_of(dims[t], counts[t], keeps[t]);
    }
}

/* A refusal has a sentence, a reason, and that reason's code. */
static void check_refusal(int rc, const struct skep_error *err)
{
    FUZZ_CHECK(err->text[0] != '\0' && err->code == (enum skep_err)rc);
    FUZZ_CHECK(rc == SKEP_ERR_MEMORY || (err->reason != SKEP_REFUSAL_NONE &&
                                         skep_refusal_code(err->reason) == (enum skep_err)rc));
}

static void check_places(const struct skep_update_tensor *tensor)
{
    const struct skep_tiling *tiling = &tensor->tiling;
    size_t values = (size_t)tiling->rows * tiling->columns;
    for (uint32_t i = 0; i < tiling->blocks * tiling->kept; i++) {
        FUZZ_CHECK(tensor->codes[i] < 4);
        FUZZ_CHECK(i % tiling->kept == 0 || tensor->indices[i] > tensor->indices[i - 1]);
        FUZZ_CHECK(skep_tiling_place(tiling, i / tiling->kept, tensor->indices[i]) < values);
    }
}

static void try_body(const uint8_t *data, size_t size)
{
    struct skep_tiling tilings[TENSORS];
    layout_of(tilings);
    struct skep_update_body body = {0};
    struct skep_error err = {0};
    int rc = skep_update_body_decode(data, size, tilings, TENSORS, CEILING, &body, &err);
    if (rc != SKEP_OK) {
        check_refusal(rc, &err);
        FUZZ_CHECK(body.tensors == NULL);
        return;
    }
    for (size_t t = 0; t < TENSORS; t++) {
        check_places(&body.tensors[t]);
    }
    const struct skep_hash seed = {{1}};
    rc = skep_mask_check(&seed, &body, &err);
    FUZZ_CHECK(rc == SKEP_OK || err.reason == SKEP_REFUSAL_MASK);
    struct skep_buffer bytes = {0};
    skep_update_body_encode(&body, &bytes);
    FUZZ_CHECK(bytes.size == size && memcmp(bytes.data, data, size) == 0);
    skep_buffer_done(&bytes);
    skep_update_body_done(&body);
}

/* A shard at version 9, the trunk at 12; the seals of version v begin with 0x40 + v. */
static void admit(const struct skep_update_statement *statement)
{
    static struct skep_manifest manifest;
    const struct skep_shard_head head = {
        .version = 9, .roots = {{{9}}, {{8}}, {{7}}}, .beacons = {{{0x49}}, {{0x48}}, {{0x47}}}};
    const struct skep_trunk_view trunk = {.newest = 12,
                                          .known = statement->trunk_version <= 12,
                                          .beacon = {{(uint8_t)(0x40 + statement->trunk_version)}}};
    struct skep_error err = {0};
    skep_manifest_defaults(&manifest);
    int rc = skep_admission_check_place(&manifest, statement, &err);
    if (rc == SKEP_OK) {
        rc = skep_admission_check(&manifest, &head, &trunk, statement, &err);
    }
    if (rc != SKEP_OK) {
        check_refusal(rc, &err);
        return;
    }
    uint64_t age = head.version - statement->base_version;
    const struct skep_hash *beacon = statement->remote ? &head.beacons[age] : &trunk.beacon;
    struct skep_hash ticket = skep_ticket_of(beacon, &statement->donor, statement->trunk_version);
    FUZZ_CHECK(skep_manifest_shard_index(&manifest, &statement->shard) != SIZE_MAX);
    FUZZ_CHECK(age <= SKEP_LIMIT_STALENESS);
    FUZZ_CHECK(skep_hash_equal(&statement->base_state, &head.roots[age]));
    FUZZ_CHECK(skep_hash_equal(&statement->ticket, &ticket));
    FUZZ_CHECK(statement->remote ? statement->tokens > 0
                                 : statement->tokens == skep_job_tokens(&manifest));
}

static void try_statement(const uint8_t *data, size_t size)
{
    struct skep_update_statement statement;
    struct skep_error err = {0};
    if (skep_update_statement_decode(data, size, &statement, &err) == SKEP_OK) {
        admit(&statement);
    } else {
        FUZZ_CHECK(err.text[0] != '\0');
    }
}

static void check_join(const uint8_t *file, size_t size, const char *envelope, const uint8_t *body,
                       size_t body_size)
{
    struct skep_buffer rest = {0};
    struct skep_buffer joined = {0};
    skep_buffer_append(&rest, body, body_size);
    skep_update_file_join(envelope, &rest, &joined);
    FUZZ_CHECK(joined.size == size && memcmp(joined.data, file, size) == 0);
    skep_buffer_done(&joined);
    skep_buffer_done(&rest);
}

static void try_file(const uint8_t *data, size_t size)
{
    const uint8_t *envelope = NULL;
    const uint8_t *body = NULL;
    size_t envelope_size = 0;
    size_t body_size = 0;
    if (skep_update_file_split(data, size, &envelope, &envelope_size, &body, &body_size, NULL) !=
        SKEP_OK) {
        return;
    }
    FUZZ_CHECK(envelope + envelope_size == body && body + body_size == data + size);
    char *text = fuzz_text(envelope, envelope_size);
    if (strlen(text) == envelope_size) {
        check_join(data, size, text, body, body_size);
    }
    free(text);
    struct skep_update_statement statement;
    struct skep_hash hash;
    struct skep_error err = {0};
    int rc = skep_update_open(data, size, &statement, &hash, &body, &body_size, &err);
    if (rc == SKEP_OK) {
        admit(&statement);
        try_body(body, body_size);
    } else {
        check_refusal(rc, &err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'b') {
        try_body(data + 1, size - 1);
    } else if (size > 0 && data[0] == 's') {
        try_statement(data + 1, size - 1);
    } else if (size > 0) {
        try_file(data + 1, size - 1);
    }
    return 0;
}
