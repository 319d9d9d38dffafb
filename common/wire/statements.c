#include "common/wire/statements.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define FIELD(type, member, kind, least, most)                                                     \
    {                                                                                              \
#member, SKEP_FIELD_##kind, offsetof(struct type, member), least, most, NULL               \
    }
#define MOST SKEP_JSON_INTEGER_MOST

static char *write_take(struct skep_json *take_root)
{
    char *text = skep_json_write(take_root, false);
    skep_json_free(take_root);
    return text;
}

/* --- record --- */

static const struct skep_field RECORD[] = {
    FIELD(skep_record, keeper, ID, 0, 0),         {"host", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    FIELD(skep_record, port, U16, 1, UINT16_MAX), FIELD(skep_record, tls_pin, ID, 0, 0),
    FIELD(skep_record, sequence, U64, 0, MOST),   FIELD(skep_record, expires_s, I64, 0, MOST),
    FIELD(skep_record, leaving, BOOL, 0, 0),      {"projects", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
};

void skep_record_done(struct skep_record *record)
{
    free(record->projects);
    *record = (struct skep_record){0};
}

char *skep_record_encode(const struct skep_record *record)
{
    struct skep_json *root = skep_json_object_new();
    skep_fields_write(RECORD, COUNT(RECORD), record, root);
    skep_json_set_text(root, "host", record->host);
    skep_json_set_take(root, "projects", skep_ids_write(record->projects, record->project_count));
    return write_take(root);
}

/* A numeric address: names would make donors ask resolvers that a stranger chose. */
static int read_host(const struct skep_json *root, char host[SKEP_HOST_TEXT_SIZE],
                     struct skep_error *err)
{
    const char *text = NULL;
    int rc = skep_json_get_text(root, "record", "host", &text, err);
    if (rc != SKEP_OK) {
        return rc;
    }
    struct in6_addr address;
    if (strlen(text) >= SKEP_HOST_TEXT_SIZE ||
        (inet_pton(AF_INET, text, &address) != 1 && inet_pton(AF_INET6, text, &address) != 1)) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "record: field host is \"%.64s\"; allowed: a numeric IPv4 or IPv6 "
                              "address",
                              text);
    }
    snprintf(host, SKEP_HOST_TEXT_SIZE, "%s", text);
    return SKEP_OK;
}

int skep_record_decode(const void *payload, size_t size, struct skep_record *ret_record,
                       struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_record record = {0};
    void *projects = NULL;
    int rc = skep_json_parse(payload, size, "record", &root, err);
    if (rc == SKEP_OK) {
        rc = skep_fields_read(root, "record", RECORD, COUNT(RECORD), &record, err);
    }
    if (rc == SKEP_OK) {
        rc = read_host(root, record.host, err);
    }
    if (rc == SKEP_OK) {
        rc = skep_ids_read(root, "record", "projects", SKEP_LIMIT_PROJECTS, &projects,
                           &record.project_count, err);
    }
    if (rc == SKEP_OK) {
        record.projects = projects;
        *ret_record = record;
    }
    skep_json_free(root);
    return rc;
}

/* --- update --- */

