// SPDX-License-Identifier: MIT
#include "lib/netpoll/poll_descriptor.hpp"

#include "lib/netpoll/descriptor_table.hpp"
#include "lib/netpoll/poll_home.hpp"
#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/worker.hpp>

#include <cerrno>
#include <mutex>
#include <utility>

namespace weft::detail {

namespace {

constexpr std::array both_directions = {direction::read, direction::write};

/// For the poll that an operation is about to arm, or has not armed after all. The operation holds
/// a reference of its own, so dropping this one ends no life.
struct poll_references {
    descriptor_word<layer>& of;

    void add() const noexcept { of.add_reference(); }
    void drop() const noexcept {
        [[maybe_unused]] const bool last = of.drop_reference();
        WEFT_ASSERT(!last);
    }
};

}  // namespace

void poll_descriptor::place(std::uint32_t slot) noexcept {
    slot_ = slot;
    record_ref ref = slot * 4 + 1;
    for (side& each : sides_) {
        for (unsigned i = 0; i < 2; ++i) each.record(i).self = ref++;
    }
}

descriptor_name open_descriptor(int fd, bool shuts_down) noexcept {
    poll_descriptor* const taken = descriptors.take();
    if (taken == nullptr) return {};
    return {taken, taken->open(fd, shuts_down)};
}

std::uint32_t poll_descriptor::open(int fd, bool shuts_down) noexcept {
    fd_ = fd;
    epoch_.store(current_fork_epoch(), std::memory_order_relaxed);
    shuts_down_.store(shuts_down, std::memory_order_relaxed);
    return word_.open();
}

void poll_descriptor::complete(branch* taken, branch_list& readied) noexcept {
    if (taken != nullptr) complete_waiter(*taken, readied);
}

// Turns.

[[gnu::hot]]
enter_outcome poll_descriptor::enter_or_queue(io_operation& entering) noexcept {
    const std::uint32_t generation = entering.on_.generation;
    const direction which = entering.which_;
    enter_outcome outcome = word_.enter(generation, which);
    if (outcome == enter_outcome::busy) {
        check_not_inherited();
        const std::lock_guard guard(lock_);
        outcome = word_.queue(generation, which);
        if (outcome == enter_outcome::busy) {
            queue& waiting = queues_[index_of(which)];
            entering.standing_ = io_operation::standing::queued;
            entering.place_ = io_operation::place::queue;
            entering.linked_ = true;
            entering.next_ = nullptr;
            entering.previous_ = waiting.last;
            (waiting.last != nullptr ? waiting.last->next_ : waiting.first) = &entering;
            waiting.last = &entering;
        }
    }
    if (outcome == enter_outcome::entered) entering.standing_ = io_operation::standing::turn;
    return outcome;
}

void poll_descriptor::unlink_queued(io_operation& leaving) noexcept {
    queue& from = queues_[index_of(leaving.which_)];
    (leaving.previous_ != nullptr ? leaving.previous_->next_ : from.first) = leaving.next_;
    (leaving.next_ != nullptr ? leaving.next_->previous_ : from.last) = leaving.previous_;
    leaving.linked_ = false;
    if (from.first == nullptr) word_.queue_is_empty(leaving.which_);
}

bool poll_descriptor::leave_queue(io_operation& leaving) noexcept {
    const std::lock_guard guard(lock_);
    if (!leaving.linked_) return false;
    unlink_queued(leaving);
    return true;
}

[[gnu::hot]]
void poll_descriptor::leave(direction which, branch_list& readied) noexcept {
    for (;;) {
        switch (word_.leave(which)) {
        case descriptor_word<layer>::leave_outcome::left: return;
        case descriptor_word<layer>::leave_outcome::last: end_life(readied); return;
        case descriptor_word<layer>::leave_outcome::hand_over: break;
        }
        io_operation* next = nullptr;
        {
            const std::lock_guard guard(lock_);
            next = queues_[index_of(which)].first;
            if (next != nullptr) {
                unlink_queued(*next);
                next->standing_ = io_operation::standing::turn;
            }
        }
        if (next == nullptr) continue;  // The last one in the queue was cancelled meanwhile.
        complete(next->waiter(), readied);
        drop_reference(readied);
        return;
    }
}

void poll_descriptor::drop_reference(branch_list& readied) noexcept {
    if (word_.drop_reference()) end_life(readied);
}

// Waiting.

[[gnu::hot]]
bool poll_descriptor::may_wait_unverified(direction which, branch& waiter) noexcept {
    worker& here = *waiter.current;
    return side_of(which).take_emptied(here.io().home()) && here.may_ask_later() &&
           here.io().unverified.admits();
}

[[gnu::hot]]
poll_descriptor::wait_outcome poll_descriptor::wait(direction which, branch& waiter, bool verified,
                                                    int& error) noexcept {
    check_not_inherited();
    side& on = side_of(which);
    poller& io = waiter.current->io();
    const while_arming guard(io);
    const wait_decision decision =
        on.wait(&waiter, io.home(), poll_references{word_},
                [](std::uint16_t home) { return poll_home::mark_of(home).stranded(); });
    switch (decision.step) {
    case wait_step::ready: return wait_outcome::ready;
    case wait_step::failed:
        error = decision.error;
        return wait_outcome::failed;
    case wait_step::closing: return wait_outcome::refused;
    case wait_step::wait: break;
    }
    if (!verified) io.unverified.note(on, decision.number, fd_);
    if (decision.arms) error = arm(on, decision.armed, io);
    if (decision.cancels_old) {
        branch_list none;
        poll_home::request_cancel(decision.old, on.record(decision.old.record),
                                  cancel_reason::moved, none);
        WEFT_ASSERT(none.empty());  // We hold a reference, so no life ends here.
    }
    return error != 0 ? wait_outcome::refused : wait_outcome::wait;
}

int poll_descriptor::arm(side& on, const poll_name& poll, poller& io) noexcept {
    poll_record& record = on.record(poll.record);
    const int failed = io.arm(record);
    if (failed != 0) {
        branch_list none;
        poll_home::request_cancel(poll, record, cancel_reason::failed, none);
        WEFT_ASSERT(none.empty());  // As above.
    }
    return failed;
}

// Completions.

[[gnu::hot]]
bool poll_descriptor::completed(poll_record& record, const poll_completion& completion,
                                branch_list& readied, handed_work* later) noexcept {
    const auto decision = side_of(record.which()).completed(record, completion);
    if (later == nullptr) {
        complete(decision.waiter, readied);
    } else if (decision.waiter != nullptr) {
        later->add(*decision.waiter);
    }
    if (decision.released) release_poll(readied, later);
    return decision.released;
}

bool poll_descriptor::take_cancel_request(poll_record& record, branch_list& readied,
                                          handed_work* later) noexcept {
    const bool released = side_of(record.which()).take_cancel_request(record);
    if (released) release_poll(readied, later);
    return released;
}

void poll_descriptor::release_poll(branch_list& readied, handed_work* later) noexcept {
    if (!word_.drop_reference()) return;
    if (later == nullptr) {
        end_life(readied);
    } else {
        later->add(*this);
    }
}

void poll_descriptor::notify(direction which, bool hung_up, branch_list& readied) noexcept {
    complete(side_of(which).notify(hung_up), readied);
}

bool poll_descriptor::end_poll(direction which, const poll_name& poll, cancel_reason why,
                               branch_list& readied) noexcept {
    side& on = side_of(which);
    const bool released = why == cancel_reason::failed
                              ? on.end_refused(poll)
                              : on.end_poll(poll, why == cancel_reason::moved);
    if (released) drop_reference(readied);
    return released;
}

unsigned poll_descriptor::end_polls_at(std::uint16_t home, branch_list& readied) noexcept {
    unsigned ended = 0;
    for (side& each : sides_) {
        if (!each.end_unless_closing(home)) continue;
        complete(each.notify(), readied);
        drop_reference(readied);
        ++ended;
    }
    return ended;
}

// Closing.

void poll_descriptor::close(std::uint32_t generation, close_operation::purpose why,
                            branch_list& readied) noexcept {
    if (inherited()) {
        if (why == close_operation::purpose::give_back) check_not_inherited();
        close_inherited(generation);
        return;
    }
    if (!word_.begin_close(generation)) return;
    gives_back_ = why == close_operation::purpose::give_back;
    std::array<close_decision<branch>, 2> polls;
    for (const direction which : both_directions) {
        polls[index_of(which)] = side_of(which).close();
        complete(polls[index_of(which)].waiter, readied);
        evict_queued(which, readied);
    }
    bool held = false;
    for (const direction which : both_directions) {
        const auto& [waiter, cancels, poll] = polls[index_of(which)];
        if (!cancels) continue;
        held |= !poll_home::request_cancel(poll, side_of(which).record(poll.record),
                                           cancel_reason::closing, readied);
    }
    if (held && !gives_back_ && shuts_down_.load(std::memory_order_relaxed)) {
        // An error (not connected any more) changes nothing: close(2) follows.
        sys().shutdown(fd_, SHUT_RDWR);
    }
    drop_reference(readied);
}

/// The reference of this closer stays, so that the life never ends here.
void poll_descriptor::close_inherited(std::uint32_t generation) noexcept {
    if (word_.begin_close(generation)) sys().close(fd_);
}

void poll_descriptor::check_not_inherited() const noexcept {
    if (!inherited()) [[likely]] { return; }
    fatal(
        "a socket that was opened before the process was forked is used in the child, while it "
        "belongs to a runtime of the parent; open it in the child, or fork before a runtime is "
        "made");
}

void poll_descriptor::evict_queued(direction which, branch_list& readied) noexcept {
    for (;;) {
        io_operation* evicted = nullptr;
        {
            const std::lock_guard guard(lock_);
            evicted = queues_[index_of(which)].first;
            if (evicted != nullptr) unlink_queued(*evicted);
        }
        if (evicted == nullptr) return;
        complete(evicted->waiter(), readied);
    }
}

bool poll_descriptor::add_close_waiter(std::uint32_t generation,
                                       close_operation& waiting) noexcept {
    if (inherited()) return false;
    const std::lock_guard guard(lock_);
    if (word_.generation() != generation) return false;
    waiting.linked_ = true;
    waiting.next_ = close_waiters_;
    close_waiters_ = &waiting;
    return true;
}

bool poll_descriptor::remove_close_waiter(close_operation& waiting) noexcept {
    const std::lock_guard guard(lock_);
    if (!waiting.linked_) return false;
    close_operation** link = &close_waiters_;
    while (*link != &waiting) link = &(*link)->next_;
    *link = waiting.next_;
    waiting.linked_ = false;
    return true;
}

/// Whoever the file is to be given back to, off the list. Null: nobody waits for it any more.
close_operation* poll_descriptor::take_owner_to_be() noexcept {
    const std::lock_guard guard(lock_);
    for (close_operation** link = &close_waiters_; *link != nullptr; link = &(*link)->next_) {
        close_operation* const each = *link;
        if (each->why_ != close_operation::purpose::give_back) continue;
        *link = each->next_;
        each->linked_ = false;
        return each;
    }
    return nullptr;
}

void poll_descriptor::end_life(branch_list& readied) noexcept {
    close_operation* const taker = gives_back_ ? take_owner_to_be() : nullptr;
    const int fd = std::exchange(fd_, -1);
    if (taker != nullptr) {
        taker->fd_ = fd;
    } else {
        // EINTR and EIO are reported after the descriptor has been freed: there is nothing to
        // repeat, and for sockets nothing that anybody could do.
        sys().close(fd);
    }
    for (side& each : sides_) each.reset();
    close_operation* waiters = nullptr;
    {
        const std::lock_guard guard(lock_);
        waiters = std::exchange(close_waiters_, nullptr);
        for (auto* each = waiters; each != nullptr; each = each->next_) each->linked_ = false;
        word_.end_life();
    }
    descriptors.give_back(*this);
    // The slot may live again; only the waiters are ours, each until its branch is completed.
    if (taker != nullptr) complete(taker->waiter(), readied);
    while (waiters != nullptr) {
        close_operation& waiting = *std::exchange(waiters, waiters->next_);
        complete(waiting.waiter(), readied);
    }
}

void close_in_background(descriptor_name closing) noexcept {
    if (closing.descriptor == nullptr) return;
    branch_list readied;
    closing.descriptor->close(closing.generation, close_operation::purpose::close, readied);
    ready_each(readied);
}

[[gnu::hot]]
void ready_each(branch_list& readied) noexcept {
    while (branch* const each = readied.pop_front()) make_ready(each);
}

}  // namespace weft::detail
