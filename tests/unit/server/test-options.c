/* The command line of skep-keeper. */
#include <string.h>

#include "server/options.h"
#include "tests/lib/cmocka.h"

#define MOST_WORDS 16

static int parse(const char *const *words, struct skep_options *options, struct skep_error *err)
{
    static char room[MOST_WORDS][128];
    char *argv[MOST_WORDS + 1] = {room[0]};
    strcpy(room[0], "skep-keeper");
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++) {
        strcpy(room[argc], words[argc - 1]);
        argv[argc] = room[argc];
    }
    argv[argc] = NULL;
    return skep_options_parse(argc, argv, options, err);
}

static void a_folder_and_an_address_are_enough(void **state)
{
    (void)state;
    struct skep_options options;
    const char *const words[] = {"--dir", "/tmp/k", "--listen", "127.0.0.1:0", NULL};
    assert_int_equal(parse(words, &options, NULL), SKEP_OK);
    assert_string_equal(options.dir, "/tmp/k");
    assert_string_equal(options.listen.host, "127.0.0.1");
    assert_int_equal(options.listen.port, 0);
    assert_true(options.dht);
    assert_false(options.dht_port_given);
    assert_false(options.only_project);
    assert_int_equal(options.remote_threads, 1);
    assert_int_equal(options.remote_batch, 2048);
    assert_int_equal(options.remote_memory, 512 << 20);
}

static void the_remote_mode_is_bounded_as_asked(void **state)
{
    (void)state;
    struct skep_options options;
    const char *const words[] = {"--dir",
                                 "d",
                                 "--listen",
                                 "127.0.0.1:5",
                                 "--remote-batch",
                                 "7",
                                 "--remote-memory",
                                 "3",
                                 "--remote-threads",
                                 "0",
                                 NULL};
    assert_int_equal(parse(words, &options, NULL), SKEP_OK);
    assert_int_equal(options.remote_threads, 0);
    assert_int_equal(options.remote_batch, 7);
    assert_int_equal(options.remote_memory, 3 << 20);
}

static void peers_may_be_repeated(void **state)
{
    (void)state;
    struct skep_options options;
    const char *const words[] = {"--dir",       "d",      "--listen",    "127.0.0.1:5", "--peer",
                                 "127.0.0.2:6", "--peer", "127.0.0.3:7", "--no-dht",    NULL};
    assert_int_equal(parse(words, &options, NULL), SKEP_OK);
    assert_int_equal(options.peer_count, 2);
    assert_string_equal(options.peers[1].host, "127.0.0.3");
    assert_int_equal(options.peers[1].port, 7);
    assert_false(options.dht);
}

static void what_makes_no_sense_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *words[6];
        const char *named;
    } cases[] = {
        {{"--listen", "127.0.0.1:1", NULL}, "--dir"},
        {{"--dir", "d", NULL}, "--listen"},
        {{"--dir", "d", "--listen", "localhost:1", NULL}, "localhost:1"},
        {{"--dir", "d", "--listen", "127.0.0.1", NULL}, "127.0.0.1"},
        {{"--dir", "d", "--listen", "0.0.0.0:7", NULL}, "--announce"},
        {{"--dht-port", "70000", NULL}, "70000"},
        {{"--peer", "127.0.0.1:0", NULL}, "--peer"},
        {{"--project", "abc", NULL}, "abc"},
        {{"--remote-threads", "-1", NULL}, "--remote-threads"},
        {{"--remote-batch", "0", NULL}, "from 1 to"},
        {{"--remote-memory", "lots", NULL}, "lots"},
        {{"--wings", NULL}, "--wings"},
        {{"word", NULL}, "word"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct skep_options options;
        struct skep_error err = {0};
        assert_int_equal(parse(cases[i].words, &options, &err), SKEP_ERR_ARGUMENT);
        assert_non_null(strstr(err.text, cases[i].named));
    }
}

static void help_needs_nothing_else(void **state)
{
    (void)state;
    struct skep_options options;
    const char *const words[] = {"--help", NULL};
    assert_int_equal(parse(words, &options, NULL), SKEP_OK);
    assert_int_equal(options.wish, SKEP_WISH_HELP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_and_an_address_are_enough),
        cmocka_unit_test(the_remote_mode_is_bounded_as_asked),
        cmocka_unit_test(peers_may_be_repeated),
        cmocka_unit_test(what_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(help_needs_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
