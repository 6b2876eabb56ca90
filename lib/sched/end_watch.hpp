// SPDX-License-Identifier: MIT
//
// Watches worker 0 while it destroys, at the end of a runtime, what tasks have left behind where
// they waited. That runs destructors of the user, and one that waits for something would keep the
// end for ever, without a word: the watchdog has ended before, since it must not touch the timers
// and queues of frames that are being destroyed.
//
// It has a thread of its own, which exists only while there is something to destroy. Time counts in
// slices, as for all waits of the end, from the last task on whose frames were destroyed: many of
// them may take long. Where the system refuses the thread nobody watches.
//
// Who may touch what: all under the mutex. Worker 0 says which task it destroys, and has left it
// before the control block can be given back; the thread reads of it under the mutex only, and
// holds nothing while it reports.
#pragma once

#include <weft/detail/sched/task_control.hpp>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace weft::detail {

class end_watch {
public:
    explicit end_watch(runtime_core& runtime) noexcept;
    ~end_watch();
    end_watch(const end_watch&) = delete;
    end_watch& operator=(const end_watch&) = delete;

    /// Worker 0 destroys the frames of this task; null: it has done so.
    void destroys(const task_control* task) noexcept {
        const std::lock_guard held(mutex_);
        destroyed_ = task;
        ++progress_;
    }

private:
    void run() noexcept;
    std::string describe() const noexcept;

    runtime_core& runtime_;
    std::mutex mutex_;
    std::condition_variable changed_;
    const task_control* destroyed_ = nullptr;
    std::uint64_t progress_ = 0;
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace weft::detail
