/*
 * libtorrent-rasterbar's DHT behind common/discovery/directory.h: the one file of C++. libtorrent runs a thread of its own; its alerts
 * are taken on the loop's thread, woken through skep_async.
 */
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <libtorrent/alert_types.hpp>
#include <libtorrent/session.hpp>
#include <libtorrent/session_params.hpp>
#include <libtorrent/settings_pack.hpp>

extern "C" {
#include "common/discovery/dht.h"
#include "common/discovery/directory-private.h"
#include "common/sys/loop.h"
}

namespace
{

constexpr unsigned TICK_MS = 1000;
constexpr unsigned YOUNG_S =
    20; /* a fresh node announces every second: a swarm that starts together finds itself fast */
constexpr unsigned ANNOUNCE_S = 120; /* BEP 5 peers are kept for half an hour and more */
constexpr unsigned SAVE_S = 300;
constexpr unsigned LOOK_UP_S =
    3; /* get_peers has no end of its own: answers come as nodes give them */
constexpr auto OPEN_LIMIT = std::chrono::seconds(3);

struct announcement {
    lt::sha1_hash hash;
    std::uint16_t port;
};

struct look_up {
    lt::sha1_hash hash;
    skep_directory_found found;
    void *user;
    unsigned ticks_left;
};

struct dht_directory {
    skep_directory base;
    std::unique_ptr<lt::session> session;
    skep_async *async = nullptr;
    skep_timer *timer = nullptr;
    std::vector<announcement> announcements;
    std::list<look_up> look_ups;
    std::vector<std::pair<std::string, int>> bootstrap;
    std::string state_path;
    std::uint16_t port = 0;
    std::size_t nodes = 0;
    unsigned age_s = 0;
};

dht_directory *of(skep_directory *directory)
{
    return reinterpret_cast<dht_directory *>(directory);
}

lt::sha1_hash hash_of(const skep_directory_key *key)
{
    return lt::sha1_hash(reinterpret_cast<const char *>(key->bytes));
}

skep_address address_of(const lt::tcp::endpoint &endpoint)
{
    skep_address address = {};
    std::snprintf(address.host, sizeof address.host, "%s", endpoint.address().to_string().c_str());
    address.port = endpoint.port();
    return address;
}

void on_peers(dht_directory *dht, const lt::dht_get_peers_reply_alert *reply)
{
    std::vector<skep_address> addresses;
    for (const auto &endpoint : reply->peers()) {
        addresses.push_back(address_of(endpoint));
    }
    /* A callback may start another look-up, so the list is walked by hand over what stood in it before. */
    std::vector<look_up> asked(dht->look_ups.begin(), dht->look_ups.end());
    for (const auto &one : asked) {
        if (one.hash == reply->info_hash && !addresses.empty()) {
            one.found(one.user, addresses.data(), addresses.size(), false);
        }
    }
}

void on_alerts(void *user)
{
    auto *dht = static_cast<dht_directory *>(user);
    std::vector<lt::alert *> alerts;
    dht->session->pop_alerts(&alerts);
    for (auto *alert : alerts) {
        if (const auto *reply = lt::alert_cast<lt::dht_get_peers_reply_alert>(alert)) {
            on_peers(dht, reply);
        } else if (const auto *stats = lt::alert_cast<lt::dht_stats_alert>(alert)) {
            dht->nodes = 0;
            for (const auto &bucket : stats->routing_table) {
                dht->nodes += static_cast<std::size_t>(bucket.num_nodes);
            }
        }
    }
}

void save_state(const dht_directory *dht)
{
    if (dht->state_path.empty()) {
        return;
    }
    const auto bytes = lt::write_session_params_buf(
        dht->session->session_state(lt::session_handle::save_dht_state),
        lt::session_handle::save_dht_state);
    const std::string unfinished = dht->state_path + ".unfinished";
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (file.good()) {
        std::rename(unfinished.c_str(), dht->state_path.c_str());
    }
}

void say_all(dht_directory *dht)
{
    for (const auto &one : dht->announcements) {
        dht->session->dht_announce(one.hash, one.port);
    }
}

void end_look_ups(dht_directory *dht)
{
    std::vector<look_up> over;
    for (auto at = dht->look_ups.begin(); at != dht->look_ups.end();) {
        if (--at->ticks_left == 0) {
            over.push_back(*at);
            at = dht->look_ups.erase(at);
        } else {
            dht->session->dht_get_peers(at->hash); /* somebody may have come since */
            ++at;
        }
    }
    for (const auto &one : over) {
        one.found(one.user, nullptr, 0, true);
    }
}

void on_tick(void *user)
{
    auto *dht = static_cast<dht_directory *>(user);
    dht->age_s++;
    if (dht->nodes == 0) {
        for (const auto &node : dht->bootstrap) {
            dht->session->add_dht_node(node);
        }
    }
    if (dht->age_s <= YOUNG_S || dht->nodes == 0 || dht->age_s % ANNOUNCE_S == 0) {
        say_all(dht);
    }
    if (dht->age_s <= YOUNG_S || dht->age_s % 10 == 0) {
        dht->session->post_dht_stats();
    }
    if (dht->age_s % SAVE_S == 0) {
        save_state(dht);
    }
    end_look_ups(dht);
}

void announce(skep_directory *directory, const skep_directory_key *key, std::uint16_t port)
{
    auto *dht = of(directory);
    dht->announcements.push_back({hash_of(key), port});
    dht->session->dht_announce(hash_of(key), port);
}

void start_look_up(skep_directory *directory, const skep_directory_key *key,
                   skep_directory_found found, void *user)
{
    auto *dht = of(directory);
    dht->look_ups.push_back({hash_of(key), found, user, LOOK_UP_S + 1});
    dht->session->dht_get_peers(hash_of(key));
}

std::size_t nodes(const skep_directory *directory)
{
    return reinterpret_cast<const dht_directory *>(directory)->nodes;
}

void close_dht(skep_directory *directory)
{
    auto *dht = of(directory);
    dht->session->set_alert_notify([] {});
    save_state(dht);
    dht->session.reset(); /* waits for libtorrent's thread, which may not wake us after this */
    skep_timer_free(dht->timer);
    skep_async_free(dht->async);
    delete dht;
}

const skep_directory_ops OPERATIONS = {announce, start_look_up, nodes, close_dht};

/* "a:1,b:2" as pairs; what has no port is left out. */
std::vector<std::pair<std::string, int>> split_bootstrap(const char *text)
{
    std::vector<std::pair<std::string, int>> nodes;
    std::string rest = text == nullptr ? "" : text;
    while (!rest.empty()) {
        const auto comma = rest.find(',');
        skep_address address;
        if (skep_address_parse(rest.substr(0, comma).c_str(), &address)) {
            nodes.emplace_back(address.host, address.port);
        }
        rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
    return nodes;
}

/* What one machine with many nodes needs (shared limits and address rules are for the open network). */
void set_loopback(lt::settings_pack &settings)
{
    settings.set_bool(lt::settings_pack::dht_restrict_routing_ips, false);
    settings.set_bool(lt::settings_pack::dht_restrict_search_ips, false);
    settings.set_bool(lt::settings_pack::dht_prefer_verified_node_ids, false);
    settings.set_bool(lt::settings_pack::dht_ignore_dark_internet, false);
    settings.set_int(lt::settings_pack::dht_block_ratelimit, 100000);
    settings.set_int(lt::settings_pack::dht_upload_rate_limit, 10000000);
    settings.set_int(lt::settings_pack::dht_max_dht_items, 100000);
}

lt::settings_pack settings_of(const skep_dht_options *options)
{
    lt::settings_pack settings;
    const std::string host = options->host;
    const bool six = host.find(':') != std::string::npos;
    settings.set_str(lt::settings_pack::listen_interfaces,
                     (six ? "[" + host + "]" : host) + ":" + std::to_string(options->port));
    settings.set_str(lt::settings_pack::dht_bootstrap_nodes,
                     ""); /* never the public network by default */
    settings.set_bool(lt::settings_pack::enable_dht, true);
    settings.set_bool(lt::settings_pack::enable_lsd, false);
    settings.set_bool(lt::settings_pack::enable_upnp, options->map_ports);
    settings.set_bool(lt::settings_pack::enable_natpmp, options->map_ports);
    settings.set_bool(lt::settings_pack::enable_incoming_tcp, false);
    settings.set_bool(lt::settings_pack::enable_outgoing_tcp, false);
    settings.set_bool(lt::settings_pack::enable_incoming_utp, false);
    settings.set_bool(lt::settings_pack::enable_outgoing_utp, false);
    settings.set_bool(lt::settings_pack::dht_read_only, options->read_only);
    settings.set_int(lt::settings_pack::max_retry_port_bind, 0);
    settings.set_bool(lt::settings_pack::listen_system_port_fallback, false);
    settings.set_int(lt::settings_pack::alert_mask,
                     lt::alert_category::dht | lt::alert_category::dht_operation |
                         lt::alert_category::status | lt::alert_category::error);
    if (host.rfind("127.", 0) == 0 || host == "::1") {
        set_loopback(settings);
    }
    return settings;
}

lt::session_params params_of(const skep_dht_options *options)
{
    lt::session_params params;
    if (options->state_path != nullptr) {
        std::ifstream file(options->state_path, std::ios::binary);
        const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                      std::istreambuf_iterator<char>());
        if (!bytes.empty()) {
            try {
                params = lt::read_session_params(bytes, lt::session_handle::save_dht_state);
            } catch (const std::exception &) {
                params = lt::session_params(); /* a broken file is as good as none */
            }
        }
    }
    params.settings = settings_of(options);
    return params;
}

/* Waits for the word that the UDP socket is bound; 0 on time-out. */
int wait_bound(lt::session &session, const skep_dht_options *options, std::uint16_t *ret_port,
               skep_error *err)
{
    const auto until = std::chrono::steady_clock::now() + OPEN_LIMIT;
    while (std::chrono::steady_clock::now() < until) {
        session.wait_for_alert(std::chrono::milliseconds(100));
        std::vector<lt::alert *> alerts;
        session.pop_alerts(&alerts);
        for (auto *alert : alerts) {
            if (const auto *good = lt::alert_cast<lt::listen_succeeded_alert>(alert)) {
                *ret_port = static_cast<std::uint16_t>(good->port);
                return SKEP_OK;
            }
            if (const auto *bad = lt::alert_cast<lt::listen_failed_alert>(alert)) {
                const bool taken = bad->error == boost::system::errc::address_in_use;
                return skep_error_set(
                    err, taken ? SKEP_ERR_IN_USE : SKEP_ERR_IO,
                    "the DHT cannot listen on UDP %s:%u: %s; stop the program that uses it or "
                    "choose another port with --dht-port",
                    options->host, options->port, bad->error.message().c_str());
            }
        }
    }
    return skep_error_set(err, SKEP_ERR_IO, "the DHT did not start listening on UDP %s:%u in time",
                          options->host, options->port);
}

} // namespace

