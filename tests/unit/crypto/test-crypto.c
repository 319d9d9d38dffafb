/* Hashes, keys, certificates and random bytes against published vectors and against damage. */
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/crypto/cert.h"
#include "common/crypto/hash.h"
#include "common/crypto/key.h"
#include "common/crypto/random.h"
#include "common/crypto/scrypt.h"
#include "tests/lib/cmocka.h"

static void assert_hex(const void *data, size_t size, const char *expected)
{
    char text[2 * 64 + 1];
    assert_true(size <= 64);
    skep_hex_encode(data, size, text);
    assert_string_equal(text, expected);
}

static void sha256_gives_the_published_hash_of_abc(void **state)
{
    (void)state;
    struct skep_hash hash = skep_hash_of("abc", 3);
    assert_hex(hash.bytes, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash = skep_hash_of("", 0);
    assert_hex(hash.bytes, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void sha1_gives_the_published_hash_of_abc(void **state)
{
    (void)state;
    unsigned char bytes[20];
    skep_sha1_of("abc", 3, bytes);
    assert_hex(bytes, 20, "a9993e364706816aba3e25717850c26c9cd0d89d");
}

static void a_hash_in_pieces_is_the_hash_of_the_whole_and_starts_anew(void **state)
{
    (void)state;
    struct skep_hash whole = skep_hash_of("skep", 4);
    struct skep_hasher *hasher = skep_hasher_new();
    for (int turn = 0; turn < 2; turn++) {
        skep_hasher_add(hasher, "sk", 2);
        skep_hasher_add(hasher, "", 0);
        skep_hasher_add(hasher, "ep", 2);
        struct skep_hash pieces = skep_hasher_finish(hasher);
        assert_true(skep_hash_equal(&whole, &pieces));
    }
    skep_hasher_free(hasher);
    skep_hasher_free(NULL);
}

/* RFC 8032 section 7.1, tests 1 (empty message) and 2 (one byte). */
static void ed25519_gives_the_signatures_of_its_rfc(void **state)
{
    (void)state;
    static const struct {
        const char *seed, *id, *signature, *message;
        size_t size;
    } vectors[] = {
        {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701"
         "cf9b4"
         "6bd25bf5f0595bbe24655141438e7a100b",
         "", 0},
        {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
         "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d"
         "0f11d"
         "8c387b2eaeb4302aeeb00d291612bb0c00",
         "r", 1},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t seed[32];
        assert_true(skep_hex_decode(vectors[i].seed, seed, sizeof seed));
        struct skep_key *key = skep_key_from_seed(seed);
        struct skep_peer_id id = skep_key_id(key);
        assert_hex(id.bytes, 32, vectors[i].id);
        struct skep_signature signature = skep_key_sign(key, vectors[i].message, vectors[i].size);
        assert_hex(signature.bytes, 64, vectors[i].signature);
        assert_true(skep_signature_verify(&id, vectors[i].message, vectors[i].size, &signature));
        skep_key_free(key);
    }
}

static void a_signature_verifies_for_its_bytes_and_signer_only(void **state)
{
    (void)state;
    struct skep_key *key = skep_key_new();
    struct skep_key *other = skep_key_new();
    struct skep_peer_id id = skep_key_id(key);
    struct skep_peer_id other_id = skep_key_id(other);
    struct skep_signature signature = skep_key_sign(key, "round 7", 7);
    assert_true(skep_signature_verify(&id, "round 7", 7, &signature));
    assert_false(skep_signature_verify(&id, "round 8", 7, &signature));
    assert_false(skep_signature_verify(&id, "round 7", 6, &signature));
    assert_false(skep_signature_verify(&other_id, "round 7", 7, &signature));
    for (size_t i = 0; i < SKEP_SIGNATURE_SIZE; i++) {
        struct skep_signature broken = signature;
        broken.bytes[i] ^= 0x40;
        assert_false(skep_signature_verify(&id, "round 7", 7, &broken));
    }
    skep_key_free(key);
    skep_key_free(other);
    skep_key_free(NULL);
}

static void a_key_survives_its_pem_text(void **state)
{
    (void)state;
    struct skep_key *key = skep_key_new();
    char *pem = skep_key_to_pem(key);
    assert_non_null(strstr(pem, "-----BEGIN PRIVATE KEY-----"));
    struct skep_key *again = NULL;
    assert_int_equal(skep_key_from_pem(pem, strlen(pem), &again, NULL), SKEP_OK);
    struct skep_peer_id id = skep_key_id(key);
    struct skep_peer_id id_again = skep_key_id(again);
    assert_true(skep_peer_id_equal(&id, &id_again));
    skep_key_free(key);
    skep_key_free(again);
    free(pem);
}

static void a_damaged_or_foreign_key_file_is_refused_with_a_sentence(void **state)
{
    (void)state;
    struct skep_key *key = NULL;
    struct skep_error err = {0};
    assert_int_equal(skep_key_from_pem("", 0, &key, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "BEGIN PRIVATE KEY"));
    static const char encrypted[] = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                                    "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgR\n"
                                    "-----END ENCRYPTED PRIVATE KEY-----\n";
    assert_int_equal(skep_key_from_pem(encrypted, sizeof encrypted - 1, &key, &err),
                     SKEP_ERR_FORMAT);
    char *cert = NULL;
    char *cert_key = NULL;
    skep_cert_new("keeper", &cert, &cert_key);
    assert_int_equal(skep_key_from_pem(cert_key, strlen(cert_key), &key, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "type EC; expected ED25519"));
    assert_int_equal(skep_key_from_pem(cert, strlen(cert), &key, &err), SKEP_ERR_FORMAT);
    assert_null(key);
    free(cert);
    free(cert_key);
}

static void truncated_key_files_never_give_a_key(void **state)
{
    (void)state;
    struct skep_key *key = skep_key_new();
    char *pem = skep_key_to_pem(key);
    size_t size = strlen(pem);
    /* Without its last dash and newline the end line is not one any more. */
    for (size_t cut = 0; cut + 2 < size; cut++) {
        struct skep_key *wrong = NULL;
        assert_int_equal(skep_key_from_pem(pem, cut, &wrong, NULL), SKEP_ERR_FORMAT);
        assert_null(wrong);
    }
    skep_key_free(key);
    free(pem);
}

static void certificates_differ_and_keep_their_pin(void **state)
{
    (void)state;
    char *cert[2];
    char *key[2];
    struct skep_hash pin[2];
    for (int i = 0; i < 2; i++) {
        skep_cert_new("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", &cert[i],
                      &key[i]);
        assert_int_equal(skep_cert_pin(cert[i], strlen(cert[i]), &pin[i], NULL), SKEP_OK);
    }
    assert_false(skep_hash_equal(&pin[0], &pin[1]));
    struct skep_hash again;
    assert_int_equal(skep_cert_pin(cert[0], strlen(cert[0]), &again, NULL), SKEP_OK);
    assert_true(skep_hash_equal(&pin[0], &again));
    struct skep_error err = {0};
    assert_int_equal(skep_cert_pin(key[0], strlen(key[0]), &again, &err), SKEP_ERR_FORMAT);
    assert_non_null(strstr(err.text, "BEGIN CERTIFICATE"));
    for (int i = 0; i < 2; i++) {
        free(cert[i]);
        free(key[i]);
    }
}

/* Made with: openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256. */
static void a_pin_is_the_hash_of_the_public_key_info(void **state)
{
    (void)state;
    static const char pem[] = "-----BEGIN CERTIFICATE-----\n"
                              "MIIBczCCARmgAwIBAgIUeyQMC4bdbTOw0ZgI+HA+FFr0ZiowCgYIKoZIzj0EAwIw\n"
                              "DjEMMAoGA1UEAwwDcGluMCAXDTI2MTEzMDA3MDgwMFoYDzIxMjYxMTA2MDcwODAw\n"
                              "WjAOMQwwCgYDVQQDDANwaW4wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARE0u2x\n"
                              "OlFme0ZjrqLgkxl4fbvfpQKKfxZ7BUD6YBJPixmHcJUDfHLrZ8ipUiSm1j+Bs/y2\n"
                              "ywTXJln/PjJjhfaeo1MwUTAdBgNVHQ4EFgQUXBpNkCIUNiRwBQWO9Iz9y9ZGso8w\n"
                              "HwYDVR0jBBgwFoAUXBpNkCIUNiRwBQWO9Iz9y9ZGso8wDwYDVR0TAQH/BAUwAwEB\n"
                              "/zAKBggqhkjOPQQDAgNIADBFAiAV5CN+f0NRTMhGLDq30rl8N75LVaqNBgWYYJpM\n"
                              "Ce/KPAIhAN4in3nqEbBL07fGdCxrQDzne4+J8Q3bHuNMPKbDrM3X\n"
                              "-----END CERTIFICATE-----\n";
    struct skep_hash pin;
    assert_int_equal(skep_cert_pin(pem, sizeof pem - 1, &pin, NULL), SKEP_OK);
    assert_hex(pin.bytes, 32, "39b6a920a55e3b9f4bc7f5e0095be0c71729892e838f2f0fb8bddc98365e72a4");
    char text[64];
    skep_pin_format(&pin, text);
    assert_string_equal(text, "sha256//ObapIKVeO59Lx/XgCVvgxxcpiS6Djy8PuL3cmDZecqQ=");
}

static void random_bytes_fill_everything_and_differ(void **state)
{
    (void)state;
    uint8_t a[64] = {0};
    uint8_t b[64] = {0};
    skep_random_bytes(a, sizeof a);
    skep_random_bytes(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    /* All zero at either end: one chance in 2^128. */
    uint8_t zero[16] = {0};
    assert_memory_not_equal(a, zero, 16);
    assert_memory_not_equal(a + 48, zero, 16);
}

/* RFC 7914, section 12, the vector with N = 16384, r = 8, p = 1: its first half (scrypt ends with PBKDF2, whose blocks are independent). */
static void scrypt_gives_the_hash_of_rfc_7914(void **state)
{
    (void)state;
    static const char expected[] =
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2";
    uint8_t wanted[32];
    uint8_t found[32];
    assert_true(skep_hex_decode(expected, wanted, sizeof wanted));
    assert_int_equal(skep_scrypt("pleaseletmein", 13, "SodiumChloride", 14, found, NULL), SKEP_OK);
    assert_memory_equal(found, wanted, sizeof wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_published_hash_of_abc),
        cmocka_unit_test(scrypt_gives_the_hash_of_rfc_7914),
        cmocka_unit_test(sha1_gives_the_published_hash_of_abc),
        cmocka_unit_test(a_hash_in_pieces_is_the_hash_of_the_whole_and_starts_anew),
        cmocka_unit_test(ed25519_gives_the_signatures_of_its_rfc),
        cmocka_unit_test(a_signature_verifies_for_its_bytes_and_signer_only),
        cmocka_unit_test(a_key_survives_its_pem_text),
        cmocka_unit_test(a_damaged_or_foreign_key_file_is_refused_with_a_sentence),
        cmocka_unit_test(truncated_key_files_never_give_a_key),
        cmocka_unit_test(certificates_differ_and_keep_their_pin),
        cmocka_unit_test(a_pin_is_the_hash_of_the_public_key_info),
        cmocka_unit_test(random_bytes_fill_everything_and_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
