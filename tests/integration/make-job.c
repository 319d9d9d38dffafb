/* make-job FOLDER TASK.yaml: tests/lib/job-maker.h as a program, for the tests that are scripts. */
#include <stdio.h>

#include "tests/lib/job-maker.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: make-job FOLDER TASK.yaml\n");
        return 2;
    }
    struct skep_error err = {0};
    int rc = skep_make_job(argv[1], argv[2], &err);
    if (rc != 0) {
        fprintf(stderr, "make-job: %s\n", err.text);
    }
    return rc == 0 ? 0 : 1;
}
