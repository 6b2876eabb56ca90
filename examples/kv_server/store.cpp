// SPDX-License-Identifier: MIT

// Each key belongs to one shard by its hash; a shard is a hash map, an index of expiries and a
// std::mutex. A std::mutex may hold up a worker and with it every task queued there, so it has no
// place around anything that waits. Here it guards one look-up and a few pointers, well under a
// microsecond, never across a co_await; with many more shards than processors two workers rarely
// meet in one, and a task-aware lock would cost more than it saves. What takes time is kept outside
// the sections: values are made before and destroyed after, because freeing a large one is a
// system call. The exception is the growth of a shard's hash map, which moves each of its nodes;
// that is rare, and 1/shards of what one map would take.
//
// Each operation that gets no memory has changed nothing: what may fail comes first, or is taken
// back.
//
// Rejected: one task per shard that owns its keys and is sent messages. It needs no lock, but two
// switches of tasks per command, for a section that is shorter than one.

#include "store.hpp"

#include "integer.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <set>
#include <unordered_map>
#include <utility>

namespace kv {

namespace {

/// What a key is looked up with: the hash is computed once for shard and map.
struct hashed_key {
    std::string_view text;
    std::uint64_t hash;
};

struct stored_key {
    explicit stored_key(const hashed_key& key) : text(key.text), hash(key.hash) {}

    std::string text;
    std::uint64_t hash;
};

struct hash_of_key {
    using is_transparent = void;
    std::size_t operator()(const hashed_key& key) const noexcept { return key.hash; }
    std::size_t operator()(const stored_key& key) const noexcept { return key.hash; }
};

struct same_key {
    using is_transparent = void;
    template <class Left, class Right>
    bool operator()(const Left& left, const Right& right) const noexcept {
        return left.hash == right.hash && left.text == right.text;
    }
};

struct entry {
    value bytes;
    time_point expiry = never;
};

using entry_map = std::unordered_map<stored_key, entry, hash_of_key, same_key>;

/// Ordered by time, with the address of the key to tell equal times apart: the keys of the map do
/// not move. Only keys that expire are in it.
using expiry_index = std::set<std::pair<time_point, const stored_key*>>;

}  // namespace

/// On a cache line of its own, since neighbours are locked by other workers.
struct alignas(64) store::shard {
    mutable std::mutex mutex;
    entry_map entries;
    expiry_index expiries;
    std::uint64_t expired = 0;
    bool listener_failed = false;  ///< the listener does not know of the earliest expiry

    time_point earliest() const { return expiries.empty() ? never : expiries.begin()->first; }

    /// Throws std::bad_alloc only for a key that did not expire and is to expire now.
    void set_expiry(entry_map::iterator at, time_point expiry) {
        time_point& current = at->second.expiry;
        if (current == expiry) return;
        if (current == never) {
            expiries.emplace(expiry, &at->first);
        } else {
            auto place = expiries.extract({current, &at->first});
            place.value().first = expiry;
            if (expiry != never) expiries.insert(std::move(place));
        }
        current = expiry;
    }

    entry_map::node_type take(entry_map::iterator at) {
        set_expiry(at, never);
        return entries.extract(at);
    }
};

/// A critical section on the shard of one key. Members are destroyed from last to first, so what
/// the section removes is freed after the lock is released.
class store::section {
public:
    section(store& owner, std::string_view key, time_point now)
        : owner_(owner),
          key_{key, owner.hash(key)},
          index_((key_.hash >> 32) % owner.shards_.size()),
          shard_(*owner.shards_[index_]),
          lock_(shard_.mutex),
          earliest_(shard_.earliest()),
          at_(shard_.entries.find(key_)) {
        if (found() && at_->second.expiry <= now) {
            ++shard_.expired;
            remove();
        }
    }

    bool found() const { return at_ != shard_.entries.end(); }
    entry& current() const { return at_->second; }

    /// Sets value and expiry; makes an entry for the key unless it is there.
    void write(value bytes, time_point expiry) {
        const bool is_new = !found();
        if (is_new) at_ = shard_.entries.try_emplace(stored_key(key_)).first;
        try {
            set_expiry(expiry);
        } catch (...) {
            if (is_new) remove();
            throw;
        }
        current().bytes = std::move(bytes);
    }

    void remove() {
        removed_ = shard_.take(at_);
        at_ = shard_.entries.end();
    }

    void set_expiry(time_point expiry) { shard_.set_expiry(at_, expiry); }

