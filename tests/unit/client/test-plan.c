/* Plans: sizes as people write them, sums that add up, and what a donor with a limit is told. */
#include <stdlib.h>
#include <string.h>

#include "client/plan/plan.h"
#include "client/plan/size.h"
#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "common/merge/compress.h"
#include "common/model/layout.h"
#include "tests/lib/cmocka.h"

#define MIB ((uint64_t)1 << 20)

static void amounts_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"512", 512},
        {"512B", 512},
        {"1K", 1024},
        {"1KiB", 1024},
        {"1.5 MiB", MIB + MIB / 2},
        {"2GiB", 2048 * MIB},
        {"0.5T", 512 * 1024 * MIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 1;
        assert_int_equal(skep_size_parse("--memory", cases[i].text, &bytes, NULL), SKEP_OK);
        assert_int_equal(bytes, cases[i].bytes);
    }
    static const char *const wrong[] = {"",    "GiB",  "-1",  "2GB",  "2 GiB ", "2  GiB",
                                        "nan", "1e99", "2iB", "2PiB", "inf",    "2Bi"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t bytes = 1;
        struct skep_error err = {0};
        if (skep_size_parse("--memory", wrong[i], &bytes, &err) != SKEP_ERR_ARGUMENT) {
            fail_msg("\"%s\" was read as %llu", wrong[i], (unsigned long long)bytes);
        }
        assert_int_equal(bytes, 1);
        assert_non_null(strstr(err.text, "allowed: an amount of bytes such as 512MiB or 2GiB"));
    }
}

static void amounts_are_written_with_one_digit(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},           {1023, "1023 B"},        {1024, "1.0 KiB"},        {1536, "1.5 KiB"},
        {MIB - 1, "1.0 MiB"}, {3481 * MIB, "3.4 GiB"}, {MIB << 30, "1024.0 TiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[SKEP_SIZE_TEXT];
        skep_size_format(cases[i].bytes, text);
        assert_string_equal(text, cases[i].text);
    }
}

static struct skep_plan plan_of(const struct skep_manifest *manifest, bool recompute)
{
    struct skep_plan plan;
    skep_plan_of(manifest, &(struct skep_plan_options){.recompute = recompute, .threads = 1},
                 &plan);
    return plan;
}

static void parameters_and_shards_are_those_of_the_layouts(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        struct skep_manifest manifest = {.model.kind = (enum skep_model_kind)kind};
        skep_manifest_defaults(&manifest);
        struct skep_plan plan = plan_of(&manifest, false);
        uint64_t all = 0;
        for (size_t i = 0; i < skep_manifest_shard_count(&manifest); i++) {
            struct skep_shard shard = skep_manifest_shard(&manifest, i);
            struct skep_layout layout = {0};
            skep_layout_of(&manifest.model, &shard, &layout);
            all += layout.parameters;
            skep_layout_done(&layout);
        }
        assert_int_equal(plan.all, all);
        assert_int_equal(plan.experts, skep_manifest_shard_count(&manifest) - 1);
        assert_int_equal(plan.job_experts, (uint64_t)manifest.model.layers *
                                               manifest.training.donor_rows *
                                               manifest.model.columns);
        assert_int_equal(plan.memory.moments, 8 * (plan.trunk + plan.job_experts * plan.expert));
        assert_int_equal(plan.memory.gradients, plan.memory.parameters);
        assert_int_equal(plan.copies, 4);
    }
}

/* wire cannot see the layouts, so the bound that manifests are held to is checked here, where both are seen. */
static void manifests_know_a_shards_parameters_and_bound_its_state(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 4; kind++) {
        struct skep_manifest manifest = {.model.kind = (enum skep_model_kind)(kind % 2)};
        skep_manifest_defaults(&manifest);
        manifest.model.expert = (enum skep_expert_kind)(kind / 2);
        uint64_t most = 0;
        uint64_t parameters = 0;
        for (size_t i = 0; i < 2; i++) { /* the trunk and an expert */
            struct skep_shard shard = skep_manifest_shard(&manifest, i);
            struct skep_layout layout = {0};
            struct skep_buffer file = {0};
            skep_layout_of(&manifest.model, &shard, &layout);
            float *values = skep_alloc(layout.parameters, sizeof *values);
            skep_state_write(&layout, values, &file);
            most = file.size > most ? file.size : most;
            parameters = layout.parameters > parameters ? layout.parameters : parameters;
            skep_buffer_done(&file);
            skep_layout_done(&layout);
            free(values);
        }
        assert_int_equal(skep_model_config_shard_parameters(&manifest.model), parameters);
        uint64_t bound = skep_model_config_state_bytes(&manifest.model);
        if (bound < most || bound > most + most / 10) {
            fail_msg("kind %u: bound %llu, found %llu", kind, (unsigned long long)bound,
                     (unsigned long long)most);
        }
    }
}

