#include "client/agent/attachment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
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

int skep_attachment_save(struct skep_agent *agent, bool paused, struct skep_error *err)
{
    struct skep_json *root = skep_json_object_new();
    if (agent->attached) {
        skep_json_set_hex(root, "project", agent->project.bytes, sizeof agent->project.bytes);
    } else {
        skep_json_set_null(root, "project");
    }
    skep_json_set_text(root, "bootstrap", agent->bootstrap != NULL ? agent->bootstrap : "");
    skep_json_set_bool(root, "paused", paused);
    char *text = skep_json_write(root, true);
    char *path = skep_format("%s/attached.json", agent->dir);
    int rc = skep_file_write(path, 0600, text, strlen(text), err);
    free(path);
    free(text);
    skep_json_free(root);
    return rc;
}

static void mark_name(const struct skep_agent *agent, const char *what, char to[64])
{
    snprintf(to, 64, "%s %.16s", what, skep_id_text(agent->project.bytes));
}

static const struct {
    const char *name;
    size_t offset;
} figures[] = {
    {"trained", offsetof(struct skep_agent, trained)},
    {"tokens", offsetof(struct skep_agent, tokens_total)},
    {"updates", offsetof(struct skep_agent, updates_sent)},
};

void skep_attachment_save_figures(struct skep_agent *agent)
{
    struct skep_error err = {0};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        char name[64];
        uint64_t value;
        mark_name(agent, figures[i].name, name);
        memcpy(&value, (const char *)agent + figures[i].offset, sizeof value);
        if (skep_donor_db_set_mark(agent->db, name, (int64_t)value, &err) != 0) {
            skep_log(SKEP_LOG_WARNING, "%s", err.text);
            return;
        }
    }
}

static void load_figures(struct skep_agent *agent)
{
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        char name[64];
        int64_t value = 0;
        mark_name(agent, figures[i].name, name);
        (void)skep_donor_db_get_mark(agent->db, name, &value, NULL);
        memcpy((char *)agent + figures[i].offset, &value, sizeof value);
    }
    (void)skep_donor_db_sum(agent->db, &agent->project, &agent->updates_merged,
                            &agent->credit_micro, NULL);
}

int skep_attachment_open(struct skep_agent *agent, const char *project, const char *bootstrap,
                         struct skep_error *err)
{
    struct skep_project_id id;
    if (!skep_hex_decode(project, id.bytes, sizeof id.bytes)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "\"%.80s\" is not a project id", project);
    }
    char *folder = skep_attachment_folder(agent->dir, &id);
    struct skep_session_options options = {
        .project = id, .folder = folder, .bootstrap = bootstrap, .listen_host = agent->listen_host};
    int rc = skep_session_open(agent->loop, &options, &agent->session, err);
    free(folder);
    if (rc != 0) {
        return rc;
    }
    free(agent->bootstrap);
    agent->bootstrap = skep_strdup(bootstrap);
    agent->project = id;
    agent->attached = true;
    load_figures(agent);
    return 0;
}

void skep_attachment_close(struct skep_agent *agent)
{
    if (agent->session != NULL) {
        skep_session_close(agent->session);
        skep_outbox_free(agent->outbox);
        skep_job_done(&agent->job);
    }
    agent->session = NULL;
    agent->outbox = NULL;
    agent->finding = NULL;
    agent->receipts_busy = false;
    agent->attached = false;
    agent->found_ms = 0;
    agent->failures = 0;
    agent->round = 0;
    agent->trained = 0;
    agent->tokens_total = 0;
    agent->updates_sent = 0;
    agent->updates_merged = 0;
    agent->credit_micro = 0;
    agent->loss = 0;
    agent->tokens_per_s = 0;
}
