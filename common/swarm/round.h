/*
 * The agreement on one shard's next version, as seen by one keeper of its replica set: a pure state machine. It never merges,
 * stores or sends; it says what to do (actions) and is told what happened (events). One machine per shard; the host drives it.
 *
 *            first update           enough updates or window over          majority of votes
 *   WAITING --------------> OPEN ------------------------------> AGREEING ------------------> SEALED -> WAITING (version + 1)
 *                                 leader: merge, vote, propose         \__ attempt timeout: next leader prepares attempt + 1
 *
 * It is single-decree Paxos (Lamport, The Part-Time Parliament, 1998) per version: attempt numbers are ballots, each owned by one keeper
 * (replicas.h). Attempt 0 needs no prepare. Any keeper votes at most once per attempt, only in attempts it has promised nothing above, only
 * for a seal that says of its list exactly what its own merge found (struct skep_round_outcome), and writes promise or vote to disk before
 * it is sent. A leader of attempt > 0 collects promises of so many that no majority is without one of them (count - quorum + 1: Howard et
 * al., Flexible Paxos, 2016) and must propose again the list voted for in the highest attempt among them. A promise that tells of a vote
 * that we could not give is set aside, as if it were lost: one keeper's bad vote does not bind the others. So two different versions v+1
 * cannot both be sealed while keepers crash, restart, and lose or delay messages. One list may be sealed in two attempts, which is why the
 * hash chain leaves the attempt out (skep_seal_hash()). Keepers that lie are for the Byzantine agreement that will replace this machine.
 * Statements and the hash chain stay.
 *
 * When to close: window_ms after the first update; the trunk as soon as every donor that the last versions merged has sent one (at
 * least two at version 0, at least least_updates); an expert as soon as the host hurries it, which it does when the trunk closes,
 * for donors publish the trunk last. Attempt 0 begins when the list closes, or when another keeper's message draws us in;
 * attempt a lasts SKEP_ROUND_ATTEMPT_MS, times min(a + 1, 8) once its leader was heard, and twice what merges took of late: slow
 * merges find room and silent leaders are soon passed over. A message of a later attempt pulls everyone into it, so keepers whose
 * timers differ meet. If nothing is left to agree on, we wait again.
 *
 * If an action cannot be carried out (a full disk), none after it may be: free the machine and later make a new one from what the
 * disk holds, as after a crash. Both are the same to the others.
 *
 * A list holds at most one update per donor (the newest base version, then the smallest hash), none that one of the last versions'
 * lists held already, at most most_updates (smallest staleness, then smallest hash), sorted by hash. Not all of a list need be merged: the
 * seal names them all and says of each what became of it.
 *
 * Verdicts. The trunk's seals also say what was found when jobs were repeated (swarm/reputation.h reads it there and nowhere else): `audited`
 * of a list's update, and findings on other updates. A verdict is no consequence of head and list: each keeper audits for itself, and
 * some later than others. So
 *   - a leader claims only what it found itself, SKEP_ROUND_VERDICT_MS ago or longer (at once where it is alone), and only in attempt 0;
 *   - a keeper votes only for claims that all equal its own verdicts. One that it lacks makes it wait until it has it, or for the next attempt, which
 *     claims nothing: verdicts cost a version at most the time of one attempt, and a single liar's claims are never sealed;
 *   - a leader whose claims were not sealed makes a pause of 1, 3, 7, ... up to 63 versions, and then claims fewer of them, those first
 *     that failed less often, so that one that nobody shares does not keep the others out;
 *   - what is sealed is forgotten, so nobody votes for it again: a verdict is in one seal only. (After a restart the host tells those that
 *     no seal holds.) Valid ones are given up SKEP_ROUND_VERDICT_VERSIONS after their base; invalid ones wait for as long as it takes;
 *   - an update that was found invalid here is not in the lists that we propose, and as a leader we set promises aside that tell of a vote for it;
 *     for another's list with it we vote if the host gives it to us: it holds it back for as long as it dares to let a version wait;
 *   - a sealed INVALID ends its donor's waiting updates at every keeper, whatever it found itself.
 * Where fewer than a majority of the set audit (they lack shards, manifest.trust.audits is off), no verdict is ever sealed. Where a bare majority
 * does and one of it is lost for good between its vote for a claim and the seal, the version waits for its return, or for the verdicts of the rest.
 */
#ifndef SKEP_SWARM_ROUND_H
#define SKEP_SWARM_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/crypto/key.h"
#include "common/swarm/replicas.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

#define SKEP_ROUND_ATTEMPT_MS 1500
#define SKEP_ROUND_RESEND_MS 700ul
/* A verdict is proposed once we have had it for so long: the others audit the same, and need not be done in the same moment. */
#define SKEP_ROUND_VERDICT_MS 10000ul
/* A valid finding stands in a version at most so far above the update's base. */
#define SKEP_ROUND_VERDICT_VERSIONS 64u
#define SKEP_ROUND_VERDICTS 4096u /* remembered until they are sealed */

struct skep_round;

/* An update this keeper has stored and admitted. */
struct skep_round_update {
    struct skep_hash hash;
    struct skep_peer_id donor;
    uint64_t base_version;
};

/* What became of one update of a list. */
struct skep_round_fate {
    bool merged;
    bool
        copy; /* why not: a near-copy of another; else its donor's standing, or zeros (merge/merge.h) */
    int32_t agreement_permille; /* -1000 .. 1000 */
};

