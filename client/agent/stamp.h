/*
 * The donor's stamp for a project (swarm/stamp.h): found once, kept in the project's folder (file "stamp": the nonce in decimal), checked
 * when it is read back.
 *
 *   open -> [kept and good] -> found
 *        -> searching: a try at a time on a helper thread of the loop (sys/loop.h), so that the loop goes on -> found, kept
 *             ^  v memory is wanting (a try takes 16 MiB): said once
 *             a minute
 */
#ifndef SKEP_CLIENT_AGENT_STAMP_H
#define SKEP_CLIENT_AGENT_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/swarm/stamp.h"
#include "common/sys/loop.h"

/* Reads DIR/stamp; search->found if it is there and good. `search` has been begun. */
void skep_stamp_load(const char *folder, struct skep_stamp_search *search);
/* Writes what was found; a failure is logged, for it can be found again. */
void skep_stamp_save(const char *folder, const struct skep_stamp_search *search);

struct skep_stamper;

/* Loads the stamp or begins to search. `found` is called on the loop when a search ends, not if it was kept. */
struct skep_stamper *skep_stamper_open(struct skep_loop *loop, const char *folder,
                                       const struct skep_stamp_search *begun,
                                       skep_loop_callback found, void *user);
/* Goes on with a search that waits for memory; a timer does this (`user` is the stamper), and tests that have no minute. */
void skep_stamper_retry(void *user);
/* The search ends after the try under way. */
void skep_stamper_close(struct skep_stamper *stamper);
/* False while it is searched for. */
bool skep_stamper_found(const struct skep_stamper *stamper, uint64_t *ret_nonce);

#endif
