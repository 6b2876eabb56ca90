// SPDX-License-Identifier: MIT
#include "lib/sched/end_watch.hpp"

#include "lib/base/signal_mask.hpp"
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/runtime_core.hpp"

#include <fmt/format.h>

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

namespace weft::detail {

end_watch::end_watch(runtime_core& runtime) noexcept : runtime_(runtime) {
    try {
        const block_signals blocked;
        thread_ = std::thread([this, before = blocked.before()] {
            restore_signals_in_fork(before);
            ::prctl(PR_SET_NAME, "weft-end");
            run();
        });
    } catch (const std::exception&) {}  // See the head of end_watch.hpp.
}

end_watch::~end_watch() {
    if (!thread_.joinable()) { return; }
    {
        const std::lock_guard held(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    thread_.join();
}

void end_watch::run() noexcept {
    constexpr std::chrono::nanoseconds longest_slice = std::chrono::milliseconds(200);
    const std::chrono::nanoseconds limit = runtime_.options().shutdown_timeout;
    const auto has_ended = [this] { return ended_; };
    std::unique_lock held(mutex_);
    std::uint64_t seen = progress_;
    std::chrono::nanoseconds counted{0};
    while (counted < limit) {
        const std::chrono::nanoseconds slice = std::min(limit - counted, longest_slice);
        if (changed_.wait_for(held, slice, has_ended)) { return; }
        // A slice counts as its own length, however late it ends.
        counted = progress_ == seen ? counted + slice : std::chrono::nanoseconds(0);
        seen = progress_;
    }
    const std::string task = describe();
    held.unlock();
    runtime_.report_destructor(task);
    held.lock();
    changed_.wait(held, has_ended);
}

std::string end_watch::describe() const noexcept {
    if (destroyed_ == nullptr) { return {}; }
    try {
        const bool named = destroyed_->extras != nullptr && !destroyed_->extras->name.empty();
        return fmt::format("; task {} ({}), spawned at {}:{}", destroyed_->id,
                           named ? destroyed_->extras->name : "unnamed",
                           destroyed_->spawn_site.file_name(), destroyed_->spawn_site.line());
    } catch (const std::bad_alloc&) { return {}; }  // The report is more important than the name.
}

}  // namespace weft::detail
