/*
 * For test-schemas.py: without arguments prints an example of each statement, `<schema> <json>` a line; with `read` takes such lines
 * and answers each with `ok` or the sentence of refusal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/json.h"
#include "tests/unit/wire/examples.h"

static void print_take(const char *schema, char *take_text)
{
    printf("%s %s\n", schema, take_text);
    free(take_text);
}

static void print_examples(void)
{
    struct skep_manifest manifest;
    example_manifest(&manifest);
    print_take("manifest", skep_manifest_encode(&manifest));
    skep_manifest_done(&manifest);
    example_classifier(&manifest);
    print_take("manifest", skep_manifest_encode(&manifest));
    skep_manifest_done(&manifest);
    struct skep_record record;
    example_record(&record);
    print_take("record", skep_record_encode(&record));
    skep_record_done(&record);
    struct skep_update_statement update;
    example_update(&update);
    print_take("update", skep_update_statement_encode(&update));
    struct skep_caller_statement caller;
    example_caller(&caller);
    print_take("caller", skep_caller_statement_encode(&caller));
    struct skep_seal seal;
    example_seal(&seal);
    print_take("seal", skep_seal_encode(&seal));
    skep_seal_done(&seal);
    struct skep_envelope envelope;
    example_envelope(&envelope);
    print_take("envelope", skep_envelope_write(&envelope));
    skep_envelope_done(&envelope);
    for (int kind = SKEP_MESSAGE_PREPARE; kind <= SKEP_MESSAGE_SEALED; kind++) {
        struct skep_message message;
        example_message((enum skep_message_kind)kind, &message);
        print_take("message", skep_message_encode(&message));
        skep_message_done(&message);
    }
}

static int read_one(const char *schema, const char *text, size_t size, struct skep_error *err)
{
    int rc = SKEP_ERR_NOT_FOUND;
    if (strcmp(schema, "manifest") == 0) {
        struct skep_manifest manifest = {0};
        rc = skep_manifest_decode(text, size, &manifest, err);
        skep_manifest_done(&manifest);
    } else if (strcmp(schema, "record") == 0) {
        struct skep_record record = {0};
        rc = skep_record_decode(text, size, &record, err);
        skep_record_done(&record);
    } else if (strcmp(schema, "update") == 0) {
        struct skep_update_statement update;
        rc = skep_update_statement_decode(text, size, &update, err);
    } else if (strcmp(schema, "caller") == 0) {
        struct skep_caller_statement caller;
        rc = skep_caller_statement_decode(text, size, &caller, err);
    } else if (strcmp(schema, "seal") == 0) {
        struct skep_seal seal = {0};
        rc = skep_seal_decode(text, size, &seal, err);
        skep_seal_done(&seal);
    } else if (strcmp(schema, "envelope") == 0) {
        struct skep_envelope envelope = {0};
        rc = skep_envelope_parse(text, size, &envelope, err);
        skep_envelope_done(&envelope);
    } else if (strcmp(schema, "message") == 0) {
        struct skep_message message = {0};
        rc = skep_message_decode(text, size, &message, err);
        skep_message_done(&message);
    }
    return rc;
}

static void read_lines(void)
{
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t size = getline(&line, &capacity, stdin); size > 0;
         size = getline(&line, &capacity, stdin)) {
        char *space = strchr(line, ' ');
        if (space == NULL) {
            break;
        }
        *space = '\0';
        char *text = space + 1;
        struct skep_error err = {0};
        int rc = read_one(line, text, strcspn(text, "\n"), &err);
        puts(rc == SKEP_OK ? "ok" : err.text);
    }
    free(line);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "read") == 0) {
        read_lines();
    } else {
        print_examples();
    }
    return 0;
}
