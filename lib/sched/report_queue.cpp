// SPDX-License-Identifier: MIT
#include "lib/sched/report_queue.hpp"

#include "lib/base/signal_mask.hpp"
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/runtime_core.hpp"

#include <fmt/format.h>

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace weft::detail {

bool report_queue::put(entry said) noexcept {
    std::unique_lock held(mutex_);
    // A thread that was to become a worker when the runtime began to end. Whoever wanted it waits
    // for it and may hold a lock (set_processors.cpp), so it does not log.
    if (ending_) { return false; }
    if (count_ == ring_.size()) {
        ++ring_[(first_ + count_ - 1) % ring_.size()].left_out;
        return false;
    }
    ring_[(first_ + count_) % ring_.size()] = std::move(said);
    ++count_;
    if (thread_.joinable() || start_thread()) {
        changed_.notify_all();
        return true;
    }
    if (unwatched_) {
        write_all(held);
        return true;
    }
    // seq_cst: before the look at the watchdog's word, see the head of report_queue.hpp.
    unserved_.store(true, std::memory_order_seq_cst);
    held.unlock();
    runtime_.dog.work_begins();
    return true;
}

// Whoever says something first may be a worker that keeps to one core.
bool report_queue::start_thread() noexcept {
    try {
        const block_signals blocked;
        thread_ = std::thread([this] {
            restore_signals_in_fork(runtime_.mask_in_fork());
            ::prctl(PR_SET_NAME, "weft-report");
            if (runtime_.cores().count() != 0) { runtime_.cores().apply(); }
            run();
        });
        unserved_.store(false, std::memory_order_relaxed);
        return true;
    } catch (const std::exception&) { return false; }
}

void report_queue::run() noexcept {
    std::unique_lock held(mutex_);
    for (;;) {
        changed_.wait(held, [this] { return count_ != 0 || ending_; });
        if (count_ == 0) { break; }
        write_first(held);
    }
    ended_ = true;
    changed_.notify_all();
}

void report_queue::write_first(std::unique_lock<std::mutex>& held) noexcept {
    const entry taken = std::exchange(ring_[first_], {});
    first_ = (first_ + 1) % ring_.size();
    --count_;
    held.unlock();
    write(taken);
    if (taken.left_out != 0) { tell_left_out(taken.left_out); }
    held.lock();
    ++written_;
}

void report_queue::write_all(std::unique_lock<std::mutex>& held) noexcept {
    while (count_ != 0 && !thread_.joinable()) { write_first(held); }
}

void report_queue::write(const entry& said) noexcept {
    runtime_.log(said.line.empty() ? said.literal : std::string_view(said.line));
}

void report_queue::tell_left_out(std::uint64_t count) noexcept {
    try {
        runtime_.log(fmt::format("weft: {} lines were left out here, since the log did not return "
                                 "from earlier ones; runtime_options::log must not block",
                                 count));
    } catch (const std::bad_alloc&) {
        runtime_.log("weft: lines were left out here; runtime_options::log must not block");
    }
}

void report_queue::write_unserved() noexcept {
    if (!unserved_.load(std::memory_order_relaxed)) [[likely]] { return; }
    std::unique_lock held(mutex_);
    write_all(held);
    unserved_.store(false, std::memory_order_relaxed);
}

void report_queue::go_unwatched() noexcept {
    std::unique_lock held(mutex_);
    unwatched_ = true;
    write_all(held);
}

void report_queue::stop() noexcept {
    std::unique_lock held(mutex_);
    ending_ = true;
    changed_.notify_all();
    if (thread_.joinable()) {
        await_thread(held);
        held.unlock();
        thread_.join();
        held.lock();
    }
    // Without a thread.
    while (count_ != 0) { write_first(held); }
}

// Time counts from the last line on that was written, and in slices, as for all waits of the end: a
// slice counts as its own length, however late it ends.
void report_queue::await_thread(std::unique_lock<std::mutex>& held) noexcept {
    constexpr std::chrono::nanoseconds longest_slice = std::chrono::milliseconds(200);
    const std::chrono::nanoseconds limit = runtime_.options().shutdown_timeout;
    const auto has_ended = [this] { return ended_; };
    std::uint64_t seen = written_;
    std::chrono::nanoseconds counted{0};
    while (counted < limit) {
        const std::chrono::nanoseconds slice = std::min(limit - counted, longest_slice);
        if (changed_.wait_for(held, slice, has_ended)) { return; }
        counted = written_ == seen ? counted + slice : std::chrono::nanoseconds(0);
        seen = written_;
    }
    held.unlock();
    runtime_.report_log();
    held.lock();
}

}  // namespace weft::detail
