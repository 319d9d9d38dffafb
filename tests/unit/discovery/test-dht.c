/* A private DHT of three sessions on loopback addresses of their own: two announce, a read-only third finds both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/discovery/dht.h"
#include "common/sys/loop.h"
#include "tests/lib/cmocka.h"

#define LIMIT_MS 20000

static char hosts[4][32];

struct search {
    struct skep_directory *directory;
    struct skep_directory_key key;
    bool seen[2];
    bool both;
};

static void found(void *user, const struct skep_address *addresses, size_t count, bool finished)
{
    struct search *search = user;
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < 2; k++) {
            search->seen[k] |=
                strcmp(addresses[i].host, hosts[k]) == 0 && addresses[i].port == 7000 + k;
        }
    }
    search->both = search->seen[0] && search->seen[1];
    if (finished && !search->both) {
        skep_directory_look_up(search->directory, &search->key, found, search);
    }
}

static struct skep_directory *open_node(struct skep_loop *loop, int number, const char *bootstrap,
                                        bool read_only)
{
    struct skep_dht_options options = {
        .host = hosts[number], .bootstrap = bootstrap, .read_only = read_only};
    struct skep_directory *directory = NULL;
    struct skep_error err = {0};
    if (skep_dht_open(loop, &options, &directory, &err) != SKEP_OK) {
        fail_msg("%s", err.text);
    }
    return directory;
}

static void two_announce_and_a_read_only_third_finds_both(void **state)
{
    (void)state;
    struct skep_loop *loop = skep_loop_new();
    struct skep_directory *first = open_node(loop, 0, NULL, false);
    char bootstrap[64];
    snprintf(bootstrap, sizeof bootstrap, "%s:%u", hosts[0], skep_dht_port(first));
    struct skep_directory *second = open_node(loop, 1, bootstrap, false);
    struct skep_directory *third = open_node(loop, 2, bootstrap, true);
    struct skep_project_id project = {{7}};
    struct search search = {.directory = third, .key = skep_directory_key_of(&project, "ffn.0.1")};
    skep_directory_announce(first, &search.key, 7000);
    skep_directory_announce(second, &search.key, 7001);
    skep_directory_look_up(third, &search.key, found, &search);
    assert_true(skep_loop_run_until(loop, &search.both, LIMIT_MS));
    skep_directory_close(third);
    skep_directory_close(second);
    skep_directory_close(first);
    skep_loop_free(loop);
}

static void a_udp_port_in_use_is_said(void **state)
{
    (void)state;
    struct skep_loop *loop = skep_loop_new();
    struct skep_directory *first = open_node(loop, 3, NULL, false);
    struct skep_dht_options options = {.host = hosts[3], .port = skep_dht_port(first)};
    struct skep_directory *second = NULL;
    struct skep_error err = {0};
    assert_int_equal(skep_dht_open(loop, &options, &second, &err), SKEP_ERR_IN_USE);
    assert_non_null(strstr(err.text, hosts[3]));
    skep_directory_close(first);
    skep_loop_free(loop);
}

int main(void)
{
    for (int i = 0; i < 4; i++) {
        snprintf(hosts[i], sizeof hosts[i], "127.77.%d.%d", (int)(getpid() % 250), i + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_announce_and_a_read_only_third_finds_both),
        cmocka_unit_test(a_udp_port_in_use_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
