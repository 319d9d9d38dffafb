/* Metrics in Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats/). */
#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/store/keeper-audits.h"
#include "server/api/api.h"
#include "server/api/reply.h"
#include "server/audit.h"

static void append(struct skep_buffer *to, char *take_line)
{
    skep_buffer_append_text(to, take_line);
    free(take_line);
}

static void add_refusals(const struct skep_project *project, struct skep_buffer *to)
{
    const char *name = skep_id_text(project->manifest.project.bytes);
    for (size_t i = 0; i < SKEP_REFUSALS; i++) {
        /* what has no reason is no fault of the update: a full disk, no memory */
        const char *reason = i == SKEP_REFUSAL_NONE ? "other" : skep_refusal_name(i);
        append(to, skep_format("skep_updates_refused_total{project=\"%s\",reason=\"%s\"} %llu\n",
                               name, reason, (unsigned long long)project->refused[i]));
    }
}

static void add_audits(const struct skep_host *host, struct skep_buffer *to)
{
    append(to, skep_format("# HELP skep_audit_jobs Jobs that wait to be repeated.\n"
                           "# TYPE skep_audit_jobs gauge\nskep_audit_jobs %zu\n"
                           "# HELP skep_audits_total Updates by what was found.\n"
                           "# TYPE skep_audits_total counter\n",
                           skep_audit_waiting(host->audit)));
    for (size_t i = 0; i < host->project_count; i++) {
        const struct skep_project *project = host->projects[i];
        for (size_t verdict = SKEP_AUDIT_OPEN + 1; verdict < SKEP_AUDIT_VERDICTS; verdict++) {
            append(to, skep_format("skep_audits_total{project=\"%s\",verdict=\"%s\"} %llu\n",
                                   skep_id_text(project->manifest.project.bytes),
                                   skep_audit_verdict_name((enum skep_audit_verdict)verdict),
                                   (unsigned long long)project->audited[verdict]));
        }
    }
}

SKEP_API_HANDLER(skep_api_get_metrics)
{
    (void)exchange;
    (void)parts;
    (void)err;
    struct skep_host *host = user;
    struct skep_buffer text = {0};
    skep_buffer_append_text(&text, "# HELP skep_updates_accepted_total Updates stored.\n"
                                   "# TYPE skep_updates_accepted_total counter\n");
    for (size_t i = 0; i < host->project_count; i++) {
        const struct skep_project *project = host->projects[i];
        append(&text, skep_format("skep_updates_accepted_total{project=\"%s\"} %llu\n",
                                  skep_id_text(project->manifest.project.bytes),
                                  (unsigned long long)project->accepted));
    }
    skep_buffer_append_text(&text, "# HELP skep_updates_refused_total Updates refused.\n"
                                   "# TYPE skep_updates_refused_total counter\n");
    for (size_t i = 0; i < host->project_count; i++) {
        add_refusals(host->projects[i], &text);
    }
    add_audits(host, &text);
    reply->status = 200;
    reply->content_type = "text/plain; version=0.0.4";
    reply->body = text;
    return SKEP_OK;
}
