/* credit: the donor's receipts, listed and verified without asking anybody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/agent/attachment.h"
#include "client/agent/identity.h"
#include "client/agent/receipts.h"
#include "client/cli/cli.h"
#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/swarm/reputation.h"
#include "common/swarm/statement.h"
#include "common/sys/file.h"

struct listing {
    struct skep_manifest manifest;
    struct skep_peer_id donor;
    bool json;
    struct skep_json *rows;
    int64_t total;
    int64_t verified;
    uint64_t credit_micro; /* of those that verified */
};

static int list_one(void *user, const struct skep_shard *shard, uint64_t version,
                    uint64_t credit_micro, const char *seal)
{
    struct listing *listing = user;
    struct skep_receipt_facts facts = {0};
    struct skep_error err = {0};
    char name[SKEP_SHARD_TEXT_SIZE];
    int rc = skep_receipt_check_text(&listing->manifest, &listing->donor, seal, &facts, &err);
    if (rc == 0 && (!skep_shard_equal(&facts.shard, shard) || facts.version != version ||
                    facts.credit_micro != credit_micro)) {
        rc = skep_error_set(&err, SKEP_ERR_FORMAT, "the seal says something else");
    }
    const char *reason = skep_receipt_reason(&facts);
    skep_shard_format(shard, name);
    listing->total++;
    listing->verified += rc == 0;
    listing->credit_micro += rc == 0 ? credit_micro : 0;
    if (listing->json) {
        struct skep_json *row = skep_json_object_new();
        skep_json_set_text(row, "shard", name);
        skep_json_set_integer(row, "version", (int64_t)version);
        skep_json_set_real(row, "credit", (double)credit_micro / 1e6);
        skep_json_set_bool(row, "verified", rc == 0);
        skep_json_set_bool(row, "merged", facts.merged > 0);
        skep_json_set_integer(row, "agreement", facts.agreement_permille);
        if (reason != NULL) {
            skep_json_set_text(row, "reason", reason);
        }
        skep_json_push_take(listing->rows, row);
    } else {
        printf("%-16s version %-6llu credit %.6f  agreement %+.3f  %s%s%s\n", name,
               (unsigned long long)version, (double)credit_micro / 1e6,
               (double)facts.agreement_permille / 1000, rc == 0 ? "verified" : err.text,
               reason != NULL ? "; " : "", reason != NULL ? reason : "");
    }
    return 0;
}

static int open_manifest(const char *dir, const struct skep_project_id *project,
                         struct skep_manifest *ret_manifest, struct skep_error *err)
{
    char *folder = skep_attachment_folder(dir, project);
    char *path = skep_format("%s/manifest", folder);
    struct skep_buffer text = {0};
    int rc = skep_file_read(path, SKEP_LIMIT_STATEMENT_BYTES, &text, err);
    if (rc == 0) {
        rc = skep_manifest_open(text.data, text.size, project, ret_manifest, NULL, err);
    }
    skep_buffer_done(&text);
    free(path);
    free(folder);
    return rc;
}

static int open_donor(const char *dir, struct skep_peer_id *ret_donor,
                      struct skep_donor_db **ret_db, struct skep_error *err)
{
    char *key_path = skep_format("%s/key.pem", dir);
    char *db_path = skep_format("%s/donor.db", dir);
    struct skep_key *key = NULL;
    int rc = skep_identity_load(key_path, false, &key, NULL, err);
    if (rc == 0) {
        *ret_donor = skep_key_id(key);
        rc = skep_donor_db_open(db_path, ret_db, err);
    }
    skep_key_free(key);
    free(key_path);
    free(db_path);
    return rc;
}

static void print_sum(const struct listing *listing, const struct skep_project_id *project)
{
    if (!listing->json) {
        printf("%lld receipts, %lld verified, credit %.6f\n", (long long)listing->total,
               (long long)listing->verified, (double)listing->credit_micro / 1e6);
        if (listing->manifest.trust.audits) {
            printf("this project audits: the first %u jobs of a new donor are repeated before they "
                   "earn credit\n",
                   SKEP_PROBATION);
        }
        return;
    }
    struct skep_json *root = skep_json_object_new();
    skep_json_set_hex(root, "project", project->bytes, sizeof project->bytes);
    skep_json_set_hex(root, "donor", listing->donor.bytes, sizeof listing->donor.bytes);
    skep_json_set_integer(root, "receipts_total", listing->total);
    skep_json_set_integer(root, "verified", listing->verified);
    skep_json_set_real(root, "credit", (double)listing->credit_micro / 1e6);
    skep_json_set_bool(root, "audits", listing->manifest.trust.audits);
    skep_json_set_take(root, "receipts", listing->rows);
    char *text = skep_json_write(root, true);
    puts(text);
    free(text);
    skep_json_free(root);
}

static int run(const char *dir, const struct skep_project_id *project, bool json,
               struct skep_error *err)
{
    struct listing listing = {.json = json};
    struct skep_donor_db *db = NULL;
    int rc = open_manifest(dir, project, &listing.manifest, err);
    if (rc == 0) {
        rc = open_donor(dir, &listing.donor, &db, err);
    }
    if (rc == 0) {
        listing.rows = json ? skep_json_array_new() : NULL;
        rc = skep_donor_db_each_receipt(db, project, list_one, &listing, err);
    }
    if (rc == 0) {
        print_sum(&listing, project);
    } else {
        skep_json_free(listing.rows);
    }
    if (rc == 0 && listing.verified != listing.total) {
        rc =
            skep_error_set(err, SKEP_ERR_SIGNATURE, "%lld of %lld receipts do not verify",
                           (long long)(listing.total - listing.verified), (long long)listing.total);
    }
    skep_donor_db_close(db);
    skep_manifest_done(&listing.manifest);
    return rc;
}

int skep_cli_credit(int argc, char **argv)
{
    static const char usage[] =
        "usage: skep credit [--json] [--project ID] [--dir DIR]\n"
        "\n"
        "Lists the receipts of a project (the attached one) and checks each against the signed\n"
        "manifest, offline. 200 credits are one day of a machine doing 1 GFLOPS. Agreement is how\n"
        "far an update pointed where the others of its round did: 1 the same way, 0 elsewhere, -1\n"
        "the opposite. Updates that were not merged earn nothing; the line says why.\n";
    const char *dir = NULL;
    const char *project = NULL;
    bool json = false;
    const struct skep_cli_option options[] = {{"--dir", &dir, NULL},
                                              {"--project", &project, NULL},
                                              {"--json", NULL, &json},
                                              {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){0, 0}, NULL);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_error err = {0};
    struct skep_attachment kept = {0};
    char *folder = skep_cli_dir(dir);
    int rc = 0;
    skep_attachment_load(folder, &kept);
    if (project != NULL) {
        rc = skep_attachment_check(project, NULL, &err);
        (void)skep_hex_decode(project, kept.project.bytes, sizeof kept.project.bytes);
    } else if (!kept.attached) {
        rc = skep_error_set(&err, SKEP_ERR_NOT_FOUND,
                            "%s is attached to no project; name one with --project", folder);
    }
    if (rc == 0) {
        rc = run(folder, &kept.project, json, &err);
    }
    free(kept.bootstrap);
    free(folder);
    return rc == 0 ? 0 : skep_cli_fail(&err);
}
