noinst_LIBRARIES += common/crypto/libskep-crypto.a
common_crypto_libskep_crypto_a_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS)
common_crypto_libskep_crypto_a_SOURCES = \
    common/crypto/cert.c common/crypto/cert.h \
    common/crypto/hash.c common/crypto/hash.h \
    common/crypto/key.c common/crypto/key.h \
    common/crypto/must.c common/crypto/must.h \
    common/crypto/random.c common/crypto/random.h \
    common/crypto/scrypt.c common/crypto/scrypt.h
EXTRA_DIST += common/crypto/README.md
