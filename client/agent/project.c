/* The project that the agent works for: its session opened and closed, its figures kept in donor.db. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/agent-internal.h"
#include "client/agent/attachment.h"
#include "client/agent/stamp.h"
#include "common/base/alloc.h"
#include "common/base/log.h"

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

void skep_project_save_figures(struct skep_agent *agent)
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

int skep_project_open(struct skep_agent *agent, const char *project, const char *bootstrap,
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

void skep_project_close(struct skep_agent *agent)
{
    if (agent->session != NULL) {
        skep_session_close(agent->session);
        skep_outbox_free(agent->outbox);
        skep_stamper_close(agent->stamper);
        skep_job_done(&agent->job);
    }
    agent->session = NULL;
    agent->outbox = NULL;
    agent->stamper = NULL;
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

int skep_project_remember(struct skep_agent *agent, bool paused, struct skep_error *err)
{
    struct skep_attachment attachment = {.attached = agent->attached,
                                         .paused = paused,
                                         .project = agent->project,
                                         .bootstrap = agent->bootstrap};
    return skep_attachment_save(agent->dir, &attachment, err);
}
