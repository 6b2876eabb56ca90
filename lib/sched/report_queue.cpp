// SPDX-License-Identifier: MIT
#include "lib/sched/report_queue.hpp"

#include "lib/base/signal_mask.hpp"
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/runtime_core.hpp"

#include <fmt/format.h>

#include <sys/prctl.h>

#include <exception>
#include <utility>

namespace weft::detail {

void report_queue::put(entry said) noexcept {
    std::unique_lock held(mutex_);
    if (ending_) {
        // A thread that was to become a worker when the runtime began to end. Nobody waits for it.
        held.unlock();
        write(said);
        return;
    }
    if (count_ == ring_.size()) {
        ++left_out_;
        return;
    }
    ring_[(first_ + count_) % ring_.size()] = std::move(said);
    ++count_;
    if (thread_.joinable() || start_thread()) {
        changed_.notify_one();
        return;
    }
    if (unwatched_) {
        write_all(held);
        return;
    }
    // seq_cst: before the look at the watchdog's word, see the head of report_queue.hpp.
    unserved_.store(true, std::memory_order_seq_cst);
    held.unlock();
    runtime_.dog.work_begins();
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
        if (count_ == 0) { return; }
        write_first(held);
    }
}

void report_queue::write_first(std::unique_lock<std::mutex>& held) noexcept {
    const entry taken = std::exchange(ring_[first_], {});
    first_ = (first_ + 1) % ring_.size();
    --count_;
    // They would have come next.
    const std::uint64_t left_out = count_ == 0 ? std::exchange(left_out_, 0) : 0;
    held.unlock();
    write(taken);
    if (left_out != 0) { tell_left_out(left_out); }
    held.lock();
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
    changed_.notify_one();
    if (thread_.joinable()) {
        held.unlock();
        thread_.join();
        held.lock();
    }
    // Without a thread.
    while (count_ != 0) { write_first(held); }
}

}  // namespace weft::detail
