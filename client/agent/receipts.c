#include "client/agent/receipts.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/swarm/credit.h"
#include "common/swarm/statement.h"

#define PAGE 200
#define TIMEOUT_MS 10000u

const char *skep_receipt_reason(const struct skep_receipt_facts *facts)
{
    if (facts->merged == facts->updates) {
        return NULL;
    }
    if (facts->copy) {
        return "not merged: a near-copy of another";
    }
    /* Updates of zeros alone agree with nothing at all (merge/merge.h). */
    return facts->agreement_permille == 0 ? "not merged: it changes nothing"
                                          : "left out: its updates have pulled against the others'";
}

/* Adds one receipt of this donor; *ret_granted is the credit that it names if that is not what it earns. */
static void add_receipt(const struct skep_receipt *receipt, uint64_t earned,
                        struct skep_receipt_facts *facts, uint64_t *ret_granted)
{
    if (receipt->merged && receipt->credit_micro != earned) { /* decoding sees to the others */
        *ret_granted = receipt->credit_micro;
    }
    facts->credit_micro += receipt->credit_micro;
    facts->updates++;
    facts->merged += receipt->merged;
    facts->copy = facts->copy || receipt->copy;
    facts->agreement_permille = receipt->agreement_permille;
}

int skep_receipt_check(const struct skep_manifest *manifest, const struct skep_peer_id *donor,
                       const struct skep_envelope *envelope, struct skep_receipt_facts *ret_facts,
                       struct skep_error *err)
{
    struct skep_seal seal = {0};
    struct skep_receipt_facts facts = {0};
    int rc = skep_seal_open(envelope, manifest, &seal, NULL, err);
    if (rc != 0) {
        return rc;
    }
    uint64_t earned = skep_credit_micro(manifest, &seal.shard);
    uint64_t granted = earned;
    for (size_t i = 0; i < seal.receipt_count; i++) {
        if (skep_peer_id_equal(&seal.receipts[i].donor, donor)) {
            add_receipt(&seal.receipts[i], earned, &facts, &granted);
        }
    }
    facts.shard = seal.shard;
    facts.version = seal.version;
    if (memcmp(&seal.project, &manifest->project, sizeof seal.project) != 0) {
        rc =
            skep_error_set(err, SKEP_ERR_REFUSED, "the seal is of project %.8s, not %.8s",
                           skep_id_text(seal.project.bytes), skep_id_text(manifest->project.bytes));
    } else if (facts.updates == 0) {
        rc = skep_error_set(err, SKEP_ERR_REFUSED, "the seal does not name donor %.8s",
                            skep_id_text(donor->bytes));
    } else if (granted != earned) {
        rc = skep_error_set(err, SKEP_ERR_REFUSED,
                            "the seal grants %llu micro-credits for an update that earns %llu",
                            (unsigned long long)granted, (unsigned long long)earned);
    } else {
        *ret_facts = facts;
    }
    skep_seal_done(&seal);
    return rc;
}

int skep_receipt_check_text(const struct skep_manifest *manifest, const struct skep_peer_id *donor,
                            const char *text, struct skep_receipt_facts *ret_facts,
                            struct skep_error *err)
{
    struct skep_envelope envelope = {0};
    int rc = skep_envelope_parse(text, strlen(text), &envelope, err);
    if (rc == 0) {
        rc = skep_receipt_check(manifest, donor, &envelope, ret_facts, err);
        skep_envelope_done(&envelope);
    }
    return rc;
}

struct receipts_call {
    struct skep_session *session;
    struct skep_donor_db *db;
    struct skep_peer_id donor;
    size_t pending;
    skep_session_done done;
    void *user;
};

struct page {
    struct receipts_call *call;
    struct skep_peer_id keeper;
    char *mark; /* name of the last row seen */
    int64_t after;
};

static void ask_page(struct page *page);

static void release(struct receipts_call *call)
{
    if (--call->pending == 0) {
        struct skep_error err = {0};
        call->done(call->user, 0, &err);
        free(call);
    }
}

static void page_end(struct page *page)
{
    struct receipts_call *call = page->call;
    free(page->mark);
    free(page);
    release(call);
}

