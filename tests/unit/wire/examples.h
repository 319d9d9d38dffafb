/* One example of every statement, small and valid, for the tests of this folder. */
#ifndef SKEP_TESTS_WIRE_EXAMPLES_H
#define SKEP_TESTS_WIRE_EXAMPLES_H

#include "common/wire/chunks.h"
#include "common/wire/envelope.h"
#include "common/wire/manifest.h"
#include "common/wire/statements.h"

/* Freed with the types' own done functions. */
void example_manifest(struct skep_manifest *manifest);
void example_classifier(struct skep_manifest *manifest);
void example_record(struct skep_record *record);
void example_update(struct skep_update_statement *statement);
void example_caller(struct skep_caller_statement *statement);
void example_seal(struct skep_seal *seal);
void example_envelope(struct skep_envelope *envelope);
void example_message(enum skep_message_kind kind, struct skep_message *message);
void example_chunks(struct skep_chunks *chunks);

#endif
