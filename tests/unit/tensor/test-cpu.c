/* Which table SKEP_CPU chooses. The choice is made once for a process, so each case is forked off before it is made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tensor/ops.h"
#include "tests/lib/cmocka.h"

/* Writes the name of the chosen table to `to`, what it says on stderr before it. */
static void child(const char *wanted, int to)
{
    if (wanted != NULL) {
        setenv("SKEP_CPU", wanted, 1);
    } else {
        unsetenv("SKEP_CPU");
    }
    dup2(to, STDERR_FILENO);
    fprintf(stderr, "%s", skep_ops_cpu()->name);
    fflush(stderr);
    _exit(0);
}

static void choose(const char *wanted, char *ret_text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        child(wanted, ends[1]);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < size && (got = read(ends[0], ret_text + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    ret_text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void without_a_wish_the_fastest_table_is_used(void **state)
{
    (void)state;
    const struct skep_ops *tables[8];
    size_t count = skep_ops_cpu_tables(tables, 8);
    char text[512];
    choose(NULL, text, sizeof text);
    assert_string_equal(text, tables[count - 1]->name);
    choose("", text, sizeof text);
    assert_string_equal(text, tables[count - 1]->name);
}

static void each_table_can_be_asked_for_by_name(void **state)
{
    (void)state;
    const struct skep_ops *tables[8];
    size_t count = skep_ops_cpu_tables(tables, 8);
    assert_string_equal(tables[0]->name, "cpu baseline");
    for (size_t i = 0; i < count; i++) {
        char text[512];
        choose(tables[i]->name + strlen("cpu "), text, sizeof text);
        assert_string_equal(text, tables[i]->name);
    }
}

static void a_table_that_is_not_there_is_refused_by_name_and_the_fastest_used(void **state)
{
    (void)state;
    const struct skep_ops *tables[8];
    size_t count = skep_ops_cpu_tables(tables, 8);
    char text[512];
    choose("mmx", text, sizeof text);
    assert_non_null(strstr(text, "SKEP_CPU is \"mmx\", but this machine has \"baseline\""));
    const char *name = tables[count - 1]->name;
    assert_string_equal(text + strlen(text) - strlen(name), name);
}

static void no_more_tables_are_told_than_asked_for(void **state)
{
    (void)state;
    const struct skep_ops *table = NULL;
    assert_int_equal(skep_ops_cpu_tables(&table, 1), 1);
    assert_string_equal(table->name, "cpu baseline");
    assert_int_equal(skep_ops_cpu_tables(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_wish_the_fastest_table_is_used),
        cmocka_unit_test(each_table_can_be_asked_for_by_name),
        cmocka_unit_test(a_table_that_is_not_there_is_refused_by_name_and_the_fastest_used),
        cmocka_unit_test(no_more_tables_are_told_than_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
