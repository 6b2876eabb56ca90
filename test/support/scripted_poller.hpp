// SPDX-License-Identifier: MIT
#pragma once

// A poller whose completions a test chooses. It stands in front of the real one of a worker, which
// goes on to serve descriptors and sleeps.

#include "support/scheduler.hpp"
#include "support/signal_cell.hpp"

#include <weft/detail/netpoll/netpoller.hpp>

#include <cstddef>
#include <vector>

namespace weft::test {

class scripted_poller final : public detail::poller {
public:
    /// By a task: takes the place of the poller of the worker that the task runs on.
    scripted_poller() : worker_(this_worker()), real_(worker_.io()) {
        home_ = real_.home();
        worker_.replace_poller(*this);
    }
    /// By a task on the same worker.
    ~scripted_poller() override { worker_.replace_poller(real_); }

    /// On the worker: the next look at the poller finds this cell's task, behind those before it.
    void complete(signal_cell& cell) { completed_.push_back(&cell); }
    /// On the worker: the flags show work although nothing may have completed.
    void show_work(bool shown) noexcept { shown_ = shown; }
    std::size_t polls() const noexcept { return polls_; }

    detail::start_result enable_on_this_thread() noexcept override {
        return real_.enable_on_this_thread();
    }
    void shut_down() noexcept override { real_.shut_down(); }
    void poll(detail::branch_list& readied, detail::poll_extent extent) noexcept override {
        ++polls_;
        real_.poll(readied, extent);
        take(readied);
    }
    void wait(detail::monotonic_time deadline, detail::branch_list& readied) noexcept override {
        real_.wait(deadline, readied);
        take(readied);
    }
    void wake() noexcept override { real_.wake(); }
    bool begin_sleep() noexcept override { return real_.begin_sleep(); }
    void end_sleep() noexcept override { real_.end_sleep(); }
    bool has_work() const noexcept override {
        return shown_ || !completed_.empty() || real_.has_work();
    }
    bool has_unsubmitted() const noexcept override { return real_.has_unsubmitted(); }
    int arm(detail::poll_record& record) noexcept override { return real_.arm(record); }

private:
    void take(detail::branch_list& readied) noexcept {
        for (signal_cell* each : completed_) each->signal_into(readied);
        completed_.clear();
    }

    detail::worker_thread& worker_;
    detail::poller& real_;
    std::vector<signal_cell*> completed_;
    bool shown_ = false;
    std::size_t polls_ = 0;
};

}  // namespace weft::test
