/*
 * The payloads of all statements but the manifest, as plain structs and back. Each is JSON inside a DSSE envelope of its
 * type; schemas/<name>.schema.json describes it. Decoding refuses unknown fields and checks every range; it does not know
 * who signed (swarm/statement.h) nor whether the statement makes sense now (swarm/round.h, swarm/admission.h).
 */
#ifndef SKEP_WIRE_STATEMENTS_H
#define SKEP_WIRE_STATEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/envelope.h"

#define SKEP_TYPE_RECORD "application/vnd.skep.record+json"
#define SKEP_TYPE_UPDATE "application/vnd.skep.update+json"
#define SKEP_TYPE_SEAL "application/vnd.skep.seal+json"
#define SKEP_TYPE_MESSAGE "application/vnd.skep.message+json"
#define SKEP_TYPE_CALLER "application/vnd.skep.caller+json"

#define SKEP_HOST_TEXT_SIZE 64

/* A keeper's record: where it is, until when this may be believed, what it serves. */
struct skep_record {
    struct skep_peer_id keeper;
    char host[SKEP_HOST_TEXT_SIZE]; /* numeric IPv4 or IPv6 address */
    uint16_t port;                  /* HTTPS */
    struct skep_hash tls_pin;       /* SHA-256 of the certificate's public key */
    uint64_t sequence;              /* the newest record of a keeper wins */
    int64_t expires_s;              /* Unix time */
    bool leaving;                   /* it says goodbye */
    size_t project_count;           /* at most SKEP_LIMIT_PROJECTS */
    struct skep_project_id *projects;
};

/* Encoding takes values that are in range (integers below 2^53, finite reals): the caller has checked its own numbers. Texts are
 * freed by the caller; ret_ structs are untouched on failure. */
void skep_record_done(struct skep_record *record);
char *skep_record_encode(const struct skep_record *record);
int skep_record_decode(const void *payload, size_t size, struct skep_record *ret_record,
                       struct skep_error *err);

/* What a donor signs about the update body that follows it in an update file (wire/update.h). */
struct skep_update_statement {
    struct skep_project_id project;
    struct skep_shard shard;
    uint64_t base_version;
    struct skep_hash base_state; /* root hash of the state it started from */
    struct skep_peer_id donor;
    /* The version of the trunk that the job started from: ticket = skep_ticket_of(beacon of that version, donor, trunk_version). */
    uint64_t trunk_version;
    struct skep_hash ticket;
    /* Not a job but the sum of remote calls (server/experts.h), which nobody can repeat: then trunk_version is base_version, and the
     * ticket is made of the beacon of the shard's own base version (swarm/admission.h). */
    bool remote;
    uint64_t stamp;        /* the nonce of the donor's stamp for this project (swarm/stamp.h) */
    struct skep_hash body; /* SHA-256 of the body bytes */
    /* The donor's history of the shard before and after the job (swarm/history.h). */
    struct skep_hash before;
    struct skep_hash after;
    uint64_t tokens; /* trained on in this job: skep_job_tokens() (swarm/admission.h) */
    double
        loss_first; /* mean training loss of the first and last quarter of the steps, nats per token */
    double loss_last;
    /* In the trunk's update: the other shards of the job, in its order. A donor's routing is not repeated but declared. Encoding takes
     * `parts` (borrowed), decoding gives only the count: skep_update_parts_decode() has them. */
    size_t part_count;
    const struct skep_update_part *parts;
};

/* A shard that a job used besides the trunk: which version of it, and the donor's history of it before the job. */
struct skep_update_part {
    struct skep_shard shard;
    uint64_t base_version;
    struct skep_hash before;
};

char *skep_update_statement_encode(const struct skep_update_statement *statement);
int skep_update_statement_decode(const void *payload, size_t size,
                                 struct skep_update_statement *ret_statement,
                                 struct skep_error *err);
/* The parts of a payload that skep_update_statement_decode() has taken; the caller frees (NULL if there are none). */
int skep_update_parts_decode(const void *payload, size_t size, struct skep_update_part **ret_parts,
                             size_t *ret_count, struct skep_error *err);

/* What a donor signs to open a session with a keeper, for calls that leave something there (the remote mode's backward passes). It
 * is worth something to this keeper only, for some minutes, once: `nonce` is random. */
struct skep_caller_statement {
    struct skep_project_id project;
    struct skep_peer_id keeper;
    struct skep_peer_id caller;
    int64_t time_s; /* Unix time of signing */
    struct skep_hash nonce;
};

