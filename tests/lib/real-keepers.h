/*
 * Real skep-keeper processes of the build tree on loopback, and a project of any shape on them, for benchmarks and tests in C. Whatever
 * fails says so on stderr and ends the program.
 */
#ifndef SKEP_TESTS_LIB_REAL_KEEPERS_H
#define SKEP_TESTS_LIB_REAL_KEEPERS_H

#include <stddef.h>

#include "common/crypto/key.h"
#include "common/sys/http-client.h"
#include "common/sys/loop.h"
#include "common/sys/process.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

#define REAL_KEEPERS_MOST 4u

struct real_keepers {
    struct skep_loop *loop;
    struct skep_http_client *http;
    char *dir;
    size_t count;
    struct skep_process *processes[REAL_KEEPERS_MOST];
    struct skep_record records[REAL_KEEPERS_MOST];
    struct skep_key *admin;
    struct skep_manifest manifest; /* after real_keepers_publish() */
    bool ready;
    size_t ended;
};

/* `options` are given to each keeper, NULL-terminated, at most 8; NULL: none. */
void real_keepers_start(struct real_keepers *keepers, size_t count, const char *const *options);
/* A project with this model on all keepers: `manifest` has the model and whatever else differs from the defaults (skep_manifest_defaults()); the
 * rest is filled in, and its data are one chunk that nobody has. */
void real_keepers_publish(struct real_keepers *keepers, const struct skep_manifest *manifest);
/* Ends one at once, as a crash does. */
void real_keepers_kill(struct real_keepers *keepers, size_t i);
/* Ends all, which must end well, and removes their files. */
void real_keepers_stop(struct real_keepers *keepers);

/* One request to keeper i; the answer's status, or 0 if there is none. *ret_answer is freed by the caller. */
int real_keepers_ask(struct real_keepers *keepers, size_t i, const char *method, const char *path,
                     const char *body, struct skep_http_answer *ret_answer);

#endif