extern "C" int skep_dht_open(skep_loop *loop, const skep_dht_options *options,
                             skep_directory **ret_directory, skep_error *err)
{
    try {
        auto session = std::make_unique<lt::session>(params_of(options));
        std::uint16_t port = 0;
        const int result = wait_bound(*session, options, &port, err);
        if (result != SKEP_OK) {
            return result;
        }
        auto *dht = new dht_directory();
        dht->base.ops = &OPERATIONS;
        dht->session = std::move(session);
        dht->bootstrap = split_bootstrap(options->bootstrap);
        dht->state_path = options->state_path == nullptr ? "" : options->state_path;
        dht->port = port;
        dht->async = skep_async_new(loop, on_alerts, dht);
        dht->timer = skep_timer_new(loop, on_tick, dht);
        for (const auto &node : dht->bootstrap) {
            dht->session->add_dht_node(node);
        }
        skep_async *async = dht->async;
        dht->session->set_alert_notify([async] { skep_async_send(async); });
        skep_timer_start(dht->timer, TICK_MS, TICK_MS);
        *ret_directory = &dht->base;
        return SKEP_OK;
    } catch (const std::exception &error) {
        return skep_error_set(err, SKEP_ERR_IO, "the DHT cannot start on %s: %s", options->host,
                              error.what());
    }
}

extern "C" std::uint16_t skep_dht_port(const skep_directory *directory)
{
    return reinterpret_cast<const dht_directory *>(directory)->port;
}