char *skep_caller_statement_encode(const struct skep_caller_statement *statement);
int skep_caller_statement_decode(const void *payload, size_t size,
                                 struct skep_caller_statement *ret_statement,
                                 struct skep_error *err);

/*
 * One update of a round inside its seal: the receipt. Not all of a round's updates are merged: donors whose updates have pulled against
 * the others' for rounds are left out, near-copies count once, and updates of zeros not at all (merge/merge.h). They stay in the list, without credit, so that
 * their donors go on being measured and whoever reads the seals can tell who is left out next.
 */
struct skep_receipt {
    struct skep_hash update; /* SHA-256 of the whole update file */
    struct skep_peer_id donor;
    uint64_t base_version;
    uint64_t credit_micro; /* millionths of a credit; 0 unless merged */
    bool audited;          /* recomputed and found right before this seal */
    bool merged;
    bool
        copy; /* why it was not merged: a near-copy of another; else its donor's standing, or zeros */
    int64_t agreement_permille; /* with the others that were merged: a cosine, -1000 .. 1000 */
};

enum skep_verdict {
    SKEP_VERDICT_VALID,
    SKEP_VERDICT_INVALID,
};

/* What the replica set found when it recomputed an update: one of an earlier seal, or one that it therefore did not merge. INVALID bans
 * the donor (swarm/reputation.h). */
struct skep_finding {
    struct skep_hash update; /* SHA-256 of the whole update file */
    struct skep_peer_id donor;
    uint64_t base_version;
    enum skep_verdict verdict;
};

/* Version v of a shard: what its replica set signs. Hash chain through `previous`. */
struct skep_seal {
    struct skep_project_id project;
    struct skep_shard shard;
    uint64_t version; /* 1 and up; version 0 follows from the manifest */
    uint32_t attempt; /* ballot of the agreement in which it was voted */
    struct skep_hash
        previous; /* skep_seal_hash() of the previous seal (swarm/statement.h); SHA-256 of the manifest's payload for version 1 */
    struct skep_hash state; /* root hash of the state after the merge (wire/chunks.h) */
    /* The round's median norm in units of 2^-32, at most SKEP_NORM_MOST; 0: unknown. */
    uint64_t norm;
    size_t receipt_count; /* all updates of the round, sorted by update hash */
    struct skep_receipt *receipts;
    size_t finding_count; /* at most SKEP_LIMIT_FINDINGS, sorted by update hash */
    struct skep_finding *findings;
};

#define SKEP_NORM_MOST (((uint64_t)1 << 53) - 1) /* larger norms are written as this */

void skep_seal_done(struct skep_seal *seal);
void skep_seal_copy(const struct skep_seal *seal, struct skep_seal *ret_copy);
char *skep_seal_encode(const struct skep_seal *seal);
int skep_seal_decode(const void *payload, size_t size, struct skep_seal *ret_seal,
                     struct skep_error *err);

/*
 * Messages of the agreement on one version (swarm/round.h): single-decree Paxos in ballots called attempts.
 *
 *   prepare   "I would lead attempt a"                        no body
 *   promise   "I vote in no attempt below a"; tells the last vote given, if any   (vote_attempt + vote_seal)
 *   propose   the seal payload to vote for in attempt a       (seal)
 *   vote      signature over that seal payload as SKEP_TYPE_SEAL              (signature; seal_hash)
 *   sealed    "this version is sealed": the seal's envelope   (sealed)
 */
enum skep_message_kind {
    SKEP_MESSAGE_PREPARE,
    SKEP_MESSAGE_PROMISE,
    SKEP_MESSAGE_PROPOSE,
    SKEP_MESSAGE_VOTE,
    SKEP_MESSAGE_SEALED,
};

struct skep_message {
    enum skep_message_kind kind;
    struct skep_project_id project;
    struct skep_shard shard;
    uint64_t version; /* being agreed on */
    uint32_t attempt;
    struct skep_peer_id from;
    bool has_vote; /* promise: vote_attempt and seal_payload hold the last vote */
    uint32_t vote_attempt;
    struct skep_buffer
        seal_payload;            /* promise (if has_vote) and propose: exact bytes of the seal */
    struct skep_hash seal_hash;  /* vote: SHA-256 of the seal payload */
    uint8_t signature[64];       /* vote: over PAE(SKEP_TYPE_SEAL, seal payload) */
    struct skep_envelope sealed; /* sealed */
};

void skep_message_done(struct skep_message *message);
char *skep_message_encode(const struct skep_message *message);
int skep_message_decode(const void *payload, size_t size, struct skep_message *ret_message,
                        struct skep_error *err);

#endif