static const struct skep_field UPDATE[] = {
    FIELD(skep_update_statement, project, ID, 0, 0),
    FIELD(skep_update_statement, shard, SHARD, 0, 0),
    FIELD(skep_update_statement, base_version, U64, 0, MOST),
    FIELD(skep_update_statement, base_state, ID, 0, 0),
    FIELD(skep_update_statement, donor, ID, 0, 0),
    FIELD(skep_update_statement, trunk_version, U64, 0, MOST),
    FIELD(skep_update_statement, ticket, ID, 0, 0),
    FIELD(skep_update_statement, remote, BOOL, 0, 0),
    FIELD(skep_update_statement, stamp, U64, 0, MOST),
    FIELD(skep_update_statement, body, ID, 0, 0),
    FIELD(skep_update_statement, before, ID, 0, 0),
    FIELD(skep_update_statement, after, ID, 0, 0),
    FIELD(skep_update_statement, tokens, U64, 0, MOST),
    FIELD(skep_update_statement, loss_first, REAL, 0, 1e6),
    FIELD(skep_update_statement, loss_last, REAL, 0, 1e6),
    {"shards", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
};

static const struct skep_field PART[] = {
    FIELD(skep_update_part, shard, SHARD, 0, 0),
    FIELD(skep_update_part, base_version, U64, 0, MOST),
    FIELD(skep_update_part, before, ID, 0, 0),
};

char *skep_update_statement_encode(const struct skep_update_statement *statement)
{
    struct skep_json *root = skep_json_object_new();
    struct skep_json *parts = skep_json_array_new();
    skep_fields_write(UPDATE, COUNT(UPDATE), statement, root);
    for (size_t i = 0; statement->parts != NULL && i < statement->part_count; i++) {
        struct skep_json *item = skep_json_object_new();
        skep_fields_write(PART, COUNT(PART), &statement->parts[i], item);
        skep_json_push_take(parts, item);
    }
    skep_json_set_take(root, "shards", parts);
    return write_take(root);
}

static int by_shard(const void *a, const void *b)
{
    char first[SKEP_SHARD_TEXT_SIZE];
    char second[SKEP_SHARD_TEXT_SIZE];
    skep_shard_format(&((const struct skep_update_part *)a)->shard, first);
    skep_shard_format(&((const struct skep_update_part *)b)->shard, second);
    return strcmp(first, second);
}

static int check_twice(const struct skep_update_part *parts, size_t count, struct skep_error *err)
{
    int rc = SKEP_OK;
    struct skep_update_part *sorted = skep_alloc(count + 1, sizeof *sorted);
    if (count > 0) {
        memcpy(sorted, parts, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_shard);
    }
    for (size_t i = 1; i < count && rc == SKEP_OK; i++) {
        if (skep_shard_equal(&sorted[i - 1].shard, &sorted[i].shard)) {
            char name[SKEP_SHARD_TEXT_SIZE];
            skep_shard_format(&sorted[i].shard, name);
            rc = skep_error_set(err, SKEP_ERR_FORMAT, "update.shards: %s is there twice", name);
        }
    }
    free(sorted);
    return rc;
}

/* Only the trunk's update has any: one of them is enough for a job. */
static int read_parts(const struct skep_json *root, struct skep_update_part **ret_parts,
                      size_t *ret_count, struct skep_error *err)
{
    const struct skep_json *array = NULL;
    struct skep_shard shard;
    int rc = skep_json_get_array(root, "update", "shards", SKEP_LIMIT_JOB_SHARDS - 1, &array, err);
    if (rc == SKEP_OK) {
        rc = skep_json_get_shard(root, "update", "shard", &shard, err);
    }
    size_t count = rc == SKEP_OK ? skep_json_array_size(array) : 0;
    if (rc != SKEP_OK || count == 0) {
        return rc;
    }
    if (shard.kind != SKEP_SHARD_TRUNK) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "update: field shards has %zu shards; allowed: none but in the "
                              "trunk's update",
                              count);
    }
    struct skep_update_part *parts = skep_alloc(count, sizeof *parts);
    for (size_t i = 0; i < count && rc == SKEP_OK; i++) {
        rc = skep_fields_read(skep_json_array_at(array, i), "update.shards", PART, COUNT(PART),
                              &parts[i], err);
        if (rc == SKEP_OK && parts[i].shard.kind == SKEP_SHARD_TRUNK) {
            rc = skep_error_set(err, SKEP_ERR_FORMAT,
                                "update.shards: shard %zu is the trunk; allowed: experts", i);
        }
    }
    if (rc == SKEP_OK) {
        rc = check_twice(parts, count, err);
    }
    if (rc != SKEP_OK) {
        free(parts);
        return rc;
    }
    *ret_parts = parts;
    *ret_count = count;
    return SKEP_OK;
}

int skep_update_parts_decode(const void *payload, size_t size, struct skep_update_part **ret_parts,
                             size_t *ret_count, struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_update_part *parts = NULL;
    size_t count = 0;
    int rc = skep_json_parse(payload, size, "update", &root, err);
    if (rc == SKEP_OK) {
        rc = read_parts(root, &parts, &count, err);
    }
    skep_json_free(root);
    if (rc == SKEP_OK) {
        *ret_parts = parts;
        *ret_count = count;
    }
    return rc;
}

int skep_update_statement_decode(const void *payload, size_t size,
                                 struct skep_update_statement *ret_statement,
                                 struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_update_statement statement = {0};
    struct skep_update_part *parts = NULL;
    int rc = skep_json_parse(payload, size, "update", &root, err);
    if (rc == SKEP_OK) {
        rc = skep_fields_read(root, "update", UPDATE, COUNT(UPDATE), &statement, err);
    }
    if (rc == SKEP_OK) {
        rc = read_parts(root, &parts, &statement.part_count, err);
    }
    free(parts);
    if (rc == SKEP_OK) {
        *ret_statement = statement;
    }
    skep_json_free(root);
    return rc;
}

/* --- caller --- */

