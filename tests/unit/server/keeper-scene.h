/*
 * A keeper for the tests of what comes into it: real but for network and agreement, with its database, files and shards. And drafts of
 * good updates, to be spoiled, sealed and handed in.
 */
#ifndef TESTS_UNIT_SERVER_KEEPER_SCENE_H
#define TESTS_UNIT_SERVER_KEEPER_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/id.h"
#include "common/crypto/key.h"
#include "common/store/keeper-audits.h"
#include "common/wire/statements.h"
#include "server/host.h"
#include "server/project.h"

#define HEAD 15u       /* the newest version of every shard here */
#define HARD_BITS 30u  /* nobody has such a stamp */
#define EXPERT_HERE 1u /* places in the manifest's order */
#define EXPERT_THERE 2u

struct scene {
    char folder[64];
    struct skep_host host;
    struct skep_project *project;
    struct skep_peer_id keeper;
    uint8_t next_donor;
};

/* An update that is being made. */
struct draft {
    struct skep_key *key;
    struct skep_update_statement statement;
    struct skep_buffer body;
    struct skep_buffer file;
};

/* Setup and teardown for cmocka: the trunk and the first expert are kept. */
int keeper_scene_open(void **state);
int keeper_scene_close(void **state);

struct skep_kept_shard *scene_trunk(const struct scene *scene);

/* As if versions 13 to 15 had been sealed before the keeper started, each with the state of version 0. */
void scene_pretend_versions(struct skep_kept_shard *shard);

/* A good update of the shard at place `index`, from its newest version, by a donor who has sent nothing yet. */
void draft_begin(struct scene *scene, struct draft *draft, size_t index);
void draft_sign_ticket(struct draft *draft, const struct skep_kept_shard *shard, uint64_t version);
void draft_seal(struct draft *draft);
void draft_done(struct draft *draft);

/* What is taken must be new. */
int scene_hand_in(struct scene *scene, const struct draft *draft, struct skep_error *err);

/* Updates that wait, of all shards here. */
size_t scene_waiting(struct scene *scene);

/* A keeper that audits, as one that has all shards. Ends with skep_audit_close(). */
void scene_open_audits(struct scene *scene);

/* A flat file of so many arrays of zeros, appended; what it ends with. */
struct skep_hash scene_add_flat(struct skep_buffer *bytes, uint8_t arrays, size_t count);

/* A history of zeros, for the shard at place `index`. */
struct skep_hash scene_make_history(const struct scene *scene, size_t index,
                                    struct skep_buffer *ret_bytes);

/* Hands in an update that says it began with this history; its hash. */
struct skep_hash scene_hand_in_with(struct scene *scene, size_t index,
                                    const struct skep_hash *before);

enum skep_audit_verdict scene_verdict(const struct scene *scene, const struct skep_hash *update);

/* Reputations in which the donor of the draft has this n, and was seen in the newest version. */
void scene_trust(struct scene *scene, const struct draft *draft, uint64_t n);

#endif
