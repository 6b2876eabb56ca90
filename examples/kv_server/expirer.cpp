// SPDX-License-Identifier: MIT

// Each shard has an alarm: the time at which its task will wake, or `never`. The rule that makes
// nothing expire late is: whoever makes a shard expire earlier than its alarm says replaces the
// sleeping task by one that wakes earlier. The alarm is cleared *before* the sweep, so an expiry
// that is set while the sweep runs starts a task of its own, and after the sweep the earlier of
// the two wins by the same rule.
//
// Rejected: waking up at a fixed rate to look for expired keys, which costs an idle server time;
// and leaving a late sleeper beside the earlier one, since a client that sets ever shorter
// lifetimes would fill the memory with sleepers.

#include "expirer.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <weft/as_result.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/yield.hpp>

namespace kv {

namespace {

/// Keys that one turn removes, a fraction of a millisecond.
constexpr std::size_t sweep_limit = 256;

/// The longest sleep: lifetimes may be longer than the runtime's clock can count.
constexpr std::chrono::hours longest_sleep{24};

/// How long a task that got no memory for a sweep waits before it tries again.
constexpr std::chrono::milliseconds no_memory_pause{100};

}  // namespace

/// Guarded by a std::mutex for the same reason as a shard: it is held for some stores, and never
/// over a co_await.
struct expirer::alarm {
    std::mutex mutex;
    bool stopped = false;
    time_point deadline = never;
    weft::join_handle<void> sleeper;
};

time_point current_time() noexcept {
    return std::chrono::floor<std::chrono::milliseconds>(std::chrono::steady_clock::now());
}

expirer::expirer(store& data) : data_(data), alarms_(std::make_unique<alarm[]>(data.shards())) {
    data_.on_earlier_expiry(
        [this](std::size_t shard, time_point earliest) { arm(shard, earliest); });
}

expirer::~expirer() {
    data_.on_earlier_expiry(nullptr);
}

void expirer::arm(std::size_t shard, time_point deadline) {
    alarm& here = alarms_[shard];
    weft::join_handle<void> replaced;
    {
        const std::lock_guard lock(here.mutex);
        if (here.stopped || deadline >= here.deadline) return;
        replaced = std::exchange(here.sleeper, weft::co_spawn(sweep_at(shard, deadline)));
        here.deadline = deadline;
    }
    replaced.request_stop();
    replaced.detach();
}

/// Tells whether the alarm still belongs to the task that was to wake at `deadline`, and clears it.
bool expirer::disarm(std::size_t shard, time_point deadline) {
    alarm& here = alarms_[shard];
    const std::lock_guard lock(here.mutex);
    if (here.stopped || here.deadline != deadline) return false;
    here.deadline = never;
    here.sleeper.detach();
    return true;
}

weft::task<> expirer::sweep_at(std::size_t shard, time_point deadline) {
    const time_point wake = std::min(deadline, current_time() + longest_sleep);
    const auto slept = co_await weft::as_result(weft::sleep_until(wake));
    if (!slept || !disarm(shard, deadline)) co_return;
    for (;;) {
        switch (sweep(shard)) {
        case sweep_progress::done: co_return;
        case sweep_progress::more_is_due:
            if (!co_await weft::as_result(weft::yield())) co_return;
            break;
        case sweep_progress::no_memory:
            if (!co_await weft::as_result(weft::sleep_for(no_memory_pause))) co_return;
            break;
        }
    }
}

/// Removes a batch of keys whose time has come; when no more are due, arms the shard for the next.
expirer::sweep_progress expirer::sweep(std::size_t shard) noexcept {
    try {
        const sweep_result swept = data_.sweep(shard, current_time(), sweep_limit);
        if (swept.next <= current_time()) return sweep_progress::more_is_due;
        arm(shard, swept.next);
        return sweep_progress::done;
    } catch (const std::bad_alloc&) { return sweep_progress::no_memory; }
}

weft::task<> expirer::stop() {
    std::vector<weft::join_handle<void>> sleepers;
    for (std::size_t shard = 0; shard < data_.shards(); ++shard) {
        alarm& here = alarms_[shard];
        const std::lock_guard lock(here.mutex);
        here.stopped = true;
        here.deadline = never;
        if (here.sleeper) sleepers.push_back(std::move(here.sleeper));
    }
    for (auto& sleeper : sleepers) sleeper.request_stop();
    for (auto& sleeper : sleepers) {
        // How a sleeper ends does not matter, only that it has ended.
        static_cast<void>(co_await weft::as_result(std::move(sleeper)));
    }
}

}  // namespace kv
