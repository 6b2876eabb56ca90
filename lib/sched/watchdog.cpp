// SPDX-License-Identifier: MIT
#include "lib/sched/watchdog.hpp"

#include "lib/base/futex.hpp"
#include "lib/base/signal_mask.hpp"
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/runtime_core.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/sched/task_life.hpp>

#include <fmt/format.h>

#include <sys/prctl.h>

#include <algorithm>
#include <iterator>
#include <system_error>

namespace weft::detail {

namespace {

constexpr std::int64_t milliseconds(std::chrono::nanoseconds time) noexcept {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

std::string site_text(const std::source_location& site) {
    return fmt::format("{}:{}", site.file_name(), site.line());
}

}  // namespace

watchdog::~watchdog() {
    stop();
}

void watchdog::start(const sigset_t& mask_in_fork) {
    watched_.resize(runtime_.worker_count());
    try {
        const block_signals blocked;
        thread_ = std::thread([this, mask_in_fork] {
            restore_signals_in_fork(mask_in_fork);
            ::prctl(PR_SET_NAME, "weft-watchdog");
            // As for workers: timed sleeps are not rounded up.
            ::prctl(PR_SET_TIMERSLACK, 1UL);
            run();
        });
        watches_ = true;
    } catch (const std::system_error& error) {
        runtime_.log(fmt::format(
            "weft: runs without its watchdog, since a thread cannot start ({}): tasks that keep "
            "their worker busy are neither asked to yield nor reported, and keep the sockets that "
            "wait there; raise the limit on threads (ulimit -u)",
            error.what()));
        runtime_.reports.go_unwatched();
    }
}

void watchdog::stop() noexcept {
    if (!thread_.joinable()) { return; }
    rest_.end();
    wake();
    thread_.join();
}

void watchdog::wake() noexcept {
    futex_wake(rest_.word());
}

// ---------------------------------------------------------------------------------------------
// The loop.

void watchdog::run() noexcept {
    monotonic_time before = slice_now();
    nanoseconds sleep = shortest_sleep;
    int quiet = 0;
    while (!rest_.is_ended()) {
        futex_wait(rest_.word(), rest_.watching, after(monotonic_now(), sleep));
        const monotonic_time now = slice_now();
        const nanoseconds elapsed =
            std::clamp(nanoseconds(now - before), nanoseconds(0), 2 * sleep);
        before = now;
        const activity seen = look_around(elapsed);
        if (take_for_owners()) {
            futex_wait(rest_.word(), rest_.watching, after(monotonic_now(), answer_time));
            take_for_owners();
        }
        watch_end(elapsed);
        runtime_.follow_machine(runtime_.machine_count, monotonic_now());
        runtime_.reports.write_unserved();
        // Release pairs with looks().
        looks_.fetch_add(1, std::memory_order_release);
        if (seen != activity::lasting) {
            sleep = std::min(2 * sleep, longest_sleep);
        } else {
            // With a processor to spare, what arrives for the one that is kept is soon found.
            sleep = runtime_.idle.parked_hint() != 0 ? shortest_sleep / 2 : shortest_sleep;
        }
        quiet = seen == activity::none ? quiet + 1 : 0;
        if (quiet >= quiet_looks) {
            rest();
            quiet = 0;
            sleep = shortest_sleep;
            before = slice_now();
        }
    }
}

void watchdog::rest() noexcept {
    if (!rest_.begin_rest([this] { return runtime_.idle.all_parked(); },
                          [this] {
                              return runtime_.reports.any_unserved() || any_wait_noted() ||
                                     !runtime_.end_compensations();
                          })) {
        return;
    }
    while (rest_.value() == rest_.resting) { futex_wait(rest_.word(), rest_.resting, no_deadline); }
}

bool watchdog::any_wait_noted() noexcept {
    for (std::uint32_t i = 0; i < runtime_.worker_count(); ++i) {
        if (!runtime_.worker_at(i).own_poller().unverified.empty()) { return true; }
    }
    return false;
}

watchdog::activity watchdog::look_around(nanoseconds elapsed) noexcept {
    const std::uint32_t count = runtime_.worker_count();
    if (watched_.size() < count) {
        try {
            watched_.resize(count);
        } catch (const std::bad_alloc&) {}  // The new ones are watched when there is memory.
    }
    look_at_global(elapsed);
    activity seen = activity::none;
    for (std::uint32_t i = 0; i < std::min<std::size_t>(count, watched_.size()); ++i) {
        watched& each = watched_[i];
        look_at(runtime_.worker_at(i), each, elapsed);
        if (each.watch.lasts() || each.watch.is_slow() || (each.watch.active() && global_waits_)) {
            seen = activity::lasting;
        } else if (each.watch.active() && seen == activity::none) {
            seen = activity::some;
        }
    }
    remind_of_waits();
    compensate();
    return seen;
}

// What was there at a look is to be gone at the next one. Many processors take one each in their
// regular turns, which is progress, and yet may take a second for what a worker takes at once.
void watchdog::look_at_global(nanoseconds elapsed) noexcept {
    const std::uint64_t taken = runtime_.global.taken();
    const std::size_t size = runtime_.global.size();
    const bool waited = std::exchange(global_waits_, size != 0);
    global_stands_ =
        waited && size != 0 && taken < global_until_ && elapsed != nanoseconds::zero();
    if (!global_stands_) { global_until_ = taken + size; }
}

void watchdog::look_at(worker_thread& worker, watched& of, nanoseconds elapsed) noexcept {
    if (!of.watch.see(worker.p.mark.look(), elapsed)) {
        of.measured = false;
        of.interrupted = false;
        of.seen_next = nullptr;
        of.awaited = false;
        if (std::exchange(of.compensated, false)) { runtime_.retire_compensating_worker(); }
        let_in(worker, of, elapsed);
        return;
    }
    thread_usage::used used;
    if (std::exchange(of.measured, true)) {
        used = of.usage.take(elapsed);
    } else {
        of.usage.begin(worker.thread());
    }
    const waiting_work waiting{
        .in_queues = worker.p.queue.size() != 0 || runtime_.global.size() != 0,
        .timer = worker.p.timers.earliest_hint() <= monotonic_now(),
        .poller = worker.own_poller().wants_owner(),
        .any_idle = runtime_.idle.parked_hint() != 0};
    of.awaited = waiting.in_queues || waiting.timer || waiting.poller;
    const watch_verdict verdict =
        of.watch.judge(elapsed, used, waiting, runtime_.options().hog_report);
    act(worker, of.watch, verdict);
    if (verdict.relieve) { relieve(worker, of); }
}

// A worker that runs one branch after the other passes its loop, but looks at its timers and its
// poller in each 8th turn only, and at the global queue in each 61st tick while its ring gives it
// something: tasks that yield every millisecond would keep it from there for 61 of them. Nothing
// is done while the clock of slices stands, since tests of the exact order hold it.
void watchdog::let_in(worker_thread& worker, watched& of, nanoseconds elapsed) noexcept {
    const bool busy = of.watch.active() && elapsed != nanoseconds::zero();
    const bool timer = busy && worker.p.timers.earliest_hint() <= monotonic_now();
    const bool poller = busy && (worker.own_poller().wants_owner() ||
                                 (of.watch.is_slow() && runtime_.net().anything_unnoticed()));
    if (std::exchange(of.timer_waits, timer) && timer) {
        worker.set_attention(attention::timer_due);
    }
    if (std::exchange(of.poller_waits, poller) && poller) {
        worker.set_attention(attention::ring_has_work);
    }
    if (busy && global_stands_) { worker.set_attention(attention::global_waits); }
}

// A worker that runs branches sees the bit before the next one; waking it would cost a system call
// for nothing. One for which there was no memory to watch it is woken in any case.
void watchdog::remind_of_waits() noexcept {
    for (std::uint32_t i = 0; i < runtime_.worker_count(); ++i) {
        worker_thread& worker = runtime_.worker_at(i);
        if (worker.own_poller().unverified.empty()) { continue; }
        worker.set_attention(attention::waits_noted);
        if (i >= watched_.size() || !watched_[i].watch.active()) { worker.wake(); }
    }
}

// ---------------------------------------------------------------------------------------------
// What others may have of a worker that does not come back.

// Workers that gave their processors up take nothing. A hint: the number may change meanwhile.
bool watchdog::runs_alone(const worker_thread& worker) noexcept {
    for (std::uint32_t i = 0; i < runtime_.worker_count(); ++i) {
        const worker_thread& other = runtime_.worker_at(i);
        if (&other != &worker && other.state.state() == worker_state::running) { return false; }
    }
    return true;
}

void watchdog::relieve(worker_thread& worker, watched& of) noexcept {
    poller& io = worker.own_poller();
    if (runs_alone(worker)) {
        // Nobody else could serve them, but what was sent before must leave, and a grace period
        // end.
        io.hand_over_for_owner(worker.thread().id);
        if (runtime_.phase() != runtime_phase::running) { take_timers(worker); }
        return;
    }
    if (io.wants_owner() && io.interrupt_owner(worker.thread().id)) { of.interrupted = true; }
    // Those who are idle look for these themselves.
    if (runtime_.idle.parked_hint() != 0) { return; }
    take_timers(worker);
    take_queue(worker, of.seen_next);
}

// As a thief that has no processor: what it takes goes to the global queue. What is in runnext the
// worker was about to run in most cases; it is taken if it is still there at the next look.
void watchdog::take_queue(worker_thread& of, branch*& seen_next) noexcept {
    // Not more than was there: a worker that is back meanwhile may fill its queue all the time.
    for (std::size_t left = of.p.queue.capacity; left != 0;) {
        branch_list taken;
        if (branch* first = of.p.queue.steal_into(in_passing_, false)) { taken.push_back(first); }
        while (branch* each = in_passing_.pop()) { taken.push_back(each); }
        if (taken.empty()) { break; }
        left -= std::min(left, taken.size());
        runtime_.inject(taken);
    }
    branch* const next = of.p.queue.peek_next();
    if (next != nullptr && next == seen_next) {
        branch_list taken;
        if (branch* stolen = of.p.queue.steal_next(next)) { taken.push_back(stolen); }
        if (!taken.empty()) { runtime_.inject(taken); }
    }
    seen_next = next;
}

void watchdog::take_timers(worker_thread& of) noexcept {
    const monotonic_time now = monotonic_now();
    if (of.p.timers.earliest_hint() > now) { return; }
    // What is on its way from the heap to the queue must not be taken for asleep (all_asleep.hpp).
    runtime_.shared_guards->add();
    if (!runtime_.idle.all_parked()) {
        timer* due[64];
        const std::size_t count = of.p.timers.collect_due(now, due, std::size(due));
        branch_list readied;
        for (std::size_t i = 0; i < count; ++i) { due[i]->fire(readied); }
        if (!readied.empty()) { runtime_.inject(readied); }
    }
    runtime_.shared_guards->remove();
}

// Completions that interrupted workers have posted. True: a worker was interrupted.
bool watchdog::take_for_owners() noexcept {
    bool any = false;
    for (std::uint32_t i = 0; i < watched_.size() && i < runtime_.worker_count(); ++i) {
        if (!watched_[i].interrupted) { continue; }
        any = true;
        branch_list readied;
        runtime_.worker_at(i).own_poller().take_for_owner(readied);
        if (!readied.empty()) { runtime_.inject(readied); }
    }
    return any;
}

// ---------------------------------------------------------------------------------------------
// Workers in the place of those that are kept.

// Somebody idle, or a worker that is not kept, takes what waits: a compensating worker would only
// share its processor. One that is blocked in a call leaves a processor unused.
void watchdog::compensate() noexcept {
    runtime_.end_compensations();
    if (!runtime_.options().compensate || runtime_.phase() != runtime_phase::running) { return; }
    bool all_kept = watched_.size() >= runtime_.worker_count();
    bool awaited = false;
    std::uint32_t computing = 0;  // Of those that are kept.
    watched* chosen = nullptr;
    for (std::uint32_t i = 0; i < std::min<std::size_t>(runtime_.worker_count(), watched_.size());
         ++i) {
        watched& each = watched_[i];
        worker_thread& worker = runtime_.worker_at(i);
        // A hint, as all of this: the number may change meanwhile. Who goes does not count.
        if (worker.state.state() != worker_state::running) { continue; }
        awaited = awaited || each.awaited || worker.p.queue.size() != 0;
        if (!each.watch.keeps_worker()) {
            all_kept = false;
            continue;
        }
        if (each.watch.is_blocked()) {
            each.was_blocked = true;
        } else {
            ++computing;
        }
        if (!each.compensated && (chosen == nullptr || each.watch.is_blocked())) { chosen = &each; }
    }
    if (computing < runtime_.processor_count()) { end_for_unblocked(); }
    if (runtime_.idle.parked_hint() != 0 || runtime_.idle.searching_hint() != 0) { return; }
    if (chosen == nullptr || !(all_kept || chosen->watch.is_blocked())) { return; }
    if (awaited || runtime_.net().anything_unnoticed()) {
        start_compensating(*chosen);
        chosen->was_blocked = chosen->watch.is_blocked();
    }
}

// Its task computes again, so its core is used. Where tasks keep all processors that way, one that
// runs in the place of any of them is wanted in any case, and goes when that is over: whether they
// did so when it was started does not matter any more.
void watchdog::end_for_unblocked() noexcept {
    for (watched& each : watched_) {
        if (each.compensated && each.was_blocked && !each.watch.is_blocked()) {
            each.compensated = false;
            runtime_.retire_compensating_worker();
        }
    }
}

void watchdog::start_compensating(watched& of) noexcept {
    const monotonic_time now = monotonic_now();
    if (now < next_attempt_) { return; }
    runtime_core::compensation outcome{};
    try {
        outcome = runtime_.start_compensating_worker();
        of.compensated = outcome == runtime_core::compensation::started;
        short_attempts_ = 0;
    } catch (const std::system_error& error) {
        const bool is_short = error.code() == std::errc::not_enough_memory;
        put_off(now, is_short, error.what());
        return;
    } catch (const std::exception& error) {
        put_off(now, false, error.what());
        return;
    }
    // None was started either where the runtime has begun to end meanwhile. Tasks that are merely
    // long are no reason for a report here, as they are none for one about themselves.
    if (outcome == runtime_core::compensation::none_left &&
        runtime_.phase() == runtime_phase::running &&
        of.watch.used() >= runtime_.options().hog_report) {
        report_used_up();
    }
}

// Rings that were just closed are uncharged a little later, so a ring that finds no memory is tried
// again soon, for some 100 ms in all.
void watchdog::put_off(monotonic_time now, bool short_of_memory, std::string_view why) noexcept {
    constexpr int most_attempts = 10;
    if (short_of_memory && ++short_attempts_ < most_attempts) {
        next_attempt_ = after(now, std::chrono::milliseconds(10));
        return;
    }
    short_attempts_ = 0;
    next_attempt_ = after(now, std::chrono::seconds(1));
    report_no_worker(why);
}

void watchdog::report_no_worker(std::string_view why) noexcept {
    if (failure_reported_) { return; }
    try {
        failure_reported_ = runtime_.reports.say(
            fmt::format("weft: a task keeps a worker, and none can run in its place; what is ready "
                        "waits ({})",
                        why));
    } catch (const std::bad_alloc&) {
        failure_reported_ = runtime_.reports.say_in_short(
            "weft: a task keeps a worker, and there is no memory for one in its place");
    }
}

// Not at each look: while there is no room for the line, each attempt counts as a line left out.
void watchdog::report_used_up() noexcept {
    const monotonic_time now = monotonic_now();
    if (used_up_reported_ || now < next_used_up_) { return; }
    next_used_up_ = after(now, std::chrono::seconds(1));
    used_up_reported_ = runtime_.reports.say_in_short(
        "weft: tasks keep all workers, and as many besides that ran in their place; what is ready "
        "waits. In long computations co_await checkpoint() now and then, or make them, and calls "
        "that block, through co_await blocking(...)");
}

void watchdog::act(worker_thread& worker, const run_watch& watch,
                   const watch_verdict& verdict) noexcept {
    if (verdict.slice_over) { worker.set_attention(attention::slice_over); }
    if (verdict.yield) { worker.set_attention(attention::yield_wanted); }
    if (verdict.timer_due) { worker.set_attention(attention::timer_due); }
    if (verdict.ring) { worker.set_attention(attention::ring_has_work); }
    if (verdict.overrun) { worker.p.overruns.add(); }
    if (verdict.report) { report(worker, watch); }
}

// ---------------------------------------------------------------------------------------------
// Reports.

// The task, as a message names it; empty if it has ended meanwhile.
std::string watchdog::describe(const run_sight<branch>& seen) {
    if (seen.branch == nullptr) { return {}; }
    // The mark names the first branch of the task, which lies at the start of its control block.
    auto& task = *reinterpret_cast<task_control*>(seen.branch);
    std::uint64_t id = 0;
    std::string_view name;
    char copied[64];
    std::source_location spawn_site;
    const task_life life(&task, seen.life);
    if (!examined.examine(
            task, [&] { return has_ended(life); },
            [&] {
                id = task.id;
                spawn_site = task.spawn_site;
                if (task.extras == nullptr) { return; }
                name = {copied, task.extras->name.copy(copied, sizeof(copied))};
            })) {
        return {};
    }
    return fmt::format("task {} ({}), spawned at {}, last seen at the await at {}", id,
                       name.empty() ? "unnamed" : name, site_text(spawn_site),
                       site_text(seen.site));
}

void watchdog::report(const worker_thread& worker, const run_watch& watch) noexcept {
    std::uint64_t left_out = 0;
    if (!limit_.allow(monotonic_now(), left_out)) { return; }
    bool said = false;
    try {
        said = report_task(worker, watch, left_out);
    } catch (const std::bad_alloc&) {}  // No memory for a report is no reason to end the process.
    if (!said) { limit_.take_back(left_out); }
}

bool watchdog::report_task(const worker_thread& worker, const run_watch& watch,
                           std::uint64_t left_out) {
    const std::string task = describe(watch.last());
    if (task.empty()) { return false; }
    const std::string more =
        left_out == 0 ? "" : fmt::format(" ({} more such reports were left out)", left_out);
    return runtime_.reports.say(fmt::format(
        "weft: {}, has {} worker {} for {} ms and lets nobody in; {}{}", task,
        watch.mostly_blocked() ? "blocked" : "kept", worker.index(), milliseconds(watch.used()),
        watch.mostly_blocked()
            ? "make calls that block through co_await blocking(...)"
            : "in long computations co_await checkpoint() now and then, or make them through "
              "co_await blocking(...)",
        more));
}

// A task that does not come back while the runtime ends: after the grace period it gets
// shutdown_timeout. The grace period may have to end without its timer, which a worker fires.
void watchdog::watch_end(nanoseconds elapsed) noexcept {
    const runtime_phase phase = runtime_.phase();
    if (phase < runtime_phase::draining || hang_reported_) { return; }
    ending_ += elapsed;
    if (phase >= runtime_phase::stopping) { stopping_ += elapsed; }
    if (!runtime_.has_hung(ending_, stopping_)) { return; }
    std::string tasks;
    try {
        for (std::uint32_t i = 0; i < runtime_.worker_count(); ++i) {
            const std::string task = describe(runtime_.worker_at(i).p.mark.look());
            if (!task.empty()) { tasks += fmt::format("; worker {}: {}", i, task); }
        }
    } catch (const std::bad_alloc&) {}  // The report is more important than the names.
    hang_reported_ = true;
    runtime_.report_hang(tasks);
}

}  // namespace weft::detail
