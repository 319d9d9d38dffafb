/*
 * The only C++ of the project. libtorrent runs a thread of its own and posts alerts; its notification rings a bell
 * (skep_async) on the loop, and everything else here happens on the loop's thread. No exception leaves this file.
 */
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <libtorrent/address.hpp>
#include <libtorrent/alert_types.hpp>
#include <libtorrent/disabled_disk_io.hpp>
#include <libtorrent/entry.hpp>
#include <libtorrent/kademlia/dht_state.hpp>
#include <libtorrent/kademlia/dht_storage.hpp>
#include <libtorrent/session.hpp>
#include <libtorrent/session_params.hpp>
#include <libtorrent/session_stats.hpp>
#include <libtorrent/settings_pack.hpp>
#include <libtorrent/socket_io.hpp>

extern "C" {
#include "common/base/bytes.h"
#include "common/base/log.h"
#include "common/discovery/dht.h"
#include "common/discovery/directory-private.h"
#include "common/sys/file.h"
}

namespace
{

constexpr uint64_t STEP_ALONE_MS =
    300;                           /* the routing table is empty: ask the bootstrap nodes again */
constexpr uint64_t STEP_MS = 1000; /* pace of everything that is repeated */
constexpr uint64_t LONELY_MS = 30000; /* after so long alone, STEP_MS is enough */
constexpr uint64_t ANNOUNCE_MS =
    120000; /* BEP 5 nodes forget after 30 to 45 minutes; restarts should heal sooner */
constexpr uint64_t QUICK_MS = 15000;      /* a small swarm that just grew announces at every step */
constexpr size_t SMALL_SWARM = 32;        /* nodes below which that costs nearly nothing */
constexpr size_t ANNOUNCES_PER_STEP = 4;  /* in a large one; each asks some dozens of nodes */
constexpr uint64_t LOOK_UP_MS = 2000;     /* answers that come at all come within this */
constexpr uint64_t LOOK_UP_STEP_MS = 250; /* asks again so often */
constexpr size_t ANSWER_LIMIT = 1000;     /* addresses of one look-up; whoever lies may send many */
constexpr uint64_t SAVE_MS = 300000;
constexpr int LISTEN_LIMIT_MS = 2000;
constexpr int PORT_TRIES = 10;
constexpr size_t STATE_LIMIT = 1 << 20;

/* What other nodes announced to this one. A node asks others, never itself, so in a swarm of two neither would hear of the
 * other without a look at its own shelf. libtorrent's thread writes, the loop's reads. */
struct shelf {
    std::mutex mutex;
    const lt::dht::dht_storage_interface *storage = nullptr;
};

/* libtorrent's own storage behind a lock. */
class shared_storage final : public lt::dht::dht_storage_interface
{
  public:
    shared_storage(std::unique_ptr<lt::dht::dht_storage_interface> storage,
                   std::shared_ptr<shelf> where)
        : inner(std::move(storage)), place(std::move(where))
    {
        guard lock(place->mutex);
        place->storage = inner.get();
    }
    ~shared_storage() override
    {
        guard lock(place->mutex);
        if (place->storage == inner.get()) {
            place->storage = nullptr;
        }
    }
    shared_storage(const shared_storage &) = delete;
    shared_storage &operator=(const shared_storage &) = delete;

#if TORRENT_ABI_VERSION == 1
    size_t num_torrents() const override
    {
        return size_t(inner->counters().torrents);
    }
    size_t num_peers() const override
    {
        return size_t(inner->counters().peers);
    }
#endif
    void update_node_ids(std::vector<lt::dht::node_id> const &ids) override
    {
        guard lock(place->mutex);
        inner->update_node_ids(ids);
    }
    bool get_peers(lt::sha1_hash const &key, bool noseed, bool scrape, lt::address const &requester,
                   lt::entry &peers) const override
    {
        guard lock(place->mutex);
        return inner->get_peers(key, noseed, scrape, requester, peers);
    }
    void announce_peer(lt::sha1_hash const &key, lt::tcp::endpoint const &peer,
                       lt::string_view name, bool seed) override
    {
        guard lock(place->mutex);
        inner->announce_peer(key, peer, name, seed);
    }
    bool get_immutable_item(lt::sha1_hash const &target, lt::entry &item) const override
    {
        guard lock(place->mutex);
        return inner->get_immutable_item(target, item);
    }
    void put_immutable_item(lt::sha1_hash const &target, lt::span<char const> buffer,
                            lt::address const &from) override
    {
        guard lock(place->mutex);
        inner->put_immutable_item(target, buffer, from);
    }
    bool get_mutable_item_seq(lt::sha1_hash const &target,
                              lt::dht::sequence_number &sequence) const override
    {
        guard lock(place->mutex);
        return inner->get_mutable_item_seq(target, sequence);
    }
    bool get_mutable_item(lt::sha1_hash const &target, lt::dht::sequence_number sequence,
                          bool force_fill, lt::entry &item) const override
    {
        guard lock(place->mutex);
        return inner->get_mutable_item(target, sequence, force_fill, item);
    }
    void put_mutable_item(lt::sha1_hash const &target, lt::span<char const> buffer,
                          lt::dht::signature const &signature, lt::dht::sequence_number sequence,
                          lt::dht::public_key const &key, lt::span<char const> salt,
                          lt::address const &from) override
    {
        guard lock(place->mutex);
        inner->put_mutable_item(target, buffer, signature, sequence, key, salt, from);
    }
    int get_infohashes_sample(lt::entry &item) override
    {
        guard lock(place->mutex);
        return inner->get_infohashes_sample(item);
    }
    void tick() override
    {
        guard lock(place->mutex);
        inner->tick();
    }
    lt::dht::dht_storage_counters counters() const override
    {
        guard lock(place->mutex);
        return inner->counters();
    }