    /// Ends the section, and tells the listener if the shard now expires earlier than before it, or
    /// if the listener has failed the last time.
    void leave() {
        const time_point earliest = shard_.earliest();
        const bool tell = earliest < earliest_ || shard_.listener_failed;
        shard_.listener_failed = false;
        lock_.unlock();
        if (!tell || earliest == never || !owner_.earlier_expiry_) return;
        try {
            owner_.earlier_expiry_(index_, earliest);
        } catch (const std::bad_alloc&) {
            lock_.lock();
            shard_.listener_failed = true;
        }
    }

private:
    store& owner_;
    hashed_key key_;
    std::size_t index_;
    shard& shard_;
    entry_map::node_type removed_;
    std::unique_lock<std::mutex> lock_;
    time_point earliest_;
    entry_map::iterator at_;
};

store::store(std::size_t shards, std::array<std::uint64_t, 2> seed) : hash_(seed) {
    shards_.reserve(shards);
    for (std::size_t i = 0; i < shards; ++i) shards_.push_back(std::make_unique<shard>());
}

store::~store() = default;

value store::get(std::string_view key, time_point now) {
    const section place(*this, key, now);
    return place.found() ? place.current().bytes : value();
}

bool store::contains(std::string_view key, time_point now) {
    return section(*this, key, now).found();
}

set_result store::set(std::string_view key, value bytes, const set_options& options,
                      time_point now) {
    section place(*this, key, now);
    set_result result{true, place.found() ? place.current().bytes : value()};
    if (options.condition == set_condition::if_absent) result.written = !place.found();
    if (options.condition == set_condition::if_present) result.written = place.found();
    if (!result.written) return result;
    const bool keeps_expiry = options.keep_expiry && place.found();
    // `result.previous` still refers to the old value, so nothing is freed here.
    place.write(std::move(bytes), keeps_expiry ? place.current().expiry : options.expiry);
    place.leave();
    return result;
}

bool store::remove(std::string_view key, time_point now) {
    section place(*this, key, now);
    if (!place.found()) return false;
    place.remove();
    return true;
}

increment_result store::increment(std::string_view key, std::int64_t addend, time_point now) {
    section place(*this, key, now);
    std::int64_t number = 0;
    time_point expiry = never;
    if (place.found()) {
        const auto current = parse_integer(*place.current().bytes);
        if (!current) return {increment_status::not_an_integer, 0};
        number = *current;
        expiry = place.current().expiry;
    }
    if (__builtin_add_overflow(number, addend, &number)) return {increment_status::overflow, 0};
    place.write(std::make_shared<const std::string>(std::to_string(number)), expiry);
    return {increment_status::done, number};
}

bool store::set_expiry(std::string_view key, time_point expiry, time_point now) {
    section place(*this, key, now);
    if (!place.found()) return false;
    if (expiry <= now) {
        place.remove();
        return true;
    }
    place.set_expiry(expiry);
    place.leave();
    return true;
}

std::optional<time_point> store::expiry(std::string_view key, time_point now) {
    const section place(*this, key, now);
    if (!place.found()) return std::nullopt;
    return place.current().expiry;
}

std::size_t store::size() const {
    std::size_t total = 0;
    for (const auto& part : shards_) {
        const std::lock_guard lock(part->mutex);
        total += part->entries.size();
    }
    return total;
}

std::size_t store::expiring() const {
    std::size_t total = 0;
    for (const auto& part : shards_) {
        const std::lock_guard lock(part->mutex);
        total += part->expiries.size();
    }
    return total;
}

std::uint64_t store::expired() const {
    std::uint64_t total = 0;
    for (const auto& part : shards_) {
        const std::lock_guard lock(part->mutex);
        total += part->expired;
    }
    return total;
}

std::size_t store::clear(std::size_t shard_index) {
    shard& part = *shards_[shard_index];
    entry_map entries;
    expiry_index expiries;
    const std::lock_guard lock(part.mutex);
    part.entries.swap(entries);
    part.expiries.swap(expiries);
    return entries.size();
}

sweep_result store::sweep(std::size_t shard_index, time_point now, std::size_t limit) {
    shard& part = *shards_[shard_index];
    std::vector<entry_map::node_type> removed;
    const std::lock_guard lock(part.mutex);
    removed.reserve(std::min(limit, part.expiries.size()));
    while (removed.size() < limit && part.earliest() <= now) {
        const stored_key& key = *part.expiries.begin()->second;
        removed.push_back(part.take(part.entries.find(key)));
    }
    part.expired += removed.size();
    return {removed.size(), part.earliest()};
}

void store::on_earlier_expiry(std::function<void(std::size_t, time_point)> listener) {
    earlier_expiry_ = std::move(listener);
}

}  // namespace kv
