UNIT_TESTS += tests/unit/crypto/test-crypto
tests_unit_crypto_test_crypto_SOURCES = tests/unit/crypto/test-crypto.c
tests_unit_crypto_test_crypto_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