  private:
    using guard = std::lock_guard<std::mutex>;
    std::unique_ptr<lt::dht::dht_storage_interface> inner;
    std::shared_ptr<shelf> place;
};

struct announcement {
    lt::sha1_hash key;
    uint16_t port;
    uint64_t due_ms;
};

struct dht;

struct look_up {
    struct dht *owner;
    lt::sha1_hash key;
    skep_directory_found found;
    void *user;
    struct skep_timer *timer;
    uint64_t until_ms;
    std::vector<lt::tcp::endpoint> told;
};

struct dht : skep_directory {
    struct skep_loop *loop = nullptr;
    struct skep_async *bell = nullptr;
    struct skep_timer *timer = nullptr;
    std::unique_ptr<lt::session> session;
    std::shared_ptr<shelf> own = std::make_shared<shelf>();
    std::vector<std::pair<std::string, int>> bootstrap;
    std::vector<announcement> announcements;
    std::vector<look_up *> look_ups;
    std::string state_path;
    std::string host;
    bool map_ports = false;
    uint16_t port = 0;
    size_t nodes = 0;
    int nodes_metric = -1;
    uint64_t opened_ms = 0;
    uint64_t quick_until_ms = 0;
    uint64_t save_due_ms = 0;
};

lt::sha1_hash hash_of(const struct skep_directory_key *key)
{
    return lt::sha1_hash(reinterpret_cast<const char *>(key->bytes));
}

struct skep_address address_of(const lt::tcp::endpoint &peer)
{
    struct skep_address address = {};
    std::string text = peer.address().to_string();
    std::strncpy(address.host, text.c_str(), sizeof address.host - 1);
    address.port = peer.port();
    return address;
}

/* ---- announcing ---- */

void announce_one(dht &self, announcement &what, uint64_t now)
{
    self.session->dht_announce(what.key, what.port);
    what.due_ms = now + ANNOUNCE_MS;
}

void announce_all(dht &self, uint64_t now)
{
    for (announcement &what : self.announcements) {
        announce_one(self, what, now);
    }
}

void announce_due(dht &self, uint64_t now)
{
    size_t left = self.nodes < SMALL_SWARM ? self.announcements.size() : ANNOUNCES_PER_STEP;
    for (announcement &what : self.announcements) {
        if (what.due_ms <= now && left > 0) {
            announce_one(self, what, now);
            left--;
        }
    }
}

void on_announce(struct skep_directory *directory, const struct skep_directory_key *key,
                 uint16_t port)
{
    dht &self = *static_cast<dht *>(directory);
    uint64_t now = skep_loop_now_ms(self.loop);
    lt::sha1_hash hash = hash_of(key);
    bool mapped = !self.map_ports;
    for (announcement &what : self.announcements) {
        mapped = mapped || what.port == port;
        if (what.key == hash) {
            if (what.port != port) {
                what.port = port;
                what.due_ms = now;
            }
            return;
        }
    }
    if (!mapped) {
        self.session->add_port_mapping(lt::session::tcp, port, port);
    }
    self.announcements.push_back({hash, port, now});
    if (self.nodes > 0) {
        announce_due(self, now);
    }
}

/* ---- looking up ---- */

void answer(look_up *what, const std::vector<lt::tcp::endpoint> &peers)
{
    std::vector<struct skep_address> addresses;
    for (const lt::tcp::endpoint &peer : peers) {
        bool again = std::find(what->told.begin(), what->told.end(), peer) != what->told.end();
        if (peer.port() != 0 && !again && what->told.size() < ANSWER_LIMIT) {
            what->told.push_back(peer);
            addresses.push_back(address_of(peer));
        }
    }
    if (!addresses.empty()) {
        what->found(what->user, addresses.data(), addresses.size(), false);
    }
}

/* Compact form of BEP 5: 4 or 16 bytes of address and 2 of port, big-endian. */
bool endpoint_of(const lt::entry &value, lt::tcp::endpoint &ret_peer)
{
    if (value.type() != lt::entry::string_t) {
        return false;
    }
    const std::string &bytes = value.string();
    const auto *at = reinterpret_cast<const unsigned char *>(bytes.data());
    if (bytes.size() == 6) {
        lt::address_v4::bytes_type four;
        std::memcpy(four.data(), at, four.size());
        ret_peer = lt::tcp::endpoint(lt::address_v4(four), uint16_t(at[4] << 8 | at[5]));
        return true;
    }
    if (bytes.size() == 18) {
        lt::address_v6::bytes_type sixteen;
        std::memcpy(sixteen.data(), at, sixteen.size());
        ret_peer = lt::tcp::endpoint(lt::address_v6(sixteen), uint16_t(at[16] << 8 | at[17]));
        return true;
    }
    return false;
}

std::vector<lt::tcp::endpoint> read_shelf(dht &self, const lt::sha1_hash &key)
{
    std::vector<lt::tcp::endpoint> peers;
    lt::error_code bad;
    lt::address asker = lt::make_address(self.host, bad);
    lt::entry reply;
    {
        std::lock_guard<std::mutex> lock(self.own->mutex);
        if (self.own->storage == nullptr) {
            return peers;
        }
        self.own->storage->get_peers(key, false, false, asker, reply);
    }
    const lt::entry *values =
        reply.type() == lt::entry::dictionary_t ? reply.find_key("values") : nullptr;
    if (values == nullptr || values->type() != lt::entry::list_t) {
        return peers;
    }
    for (const lt::entry &value : values->list()) {
        lt::tcp::endpoint peer;
        if (endpoint_of(value, peer)) {
            peers.push_back(peer);
        }
    }
    return peers;
}

void end_look_up(look_up *what)
{
    std::vector<look_up *> &all = what->owner->look_ups;
    for (size_t i = 0; i < all.size(); i++) {
        if (all[i] == what) {
            all.erase(all.begin() + long(i));
            break;
        }
    }
    skep_timer_free(what->timer);
    skep_directory_found found = what->found;
    void *user = what->user;
    delete what;
    found(user, nullptr, 0, true);
}

void on_look_up_step(void *user)
{
    auto *what = static_cast<look_up *>(user);
    dht &self = *what->owner;
    if (skep_loop_now_ms(self.loop) >= what->until_ms) {
        end_look_up(what);
        return;
    }
    /* Once may be too early for a swarm that has just come together; in a large one the first answers do. */
    if (what->told.empty() || self.nodes < SMALL_SWARM) {
        self.session->dht_get_peers(what->key);
        answer(what, read_shelf(self, what->key));
    }
}

void on_look_up(struct skep_directory *directory, const struct skep_directory_key *key,
                skep_directory_found found, void *user)
{
    dht &self = *static_cast<dht *>(directory);
    auto *what = new look_up{&self, hash_of(key), found, user, nullptr, 0, {}};
    what->until_ms = skep_loop_now_ms(self.loop) + LOOK_UP_MS;
    what->timer = skep_timer_new(self.loop, on_look_up_step, what);
    skep_timer_start(what->timer, 0, LOOK_UP_STEP_MS);
    self.look_ups.push_back(what);
}

void on_peers(dht &self, const lt::dht_get_peers_reply_alert &alert)
{
    std::vector<lt::tcp::endpoint> peers = alert.peers();
    /* Callbacks may begin look-ups, which go to the end, and never end one. */
    size_t count = self.look_ups.size();
    for (size_t i = 0; i < count; i++) {
        if (self.look_ups[i]->key == alert.info_hash) {
            answer(self.look_ups[i], peers);
        }
    }
}

/* ---- the session ---- */

void on_stats(dht &self, const lt::session_stats_alert &alert)
{
    auto counters = alert.counters();
    int64_t count = self.nodes_metric >= 0 ? counters[self.nodes_metric] : 0;
    size_t nodes = count > 0 ? size_t(count) : 0;
    if (nodes > self.nodes && nodes < SMALL_SWARM) {
        uint64_t now = skep_loop_now_ms(self.loop);
        self.quick_until_ms = now + QUICK_MS;
        announce_all(self, now);
    }
    self.nodes = nodes;
}

void on_bell(void *user)
{
    dht &self = *static_cast<dht *>(user);
    std::vector<lt::alert *> alerts;
    self.session->pop_alerts(&alerts);
    for (const lt::alert *alert : alerts) {
        if (const auto *peers = lt::alert_cast<lt::dht_get_peers_reply_alert>(alert)) {
            on_peers(self, *peers);
        } else if (const auto *stats = lt::alert_cast<lt::session_stats_alert>(alert)) {
            on_stats(self, *stats);
        } else if (alert->category() & lt::alert_category::error) {
            skep_log(SKEP_LOG_DEBUG, "DHT: %s", alert->message().c_str());
        }
    }
}

void save_state(dht &self)
{
    if (self.state_path.empty()) {
        return;
    }
    struct skep_error err = {};
    try {
        lt::session_params params = self.session->session_state(lt::session::save_dht_state);
        std::vector<char> bytes = lt::write_session_params_buf(params, lt::session::save_dht_state);
        skep_file_write_quick(self.state_path.c_str(), 0600, bytes.data(), bytes.size(), &err);
    } catch (const std::exception &problem) {
        skep_error_set(&err, SKEP_ERR_IO, "%s", problem.what());
    }
    if (err.code != SKEP_OK) {
        skep_log(SKEP_LOG_WARNING, "the DHT's nodes were not saved: %s", err.text);
    }
}

void on_step(void *user)
{
    dht &self = *static_cast<dht *>(user);
    uint64_t now = skep_loop_now_ms(self.loop);
    bool alone = self.nodes == 0;
    if (alone) {
        for (const auto &node : self.bootstrap) {
            self.session->add_dht_node(node);
        }
    } else if (now < self.quick_until_ms && self.nodes < SMALL_SWARM) {
        announce_all(self, now);
    } else {
        announce_due(self, now);
    }
    if (now >= self.save_due_ms) {
        self.save_due_ms = now + SAVE_MS;
        save_state(self);
    }
    self.session->post_session_stats();
    bool hurry = alone && now < self.opened_ms + LONELY_MS;
    skep_timer_start(self.timer, hurry ? STEP_ALONE_MS : STEP_MS, 0);
}

size_t on_nodes(const struct skep_directory *directory)
{
    return static_cast<const dht *>(directory)->nodes;
}

void on_close(struct skep_directory *directory)
{
    auto *self = static_cast<dht *>(directory);
    for (look_up *what : self->look_ups) {
        skep_timer_free(what->timer);
        delete what;
    }
    skep_timer_free(self->timer);
    if (self->session) {
        if (self->bell != nullptr) {
            save_state(*self);
        }
        self->session.reset(); /* waits for libtorrent's thread, which rings the bell until then */
    }
    skep_async_free(self->bell);
    delete self;
}

const struct skep_directory_ops DHT_OPS = {on_announce, on_look_up, on_nodes, on_close};

/* ---- opening ---- */

int parse_bootstrap(dht &self, const char *text, struct skep_error *err)
{
    std::string list = text != nullptr ? text : "";
    for (size_t at = 0; at < list.size();) {
        size_t comma = std::min(list.find(',', at), list.size());
        std::string item = list.substr(at, comma - at);
        at = comma + 1;
        size_t colon = item.rfind(':');
        std::string digits = colon == std::string::npos ? "" : item.substr(colon + 1);
        std::string name = item.substr(0, std::min(colon, item.size()));
        if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
            name = name.substr(1, name.size() - 2);
        }
        bool number = !digits.empty() && digits.size() <= 5 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
        int port = number ? std::stoi(digits) : 0;
        if (name.empty() || port < 1 || port > 65535) {
            return skep_error_set(err, SKEP_ERR_ARGUMENT,
                                  "the bootstrap node is \"%.80s\"; it must be HOST:PORT",
                                  item.c_str());
        }
        self.bootstrap.emplace_back(name, port);
    }
    return SKEP_OK;
}