/*
 * What merging a list onto the head gave: all that the seal says besides the list. It must follow from head, list and manifest alone, for
 * a keeper votes only for a seal that says exactly this, and besides it only verdicts that it knows (above).
 */
struct skep_round_outcome {
    struct skep_hash root;
    uint64_t norm; /* the round's median, in units of 2^-32; 0: unknown */
    struct skep_round_fate updates[SKEP_LIMIT_UPDATES_PER_ROUND]; /* in the list's order */
};

/* What survives a restart; the host stores it when an action says so. */
struct skep_round_memory {
    uint64_t version; /* newest sealed */
    struct skep_hash
        head;          /* skep_seal_hash() of its seal; SHA-256 of the manifest's payload for 0 */
    uint32_t promised; /* for version + 1: lowest attempt still open to a vote */
    bool has_vote;
    uint32_t vote_attempt;
    struct skep_buffer vote_payload; /* seal payload voted for */
};

enum skep_round_action_kind {
    SKEP_ROUND_MERGE, /* merge `list` onto the head; answer with skep_round_merged() */
    SKEP_ROUND_FETCH, /* get update `hash` from keeper `peer`; answer with skep_round_add() once it is admitted. Asked again, in turn
                         of different peers, until then */
    SKEP_ROUND_PERSIST, /* write `memory` to disk before doing any later action */
    SKEP_ROUND_SEND, /* send `message` (unsigned; the host signs) to `peer`, or to all others of the set if to_all */
    SKEP_ROUND_COMMIT, /* version sealed: store `envelope` under `hash` (its skep_seal_hash()), and as its state the merge of `list`;
                          then skep_round_sealed() */
    SKEP_ROUND_CATCH_UP, /* `peer` has a newer version than ours: fetch seals and state, then skep_round_sealed(). Asked again
                            every SKEP_ROUND_RESEND_MS while it is needed: one at a time is enough */
    SKEP_ROUND_ANSWER_SEALED, /* `peer` asks about `version`, which we know sealed: send it the seal */
};

struct skep_round_action {
    enum skep_round_action_kind kind;
    size_t list_count; /* MERGE, COMMIT */
    struct skep_round_update *list;
    struct skep_hash hash;
    struct skep_peer_id peer;
    bool to_all;
    uint64_t version;
    struct skep_message message;
    struct skep_envelope envelope;
    struct skep_round_memory memory;
};

/* The machine for `shard` at keeper `key` (borrowed, as the manifest: both must outlive it). `memory` is copied. `recent` are the
 * updates in the lists of the last SKEP_LIMIT_STALENESS + 1 versions. */
struct skep_round *skep_round_new(const struct skep_manifest *manifest,
                                  const struct skep_shard *shard, const struct skep_key *key,
                                  const struct skep_round_memory *memory,
                                  const struct skep_round_update *recent, size_t recent_count);
void skep_round_free(struct skep_round *round);

/* Events. Each may queue actions; take them with skep_round_take(). */
void skep_round_add(struct skep_round *round, const struct skep_round_update *update,
                    uint64_t now_ms);
/* The merge of `list` onto version `base` gave this (or failed: NULL, and the list is not proposed again). */
void skep_round_merged(struct skep_round *round, uint64_t base,
                       const struct skep_round_update *list, size_t list_count,
                       const struct skep_round_outcome *outcome, uint64_t now_ms);
/* A message whose signature was checked; senders outside the replica set are ignored. */
void skep_round_receive(struct skep_round *round, const struct skep_message *message,
                        uint64_t now_ms);
/* The host has stored this seal and its state as the new head (by COMMIT or CATCH_UP). After a CATCH_UP over several versions call it for
 * each seal, oldest first, so that `recent` stays whole; `payload_hash` is its skep_seal_hash(), as skep_seal_open() gives it; it never
 * starts anything itself but asks for a tick (deadline 0). */
void skep_round_sealed(struct skep_round *round, const struct skep_seal *seal,
                       const struct skep_hash *payload_hash, uint64_t now_ms);
void skep_round_tick(struct skep_round *round, uint64_t now_ms);
/* What came of repeating the job of this update of the trunk, if no seal of ours says it yet. */
void skep_round_verdict(struct skep_round *round, const struct skep_round_update *update,
                        bool valid, uint64_t now_ms);
/* The donor was banned by a seal (of the trunk, if this is another shard): what waits of it is not proposed any more. */
void skep_round_ban(struct skep_round *round, const struct skep_peer_id *donor);
/* Nothing more is worth waiting for: if updates wait, the window ends now. */
void skep_round_hurry(struct skep_round *round, uint64_t now_ms);
/* The window is over and the next version is being agreed on or stored. */
bool skep_round_closing(const struct skep_round *round);

/* When tick should be called next; 0 for at once, UINT64_MAX for never. To be asked after every event. */
uint64_t skep_round_deadline(const struct skep_round *round);
/* The next action, or false. The caller frees it with skep_round_action_done(). Actions are carried out in order. */
bool skep_round_take(struct skep_round *round, struct skep_round_action *ret_action);
void skep_round_action_done(struct skep_round_action *action);

uint64_t skep_round_version(const struct skep_round *round);
size_t skep_round_waiting(const struct skep_round *round);
/* How many lists gave something else here than their proposer said: a fault of one of the two, worth a line in the log. */
size_t skep_round_disagreements(const struct skep_round *round);

#endif
