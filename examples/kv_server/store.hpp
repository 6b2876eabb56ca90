// SPDX-License-Identifier: MIT
#pragma once

#include "sip_hash.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

/// A value is never changed, only replaced, so a reply may go on reading one that another client
/// has replaced meanwhile, and no lock is held while bytes are copied or sent.
using value = std::shared_ptr<const std::string>;

/// Times are of the steady clock: a lifetime is a length of time, which setting the wall clock must
/// not stretch. Milliseconds, as in the protocol, in 64 bits.
using time_point = std::chrono::time_point<std::chrono::steady_clock, std::chrono::milliseconds>;

/// The expiry of what does not expire.
inline constexpr time_point never = time_point::max();

/// When `set` writes.
enum class set_condition { always, if_absent, if_present };

struct set_options {
    set_condition condition = set_condition::always;
    bool keep_expiry = false;   ///< the expiry of a key that is there stays, `expiry` is not used
    time_point expiry = never;  ///< the key is gone from this time on
};

struct set_result {
    bool written;
    value previous;  ///< empty if the key was not there
};

enum class increment_status { done, not_an_integer, overflow };

struct increment_result {
    increment_status status;
    std::int64_t number;  ///< the new number, if done
};

struct sweep_result {
    std::size_t removed;
    time_point next;  ///< the earliest expiry that is left in the shard, `never` if none is
};

/// Keys and values in memory, with expiry, for any number of threads.
///
/// The store has no clock and no thread: each call is told the time, so that a whole batch of
/// commands sees one time and tests choose theirs. A key whose time has come is removed by the next
/// access to it; what nobody asks for again is removed by `sweep`.
///
/// No function suspends or blocks for longer than a critical section of its shard. Those that throw
/// std::bad_alloc have changed nothing.
class store {
public:
    /// `shards` is the number of independently locked parts, at least 1; `seed` is the secret of
    /// the hash function.
    explicit store(std::size_t shards, std::array<std::uint64_t, 2> seed);
    store(const store&) = delete;
    store& operator=(const store&) = delete;
    ~store();

    /// The value, or an empty pointer.
    value get(std::string_view key, time_point now);
    bool contains(std::string_view key, time_point now);

    set_result set(std::string_view key, value bytes, const set_options& options, time_point now);

    /// Tells whether the key was there.
    bool remove(std::string_view key, time_point now);

    /// Adds to a decimal number; a key that is not there counts as 0, and the expiry stays.
    increment_result increment(std::string_view key, std::int64_t addend, time_point now);

    /// Tells whether the key was there. An expiry that is not after `now` removes the key.
    bool set_expiry(std::string_view key, time_point expiry, time_point now);

    /// When the key expires, `never` if it does not, nothing if it is not there.
    std::optional<time_point> expiry(std::string_view key, time_point now);

    /// Keys, and keys with an expiry; those that have expired but were not removed yet count too.
    std::size_t size() const;
    std::size_t expiring() const;

    /// Keys that were removed because their time had come.
    std::uint64_t expired() const;

    /// Removes all keys of a shard (0 to shards() - 1), and tells how many there were.
    std::size_t clear(std::size_t shard);

    /// Removes at most `limit` keys of a shard (0 to shards() - 1) whose time has come.
    sweep_result sweep(std::size_t shard, time_point now, std::size_t limit);
    std::size_t shards() const noexcept { return shards_.size(); }

    /// `listener` is called with a shard and a time whenever a key expires earlier than all that
    /// the shard had before. It is called by the thread that caused it, without a lock; two calls
    /// for one shard may overtake each other. Where it throws std::bad_alloc, what was set stays,
    /// and the next call that sets an expiry in the shard calls it again. To be set before the
    /// store is shared, and to stay as long as it is.
    void on_earlier_expiry(std::function<void(std::size_t shard, time_point earliest)> listener);

private:
    struct shard;
    class section;

    std::uint64_t hash(std::string_view key) const noexcept { return hash_(key); }

    sip_hash hash_;
    std::vector<std::unique_ptr<shard>> shards_;
    std::function<void(std::size_t, time_point)> earlier_expiry_;
};

}  // namespace kv
