#include "common/discovery/directory.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/bytes.h"
#include "common/crypto/hash.h"
#include "common/discovery/directory-private.h"

struct skep_directory_key skep_directory_key_of(const struct skep_project_id *project,
                                                const char *part)
{
    char hex[SKEP_ID_TEXT_SIZE];
    skep_hex_encode(project->bytes, sizeof project->bytes, hex);
    struct skep_buffer text = {0};
    skep_buffer_append(&text, "skep", sizeof "skep"); /* with the NUL that separates */
    skep_buffer_append_text(&text, hex);
    if (part != NULL) {
        skep_buffer_append_u8(&text, 0);
        skep_buffer_append_text(&text, part);
    }
    struct skep_directory_key key;
    skep_sha1_of(text.data, text.size, key.bytes);
    skep_buffer_done(&text);
    return key;
}

/* 1 to 65535 in decimal without leading zeros; 0 if it is anything else. */
static uint16_t parse_port(const char *text)
{
    if (*text == '0' || strlen(text) > 5) {
        return 0;
    }
    uint32_t port = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        port = port * 10 + (uint32_t)(*text - '0');
    }
    return *text == '\0' && port <= UINT16_MAX ? (uint16_t)port : 0;
}

bool skep_address_parse(const char *text, struct skep_address *ret_address)
{
    bool six = *text == '[';
    const char *start = six ? text + 1 : text;
    const char *end = strstr(start, six ? "]:" : ":");
    if (end == NULL || (size_t)(end - start) >= SKEP_ADDRESS_TEXT_SIZE) {
        return false;
    }
    struct skep_address address = {.port = parse_port(end + (six ? 2 : 1))};
    memcpy(address.host, start, (size_t)(end - start));
    unsigned char numeric[sizeof(struct in6_addr)];
    int family = six ? AF_INET6 : AF_INET;
    if (address.port == 0 || inet_pton(family, address.host, numeric) != 1) {
        return false;
    }
    /* One spelling of each address, so that callers may compare them as text. */
    if (inet_ntop(family, numeric, address.host, sizeof address.host) == NULL) {
        return false;
    }
    *ret_address = address;
    return true;
}

void skep_directory_announce(struct skep_directory *directory, const struct skep_directory_key *key,
                             uint16_t port)
{
    directory->ops->announce(directory, key, port);
}

void skep_directory_look_up(struct skep_directory *directory, const struct skep_directory_key *key,
                            skep_directory_found found, void *user)
{
    directory->ops->look_up(directory, key, found, user);
}

size_t skep_directory_nodes(const struct skep_directory *directory)
{
    return directory->ops->nodes(directory);
}

void skep_directory_close(struct skep_directory *directory)
{
    if (directory != NULL) {
        directory->ops->close(directory);
    }
}

/* The table in memory. */

struct entry {
    struct skep_directory_key key;
    struct skep_address address;
    const struct skep_directory *owner; /* whose end takes the entry away */
};

struct skep_directory_table {
    struct entry *entries;
    size_t count;
    size_t capacity;
    size_t directories; /* still open */
};

struct memory {
    struct skep_directory base;
    struct skep_directory_table *table;
    char host[SKEP_ADDRESS_TEXT_SIZE];
};

struct skep_directory_table *skep_directory_table_new(void)
{
    return skep_alloc(1, sizeof(struct skep_directory_table));
}

void skep_directory_table_free(struct skep_directory_table *table)
{
    if (table != NULL) {
        assert(table->directories == 0 && "a directory was not closed before its table");
        free(table->entries);
        free(table);
    }
}

static bool same_key(const struct entry *entry, const struct skep_directory_key *key)
{
    return memcmp(entry->key.bytes, key->bytes, sizeof key->bytes) == 0;
}

static void memory_announce(struct skep_directory *directory, const struct skep_directory_key *key,
                            uint16_t port)
{
    struct memory *memory = (struct memory *)directory;
    struct skep_directory_table *table = memory->table;
    for (size_t i = 0; i < table->count; i++) {
        if (table->entries[i].owner == directory && same_key(&table->entries[i], key)) {
            table->entries[i].address.port = port;
            return;
        }
    }
    if (table->count == table->capacity) {
        table->capacity = table->capacity * 2 + 16;
        table->entries = skep_realloc(table->entries, table->capacity, sizeof *table->entries);
    }
    struct entry *entry = &table->entries[table->count++];
    *entry = (struct entry){.key = *key, .address.port = port, .owner = directory};
    memcpy(entry->address.host, memory->host, sizeof memory->host);
}

static void memory_look_up(struct skep_directory *directory, const struct skep_directory_key *key,
                           skep_directory_found found, void *user)
{
    const struct skep_directory_table *table = ((struct memory *)directory)->table;
    /* A copy, because `found` may announce. */
    struct skep_address *addresses = skep_alloc(table->count + 1, sizeof *addresses);
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        if (same_key(&table->entries[i], key)) {
            addresses[count++] = table->entries[i].address;
        }
    }
    found(user, addresses, count, true);
    free(addresses);
}

static size_t memory_nodes(const struct skep_directory *directory)
{
    return ((const struct memory *)directory)->table->directories - 1;
}

static void memory_close(struct skep_directory *directory)
{
    struct skep_directory_table *table = ((struct memory *)directory)->table;
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++) {
        if (table->entries[i].owner != directory) {
            table->entries[kept++] = table->entries[i];
        }
    }
    table->count = kept;
    table->directories--;
    free(directory);
}

static const struct skep_directory_ops MEMORY_OPS = {
    .announce = memory_announce,
    .look_up = memory_look_up,
    .nodes = memory_nodes,
    .close = memory_close,
};

struct skep_directory *skep_directory_memory(struct skep_directory_table *table, const char *host)
{
    assert(strlen(host) < SKEP_ADDRESS_TEXT_SIZE);
    struct memory *memory = skep_alloc(1, sizeof *memory);
    memory->base.ops = &MEMORY_OPS;
    memory->table = table;
    memcpy(memory->host, host, strlen(host));
    table->directories++;
    return &memory->base;
}
