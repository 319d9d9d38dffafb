/*
 * Key stamps: what a donor's key costs before its first update is looked at. Keys are free, so a thousand donors would be; a stamp
 * makes each of them pay memory and time, once per project.
 *
 *   scrypt(password = "skep-stamp" || project || donor, salt = nonce as 8 bytes, little-endian)    (crypto/scrypt.h: 16 MiB)
 *
 * must begin with `bits` zero bits (the manifest's trust.stamp_bits). The nonce is searched from a start that the key gives, so two
 * donors do not try the same numbers, and is below 2^53 so that JSON holds it. Finding takes 2^bits tries on average, with an
 * exponential tail: at 4 bits some 16 x 50 ms. Checking takes one try.
 *
 * The search is a plain value that is driven a try at a time, so that nobody needs to wait for it.
 */
#ifndef SKEP_SWARM_STAMP_H
#define SKEP_SWARM_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

/* Whose stamp, for which project. */
struct skep_stamp_search {
    struct skep_project_id project;
    struct skep_peer_id donor;
    uint32_t bits;
    uint64_t nonce; /* tried next; the one found */
    uint64_t tries; /* so far */
    bool found;
};

void skep_stamp_begin(struct skep_stamp_search *search, const struct skep_project_id *project,
                      const struct skep_peer_id *donor, uint32_t bits);
/* One try (none with 0 bits: any nonce is good then, and 0 is found). SKEP_ERR_MEMORY as scrypt. */
int skep_stamp_try(struct skep_stamp_search *search, struct skep_error *err);
/* Tries until it is found, or stopped() (may be NULL) says true before a try: SKEP_ERR_CANCELLED. */
int skep_stamp_find(struct skep_stamp_search *search, bool (*stopped)(void *user), void *user,
                    struct skep_error *err);
/* SKEP_ERR_REFUSED (reason "stamp") if the nonce is no stamp. */
int skep_stamp_check(const struct skep_project_id *project, const struct skep_peer_id *donor,
                     uint32_t bits, uint64_t nonce, struct skep_error *err);

/*
 * Which donors of which projects have shown a good stamp, in memory: a check costs a keeper as much as a try costs the donor, so each
 * donor is checked once, and a flood of bad stamps may not take all of the keeper's time. Bounds, for all projects together:
 * SKEP_STAMPS_KNOWN donors are remembered (the one seen longest ago is forgotten and would be checked again); one check in
 * SKEP_STAMP_GAP_MS on average and SKEP_STAMP_BURST at once, so a fifth of one core at worst. An unknown donor above that is told to
 * try again; known donors do not notice, nor do those that the newest seals name when a keeper has been started again.
 */
#define SKEP_STAMPS_KNOWN 8192u
#define SKEP_STAMP_GAP_MS 250u
#define SKEP_STAMP_BURST 8u

struct skep_stamps;

/* `seed`: a random number (swarm/donors.h). */
struct skep_stamps *skep_stamps_new(uint64_t seed);
void skep_stamps_free(struct skep_stamps *stamps);
/* Has this donor a good stamp for this project? Checked only if it is not known. SKEP_ERR_REFUSED (reason "stamp"), or SKEP_ERR_STATE
 * (reason "busy") when too many were checked lately; `now_ms` UINT64_MAX: never that. */
int skep_stamps_admit(struct skep_stamps *stamps, const struct skep_manifest *manifest,
                      const struct skep_update_statement *statement, uint64_t now_ms,
                      struct skep_error *err);
/* This donor is known from elsewhere: a seal has a receipt of it, so keepers that outvote the others have seen its stamp. */
void skep_stamps_know(struct skep_stamps *stamps, const struct skep_manifest *manifest,
                      const struct skep_peer_id *donor);

#endif