static void the_total_is_the_sum_of_its_items(void **state)
{
    (void)state;
    struct skep_manifest manifest = {0};
    skep_manifest_defaults(&manifest);
    const struct skep_plan plan = plan_of(&manifest, false);
    const struct skep_plan_memory *memory = &plan.memory;
    assert_int_equal(memory->total, memory->program + memory->parameters + memory->gradients +
                                        memory->moments + memory->activations + memory->staging +
                                        memory->update + memory->data);
    assert_int_equal(plan.disk.job, plan.disk.states + plan.disk.moments + plan.disk.residuals +
                                        plan.disk.data + plan.disk.outbox + plan.disk.checkpoint);
    assert_true(plan.disk.most >= plan.disk.job);
}

/* One update of the shard, of numbers drawn evenly. */
static size_t real_update(const struct skep_manifest *manifest, struct skep_shard shard)
{
    struct skep_layout layout = {0};
    struct skep_update_body body = {0};
    struct skep_buffer bytes = {0};
    struct skep_rng rng = skep_rng_of_bytes("plan", 4);
    skep_layout_of(&manifest->model, &shard, &layout);
    struct skep_tiling *tilings = skep_alloc(layout.tensor_count, sizeof *tilings);
    float *delta = skep_alloc(layout.parameters, sizeof *delta);
    float *residual = skep_alloc(layout.parameters, sizeof *residual);
    for (size_t i = 0; i < layout.tensor_count; i++) {
        tilings[i] = skep_tiling_of(layout.tensors[i].dims, layout.tensors[i].dim_count,
                                    manifest->update.keep);
    }
    for (size_t i = 0; i < layout.parameters; i++) {
        delta[i] = (float)skep_rng_below(&rng, 2001) - 1000;
    }
    assert_int_equal(
        skep_compress_shard(tilings, layout.tensor_count, 0, delta, residual, &body, NULL),
        SKEP_OK);
    skep_update_body_encode(&body, &bytes);
    size_t size = bytes.size;
    skep_update_body_done(&body);
    skep_buffer_done(&bytes);
    skep_layout_done(&layout);
    free(tilings);
    free(delta);
    free(residual);
    return size;
}

static void updates_have_the_size_that_was_planned(void **state)
{
    (void)state;
    static const uint32_t kept[] = {16, 64, 256, 2048, 4096};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        struct skep_manifest manifest = {.model.kind = SKEP_MODEL_CLASSIFIER};
        skep_manifest_defaults(&manifest);
        manifest.update.keep = kept[i];
        struct skep_plan plan = plan_of(&manifest, false);
        double trunk =
            (double)real_update(&manifest, (struct skep_shard){.kind = SKEP_SHARD_TRUNK}) + 1200;
        double expert =
            (double)real_update(&manifest, (struct skep_shard){.kind = SKEP_SHARD_FFN}) + 1200;
        if ((double)plan.keeper_trunk.update < 0.95 * trunk ||
            (double)plan.keeper_trunk.update > 1.05 * trunk ||
            (double)plan.keeper_expert.update < 0.95 * expert ||
            (double)plan.keeper_expert.update > 1.05 * expert) {
            fail_msg("keep %u: planned %llu and %llu, found %.0f and %.0f", kept[i],
                     (unsigned long long)plan.keeper_trunk.update,
                     (unsigned long long)plan.keeper_expert.update, trunk, expert);
        }
    }
}

