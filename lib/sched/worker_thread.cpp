// SPDX-License-Identifier: MIT
#include "lib/sched/worker_thread.hpp"

#include "lib/base/futex.hpp"
#include "lib/sched/fork_guard.hpp"
#include "lib/sched/runtime_core.hpp"
#include "lib/sched/victim_order.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/base/clock.hpp>
#include <weft/detail/branch/operation.hpp>
#include <weft/detail/sched/parking_loop.hpp>
#include <weft/detail/sched/promise.hpp>

#include <algorithm>
#include <utility>

namespace weft::detail {

namespace {

/// Of the initial-exec model, since a signal handler asks for it (rescue_signal.cpp): elsewhere, in
/// a shared library, to find it may take a lock of the loader, or memory.
constinit thread_local worker_thread* this_thread_worker [[gnu::tls_model("initial-exec")]] =
    nullptr;

/// Half a ring moves to the global queue.
struct overflow_to {
    worker_thread& from;
    void operator()(branch* first, branch* last, std::size_t count) const noexcept {
        from.p.overflows.add();
        from.runtime().global.push_batch(first, last, count);
    }
};

}  // namespace

[[gnu::hot]]
[[gnu::noinline]] worker* current_worker() noexcept {
    return this_thread_worker;
}

[[gnu::hot]]
[[gnu::noinline]] worker_thread* current_worker_of(const runtime_core& runtime) noexcept {
    worker_thread* here = this_thread_worker;
    return here != nullptr && &here->runtime() == &runtime ? here : nullptr;
}

worker_thread::worker_thread(runtime_core& runtime, std::uint32_t index)
    : worker(runtime, index, p.timers),
      random_(static_cast<std::uint64_t>(monotonic_now()) + index + 1) {}

worker_thread::~worker_thread() {
    runtime_->slabs.release(free_controls_);
}

void worker_thread::enter_thread() noexcept {
    // Relaxed: the watchdog asks only while it sees a branch run, which publishes it.
    thread_.store(thread_name::of_this_thread(), std::memory_order_relaxed);
    this_thread_worker = this;
    this_thread_frames = &p.frames;
}

void worker_thread::leave_thread() noexcept {
    this_thread_worker = nullptr;
    this_thread_frames = nullptr;
}

// ---------------------------------------------------------------------------------------------
// The loop.

[[gnu::hot]]
void worker_thread::run() {
    while (branch* taken = next()) {
        do {
            execute(taken);
            taken = std::exchange(direct_, nullptr);
        } while (taken != nullptr);
    }
    end_gathered_sends();
    // What was taken in a signal handler, and not completed yet: frames that are destroyed wait for
    // that. No task runs here any more, so nothing follows.
    branch_list readied;
    io_->take_for_owner(readied);
    ready_batch(readied);
}

// The runtime ends, and is about to destroy frames that lie in the way of entries of the ring: what
// was gathered is sent before, as it would have been without gathering. A kernel that takes no
// entries is asked for as long as in any other turn (ring_poller.hpp).
void worker_thread::end_gathered_sends() noexcept {
    while (io_->has_gathered()) {
        branch_list readied;
        io_->wait(0, readied);
        ready_batch(readied);
    }
}

[[gnu::hot]]
branch* worker_thread::next() {
    if (!attend()) {
        return nullptr;
    }
    ++turns_;
    if (ticks_ % global_period == 0 && runtime_->global.size() != 0) {
        if (branch* taken = take_global(turn_of_global())) {
            return begin_slice(taken);
        }
    }
    if (turns_ % poll_period == 0) {
        // Very many timers that are due at once must not push the ring, and what waits in it, to
        // the global queue: with a ring that is half full they come one for each branch that runs.
        // They would wait behind the ring in any case.
        run_timers_of(p, p.queue.ring_size() <= p.queue.half ? timer_batch : poll_period);
        if (io_->has_work() && !gathering_.open()) {
            poll_io();
        }
    }
    if (gathering_.open() && gathering_.due(turns_, slice_tick())) {
        poll_io();
    }
    if (branch* taken = take_next()) {
        return taken;
    }
    if (branch* taken = p.queue.pop()) {
        // Whoever takes from a ring that stays full enough for others sees to it that somebody
        // helps; otherwise one woken searcher would have to find everything alone.
        if (runtime_->idle.parked_hint() != 0 && p.queue.ring_size() >= 2) {
            runtime_->wake_if_needed();
        }
        return begin_slice(taken);
    }
    branch* found = detail::find_work(*this, *runtime_);
    // It may have slept, and the watchdog with it.
    if (found != nullptr) {
        runtime_->dog.work_begins();
    }
    return found;
}

// One in its regular turns. When it has waited for long, as much as with an empty ring, but no more
// than there is room for: an overflow would send older branches back to it.
std::size_t worker_thread::turn_of_global() noexcept {
    constexpr std::size_t capacity = local_queue<layer, branch>::capacity;
    if (!std::exchange(global_waits_, false)) {
        return 1;
    }
    return std::clamp<std::size_t>(capacity - p.queue.ring_size(), 1, capacity / 2);
}

[[gnu::hot]]
branch* worker_thread::begin_slice(branch* taken) noexcept {
    ++ticks_;
    next_chain_ = 0;
    return taken;
}

// What comes from runnext inherits the slice of the branch that put it there. The chain is bounded
// in number and in time, so a pair that wakes each other cannot starve the ring. Null: nothing is
// there, or thieves have taken all of it.
[[gnu::hot]]
branch* worker_thread::take_next() {
    branch* taken = p.queue.pop_next();
    if (taken == nullptr) {
        return nullptr;
    }
    if (++next_chain_ <= next_chain_limit && !slice_over()) {
        return taken;
    }
    if (p.queue.ring_size() == 0 && runtime_->global.size() == 0) {
        return begin_slice(taken);
    }
    p.queue.push_back(taken, overflow_to{*this});
    // It was out of sight for a moment, in which a parking worker may have missed it.
    p.queue.publish_barrier();
    runtime_->wake_if_needed();
    branch* first = p.queue.pop();
    return first != nullptr ? begin_slice(first) : nullptr;
}

// At most 5 ms, without a clock read for each link, which would cost as much as the rest of a
// switch. A slice that is handed on for the first time remembers the kernel's tick. As long as that
// has not moved, less than its 1 to 4 ms have passed (10 where it ticks at 100 Hz); from then on
// each link of the slice reads the clock. Since the slice counts from the tick, which came before
// it, it may end up to one tick early. What its first branch took before is not counted: a single
// branch that runs for long is the watchdog's case, which sets attention::slice_over.
//
// Rejected: a read at every 8th link costs as much and lets eight long links pass; so does a stride
// that adapts, after quick links. A read when a slice begins, or is handed on, would be exact, and
// would be paid by every yield, or by every task that is joined.
[[gnu::hot]]
bool worker_thread::slice_over() noexcept {
    if (next_chain_ == 1) {
        inherit_slice();
        return false;
    }
    if (slice_is_young(next_chain_)) {
        return false;
    }
    slice_aged_ = true;
    return slice_now() - slice_tick_ >= slice_length;
}

[[gnu::hot]]
void worker_thread::inherit_slice() noexcept {
    slice_tick_ = slice_tick();
    slice_aged_ = false;
}

// After eight quick links every second one looks, so at most one long link more may pass.
[[gnu::hot]]
bool worker_thread::slice_is_young(std::uint32_t link) const noexcept {
    if (slice_aged_) {
        return false;
    }
    const bool skips = link > 8 && link % 2 != 0;
    return skips || slice_tick() == slice_tick_;
}

[[gnu::hot]]
branch* worker_thread::take_global(std::size_t limit) noexcept {
    branch_list batch;
    runtime_->global.pop_share(runtime_->processor_count(), limit, batch);
    branch* first = batch.pop_front();
    if (batch.empty()) {
        return first;
    }
    while (branch* more = batch.pop_front()) {
        p.queue.push_back(more, overflow_to{*this});
    }
    // They were in no queue for a moment, in which a parking worker may have missed them. A
    // searcher looks at its own queue when it stops searching; nobody else does.
    if (!searching) {
        p.queue.publish_barrier();
        runtime_->wake_if_needed();
    }
    return first;
}

// Makes a branch that was queued, or is about to be, the running one, and repeats the operation
// that it waits for. False: it waits on, or went behind others, and is not ours any more.
[[gnu::hot]]
bool worker_thread::begin(branch& running) noexcept {
    running.status = branch_status::running;
    running.current = this;
    budget_ = inline_budget;
    if (running.restart) {
        if (!running.waiting_for->start(running)) {
            return false;
        }
        running.restart = false;
    }
    return true;
}

[[gnu::hot]]
void worker_thread::execute(branch* running) noexcept {
    if (running->status != branch_status::queued) [[unlikely]] {
        resumed_by_hand();  // Somebody else has run it since it was queued.
    }
    if (timers_untold_) [[unlikely]] {
        tell_sentinel();
    }
    // A poll that the kernel has not seen wakes nobody, however long this branch runs. While all
    // are busy it may wait for the turn's one system call; with a processor idle it may not.
    if (runtime_->idle.parked_hint() != 0 && io_->has_unsubmitted()) {
        poll_io();
    }
    // What others see is the task: the memory of a child goes when that has ended.
    branch& of_task = running->owner->main_branch;
    p.mark.begin(&of_task, of_task.word.life(), as_base(running->handle).promise().location_);
    // For this thread alone. Release: for a signal handler on it (rescue_signal.hpp).
    running_.store(running, std::memory_order_release);
    forget_held_locks();  // Of whoever has called run(), or left behind by another task.
    if (begin(*running)) {
        running->handle.resume();
    }
    if (finished_ != nullptr) {
        if (forked()) [[unlikely]] {
            used_in_fork();  // What ends a task takes locks that nobody in this process releases.
        }
        finish_branch();
    }
    // Not before: what a task leaves behind is the user's code too, and may keep this worker.
    running_.store(nullptr, std::memory_order_relaxed);
    forget_held_locks();  // One that stays behind has been told of.
    p.mark.end();
    // Whoever interrupts this thread from now on must see that no task runs (rescue_signal.cpp).
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

void worker_thread::report_held_locks(const branch& leaving, bool ends) noexcept {
    const int locks = held_locks();  // Before the report takes some of its own.
    if (runtime_->options().report_held_locks) {
        runtime_->lock_reports.report(leaving, locks, ends);
    }
}

// ---------------------------------------------------------------------------------------------
// Without work of its own.

[[gnu::hot]]
branch* worker_thread::take_readied() {
    if (branch* taken = take_next()) {
        return taken;
    }
    branch* taken = p.queue.pop();
    return taken != nullptr ? begin_slice(taken) : nullptr;
}

// One look at everything that is not in the own ring, in the order of search.
[[gnu::hot]]
branch* worker_thread::look() {
    if (runtime_->global.size() != 0) {
        if (branch* taken = take_global(local_queue<layer, branch>::capacity / 2)) {
            return begin_slice(taken);
        }
    }
    bool readied = run_timers_of(p);
    // What was gathered may have been sent, and taken, in a signal handler.
    if (io_->has_work() || gathering_.open()) {
        readied = poll_io() || readied;
    }
    if (readied || p.queue.size() != 0) {
        if (branch* taken = take_readied()) {
            return taken;
        }
    }
    // Alone, it is spared the question before each sleep; the watchdog wakes it for that. With
    // other workers about it is not, whatever number of processors is wanted: what it leaves
    // unasked they could not ask for, should a branch keep this worker right after its sleep.
    if (!io_->unverified.empty() && runtime_->idle.processors_hint() > 1) {
        verify_waits(true);
        if (branch* taken = take_readied()) {
            return taken;
        }
    }
    if (!searching) {
        searching = runtime_->idle.begin_search();
    }
    if (!searching) {
        return nullptr;
    }
    branch* stolen = steal();
    return stolen != nullptr ? begin_slice(stolen) : nullptr;
}

[[gnu::hot]]
branch* worker_thread::steal() {
    const std::uint32_t count = runtime_->worker_count();
    if (count == 1) {
        return nullptr;
    }
    for (int pass = 0; pass < steal_passes; ++pass) {
        const bool last = pass == steal_passes - 1;
        for (victim_order order(random_, count); !order.over();) {
            const std::uint32_t at = order.next();
            if (at == index_) {
                continue;
            }
            if (runtime_->worker_at(at).state.state() == worker_state::retired) {
                continue;
            }
            processor& victim = runtime_->worker_at(at).p;
            const std::size_t before = p.queue.ring_size();
            if (branch* taken = victim.queue.steal_into(p.queue, false)) {
                p.steals.add(1 + p.queue.ring_size() - before);
                return taken;
            }
            if (!last) {
                continue;
            }
            if (run_timers_of(victim)) {
                if (branch* taken = p.queue.pop_next()) {
                    return taken;
                }
                if (branch* taken = p.queue.pop()) {
                    return taken;
                }
            }
            if (branch* taken = steal_next_of(victim)) {
                return taken;
            }
        }
    }
    return nullptr;
}

// The victim is about to run its runnext in most cases; it gets about 3 us to do so. The thief does
// not look meanwhile: each look would take the line away from the victim.
branch* worker_thread::steal_next_of(processor& victim) noexcept {
    branch* seen = victim.queue.peek_next();
    if (seen == nullptr) {
        return nullptr;
    }
    const monotonic_time until = monotonic_now() + 3'000;
    do {
        for (int i = 0; i < 16; ++i) {
            layer::pause();
        }
    } while (monotonic_now() < until);
    branch* taken = victim.queue.steal_next(seen);
    if (taken != nullptr) {
        p.steals.add();
    }
    return taken;
}

// ---------------------------------------------------------------------------------------------
// Timers and I/O.

[[gnu::hot]]
bool worker_thread::run_timers_of(processor& of, std::size_t limit) noexcept {
    if (of.timers.earliest_hint() == no_deadline) {
        return false;
    }
    branch_list readied;
    fire_due(of, limit, readied);
    const bool any = !readied.empty();
    ready_batch(readied);
    return any;
}

[[gnu::hot]]
void worker_thread::fire_due(processor& of, std::size_t limit, branch_list& readied) noexcept {
    const monotonic_time now = monotonic_now();
    if (of.timers.earliest_hint() > now) {
        return;  // The lock would keep others from it for nothing.
    }
    timer* due[timer_batch];
    const std::size_t count = of.timers.collect_due(now, due, limit);
    for (std::size_t i = 0; i < count; ++i) {
        due[i]->fire(readied);
    }
    if (count != 0) {
        p.timers_fired.add(count);
    }
}

[[gnu::hot]]
bool worker_thread::poll_io() noexcept {
    if (gathering_.open()) {
        gathering_.end(monotonic_now());
    }
    branch_list readied;
    // Nobody could help, or has to wait for this worker to end its search.
    const bool alone = !searching && runtime_->idle.parked_hint() == 0;
    io_->poll(readied, alone ? poll_extent::few : poll_extent::many);
    if (alone) {
        repeat_operations(readied);
    }
    const bool any = !readied.empty();
    ready_batch(readied);
    return any;
}

// The operations of a batch of completions are repeated here, one after the other, and their
// branches are resumed afterwards, instead of each operation right before its branch. A receive on
// a socket takes the kernel some thousand instructions; the next one finds them in the caches, and
// so do the branches with theirs: 4 % of the CPU time of an echo. It also keeps a false wake-up out
// of the run queue.
//
// While a processor is idle the branches of the batch are published first, so that it can help.
// Nothing else waits for longer than the operations of one batch take. They are bounded in number,
// end when the kernel's tick moves, since one operation may move much, and as soon as somebody
// could help. The rest of a batch is repeated branch by branch, as ever.
[[gnu::hot]]
void worker_thread::repeat_operations(branch_list& readied) noexcept {
    branch_list kept;
    const monotonic_time began = slice_tick();
    const auto goes_on = [&] {
        return !readied.empty() && slice_tick() == began && runtime_->idle.parked_hint() == 0;
    };
    for (std::size_t left = repeats_at_once; left != 0 && goes_on(); --left) {
        branch* const each = readied.pop_front();
        if (const branch* const following = readied.front()) {
            following->prefetch();
        }
        if (!each->restart || begin(*each)) {
            kept.push_back(each);
        }
    }
    if (!readied.empty()) {
        kept.append(readied.front(), readied.back(), readied.size());
    }
    readied = kept;
}

void worker_thread::verify_waits(bool all) noexcept {
    branch_list readied;
    io_->verify_waits(all, readied);
    ready_batch(readied);
}

// ---------------------------------------------------------------------------------------------
// Readying.

[[gnu::hot]]
void worker_thread::ready_next(branch* readied) noexcept {
    readied->status = branch_status::queued;
    p.queue.push_next(readied, overflow_to{*this});
    runtime_->wake_if_needed();
}

// With an empty runnext, the branch would go there and come out at once: the two locked operations
// are saved. Everything that the loop does between two branches is due as if it had passed there.
//
// Why this needs no protocol. The branch is never in a place where another thread looks: whoever
// completed it owns it alone, direct_ belongs to this thread, and run() takes it before anything
// else. So there is nothing to steal, and nothing that a thief of runnext could race for: it is
// empty, only this thread fills it, and peek_next() reads what this thread wrote or a thief's null.
// No wake is owed either. A wake is owed for a branch that waits, and this one does not: what lies
// between here and its resumption is what lies between any branch that was taken and its
// resumption. Branches that do wait were published, with a wake of their own, when they were put
// where they are; that they pass unseen here, where next() would have looked at the ring, changes
// nothing about them, and the conditions below bound for how long. For the same reason the worker
// cannot park or leave its loop with a branch in hand (asserted in sleep()).
[[gnu::hot]]
void worker_thread::ready_last(branch* readied) noexcept {
    const bool loop_is_due = (turns_ + 1) % poll_period == 0 || ticks_ % global_period == 0 ||
                             attention_.load(std::memory_order_relaxed) != 0;
    const bool chain_is_due = next_chain_ >= next_chain_limit ||
                              (next_chain_ != 0 && !slice_is_young(next_chain_ + 1));
    if (loop_is_due || chain_is_due || p.queue.peek_next() != nullptr) {
        ready_next(readied);
        return;
    }
    if (++next_chain_ == 1) {
        inherit_slice();
    }
    ++turns_;
    readied->status = branch_status::queued;
    direct_ = readied;
}

[[gnu::hot]]
void worker_thread::ready_back(branch* readied) noexcept {
    readied->status = branch_status::queued;
    const bool alone = p.queue.ring_size() == 0;
    p.queue.push_back(readied, overflow_to{*this});
    // What lies behind others is a publication. Alone in the ring, it is what this worker takes
    // next, or next after the branch in runnext. That one was published when it was put there; a
    // worker that parks and misses it has read the null of pop_next(), whose release comes after
    // our store of the tail, so it finds this one.
    if (!alone) {
        p.queue.publish_barrier();
        runtime_->wake_if_needed();
    }
}

[[gnu::hot]]
void worker_thread::ready_batch(branch_list& readied) noexcept {
    if (readied.empty()) {
        return;
    }
    while (branch* each = readied.pop_front()) {
        each->status = branch_status::queued;
        p.queue.push_next(each, overflow_to{*this});
    }
    runtime_->wake_if_needed();
}

// ---------------------------------------------------------------------------------------------
// Sleeping and waking.

// In the poller if that has to be watched, or else on a futex; whether as the sentinel or not makes
// no difference here.
[[gnu::hot]]
void worker_thread::sleep(monotonic_time deadline, bool, branch_list& brought) {
    WEFT_ASSERT(direct_ == nullptr);
    WEFT_ASSERT(!gathering_.open());
    timers_untold_ = false;
    const bool in_poller = io_->begin_sleep();
    p.parks.add();
    if (park_word_.prepare(in_poller ? sleep_kind::in_poller : sleep_kind::in_futex)) {
        if (in_poller) {
            io_->wait(deadline, brought);
        } else {
            futex_wait(park_word_.word(), static_cast<std::uint32_t>(sleep_kind::in_futex),
                       deadline);
        }
        park_word_.finish();
    }
    io_->end_sleep();
}

[[gnu::hot]]
void worker_thread::back_from_sleep(bool was_sentinel) noexcept {
    // From now on this worker may be busy, and its timers need somebody who watches.
    timers_untold_ = p.timers.earliest_hint() != no_deadline;
    if (!was_sentinel) {
        return;
    }
    for (std::uint32_t i = 0; i < runtime_->worker_count(); ++i) {
        run_timers_of(runtime_->worker_at(i).p);
    }
}

[[gnu::hot]]
void worker_thread::wake() noexcept {
    switch (park_word_.wake()) {
        case sleep_kind::in_futex:
            futex_wake(park_word_.word());
            break;
        case sleep_kind::in_poller:
            io_->wake();
            break;
        case sleep_kind::awake:
        case sleep_kind::notified:
            break;
    }
}

[[gnu::hot]]
bool worker_thread::attend() noexcept {
    // Relaxed: serve_attention() acquires what it is about. Again and again, since what came while
    // this worker had no processor has to be served before it runs something.
    while (attention_.load(std::memory_order_relaxed) != 0) {
        if (!serve_attention()) {
            return false;
        }
    }
    return true;
}

// False: the runtime stops.
[[gnu::hot]]
bool worker_thread::serve_attention() noexcept {
    const std::uint32_t seen = attention_.exchange(0, std::memory_order_acquire);
    const auto is_set = [seen](attention bit) {
        return (seen & static_cast<std::uint32_t>(bit)) != 0;
    };
    if (is_set(attention::forked)) {
        used_in_fork();
    }
    if (is_set(attention::stopping)) {
        set_attention(attention::stopping);  // Stays until the end.
        return false;
    }
    if (is_set(attention::drain)) {
        runtime_->start_grace_timer(*this);
    }
    if (is_set(attention::timer_changed)) {
        timers_untold_ = true; // Told before the next branch runs, if this worker does not park.
    }
    if (is_set(attention::inbox) || is_set(attention::ring_has_work)) {
        poll_io();
    }
    if (is_set(attention::timer_due)) {
        run_timers_of(p);
    }
    if (is_set(attention::calls_wait) && runtime_->blocking.queued() != 0) {
        runtime_->watch_blocking(*this);
    }
    if (is_set(attention::slice_over)) {
        next_chain_ = next_chain_limit;
    }
    if (is_set(attention::global_waits)) {
        ticks_ = 0;  // It is the turn of the global queue.
        global_waits_ = runtime_->global.size() != 0;
    }
    if (is_set(attention::waits_noted)) {
        // First what the kernel has told: who has an event is not to be taken for one without. A
        // worker that was woken for this has slept over all that is noted.
        if (io_->has_work()) {
            poll_io();
        }
        verify_waits(searching);
    }
    if (is_set(attention::pin_changed)) {
        runtime_->pin_worker(index_);
    }
    if (is_set(attention::retire)) {
        retire_if_asked(*this, *runtime_);
        runtime_->dog.work_begins();  // It may have been away, and the watchdog may rest.
    }
    return true;
}

void worker_thread::tell_sentinel() noexcept {
    timers_untold_ = false;
    detail::tell_sentinel(*this, *runtime_);
}

// ---------------------------------------------------------------------------------------------
// Without a processor.

// runnext first, then the ring, then whoever has to try again because it waits unverified.
void worker_thread::give_work_up() noexcept {
    // Their branches are in no queue until they are sent.
    if (gathering_.open()) {
        gathering_.end(monotonic_now());
    }
    end_gathered_sends();
    branch_list moved;
    if (branch* first = p.queue.pop_next()) {
        moved.push_back(first);
    }
    while (branch* each = p.queue.pop()) {
        moved.push_back(each);
    }
    branch_list readied;
    io_->verify_waits(true, readied);
    io_->begin_retiring(readied);
    while (branch* each = readied.pop_front()) {
        each->status = branch_status::queued;
        moved.push_back(each);
    }
    if (!moved.empty()) {
        runtime_->global.push_front(moved);
    }
}

// In small parts, since both heaps are locked for each.
void worker_thread::give_timers_up() noexcept {
    constexpr std::size_t part = 128;
    while (p.timers.move_to(runtime_->worker_at(0).p.timers, part) != 0) {}
    timers_untold_ = false;
}

bool worker_thread::may_return() noexcept {
    // Relaxed: whoever sets it wakes this worker afterwards; attend() acquires what it is about.
    constexpr auto stopping = static_cast<std::uint32_t>(attention::stopping);
    if (!state.recalled() && (attention_.load(std::memory_order_relaxed) & stopping) == 0) {
        return false;
    }
    io_->end_retiring();
    // Timers for which worker 0 had no room, or an end of the grace period that was set here.
    timers_untold_ = p.timers.earliest_hint() != no_deadline;
    return true;
}

bool worker_thread::may_settle() const noexcept {
    return !io_->in_flight() && p.timers.earliest() == no_deadline;
}

void worker_thread::sleep_retired() noexcept {
    const bool in_poller = io_->in_flight();
    branch_list readied;
    if (park_word_.prepare(in_poller ? sleep_kind::in_poller : sleep_kind::in_futex)) {
        const monotonic_time deadline = p.timers.earliest();
        if (in_poller) {
            io_->wait(deadline, readied);
        } else {
            futex_wait(park_word_.word(), static_cast<std::uint32_t>(sleep_kind::in_futex),
                       deadline);
        }
        park_word_.finish();
    }
    // The end of the runtime counts on every worker for this, since others may be held by tasks.
    constexpr auto drain = static_cast<std::uint32_t>(attention::drain);
    if ((attention_.load(std::memory_order_relaxed) & drain) != 0) {
        // Acquire pairs with set_attention(), as in serve_attention().
        attention_.fetch_and(~drain, std::memory_order_acquire);
        runtime_->start_grace_timer(*this);
    }
    fire_due(p, timer_batch, readied);
    if (!readied.empty()) {
        runtime_->inject(readied);
    }
}

// ---------------------------------------------------------------------------------------------
// Tasks.

[[gnu::hot]]
std::uint64_t worker_thread::take_id() noexcept {
    if (next_id_ == id_block_end_) {
        next_id_ = runtime_core::next_id_block();
        id_block_end_ = next_id_ + 16;
    }
    return next_id_++;
}

[[gnu::hot]]
task_control* worker_thread::acquire_control() {
    if (free_controls_.count == 0) {
        free_controls_ = runtime_->slabs.acquire(32);
    }
    task_control* taken = free_controls_.first;
    free_controls_.first = taken->next_free();
    --free_controls_.count;
    return taken;
}

[[gnu::hot]]
void worker_thread::release_control(task_control* released) noexcept {
    constexpr std::uint32_t limit = 128;
    released->set_next_free(free_controls_.first);
    free_controls_.first = released;
    if (++free_controls_.count < limit) {
        return;
    }
    // The first half stays: it was used last, and is in this processor's cache.
    runtime_->slabs.release(task_slabs::cut(free_controls_, limit / 2));
}

}  // namespace weft::detail
