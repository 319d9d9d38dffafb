/* cmocka with the headers that it wants included before it. */
#ifndef SKEP_TESTS_LIB_CMOCKA_H
#define SKEP_TESTS_LIB_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