static void more_threads_and_kept_activations_take_more(void **state)
{
    (void)state;
    struct skep_manifest manifest = {0};
    struct skep_plan plan;
    skep_manifest_defaults(&manifest);
    manifest.training.batch = 64;
    struct skep_plan kept = plan_of(&manifest, false);
    struct skep_plan recomputed = plan_of(&manifest, true);
    assert_true(recomputed.memory.total < kept.memory.total);
    assert_true(recomputed.operations > kept.operations);
    assert_int_equal(recomputed.up, kept.up);
    skep_plan_of(&manifest, &(struct skep_plan_options){.threads = 16}, &plan);
    assert_true(plan.memory.program > kept.memory.program);
    assert_int_equal(plan.memory.activations, kept.memory.activations);
}

static void a_donor_is_told_what_a_job_needs(void **state)
{
    (void)state;
    struct skep_manifest manifest = {0};
    struct skep_error err = {0};
    bool recompute = true;
    skep_manifest_defaults(&manifest);
    manifest.training.batch = 64;
    uint64_t kept = plan_of(&manifest, false).memory.total;
    uint64_t recomputed = plan_of(&manifest, true).memory.total;
    assert_int_equal(skep_plan_check(&manifest, kept, 1, &recompute, NULL), SKEP_OK);
    assert_false(recompute);
    assert_int_equal(skep_plan_check(&manifest, kept - 1, 1, &recompute, NULL), SKEP_OK);
    assert_true(recompute);
    assert_int_equal(skep_plan_check(&manifest, recomputed, 1, &recompute, NULL), SKEP_OK);
    assert_true(recompute);
    recompute = false;
    assert_int_equal(skep_plan_check(&manifest, 10 * MIB, 1, &recompute, &err), SKEP_ERR_REFUSED);
    assert_false(recompute);
    char needed[SKEP_SIZE_TEXT];
    skep_size_format(recomputed, needed);
    char *sentence = skep_format("this project's jobs need %s of memory, more than your limit of "
                                 "10.0 MiB; raise it with skepd --memory ",
                                 needed);
    assert_memory_equal(err.text, sentence, strlen(sentence));
    const char *advice = err.text + strlen(sentence);
    char *limit = skep_format("%.*s", (int)strcspn(advice, " "), advice);
    uint64_t bytes = 0;
    assert_int_equal(skep_size_parse("--memory", limit, &bytes, NULL), SKEP_OK);
    assert_int_equal(skep_plan_check(&manifest, bytes, 1, &recompute, NULL), SKEP_OK);
    assert_string_equal(advice + strlen(limit), " or choose another project");
    free(limit);
    free(sentence);
}

static void the_largest_models_do_not_overflow(void **state)
{
    (void)state;
    struct skep_manifest manifest = {0};
    struct skep_error err = {0};
    bool recompute = false;
    skep_manifest_defaults(&manifest);
    manifest.name = skep_strdup("large");
    manifest.model.dim = 1024;
    manifest.model.hidden = 65536;
    manifest.model.layers = 32;
    manifest.model.rows = 256;
    manifest.model.columns = 256;
    manifest.model.context = 16384;
    manifest.model.prefix = 16;
    manifest.training.batch = 4096;
    manifest.training.steps = 100000;
    manifest.training.donor_rows = 256;
    manifest.chunk_bytes = (uint32_t)MIB;
    assert_int_equal(skep_manifest_check_settings(&manifest, &err), SKEP_OK);
    struct skep_plan plan = plan_of(&manifest, false);
    assert_true(plan.operations > 1e20);
    assert_true(plan.memory.total > (uint64_t)1 << 50 && plan.memory.total < (uint64_t)1 << 63);
    assert_int_equal(skep_plan_check(&manifest, (uint64_t)1 << 40, 1, &recompute, &err),
                     SKEP_ERR_REFUSED);
    skep_manifest_done(&manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_read_as_people_write_them),
        cmocka_unit_test(amounts_are_written_with_one_digit),
        cmocka_unit_test(parameters_and_shards_are_those_of_the_layouts),
        cmocka_unit_test(manifests_know_a_shards_parameters_and_bound_its_state),
        cmocka_unit_test(the_total_is_the_sum_of_its_items),
        cmocka_unit_test(updates_have_the_size_that_was_planned),
        cmocka_unit_test(more_threads_and_kept_activations_take_more),
        cmocka_unit_test(a_donor_is_told_what_a_job_needs),
        cmocka_unit_test(the_largest_models_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
