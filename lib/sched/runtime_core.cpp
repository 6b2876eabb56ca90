// SPDX-License-Identifier: MIT
#include "lib/sched/runtime_core.hpp"

#include "lib/sched/fork_guard.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/sched/parking_loop.hpp>
#include <weft/detail/sched/task_life.hpp>

#include <fmt/format.h>

#include <sys/uio.h>
#include <algorithm>

namespace weft::detail {

namespace {

/// A call that queues for longer is reported, not more often than this.
constexpr std::chrono::nanoseconds saturation_period = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds saturation_report_period = std::chrono::minutes(1);

processor_state public_state(worker_state state) noexcept {
    switch (state) {
        case worker_state::running:
            return processor_state::running;
        case worker_state::asked:
        case worker_state::leaving:
            return processor_state::retiring;
        case worker_state::retired:
            break;
    }
    return processor_state::retired;
}

}  // namespace

// On a line of its own, since workers of all runtimes write it.
alignas(64) constinit std::atomic<std::uint64_t> runtime_core::next_id_{1};

// ---------------------------------------------------------------------------------------------
// Waking and readying from outside.

[[gnu::hot]]
bool runtime_core::wake_if_needed() noexcept {
    return wake_searcher(*this);
}

void runtime_core::count_wake() noexcept {
    if (worker_thread* here = current_worker_of(*this)) {
        here->p.wakes.add();
    }
}

[[gnu::hot]]
bool runtime_core::anything_published() const noexcept {
    if (global.size() != 0) {
        return true;
    }
    for (std::uint32_t i = 0, count = workers_.size(); i < count; ++i) {
        if (!workers_[i].p.queue.empty()) {
            return true;
        }
    }
    return false;
}

void runtime_core::inject(branch_list& readied) noexcept {
    for (branch* each = readied.front(); each != nullptr; each = each->next) {
        // Relaxed: who looks for sleeping tasks (sleep_report.cpp) may read it meanwhile.
        std::atomic_ref<branch_status>(each->status)
            .store(branch_status::queued, std::memory_order_relaxed);
    }
    global.push_batch(readied.front(), readied.back(), readied.size());
    wake_if_needed();
}

void runtime_core::check_not_forked() const noexcept {
    if (phase() == runtime_phase::forked) [[unlikely]] {
        used_in_fork();
    }
}

void runtime_core::mark_forked() noexcept {
    // There is one thread in this process.
    phase_.store(runtime_phase::forked, std::memory_order_release);
    workers_.for_each([](worker_thread& each) { each.set_attention(attention::forked); });
}

// ---------------------------------------------------------------------------------------------
// Reports.

void runtime_core::log(std::string_view line) const noexcept {
    if (options_.log) {
        options_.log(line);
        return;
    }
    // One call, so that lines of several threads do not mix, and no copy, since it may be memory
    // that is missing. There is nobody to whom a failed write could be told.
    char end = '\n';
    const iovec parts[] = {{const_cast<char*>(line.data()), line.size()}, {&end, 1}};
    [[maybe_unused]] const auto written = ::writev(STDERR_FILENO, parts, 2);
}

bool runtime_core::sleeps_for_good() noexcept {
    for (std::uint32_t i = 0, count = workers_.size(); i < count; ++i) {
        if (workers_[i].p.timers.earliest() != no_deadline) {
            return false;
        }
    }
    return phase() == runtime_phase::running && survey_.all_asleep(slabs);
}

// The second look, with room for the list, finds the same: nothing is left that could change it.
// Only a thread that wakes tasks without a guard could; its tasks are not reported then.
[[gnu::hot]]
bool runtime_core::all_asleep() noexcept {
    if (!detail::all_asleep(*this)) {
        return false;
    }
    std::size_t found = 0;
    std::vector<sleeping_task> room;
    idle.with_list_held([&] { return (found = survey_.branches_found()) != 0; });
    try {
        room.resize(std::min(found, sleep_survey::most_listed));
    } catch (const std::bad_alloc&) {
        // The report lists none, then.
    }
    idle.with_list_held([&] { return survey_.give_room(room), true; });
    // Relaxed: the first one to come here reports.
    return detail::all_asleep(*this) &&
           watches_for_sleep_.exchange(false, std::memory_order_relaxed);
}

void runtime_core::report_all_asleep() noexcept {
    std::string report;
    try {
        report = log_all_asleep();
    } catch (const std::bad_alloc&) {
        log("weft: all tasks are asleep, and there is no memory to name them");
        report = "weft: asleep";  // Short enough to be kept without memory.
    }
    if (options_.deadlock == deadlock_action::throw_exception) {
        deadlock_ = std::move(report);
        begin_drain();
    }
}

std::string runtime_core::log_all_asleep() {
    sleep_report found;
    idle.with_list_held([&] { return found = survey_.take(), true; });
    std::string report;
    for (const std::string& line : found.lines()) {
        log(line);
        report += (report.empty() ? "" : "\n") + line;
    }
    return report;
}

void runtime_core::report_failure(const task_failure& failure) const noexcept {
    if (options_.on_failure) {
        options_.on_failure(failure);
        return;
    }
    try {
        log_failure(failure);
    } catch (const std::bad_alloc&) {
        log("weft: a task ended by an exception that nobody awaits, and there is no memory to name "
            "it");
    }
    if (!failure.suppressed) { std::terminate(); }
}

void runtime_core::log_failure(const task_failure& failure) const {
    std::string what = "an exception that is no std::exception";
    try {
        std::rethrow_exception(failure.exception);
    } catch (const std::exception& error) {
        what = error.what();
    } catch (...) {
    }
    const std::string task = fmt::format(
        "task {} ({}), spawned at {}:{}", failure.task_id,
        failure.task_name.empty() ? "unnamed" : failure.task_name, failure.spawn_site.file_name(),
        failure.spawn_site.line());
    if (failure.suppressed) {
        log(fmt::format("weft: a child of {}, failed after another one, whose exception the task "
                        "has: {}; set runtime_options::on_failure to have it",
                        task, what));
        return;
    }
    log(fmt::format("weft: {}, ended by an exception that nobody awaits: {}; catch it in the task, "
                    "await its handle, or set runtime_options::on_failure",
                    task, what));
}

runtime_statistics runtime_core::statistics() const {
    runtime_statistics result;
    // What has ended is read before what was spawned, so that the difference is never negative.
    workers_.for_each([&](worker_thread& each) {
        result.processors.push_back(each.p.statistics());
        result.processors.back().state = public_state(each.state.state());
    });
    for (std::uint32_t i = 0; i < result.processors.size(); ++i) {
        result.processors[i].spawned = workers_[i].p.spawned.read();
    }
    // Relaxed: statistics.
    result.compensations = compensations_.load(std::memory_order_relaxed);
    result.spawned_outside = spawned_outside.load(std::memory_order_relaxed);
    result.blocking_calls = blocking.calls();
    result.blocking_threads = blocking.machines();
    result.blocking_queued = blocking.queued();
    result.blocking_longest_wait = blocking.longest_wait();
    result.blocking_waited = blocking.waited();
    result.blocking_refused = blocking.refused();
    result.netpoller = netpoller_->name();
    return result;
}

// ---------------------------------------------------------------------------------------------
// Blocking calls that wait.

void runtime_core::watch_blocking(worker& on) noexcept {
    saturation_timer_.start(on);
}

void runtime_core::saturation_timer::start(worker& on) noexcept {
    // seq_cst, with the store and the look at the queue in fire(): either that finds the call, or
    // we find that the timer stands.
    if (running_.exchange(true, std::memory_order_seq_cst)) {
        return;
    }
    try {
        on.timers().add(*this, after(monotonic_now(), saturation_period));
        on.timer_added();
    } catch (const std::bad_alloc&) {
        running_.store(false, std::memory_order_seq_cst);  // The next call tries again.
    }
}

void runtime_core::saturation_timer::fire(branch_list&) noexcept {
    report();
    running_.store(false, std::memory_order_seq_cst);
    if (owner_.blocking.queued() == 0) {
        return;
    }
    if (worker* here = current_worker_of(owner_)) {
        start(*here);
        return;
    }
    // The watchdog, which has no heap. Any worker may be kept, so the first one that is back.
    owner_.workers_.for_each([](worker_thread& each) {
        each.set_attention(attention::calls_wait);
        each.wake();
    });
}

void runtime_core::saturation_timer::report() noexcept {
    const monotonic_time now = monotonic_now();
    const auto waited = owner_.blocking.longest_wait();
    if (waited < saturation_period || now < next_report_) {
        return;
    }
    bool kept = false;
    try {
        kept = owner_.reports.say(fmt::format(
            "weft: {} calls that were given to blocking() wait, the first one for {} ms, since all "
            "{} threads for them are busy; raise runtime_options::blocking_threads (or the limit "
            "on threads, ulimit -u), or use try_blocking()",
            owner_.blocking.queued(),
            std::chrono::duration_cast<std::chrono::milliseconds>(waited).count(),
            owner_.blocking.machines()));
    } catch (const std::bad_alloc&) {
        kept = owner_.reports.say_in_short(
            "weft: calls that were given to blocking() wait, since all threads for them are busy, "
            "and there is no memory to say more");
    }
    if (kept) { next_report_ = after(now, saturation_report_period); }
}

}  // namespace weft::detail
