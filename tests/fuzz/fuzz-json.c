/* JSON: what is read is written and read again the same; the getters take any value for what it is. */
#include "common/wire/json.h"
#include "tests/fuzz/fuzz.h"

const char *const fuzz_sentence = "JSON from strangers is refused or comes back the same";

/* Every getter on every member: none may be confused by a value of another type. */
static void ask_members(const struct skep_json *object)
{
    const struct skep_json *value = NULL;
    for (const char *key = skep_json_next(object, NULL, &value); key != NULL;
         key = skep_json_next(object, key, &value)) {
        struct skep_error err = {0};
        const char *text = NULL;
        int64_t integer = 0;
        double real = 0;
        bool truth = false;
        uint8_t bytes[32];
        struct skep_shard shard;
        const struct skep_json *inner = NULL;
        FUZZ_CHECK(skep_json_has(object, key));
        skep_json_get_text(object, "object", key, &text, &err);
        FUZZ_CHECK(skep_json_get_integer(object, "object", key, -9, 1000, &integer, &err) != 0 ||
                   (integer >= -9 && integer <= 1000));
        FUZZ_CHECK(skep_json_get_real(object, "object", key, -1, 1, &real, &err) != 0 ||
                   (real >= -1 && real <= 1));
        skep_json_get_bool(object, "object", key, &truth, &err);
        skep_json_get_hex(object, "object", key, bytes, sizeof bytes, &err);
        skep_json_get_shard(object, "object", key, &shard, &err);
        skep_json_get_object(object, "object", key, &inner, &err);
        if (skep_json_get_array(object, "object", key, 8, &inner, &err) == SKEP_OK) {
            FUZZ_CHECK(skep_json_array_size(inner) <= 8);
            FUZZ_CHECK(skep_json_array_at(inner, skep_json_array_size(inner)) == NULL);
            skep_json_integer_at(inner, 0, 0, 9, &integer);
        }
    }
}

static void check_again(const struct skep_json *root, bool pretty)
{
    struct skep_json *again = NULL;
    char *text = skep_json_write(root, pretty);
    FUZZ_CHECK(skep_json_parse(text, strlen(text), "again", &again, NULL) == SKEP_OK);
    fuzz_same_texts(text, skep_json_write(again, pretty));
    skep_json_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct skep_json *root = NULL;
    struct skep_error err = {0};
    if (skep_json_parse(data, size, "input", &root, &err) != SKEP_OK) {
        FUZZ_CHECK(root == NULL && err.text[0] != '\0');
        return 0;
    }
    static const char *const keys[] = {"a", "b", NULL};
    skep_json_allow(root, "input", keys, &err);
    ask_members(root);
    check_again(root, false);
    check_again(root, true);
    struct skep_json *copy = skep_json_copy(root);
    fuzz_same_texts(skep_json_write(copy, false), skep_json_write(root, false));
    skep_json_free(copy);
    skep_json_free(root);
    return 0;
}
