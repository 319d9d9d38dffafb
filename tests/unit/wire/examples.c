#include "tests/unit/wire/examples.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"

static void fill(void *to, int byte)
{
    memset(to, byte, SKEP_ID_SIZE);
}

static void fill_data(struct skep_data_set *data, uint64_t size_bytes, size_t chunk_count)
{
    data->size_bytes = size_bytes;
    data->chunk_count = chunk_count;
    data->chunks = skep_alloc(chunk_count, sizeof *data->chunks);
    for (size_t i = 0; i < chunk_count; i++) {
        fill(&data->chunks[i], (int)(0x40 + i));
    }
}

static void fill_manifest(struct skep_manifest *manifest, enum skep_model_kind kind)
{
    *manifest = (struct skep_manifest){.model.kind = kind};
    skep_manifest_defaults(manifest);
    manifest->created_s = 1700000000;
    fill(&manifest->project, 0x11);
    fill(&manifest->seed, 0x22);
    manifest->keeper_count = 2;
    manifest->keepers = skep_alloc(2, sizeof *manifest->keepers);
    fill(&manifest->keepers[0], 0x31);
    fill(&manifest->keepers[1], 0x32);
}

void example_manifest(struct skep_manifest *manifest)
{
    fill_manifest(manifest, SKEP_MODEL_LM);
    manifest->name = skep_strdup("King James");
    fill_data(&manifest->train, 2 * 65536 + 5, 3);
    fill_data(&manifest->heldout, 100, 1);
}

void example_classifier(struct skep_manifest *manifest)
{
    fill_manifest(manifest, SKEP_MODEL_CLASSIFIER);
    manifest->name = skep_strdup("digits");
    manifest->model.expert = SKEP_EXPERT_PAPER_FFN;
    fill_data(&manifest->train, 100ul * 785, 2);
    fill_data(&manifest->heldout, 10ul * 785, 1);
}

void example_record(struct skep_record *record)
{
    *record = (struct skep_record){
        .host = "127.0.0.2", .port = 4433, .sequence = 7, .expires_s = 1700000060};
    fill(&record->keeper, 0x31);
    fill(&record->tls_pin, 0x51);
    record->project_count = 1;
    record->projects = skep_alloc(1, sizeof *record->projects);
    fill(&record->projects[0], 0x11);
}

void example_update(struct skep_update_statement *statement)
{
    *statement = (struct skep_update_statement){
        .shard = {SKEP_SHARD_FFN, 1, 0, 3},
        .base_version = 4,
        .trunk_version = 6,
        .remote = true,
        .stamp = 123456789,
        .tokens = 20480,
        .loss_first = 2.25,
        .loss_last = 1.0 / 3,
    };
    fill(&statement->project, 0x11);
    fill(&statement->base_state, 0x61);
    fill(&statement->donor, 0x71);
    fill(&statement->ticket, 0x62);
    fill(&statement->body, 0x63);
    fill(&statement->before, 0x68);
    fill(&statement->after, 0x69);
}

void example_caller(struct skep_caller_statement *statement)
{
    *statement = (struct skep_caller_statement){.time_s = 1700000000};
    fill(&statement->project, 0x11);
    fill(&statement->keeper, 0x31);
    fill(&statement->caller, 0x71);
    fill(&statement->nonce, 0x72);
}

void example_seal(struct skep_seal *seal)
{
    *seal = (struct skep_seal){
        .version = 5, .attempt = 2, .norm = 987654321, .receipt_count = 2, .finding_count = 2};
    fill(&seal->project, 0x11);
    fill(&seal->previous, 0x64);
    fill(&seal->state, 0x65);
    seal->receipts = skep_alloc(2, sizeof *seal->receipts);
    for (int i = 0; i < 2; i++) {
        fill(&seal->receipts[i].update, 0x66 + i);
        fill(&seal->receipts[i].donor, 0x71 + i);
        seal->receipts[i].base_version = 3 + (uint64_t)i;
        seal->receipts[i].credit_micro = i == 1 ? 1234567 : 0;
        seal->receipts[i].audited = i == 1;
        seal->receipts[i].merged = i == 1;
        seal->receipts[i].copy = i == 0;
        seal->receipts[i].agreement_permille = i == 1 ? 250 : -17;
    }
    seal->findings = skep_alloc(2, sizeof *seal->findings);
    for (int i = 0; i < 2; i++) {
        fill(&seal->findings[i].update, 0x56 + i);
        fill(&seal->findings[i].donor, 0x73 + i);
        seal->findings[i].base_version = 2 + (uint64_t)i;
        seal->findings[i].verdict = i == 0 ? SKEP_VERDICT_VALID : SKEP_VERDICT_INVALID;
    }
}

void example_envelope(struct skep_envelope *envelope)
{
    struct skep_seal seal;
    example_seal(&seal);
    char *payload = skep_seal_encode(&seal);
    skep_envelope_init(envelope, SKEP_TYPE_SEAL, payload, strlen(payload));
    for (int i = 0; i < 2; i++) {
        struct skep_peer_id signer;
        fill(&signer, 0x31 + i);
        uint8_t signature[64];
        memset(signature, 0x80 + i, sizeof signature);
        skep_envelope_add(envelope, &signer, signature);
    }
    free(payload);
    skep_seal_done(&seal);
}

void example_message(enum skep_message_kind kind, struct skep_message *message)
{
    *message = (struct skep_message){.kind = kind, .version = 5, .attempt = 3};
    fill(&message->project, 0x11);
    fill(&message->from, 0x31);
    if (kind == SKEP_MESSAGE_PROMISE || kind == SKEP_MESSAGE_PROPOSE) {
        struct skep_seal seal;
        example_seal(&seal);
        char *payload = skep_seal_encode(&seal);
        skep_buffer_append_text(&message->seal_payload, payload);
        free(payload);
        skep_seal_done(&seal);
    }
    if (kind == SKEP_MESSAGE_PROMISE) {
        message->has_vote = true;
        message->vote_attempt = 2;
    }
    if (kind == SKEP_MESSAGE_VOTE) {
        fill(&message->seal_hash, 0x67);
        memset(message->signature, 0x81, sizeof message->signature);
    }
    if (kind == SKEP_MESSAGE_SEALED) {
        example_envelope(&message->sealed);
    }
}

void example_chunks(struct skep_chunks *chunks)
{
    *chunks = (struct skep_chunks){.size_bytes = 10, .chunk_bytes = 4, .count = 3};
    chunks->hashes = skep_alloc(3, sizeof *chunks->hashes);
    for (int i = 0; i < 3; i++) {
        fill(&chunks->hashes[i], 0x41 + i);
    }
}