static const struct skep_field CALLER[] = {
    FIELD(skep_caller_statement, project, ID, 0, 0),
    FIELD(skep_caller_statement, keeper, ID, 0, 0),
    FIELD(skep_caller_statement, caller, ID, 0, 0),
    FIELD(skep_caller_statement, time_s, I64, 0, MOST),
    FIELD(skep_caller_statement, nonce, ID, 0, 0),
};

char *skep_caller_statement_encode(const struct skep_caller_statement *statement)
{
    struct skep_json *root = skep_json_object_new();
    skep_fields_write(CALLER, COUNT(CALLER), statement, root);
    return write_take(root);
}

int skep_caller_statement_decode(const void *payload, size_t size,
                                 struct skep_caller_statement *ret_statement,
                                 struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_caller_statement statement = {0};
    int rc = skep_json_parse(payload, size, "caller", &root, err);
    if (rc == SKEP_OK) {
        rc = skep_fields_read(root, "caller", CALLER, COUNT(CALLER), &statement, err);
    }
    if (rc == SKEP_OK) {
        *ret_statement = statement;
    }
    skep_json_free(root);
    return rc;
}

/* --- seal --- */

static const struct skep_field SEAL[] = {
    FIELD(skep_seal, project, ID, 0, 0),           FIELD(skep_seal, shard, SHARD, 0, 0),
    FIELD(skep_seal, version, U64, 1, MOST),       FIELD(skep_seal, attempt, U32, 0, UINT32_MAX),
    FIELD(skep_seal, previous, ID, 0, 0),          FIELD(skep_seal, state, ID, 0, 0),
    FIELD(skep_seal, norm, U64, 0, MOST),          {"receipts", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
    {"findings", SKEP_FIELD_OTHER, 0, 0, 0, NULL},
};

static const struct skep_field RECEIPT[] = {
    FIELD(skep_receipt, update, ID, 0, 0),
    FIELD(skep_receipt, donor, ID, 0, 0),
    FIELD(skep_receipt, base_version, U64, 0, MOST),
    FIELD(skep_receipt, credit_micro, U64, 0, MOST),
    FIELD(skep_receipt, audited, BOOL, 0, 0),
    FIELD(skep_receipt, merged, BOOL, 0, 0),
    FIELD(skep_receipt, copy, BOOL, 0, 0),
    {"agreement", SKEP_FIELD_I64, offsetof(struct skep_receipt, agreement_permille), -1000, 1000,
     NULL},
};

static const char *const VERDICTS[] = {"valid", "invalid", NULL};

static const struct skep_field FINDING[] = {
    FIELD(skep_finding, update, ID, 0, 0),
    FIELD(skep_finding, donor, ID, 0, 0),
    FIELD(skep_finding, base_version, U64, 0, MOST),
    {"verdict", SKEP_FIELD_CHOICE, offsetof(struct skep_finding, verdict), 0, 0, VERDICTS},
};

void skep_seal_done(struct skep_seal *seal)
{
    free(seal->receipts);
    free(seal->findings);
    *seal = (struct skep_seal){0};
}

void skep_seal_copy(const struct skep_seal *seal, struct skep_seal *ret_copy)
{
    struct skep_seal copy = *seal;
    copy.receipts = NULL;
    copy.findings = NULL;
    if (seal->receipt_count != 0) {
        copy.receipts = skep_alloc(seal->receipt_count, sizeof *copy.receipts);
        memcpy(copy.receipts, seal->receipts, seal->receipt_count * sizeof *copy.receipts);
    }
    if (seal->finding_count != 0) {
        copy.findings = skep_alloc(seal->finding_count, sizeof *copy.findings);
        memcpy(copy.findings, seal->findings, seal->finding_count * sizeof *copy.findings);
    }
    *ret_copy = copy;
}

char *skep_seal_encode(const struct skep_seal *seal)
{
    struct skep_json *root = skep_json_object_new();
    skep_fields_write(SEAL, COUNT(SEAL), seal, root);
    struct skep_json *receipts = skep_json_array_new();
    for (size_t i = 0; i < seal->receipt_count; i++) {
        struct skep_json *item = skep_json_object_new();
        skep_fields_write(RECEIPT, COUNT(RECEIPT), &seal->receipts[i], item);
        skep_json_push_take(receipts, item);
    }
    skep_json_set_take(root, "receipts", receipts);
    struct skep_json *findings = skep_json_array_new();
    for (size_t i = 0; i < seal->finding_count; i++) {
        struct skep_json *item = skep_json_object_new();
        skep_fields_write(FINDING, COUNT(FINDING), &seal->findings[i], item);
        skep_json_push_take(findings, item);
    }
    skep_json_set_take(root, "findings", findings);
    return write_take(root);
}

/* What receipts and findings have in common: a base below the seal's version, and their order. `before` is NULL for the first. */
static int check_item(const char *what, const struct skep_seal *seal, uint64_t base_version,
                      const struct skep_hash *before, const struct skep_hash *update,
                      struct skep_error *err)
{
    if (base_version >= seal->version) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s: field base_version is %llu; allowed: less than the seal's "
                              "version (%llu)",
                              what, (unsigned long long)base_version,
                              (unsigned long long)seal->version);
    }
    if (before != NULL && skep_hash_compare(before, update) >= 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "%s: update %s follows %s; expected each once, in rising order", what,
                              skep_id_text(update->bytes), skep_id_text(before->bytes));
    }
    return SKEP_OK;
}

