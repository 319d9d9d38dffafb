/* Private DHTs of a few sessions, each on a loopback address of its own. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/discovery/dht.h"
#include "common/sys/file.h"
#include "common/sys/loop.h"
#include "tests/lib/cmocka.h"

#define LIMIT_MS 20000
#define HOSTS 6

static char hosts[HOSTS][32];

struct search {
    struct skep_directory *directory;
    struct skep_directory_key key;
    bool wanted[2]; /* 127.77.x.1:7000, 127.77.x.2:7001 */
    bool seen[2];
    bool all;
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
    search->all =
        (search->seen[0] || !search->wanted[0]) && (search->seen[1] || !search->wanted[1]);
    if (finished && !search->all) {
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
    struct search search = {.directory = third,
                            .key = skep_directory_key_of(&project, "ffn.0.1"),
                            .wanted = {true, true}};
    skep_directory_announce(first, &search.key, 7000);
    skep_directory_announce(second, &search.key, 7001);
    skep_directory_look_up(third, &search.key, found, &search);
    assert_true(skep_loop_run_until(loop, &search.all, LIMIT_MS));
    skep_directory_close(third);
    skep_directory_close(second);
    skep_directory_close(first);
    skep_loop_free(loop);
}

/* Each has what the other announced on its own shelf only. */
static void two_alone_find_each_other(void **state)
{
    (void)state;
    struct skep_loop *loop = skep_loop_new();
    struct skep_directory *first = open_node(loop, 0, NULL, false);
    char bootstrap[64];
    snprintf(bootstrap, sizeof bootstrap, "%s:%u", hosts[0], skep_dht_port(first));
    struct skep_directory *second = open_node(loop, 1, bootstrap, false);
    struct skep_project_id project = {{8}};
    struct skep_directory_key key = skep_directory_key_of(&project, NULL);
    struct search of_first = {.directory = first, .key = key, .wanted = {false, true}};
    struct search of_second = {.directory = second, .key = key, .wanted = {true, false}};
    skep_directory_announce(first, &key, 7000);
    skep_directory_announce(second, &key, 7001);
    skep_directory_look_up(first, &key, found, &of_first);
    skep_directory_look_up(second, &key, found, &of_second);
    assert_true(skep_loop_run_until(loop, &of_first.all, LIMIT_MS));
    assert_true(skep_loop_run_until(loop, &of_second.all, LIMIT_MS));
    assert_int_equal(skep_directory_nodes(first), 1);
    assert_int_equal(skep_directory_nodes(second), 1);
    skep_directory_close(second);
    skep_directory_close(first);
    skep_loop_free(loop);
}

static void note_finished(void *user, const struct skep_address *addresses, size_t count,
                          bool finished)
{
    (void)addresses;
    assert_int_equal(count, 0);
    *(bool *)user = finished;
}

static void a_look_up_alone_finishes_with_nothing(void **state)
{
    (void)state;
    struct skep_loop *loop = skep_loop_new();
    struct skep_directory *only = open_node(loop, 0, NULL, false);
    struct skep_directory_key key = {{9}};
    bool finished = false;
    skep_directory_look_up(only, &key, note_finished, &finished);
    assert_true(skep_loop_run_until(loop, &finished, LIMIT_MS));
    finished = false;
    skep_directory_look_up(only, &key, note_finished, &finished);
    skep_directory_close(only);
    assert_false(finished);
    skep_loop_free(loop);
}

static void nodes_are_kept_between_runs(void **state)
{
    (void)state;
    char folder[] = "/tmp/skep-dht-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[64];
    snprintf(path, sizeof path, "%s/state", folder);
    struct skep_error err = {0};
    assert_int_equal(skep_file_write(path, 0600, "d4:oops", 7, &err), SKEP_OK);
    struct skep_loop *loop = skep_loop_new();
    struct skep_dht_options options = {.host = hosts[5], .state_path = path};
    for (int i = 0; i < 2; i++) { /* from a broken file, then from our own */
        struct skep_directory *directory = NULL;
        assert_int_equal(skep_dht_open(loop, &options, &directory, &err), SKEP_OK);
        skep_directory_close(directory);
        struct skep_buffer data = {0};
        assert_int_equal(skep_file_read(path, 10000, &data, &err), SKEP_OK);
        assert_non_null(strstr((char *)data.data, "9:dht state"));
        skep_buffer_done(&data);
    }
    skep_loop_free(loop);
    assert_int_equal(skep_folder_remove(folder, &err), SKEP_OK);
}

/* A keeper's HTTPS server has the TCP port of the number that it wants for the DHT. */
static void the_next_port_is_used_where_tcp_has_the_number(void **state)
{
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in name = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, hosts[4], &name.sin_addr), 1);
    socklen_t size = sizeof name;
    assert_int_equal(bind(fd, (struct sockaddr *)&name, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    uint16_t taken = ntohs(name.sin_port);
    struct skep_loop *loop = skep_loop_new();
    struct skep_dht_options options = {.host = hosts[4], .port = taken};
    struct skep_directory *directory = NULL;
    struct skep_error err = {0};
    if (skep_dht_open(loop, &options, &directory, &err) != SKEP_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(skep_dht_port(directory), taken + 1);
    skep_directory_close(directory);
    skep_loop_free(loop);
    close(fd);
}

static void what_is_no_address_is_refused(void **state)
{
    (void)state;
    struct skep_loop *loop = skep_loop_new();
    struct skep_directory *directory = NULL;
    static const struct skep_dht_options wrong[] = {
        {.host = "localhost"},
        {.host = "127.77.0.1", .bootstrap = "127.77.0.2"},
        {.host = "127.77.0.1", .bootstrap = "127.77.0.2:1,127.77.0.3:65536"},
        {.host = "127.77.0.1", .bootstrap = ":7"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct skep_error err = {0};
        assert_int_equal(skep_dht_open(loop, &wrong[i], &directory, &err), SKEP_ERR_ARGUMENT);
        assert_non_null(strstr(err.text, "must be"));
    }
    assert_null(directory);
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
    for (int i = 0; i < HOSTS; i++) {
        snprintf(hosts[i], sizeof hosts[i], "127.77.%d.%d", (int)(getpid() % 250), i + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_announce_and_a_read_only_third_finds_both),
        cmocka_unit_test(two_alone_find_each_other),
        cmocka_unit_test(a_look_up_alone_finishes_with_nothing),
        cmocka_unit_test(nodes_are_kept_between_runs),
        cmocka_unit_test(the_next_port_is_used_where_tcp_has_the_number),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(a_udp_port_in_use_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
