// SPDX-License-Identifier: MIT
#include "lib/sched/held_lock_reports.hpp"

#include "lib/sched/runtime_core.hpp"

#include <weft/detail/sched/promise.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace weft::detail {

namespace {

// The same place in a header has a name for each translation unit.
bool same(const std::source_location& one, const std::source_location& other) noexcept {
    return one.line() == other.line() && one.column() == other.column() &&
           std::strcmp(one.file_name(), other.file_name()) == 0;
}

// The frame in which a task ends is often one that weft has put around the user's.
const std::source_location& place_of(const branch& leaving, bool ends) noexcept {
    return ends ? leaving.owner->spawn_site : as_base(leaving.handle).promise().location_;
}

}  // namespace

// Claimed before it is told, so that two who are there at the same time do not both tell it; and
// given back if the line was not taken, since it has not been told then.
void held_lock_reports::report(const branch& leaving, int locks, bool ends) noexcept {
    const std::source_location place = place_of(leaving, ends);
    bool last = false;
    if (!claim(place, last)) { return; }
    try {
        if (runtime_.reports.say(text(leaving, locks, ends, last))) { return; }
    } catch (const std::bad_alloc&) {}  // No memory for a report is no reason to end the process.
    give_back(place);
}

bool held_lock_reports::claim(const std::source_location& place, bool& last) noexcept {
    const std::lock_guard held(mutex_);
    if (count_ == place_limit) { return false; }
    for (std::size_t i = 0; i < count_; ++i) {
        if (same(places_[i], place)) { return false; }
    }
    places_[count_++] = place;
    last = count_ == place_limit;
    return true;
}

void held_lock_reports::give_back(const std::source_location& place) noexcept {
    const std::lock_guard held(mutex_);
    for (std::size_t i = 0; i < count_; ++i) {
        if (same(places_[i], place)) {
            places_[i] = places_[--count_];
            return;
        }
    }
}

std::string held_lock_reports::text(const branch& leaving, int locks, bool ends, bool last) const {
    const task_control& task = *leaving.owner;
    const std::source_location& place = place_of(leaving, ends);
    const std::string moment =
        ends ? "has ended" : fmt::format("suspends at {}:{}", place.file_name(), place.line());
    return fmt::format(
        "weft: debug: {}task {} ({}), spawned at {}:{}, {} while it holds {} of threads (a "
        "std::mutex or its kind): {}{}",
        leaving.is_child ? "a child in " : "", task.id,
        task.extras != nullptr && !task.extras->name.empty() ? task.extras->name : "unnamed",
        task.spawn_site.file_name(), task.spawn_site.line(), moment,
        locks == 1 ? "a lock" : fmt::format("{} locks", locks),
        ends ? "nobody will release it; use a guard"
             : "it may go on on another thread, and who wants the lock meanwhile blocks a worker; "
               "release it before the await, or use weft::mutex",
        last ? " (more places are not reported)" : "");
}

}  // namespace weft::detail
