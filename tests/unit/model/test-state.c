/* A shard's state as a safetensors file: what was written is read back, anything else is refused in one sentence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/model/layout.h"
#include "tests/lib/cmocka.h"
#include "tests/unit/model/model-fixture.h"

static const struct skep_hash SEED = {{5}};

struct written {
    struct skep_model_config config;
    struct skep_layout layout;
    float *parameters;
    float *read;
    struct skep_buffer file;
};

static void write_shard(struct written *written, struct skep_shard shard)
{
    *written = (struct written){.config = fixture_config(SKEP_ROUTE_DOCUMENT, 1)};
    skep_layout_of(&written->config, &shard, &written->layout);
    written->parameters = skep_alloc(written->layout.parameters, sizeof(float));
    written->read = skep_alloc(written->layout.parameters, sizeof(float));
    skep_layout_seed(&written->layout, &written->config, &SEED, written->parameters);
    skep_state_write(&written->layout, written->parameters, &written->file);
}

static void done(struct written *written)
{
    skep_layout_done(&written->layout);
    free(written->parameters);
    free(written->read);
    skep_buffer_done(&written->file);
}

static int read_with(struct written *written, const struct skep_layout *layout,
                     struct skep_error *err)
{
    return skep_state_read(layout, written->file.data, written->file.size, written->read, err);
}

static void check_round_trip(struct skep_shard shard)
{
    struct written written;
    struct skep_error err = {0};
    write_shard(&written, shard);
    assert_int_equal(read_with(&written, &written.layout, &err), SKEP_OK);
    assert_memory_equal(written.read, written.parameters,
                        written.layout.parameters * sizeof(float));
    done(&written);
}

static void a_state_is_read_as_it_was_written(void **state)
{
    (void)state;
    check_round_trip(FIXTURE_TRUNK);
    check_round_trip(fixture_expert(1, 2, 0));
}

static void the_state_of_another_shard_is_refused(void **state)
{
    (void)state;
    struct written written;
    struct skep_error err = {0};
    write_shard(&written, fixture_expert(0, 0, 0));
    struct skep_layout trunk;
    skep_layout_of(&written.config, &FIXTURE_TRUNK, &trunk);
    assert_int_equal(read_with(&written, &trunk, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "6 tensors, expected 20"));
    skep_layout_done(&trunk);
    done(&written);
}

static void a_tensor_of_another_shape_or_name_is_refused(void **state)
{
    (void)state;
    struct written written;
    struct skep_error err = {0};
    write_shard(&written, fixture_expert(0, 0, 0));
    struct skep_layout other = written.layout;
    struct skep_tensor_spec tensors[6];
    memcpy(tensors, other.tensors, sizeof tensors);
    other.tensors = tensors;
    tensors[2].dims[0] = 8; /* [8, 12] instead of [12, 8]: as many values */
    tensors[2].dims[1] = 12;
    assert_int_equal(read_with(&written, &other, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "up.weight"));
    tensors[2] = written.layout.tensors[2];
    strcpy(tensors[5].name, "down.wight");
    assert_int_equal(read_with(&written, &other, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "down.wight"));
    done(&written);
}

static void a_value_that_is_not_finite_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct written written;
    struct skep_error err = {0};
    write_shard(&written, fixture_expert(0, 0, 0));
    skep_put_f32(written.file.data + written.file.size - 4, INFINITY);
    assert_int_equal(read_with(&written, &written.layout, &err), SKEP_ERR_NUMERIC);
    assert_non_null(strstr(err.text, "down.bias"));
    assert_true(written.read[0] == 0);
    done(&written);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    struct written written;
    write_shard(&written, fixture_expert(0, 0, 0));
    for (size_t size = 0; size < written.file.size; size += 97) {
        struct skep_error err = {0};
        assert_int_not_equal(
            skep_state_read(&written.layout, written.file.data, size, written.read, &err), SKEP_OK);
        assert_true(strlen(err.text) > 0);
    }
    done(&written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_read_as_it_was_written),
        cmocka_unit_test(the_state_of_another_shard_is_refused),
        cmocka_unit_test(a_tensor_of_another_shape_or_name_is_refused),
        cmocka_unit_test(a_value_that_is_not_finite_is_refused_and_changes_nothing),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