static int keep_receipt(struct receipts_call *call, const struct skep_json *value,
                        struct skep_error *err)
{
    const struct skep_manifest *manifest = &call->session->manifest;
    struct skep_envelope envelope = {0};
    struct skep_receipt_facts facts = {0};
    int rc = skep_envelope_from_json(value, &envelope, err);
    if (rc != 0) {
        return rc;
    }
    rc = skep_receipt_check(manifest, &call->donor, &envelope, &facts, err);
    if (rc == 0) {
        char *text = skep_envelope_write(&envelope);
        rc = skep_donor_db_add_receipt(call->db, &manifest->project, &facts.shard, facts.version,
                                       facts.credit_micro, text, err);
        free(text);
    }
    skep_envelope_done(&envelope);
    return rc;
}

/* A receipt that does not check is said and passed over; the next rows may be good. */
static int take_page(struct page *page, const struct skep_json *root, size_t *ret_count,
                     struct skep_error *err)
{
    const struct skep_json *rows = NULL;
    int rc = skep_json_get_array(root, "receipts", "receipts", 500, &rows, err);
    size_t count = rc == 0 ? skep_json_array_size(rows) : 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const struct skep_json *item = skep_json_array_at(rows, i);
        const struct skep_json *seal = NULL;
        struct skep_error why = {0};
        int64_t row = 0;
        rc = skep_json_get_integer(item, "receipt", "row", page->after + 1, INT64_MAX, &row, err);
        if (rc == 0) {
            rc = skep_json_get_object(item, "receipt", "seal", &seal, err);
        }
        if (rc == 0) {
            int kept = keep_receipt(page->call, seal, &why);
            if (kept != 0) {
                skep_log(SKEP_LOG_WARNING, "a receipt from keeper %.8s: %s",
                         skep_id_text(page->keeper.bytes), why.text);
            }
            if (kept == SKEP_ERR_FULL || kept == SKEP_ERR_IO) {
                *err = why;
                rc = kept; /* it is asked for again when our disk takes it */
            } else {
                page->after = row;
            }
        }
    }
    *ret_count = count;
    return rc;
}

static void on_page(void *user, int result, const struct skep_http_answer *answer,
                    const struct skep_error *failure)
{
    struct page *page = user;
    struct skep_json *root = NULL;
    struct skep_error err = {0};
    size_t count = 0;
    int64_t before = page->after;
    int rc = skep_answer_json(result, answer, failure, "receipts", &root, &err);
    if (rc == 0) {
        rc = take_page(page, root, &count, &err);
    }
    if (rc == 0 && page->after != before) {
        rc = skep_donor_db_set_mark(page->call->db, page->mark, page->after, &err);
    }
    skep_json_free(root);
    if (rc == 0 && count == PAGE) {
        ask_page(page);
    } else {
        if (rc != 0) {
            skep_log(SKEP_LOG_DEBUG, "%s", err.text);
        }
        page_end(page);
    }
}

static void ask_page(struct page *page)
{
    struct skep_session *session = page->call->session;
    const struct skep_record *record = skep_peers_find_keeper(session->peers, &page->keeper);
    if (record == NULL) {
        page_end(page);
        return;
    }
    char *path = skep_format("/v1/projects/%s/receipts?donor=%s&after=%lld&most=%d",
                             skep_id_text(session->project.bytes),
                             skep_id_text(page->call->donor.bytes), (long long)page->after, PAGE);
    struct skep_http_request request = {.method = "GET",
                                        .host = record->host,
                                        .port = record->port,
                                        .path = path,
                                        .pin = &record->tls_pin,
                                        .timeout_ms = TIMEOUT_MS};
    session->transport.send(session->transport.user, &request, on_page, page);
    free(path);
}

void skep_receipts_fetch(struct skep_session *session, struct skep_donor_db *db,
                         const struct skep_peer_id *donor, skep_session_done done, void *user)
{
    struct receipts_call *call = skep_alloc(1, sizeof *call);
    *call = (struct receipts_call){
        .session = session, .db = db, .donor = *donor, .pending = 1, .done = done, .user = user};
    for (size_t i = 0; i < session->manifest.keeper_count; i++) {
        const struct skep_peer_id *keeper = &session->manifest.keepers[i];
        if (skep_peers_is_aside(session->peers, keeper)) {
            continue;
        }
        struct page *page = skep_alloc(1, sizeof *page);
        *page = (struct page){.call = call, .keeper = *keeper};
        page->mark = skep_format("receipts %.16s %.16s", skep_id_text(session->project.bytes),
                                 skep_id_text(keeper->bytes));
        (void)skep_donor_db_get_mark(db, page->mark, &page->after, NULL);
        call->pending++;
        ask_page(page);
    }
    release(call);
}
