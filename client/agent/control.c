/*
 * What the daemon answers on its control socket. Requests: {"op":"status"}, {"op":"attach","project":ID,"bootstrap":TEXT},
 * {"op":"detach"}, {"op":"pause"}, {"op":"resume"}, {"op":"quit"}. The answer is the status, or {"error":{"code":..,"message":..}}.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/agent.h"
#include "common/wire/json.h"

static struct skep_json *status_json(struct skep_agent *agent)
{
    struct skep_json *root = skep_json_object_new();
    bool training = agent->state == SKEP_AGENT_TRAINING;
    skep_json_set_text(root, "sentence", agent->sentence);
    skep_json_set_text(root, "state", skep_agent_state_name(agent->state));
    skep_json_set_integer(root, "since", agent->since_s);
    skep_json_set_hex(root, "donor", agent->id.bytes, sizeof agent->id.bytes);
    if (agent->attached) {
        skep_json_set_hex(root, "project", agent->project.bytes, sizeof agent->project.bytes);
    } else {
        skep_json_set_null(root, "project");
    }
    skep_json_set_text(root, "bootstrap", agent->bootstrap != NULL ? agent->bootstrap : "");
    skep_json_set_integer(root, "round", (int64_t)agent->round);
    skep_json_set_real(root, "loss", agent->loss);
    skep_json_set_text(root, "loss_unit", skep_agent_loss_unit(agent).name);
    skep_json_set_real(root, "tokens_per_s", agent->tokens_per_s);
    skep_json_set_integer(root, "tokens_total",
                          (int64_t)(agent->tokens_total + (training ? agent->job.last.tokens : 0)));
    skep_json_set_integer(
        root, "memory_limit_bytes",
        (int64_t)(agent->memory_bytes < INT64_MAX ? agent->memory_bytes : INT64_MAX));
    skep_json_set_integer(root, "memory_peak_bytes", (int64_t)agent->peak_bytes);
    skep_json_set_integer(root, "threads", (int64_t)agent->threads);
    skep_json_set_integer(root, "updates_sent", (int64_t)agent->updates_sent);
    skep_json_set_integer(root, "updates_merged", (int64_t)agent->updates_merged);
    skep_json_set_integer(root, "updates_waiting",
                          agent->outbox != NULL ? (int64_t)skep_outbox_unsettled(agent->outbox)
                                                : 0);
    skep_json_set_real(root, "credit", (double)agent->credit_micro / 1e6);
    skep_json_set_bool(root, "audits",
                       agent->session != NULL && agent->session->manifest.trust.audits);
    int passed = agent->outbox != NULL ? skep_outbox_audits_passed(agent->outbox) : -1;
    if (passed >= 0) {
        skep_json_set_integer(root, "audits_passed", passed);
    }
    skep_json_set_integer(root, "peers",
                          agent->session != NULL ? (int64_t)skep_peers_count(agent->session->peers)
                                                 : 0);
    return root;
}

static struct skep_json *error_json(const struct skep_error *err)
{
    struct skep_json *root = skep_json_object_new();
    struct skep_json *error = skep_json_object_new();
    skep_json_set_text(error, "code", skep_err_name(err->code));
    skep_json_set_text(error, "message", err->text);
    skep_json_set_take(root, "error", error);
    return root;
}

static int attach(struct skep_agent *agent, const struct skep_json *root, struct skep_error *err)
{
    const char *project = NULL;
    const char *bootstrap = NULL;
    int rc = skep_json_get_text(root, "request", "project", &project, err);
    if (rc == 0 && skep_json_has(root, "bootstrap")) {
        rc = skep_json_get_text(root, "request", "bootstrap", &bootstrap, err);
    }
    return rc == 0 ? skep_agent_attach(agent, project, bootstrap, err) : rc;
}

static int carry_out(struct skep_agent *agent, const char *op, const struct skep_json *root,
                     struct skep_error *err)
{
    if (strcmp(op, "status") == 0) {
        return 0;
    }
    if (strcmp(op, "attach") == 0) {
        return attach(agent, root, err);
    }
    if (strcmp(op, "detach") == 0) {
        skep_agent_detach(agent);
        return 0;
    }
    if (strcmp(op, "pause") == 0 || strcmp(op, "resume") == 0) {
        skep_agent_pause(agent, strcmp(op, "pause") == 0);
        return 0;
    }
    if (strcmp(op, "quit") == 0) {
        skep_agent_quit(agent);
        return 0;
    }
    return skep_error_set(err, SKEP_ERR_ARGUMENT,
                          "op is \"%.40s\"; allowed: status, attach, detach, pause, resume, quit",
                          op);
}

void skep_control_answer(void *user, const char *request, size_t size,
                         struct skep_buffer *ret_answer)
{
    struct skep_agent *agent = user;
    struct skep_json *root = NULL;
    struct skep_error err = {0};
    const char *op = NULL;
    int rc = skep_json_parse(request, size, "request", &root, &err);
    if (rc == 0) {
        rc = skep_json_get_text(root, "request", "op", &op, &err);
    }
    if (rc == 0) {
        rc = carry_out(agent, op, root, &err);
    }
    struct skep_json *answer = rc == 0 ? status_json(agent) : error_json(&err);
    char *text = skep_json_write(answer, false);
    skep_buffer_append_text(ret_answer, text);
    free(text);
    skep_json_free(answer);
    skep_json_free(root);
}
