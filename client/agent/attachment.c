#include "client/agent/attachment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/discovery/directory.h"
#include "common/sys/file.h"
#include "common/wire/json.h"

void skep_attachment_load(const char *dir, struct skep_attachment *ret_attachment)
{
    char *path = skep_format("%s/attached.json", dir);
    struct skep_buffer text = {0};
    struct skep_json *root = NULL;
    struct skep_attachment kept = {0};
    const char *bootstrap = NULL;
    if (skep_file_exists(path) && skep_file_read(path, 65536, &text, NULL) == 0 &&
        skep_json_parse(text.data, text.size, "attached.json", &root, NULL) == 0) {
        kept.attached = skep_json_get_hex(root, "attached.json", "project", kept.project.bytes,
                                          SKEP_ID_SIZE, NULL) == 0;
        (void)skep_json_get_bool(root, "attached.json", "paused", &kept.paused, NULL);
        if (skep_json_get_text(root, "attached.json", "bootstrap", &bootstrap, NULL) == 0) {
            kept.bootstrap = skep_strdup(bootstrap);
        }
    }
    skep_json_free(root);
    skep_buffer_done(&text);
    free(path);
    *ret_attachment = kept;
}

char *skep_attachment_folder(const char *dir, const struct skep_project_id *project)
{
    return skep_format("%s/project-%.8s", dir, skep_id_text(project->bytes));
}

int skep_attachment_check(const char *project, const char *bootstrap, struct skep_error *err)
{
    struct skep_project_id id;
    if (!skep_hex_decode(project, id.bytes, sizeof id.bytes)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "project \"%.80s\" is not 64 lower-case hexadecimal digits", project);
    }
    char *copy = skep_strdup(bootstrap != NULL ? bootstrap : "");
    char *rest = NULL;
    int rc = 0;
    for (char *word = strtok_r(copy, ", ", &rest); word != NULL && rc == 0;
         word = strtok_r(NULL, ", ", &rest)) {
        struct skep_address address;
        if (!skep_address_parse(word, &address)) {
            rc = skep_error_set(err, SKEP_ERR_ARGUMENT,
                                "bootstrap \"%.80s\" is not a numeric address and a port, such as "
                                "192.0.2.7:7420",
                                word);
        }
    }
    free(copy);
    return rc;
}

int skep_attachment_save(const char *dir, const struct skep_attachment *attachment,
                         struct skep_error *err)
{
    struct skep_json *root = skep_json_object_new();
    if (attachment->attached) {
        skep_json_set_hex(root, "project", attachment->project.bytes, SKEP_ID_SIZE);
    } else {
        skep_json_set_null(root, "project");
    }
    skep_json_set_text(root, "bootstrap",
                       attachment->bootstrap != NULL ? attachment->bootstrap : "");
    skep_json_set_bool(root, "paused", attachment->paused);
    char *text = skep_json_write(root, true);
    char *path = skep_format("%s/attached.json", dir);
    int rc = skep_file_write(path, 0600, text, strlen(text), err);
    free(path);
    free(text);
    skep_json_free(root);
    return rc;
}