/* libtorrent would take another port without a word. */
int probe_port(const lt::udp::endpoint &wanted, struct skep_error *err)
{
    int fd = socket(wanted.data()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int problem = fd < 0 ? errno : 0;
    if (fd >= 0) {
        if (bind(fd, wanted.data(), socklen_t(wanted.size())) != 0) {
            problem = errno;
        }
        close(fd);
    }
    if (problem != 0) {
        return skep_error_set(err, skep_err_from_errno(problem),
                              "the DHT cannot use UDP port %u of %s: %s", unsigned(wanted.port()),
                              wanted.address().to_string().c_str(), std::strerror(problem));
    }
    return SKEP_OK;
}

bool is_private(const lt::address &address)
{
    if (!address.is_v4() || address.is_unspecified()) {
        return address.is_loopback();
    }
    uint32_t value = address.to_v4().to_uint();
    return value >> 24 == 127 || value >> 24 == 10 || value >> 16 == 0xc0a8 || value >> 20 == 0xac1;
}

lt::settings_pack settings_of(const struct skep_dht_options *options, const lt::address &address)
{
    using pack = lt::settings_pack;
    pack settings;
    std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
    settings.set_str(pack::listen_interfaces, host + ":" + std::to_string(options->port));
    settings.set_int(pack::max_retry_port_bind, options->port != 0 ? PORT_TRIES : 0);
    settings.set_bool(pack::listen_system_port_fallback, false);
    settings.set_int(pack::alert_mask, lt::alert_category::error | lt::alert_category::status |
                                           lt::alert_category::dht_operation);
    settings.set_str(pack::user_agent, "");
    settings.set_bool(pack::enable_lsd, false);
    settings.set_bool(pack::enable_upnp, options->map_ports);
    settings.set_bool(pack::enable_natpmp, options->map_ports);
    settings.set_bool(pack::enable_incoming_tcp, false);
    settings.set_bool(pack::enable_outgoing_tcp, false);
    settings.set_bool(pack::enable_incoming_utp, false);
    settings.set_bool(pack::enable_outgoing_utp, false);
    settings.set_bool(pack::enable_dht, true);
    settings.set_bool(pack::dht_read_only, options->read_only);
    /* Not empty by default, and what stands here never enters the routing table: ours are ordinary nodes (add_dht_node). */
    settings.set_str(pack::dht_bootstrap_nodes, "");
    if (is_private(address)) {
        /* Neighbours share a network; the rules against one attacker with many addresses would keep them apart. */
        settings.set_bool(pack::dht_restrict_routing_ips, false);
        settings.set_bool(pack::dht_restrict_search_ips, false);
        settings.set_bool(pack::dht_prefer_verified_node_ids, false);
        settings.set_bool(pack::dht_ignore_dark_internet, false);
    }
    if (address.is_loopback()) {
        settings.set_int(pack::dht_block_ratelimit, 100000);
        settings.set_int(pack::dht_upload_rate_limit, 10000000);
        settings.set_int(pack::dht_max_dht_items, 100000);
    }
    return settings;
}

void load_state(const dht &self, lt::dht::dht_state &ret_state)
{
    struct skep_buffer data = {};
    if (self.state_path.empty() ||
        skep_file_read(self.state_path.c_str(), STATE_LIMIT, &data, nullptr) != SKEP_OK) {
        return;
    }
    try {
        lt::span<char const> bytes(reinterpret_cast<const char *>(data.data), long(data.size));
        ret_state = lt::read_session_params(bytes, lt::session::save_dht_state).dht_state;
    } catch (const std::exception &problem) {
        skep_log(SKEP_LOG_WARNING, "%s holds no DHT state and will be replaced: %s",
                 self.state_path.c_str(), problem.what());
    }
    skep_buffer_done(&data);
}

/* Waits until the UDP socket is open: its port is asked for at once. */
int await_listening(dht &self, struct skep_error *err)
{
    std::string problem = "no answer within 2 s";
    uint64_t limit = skep_loop_now_ms(self.loop) + LISTEN_LIMIT_MS;
    for (uint64_t now = 0; now < limit; now = skep_loop_now_ms(self.loop)) {
        self.session->wait_for_alert(std::chrono::milliseconds(50));
        std::vector<lt::alert *> alerts;
        self.session->pop_alerts(&alerts);
        for (const lt::alert *alert : alerts) {
            const auto *good = lt::alert_cast<lt::listen_succeeded_alert>(alert);
            const auto *bad = lt::alert_cast<lt::listen_failed_alert>(alert);
            if (good != nullptr && good->socket_type == lt::socket_type_t::utp) {
                self.port = uint16_t(good->port);
                return SKEP_OK;
            }
            if (bad != nullptr) {
                return skep_error_set(
                    err, bad->error.value() == EADDRINUSE ? SKEP_ERR_IN_USE : SKEP_ERR_IO,
                    "the DHT cannot listen on %s: %s", self.host.c_str(),
                    bad->error.message().c_str());
            }
        }
    }
    return skep_error_set(err, SKEP_ERR_IO, "the DHT cannot listen on %s: %s", self.host.c_str(),
                          problem.c_str());
}

void start_session(dht &self, const struct skep_dht_options *options, const lt::address &address)
{
    lt::session_params params(settings_of(options, address), {});
    params.disk_io_constructor = lt::disabled_disk_io_constructor;
    std::shared_ptr<shelf> own = self.own;
    params.dht_storage_constructor = [own](lt::settings_interface const &settings) {
        return std::unique_ptr<lt::dht::dht_storage_interface>(
            new shared_storage(lt::dht::dht_default_storage_constructor(settings), own));
    };
    load_state(self, params.dht_state);
    for (const auto &node : self.bootstrap) {
        lt::error_code bad;
        lt::address numeric = lt::make_address(node.first, bad);
        if (!bad) {
            auto &list = numeric.is_v4() ? params.dht_state.nodes : params.dht_state.nodes6;
            list.emplace_back(numeric, uint16_t(node.second));
        }
    }
    self.session = std::make_unique<lt::session>(std::move(params));
}

int open_session(dht &self, const struct skep_dht_options *options, struct skep_error *err)
{
    lt::error_code bad;
    lt::address address = lt::make_address(options->host, bad);
    if (bad) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "the DHT's address is \"%.80s\"; it must be numeric", options->host);
    }
    int result = parse_bootstrap(self, options->bootstrap, err);
    if (result == SKEP_OK) {
        result = probe_port(lt::udp::endpoint(address, options->port), err);
    }
    if (result != SKEP_OK) {
        return result;
    }
    start_session(self, options, address);
    result = await_listening(self, err);
    if (result == SKEP_OK && options->port != 0 && self.port != options->port) {
        skep_log(SKEP_LOG_INFO, "the DHT uses UDP port %u, because TCP port %u is taken",
                 unsigned(self.port), unsigned(options->port));
    }
    return result;
}

