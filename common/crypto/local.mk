noinst_LIBRARIES += common/crypto/libskep-crypto.a
common_crypto_libskep_crypto_a_SOURCES =
EXTRA_DIST += common/crypto/README.md
