/* Agreement messages waiting to leave: those for one keeper and project go in one POST after SKEP_OUTBOX_MS. Lost messages are
 * the machines' business: they send again. */
#ifndef SKEP_SERVER_OUTBOX_H
#define SKEP_SERVER_OUTBOX_H

#include "common/base/id.h"

struct skep_host;
struct skep_outbox;
struct skep_project;

struct skep_outbox *skep_outbox_new(struct skep_host *host);
void skep_outbox_free(struct skep_outbox *outbox);
/* `envelope` is a signed message as JSON text; copied. */
void skep_outbox_push(struct skep_outbox *outbox, const struct skep_project *project,
                      const struct skep_peer_id *keeper, const char *envelope);

#endif