void start_steps(dht &self)
{
    self.nodes_metric = lt::find_metric_idx("dht.dht_nodes");
    self.opened_ms = skep_loop_now_ms(self.loop);
    self.save_due_ms = self.opened_ms + SAVE_MS;
    self.timer = skep_timer_new(self.loop, on_step, &self);
    skep_timer_start(self.timer, 0, 0);
    self.bell = skep_async_new(self.loop, on_bell, &self);
    struct skep_async *bell = self.bell;
    self.session->set_alert_notify([bell] { skep_async_send(bell); });
}

} // namespace

extern "C" int skep_dht_open(struct skep_loop *loop, const struct skep_dht_options *options,
                             struct skep_directory **ret_directory, struct skep_error *err)
{
    auto self = std::make_unique<dht>();
    self->ops = &DHT_OPS;
    self->loop = loop;
    self->host = options->host;
    self->map_ports = options->map_ports;
    self->state_path = options->state_path != nullptr ? options->state_path : "";
    int result = SKEP_OK;
    try {
        result = open_session(*self, options, err);
        if (result == SKEP_OK) {
            start_steps(*self);
        }
    } catch (const std::exception &problem) {
        result = skep_error_set(err, SKEP_ERR_IO, "the DHT cannot start: %s", problem.what());
    }
    dht *opened = self.release();
    if (result != SKEP_OK) {
        on_close(opened);
        return result;
    }
    *ret_directory = opened;
    return SKEP_OK;
}

extern "C" uint16_t skep_dht_port(const struct skep_directory *directory)
{
    assert(directory->ops == &DHT_OPS && "only the DHT has a port");
    return static_cast<const dht *>(directory)->port;
}