/* What was not merged earns nothing, and what was is not counted as a copy. */
static int check_receipt(const struct skep_receipt *receipt, struct skep_error *err)
{
    if (!receipt->merged && receipt->credit_micro != 0) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "seal.receipts: field credit_micro is %llu; allowed: 0 for an update "
                              "that was not merged",
                              (unsigned long long)receipt->credit_micro);
    }
    if (receipt->merged && receipt->copy) {
        return skep_error_set(err, SKEP_ERR_FORMAT,
                              "seal.receipts: field copy is true; allowed: false for an update "
                              "that was merged");
    }
    return SKEP_OK;
}

static int read_receipts(const struct skep_json *root, struct skep_seal *seal,
                         struct skep_error *err)
{
    static const char what[] = "seal.receipts";
    const struct skep_json *array = NULL;
    int rc =
        skep_json_get_array(root, "seal", "receipts", SKEP_LIMIT_UPDATES_PER_ROUND, &array, err);
    if (rc != SKEP_OK || skep_json_array_size(array) == 0) {
        return rc;
    }
    seal->receipt_count = skep_json_array_size(array);
    seal->receipts = skep_alloc(seal->receipt_count, sizeof *seal->receipts);
    for (size_t i = 0; rc == SKEP_OK && i < seal->receipt_count; i++) {
        struct skep_receipt *receipt = &seal->receipts[i];
        rc = skep_fields_read(skep_json_array_at(array, i), what, RECEIPT, COUNT(RECEIPT), receipt,
                              err);
        if (rc == SKEP_OK) {
            rc = check_item(what, seal, receipt->base_version,
                            i == 0 ? NULL : &seal->receipts[i - 1].update, &receipt->update, err);
        }
        if (rc == SKEP_OK) {
            rc = check_receipt(receipt, err);
        }
    }
    return rc;
}

static int read_findings(const struct skep_json *root, struct skep_seal *seal,
                         struct skep_error *err)
{
    static const char what[] = "seal.findings";
    const struct skep_json *array = NULL;
    int rc = skep_json_get_array(root, "seal", "findings", SKEP_LIMIT_FINDINGS, &array, err);
    if (rc != SKEP_OK || skep_json_array_size(array) == 0) {
        return rc;
    }
    seal->finding_count = skep_json_array_size(array);
    seal->findings = skep_alloc(seal->finding_count, sizeof *seal->findings);
    for (size_t i = 0; rc == SKEP_OK && i < seal->finding_count; i++) {
        struct skep_finding *finding = &seal->findings[i];
        rc = skep_fields_read(skep_json_array_at(array, i), what, FINDING, COUNT(FINDING), finding,
                              err);
        if (rc == SKEP_OK) {
            rc = check_item(what, seal, finding->base_version,
                            i == 0 ? NULL : &seal->findings[i - 1].update, &finding->update, err);
        }
    }
    return rc;
}

int skep_seal_decode(const void *payload, size_t size, struct skep_seal *ret_seal,
                     struct skep_error *err)
{
    struct skep_json *root = NULL;
    struct skep_seal seal = {0};
    int rc = skep_json_parse(payload, size, "seal", &root, err);
    if (rc == SKEP_OK) {
        rc = skep_fields_read(root, "seal", SEAL, COUNT(SEAL), &seal, err);
    }
    if (rc == SKEP_OK) {
        rc = read_receipts(root, &seal, err);
    }
    if (rc == SKEP_OK) {
        rc = read_findings(root, &seal, err);
    }
    if (rc == SKEP_OK) {
        *ret_seal = seal;
    } else {
        skep_seal_done(&seal);
    }
    skep_json_free(root);
    return rc;
}
