// SPDX-License-Identifier: MIT
//
// The number of processors while tasks run.
//
// Workers are only ever added. Those above the number that is wanted are asked to give their
// processors up, the last ones first (running_workers.hpp tells which, retirement.hpp how they do
// that and how they come back). When more are wanted, those that were asked are recalled, the first
// ones first, and only if there are too few of them, more are made: everything that may fail
// (memory, rings, threads, and enabling a ring on its thread) is tried before anything is changed,
// and taken back if one step fails.
//
//     to be made   -> waiting     its thread has enabled its poller, and waits for the verdict
//     waiting      -> running     all of them have: they are registered, then released
//     waiting      -> gone        one of them has failed: all end
//
// A worker that is registered while the runtime ends. begin_drain() and begin_stop() change the
// phase and then read the number of workers; we write that number and then read the phase. All four
// are seq_cst, so either they find the new workers, or we find the phase, which the new workers
// then find too: a stopped one leaves its loop before it does anything. Whoever waits for all
// workers to stop reads the number after the phase, so it waits for these as well.
//
// The watchdog follows the machine (affinity and quota) unless the number was chosen by hand: at
// the start, or by the first call of set_processors(), which ends that for good.
//
// A worker that is alone may sleep over a wait that is unverified (unverified_waits.hpp). So
// whoever ends that has it ask: a second processor is counted first, and then the attention word of
// every worker is set, and the worker woken. One that goes to sleep on what it has read before
// finds the wake and stays awake; one that sleeps already wakes up; both serve the word before they
// look for anything to run. One that reads the count after it has served the word, or for the first
// time, reads that processor. What keeps a worker already, with a wait that it has noted before, is
// no such case: it does not sleep.
//
// control_mutex_ makes all of this one thing at a time. Nobody waits for a worker while it is held
// but for threads that are being started, which need no other worker. The watchdog, on which all
// tasks rely, waits neither for it nor for memory: it tries again at a later look. A task that
// makes many workers holds the lock for long, and closed rings are uncharged late.
#include "lib/sched/runtime_core.hpp"

#include "lib/base/environment.hpp"
#include "lib/base/signal_mask.hpp"
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace weft::detail {

namespace {

/// What is asked of the poller of one more worker: as many entries as the others have, or few for
/// one that runs only now and then.
constexpr unsigned usual_entries = 256;
constexpr unsigned few_entries = 64;

}  // namespace

/// Workers that are being made. Kept by whoever makes them and by their threads; guarded by mutex_.
struct runtime_core::late_start {
    enum class decision : std::uint8_t { open, run, end };
    std::uint32_t reported = 0;
    start_result failure;
    decision verdict = decision::open;
};

void runtime_core::set_processors(unsigned wanted) {
    if (wanted == 0 || wanted > largest_processor_count) {
        throw std::invalid_argument(
            fmt::format("weft: set_processors was called with {}; it must be a number from 1 to {}",
                        wanted, largest_processor_count));
    }
    check_not_forked();
    const std::lock_guard held(control_mutex_);
    if (phase() != runtime_phase::running) {
        throw std::system_error(errc::stopped, "weft: set_processors while the runtime ends");
    }
    change_processors(wanted, short_memory::wait);
    machine_count.stop();
}

// A number that was set by hand between the look and the lock has come later, and stays. Where that
// goes on, and may still fail, the next look tells again, and so it does where a worker could not
// be made: memory, threads or descriptors may come back. A ring that was closed a moment ago still
// counts as memory, so the first attempts do not settle for a smaller one. Reading the files may
// fail each time as well. What fails in the same way is said once.
void runtime_core::follow_machine(processor_count_watch& watched, monotonic_time now) noexcept {
    std::optional<std::uint32_t> found;
    try {
        found = watched.look(now);
        if (!found) {
            return;
        }
        const std::unique_lock held(control_mutex_, std::try_to_lock);
        if (!held.owns_lock()) {
            watched.tell_again();
        } else if (watched.active() && machine_count.active() &&
                   phase() == runtime_phase::running) {
            change_processors(*found, attempts_to_follow_ < patient_attempts
                                          ? short_memory::fail
                                          : short_memory::fewer);
            unfollowed_ = nothing_reported;
            attempts_to_follow_ = 0;
        }
    } catch (const std::exception& error) {
        if (found) {
            ++attempts_to_follow_;
            watched.tell_again();
        }
        report_unfollowed(found, error.what());
    }
}

void runtime_core::report_unfollowed(std::optional<std::uint32_t> found,
                                     std::string_view why) noexcept {
    const std::uint32_t failure = found.value_or(0);
    if (unfollowed_ == failure) {
        return;
    }
    if (say_unfollowed(found.has_value(), why)) {
        unfollowed_ = failure;
    }
}

bool runtime_core::say_unfollowed(bool seen, std::string_view why) noexcept {
    try {
        return reports.say(fmt::format(
            "weft: {}; it stays at {} ({})",
            seen ? "the machine gives this process another number of processors than before"
                 : "the number of processors that the machine gives cannot be read",
            processor_count(), why));
    } catch (const std::bad_alloc&) {
        return reports.say_in_short(
            "weft: there is no memory to follow the number of processors that the machine gives");
    }
}

// Under the lock.
void runtime_core::change_processors(unsigned wanted, short_memory when_short) {
    const std::uint32_t running = wanted + wanted_.compensating();
    if (running > worker_count()) {
        start_more_workers(running - worker_count(), usual_entries, when_short);
    }
    const std::uint32_t before = wanted_.processors();
    const bool one = before == 1;
    wanted_.set_processors(wanted);
    repin(std::min(before, wanted), std::max(before, wanted));
    adjust_running(*this, running);
    if (one) {
        end_solitude();
    }
}

// Each does it itself before it runs anything: also one that is recalled only then, and one that
// runs in the place of another already.
void runtime_core::repin(std::uint32_t first, std::uint32_t end) noexcept {
    if (cores_.count() == 0) {
        return;
    }
    for (std::uint32_t i = first; i < std::min(end, worker_count()); ++i) {
        workers_[i].set_attention(attention::pin_changed);
    }
}

runtime_core::compensation runtime_core::start_compensating_worker() {
    if (!end_compensations()) {
        return compensation::later;
    }
    const std::unique_lock held(control_mutex_, std::try_to_lock);
    if (!held.owns_lock()) {
        return compensation::later;
    }
    if (phase() != runtime_phase::running || !wanted_.may_compensate()) {
        return compensation::none_left;
    }
    if (wanted_.all() >= worker_count()) {
        start_more_workers(1, few_entries, short_memory::fail);
    }
    wanted_.compensate();
    // Relaxed: a statistic.
    compensations_.fetch_add(1, std::memory_order_relaxed);
    adjust_running(*this, wanted_.all());
    if (processor_count() == 1) {
        end_solitude();
    }
    return compensation::started;
}

// See the head of this file. Where two processors are wanted there have always been two since.
void runtime_core::end_solitude() noexcept {
    for (std::uint32_t i = 0; i < worker_count(); ++i) {
        workers_[i].set_attention(attention::waits_noted);
        workers_[i].wake();
    }
}

void runtime_core::retire_compensating_worker() noexcept {
    ++compensations_over_;
    end_compensations();
}

bool runtime_core::end_compensations() noexcept {
    if (compensations_over_ == 0) {
        return true;
    }
    const std::unique_lock held(control_mutex_, std::try_to_lock);
    if (!held.owns_lock()) {
        return false;
    }
    for (; compensations_over_ != 0; --compensations_over_) {
        wanted_.end_compensation();
    }
    adjust_running(*this, wanted_.all());
    return true;
}

void runtime_core::reconsider_sleep() noexcept {
    reconsider(*this);
}

void runtime_core::start_more_workers(std::uint32_t count, unsigned entries,
                                      short_memory when_short) {
    const std::uint32_t first = worker_count();
    std::vector<std::unique_ptr<worker_thread>> made;
    made.reserve(count);
    workers_.reserve(first + count);
    const auto round = std::make_shared<late_start>();
    late_undo undo{*this, *round, threads_.size(), 0};
    for (std::uint32_t i = first; i < first + count; ++i) {
        made.push_back(std::make_unique<worker_thread>(*this, i));
        const start_result ring = netpoller_->add_poller(entries, when_short);
        if (ring.error != 0) {
            throw_late_failure(ring);
        }
        ++undo.pollers;
        made.back()->set_poller(netpoller_->worker_poller(i));
    }
    start_late_threads(made, round);
    {
        std::unique_lock held(mutex_);
        changed_.wait(held, [&] { return round->reported == count; });
        if (round->failure.error != 0) {
            throw_late_failure(round->failure);
        }
    }
    for (auto& each : made) {
        idle.add_processor();
        workers_.add(std::move(each));
    }
    // seq_cst: see the head of this file.
    if (phase_.load(std::memory_order_seq_cst) >= runtime_phase::stopping) {
        for (std::uint32_t i = first; i < first + count; ++i) {
            workers_[i].set_attention(attention::stopping);
        }
    }
    undo.give_up = false;
    end_late_start(*round, true);
}

void runtime_core::start_late_threads(std::vector<std::unique_ptr<worker_thread>>& made,
                                      const std::shared_ptr<late_start>& round) {
    const block_signals blocked;
    threads_.reserve(threads_.size() + made.size());
    try {
        for (auto& each : made) {
            threads_.emplace_back([this, self = each.get(), round] {
                restore_signals_in_fork(mask_in_fork_);
                late_thread_main(*self, *round);
            });
        }
    } catch (const std::system_error& error) {
        throw std::system_error(error.code(),
                                "weft: cannot start the thread of one more worker; raise the limit "
                                "on threads (ulimit -u), or ask for fewer processors");
    }
}

void runtime_core::throw_late_failure(const start_result& failure) const {
    throw std::system_error(
        failure.error, std::system_category(),
        fmt::format("weft: cannot make the {} poller of one more worker ({}); raise the limits on "
                    "locked memory (ulimit -l) and on open files (ulimit -n), or ask for fewer "
                    "processors",
                    netpoller_->name(), failure.step));
}

void runtime_core::end_late_start(late_start& round, bool runs) noexcept {
    const std::lock_guard held(mutex_);
    round.verdict = runs ? late_start::decision::run : late_start::decision::end;
    changed_.notify_all();
}

// The threads end before what they use does: workers, then rings.
runtime_core::late_undo::~late_undo() {
    if (!give_up) {
        return;
    }
    on.end_late_start(round, false);
    for (std::size_t i = threads_before; i < on.threads_.size(); ++i) {
        on.threads_[i].join();
    }
    on.threads_.resize(threads_before);
    for (; pollers != 0; --pollers) {
        on.netpoller_->remove_last_poller();
    }
}

void runtime_core::late_thread_main(worker_thread& self, late_start& round) {
    prepare_thread(self.index());
    const start_result result = self.io_->enable_on_this_thread();
    {
        std::unique_lock held(mutex_);
        if (result.error != 0 && round.failure.error == 0) {
            round.failure = result;
        }
        ++round.reported;
        changed_.notify_all();
        changed_.wait(held, [&] { return round.verdict != late_start::decision::open; });
        if (round.verdict == late_start::decision::end) {
            held.unlock();
            self.io_->disable_on_this_thread();
            return;
        }
    }
    serve_other_worker(self);
}

}  // namespace weft::detail
