// SPDX-License-Identifier: MIT
#include <weft/detail/netpoll/io_operation.hpp>

#include "lib/netpoll/poll_descriptor.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/worker.hpp>
#include <weft/error.hpp>

#include <utility>

namespace weft::detail {

[[gnu::hot]]
bool io_operation::start(branch& waiter) noexcept {
    if (gathering_ == gathering::under_way) {
        gathering_ = gathering::ended;
        if (ended(sent_) == attempt_outcome::done) {
            give_back();
            return true;
        }
        // What is left, or after EAGAIN, takes its calls as if this had been the first of them.
    }
    for (;;) {
        place_ = place::nowhere;
        if (!prepare_park(waiter, *this)) break;  // Stopped; the outcome says so.
        next_step next = take_turn(waiter);
        if (next == next_step::go_on && on_.descriptor->may_wait_unverified(which_, waiter)) {
            next = wait_for_readiness(waiter, false);
        } else if (next == next_step::go_on) {
            if (!finish_inline(waiter, *this)) return false;
            poll_descriptor& descriptor = *on_.descriptor;
            descriptor.forget_readiness(which_);
            switch (attempt(descriptor.fd())) {
            case attempt_outcome::gathered: {
                poller& io = waiter.current->io();
                waiter.status = branch_status::queued;
                io.publish_gathered();
                return false;
            }
            case attempt_outcome::done: next = next_step::end; break;
            case attempt_outcome::again: next = next_step::try_again; break;
            case attempt_outcome::would_block:
                next = descriptor.doubts_refusal(which_) ? next_step::try_again
                                                         : wait_for_readiness(waiter, true);
                break;
            }
        }
        if (next == next_step::leave_parked) return false;
        if (next == next_step::end) break;
    }
    give_back();
    return true;
}

[[gnu::hot]]
bool io_operation::gather_send(int fd, const void* data, std::size_t size) noexcept {
    if (gathering_ != gathering::not_yet) return false;
    if (!waiter()->current->gather_send(*this, fd, data, size)) return false;
    gathering_ = gathering::under_way;
    return true;
}

[[gnu::hot]]
void io_operation::short_read() noexcept {
    on_.descriptor->short_read(which_);
}

[[gnu::hot]]
io_operation::next_step io_operation::take_turn(branch& waiter) noexcept {
    switch (standing_) {
    case standing::nothing: break;
    case standing::queued:
        // Neither cancelled nor given the turn: evicted, because the descriptor is closed.
        WEFT_ASSERT(!linked_ && on_.descriptor->closing());
        fail(errc::closed);
        return next_step::end;
    case standing::turn:
        if (!on_.descriptor->closing()) return next_step::go_on;
        fail(errc::closed);
        return next_step::end;
    }
    const enter_outcome outcome =
        on_.descriptor != nullptr ? on_.descriptor->enter_or_queue(*this) : enter_outcome::closed;
    if (outcome == enter_outcome::entered) return next_step::go_on;
    if (outcome == enter_outcome::busy) {
        return park(waiter, *this) ? next_step::try_again : next_step::leave_parked;
    }
    if (outcome == enter_outcome::crowded) {
        fail(std::make_error_code(std::errc::device_or_resource_busy));
    } else {
        fail(errc::closed);
    }
    return next_step::end;
}

[[gnu::hot]]
io_operation::next_step io_operation::wait_for_readiness(branch& waiter, bool verified) noexcept {
    place_ = place::wait_word;
    poll_descriptor& descriptor = *on_.descriptor;
    int error = 0;
    switch (descriptor.wait(which_, waiter, verified, error)) {
    case poll_descriptor::wait_outcome::ready: return next_step::try_again;
    case poll_descriptor::wait_outcome::failed: fail_with_errno(error); return next_step::end;
    case poll_descriptor::wait_outcome::refused:
        if (descriptor.withdraw(which_, waiter)) {
            if (error != 0) {
                fail_with_errno(error);
            } else {
                fail(errc::closed);
            }
            return next_step::end;
        }
        // A notifier has the branch and is about to complete it; the next round meets the same
        // refusal, or succeeds.
        break;
    case poll_descriptor::wait_outcome::wait: break;
    }
    return park(waiter, *this) ? next_step::try_again : next_step::leave_parked;
}

bool io_operation::unlink() noexcept {
    switch (place_) {
    case place::queue: return on_.descriptor->leave_queue(*this);
    case place::wait_word: return on_.descriptor->withdraw(which_, *waiter());
    case place::nowhere: break;
    }
    return true;
}

[[gnu::hot]]
void io_operation::give_back() noexcept {
    const standing had = std::exchange(standing_, standing::nothing);
    if (had == standing::nothing) return;
    branch_list readied;
    if (had == standing::turn) {
        on_.descriptor->leave(which_, readied);
    } else {
        on_.descriptor->drop_reference(readied);
    }
    ready_each(readied);
}

std::error_code io_operation::finish_failed() noexcept {
    give_back();
    if (error_ != 0) return {error_, *error_category_};
    switch (outcome()) {
    case operation_outcome::completed: break;
    case operation_outcome::cancelled: return std::make_error_code(std::errc::operation_canceled);
    case operation_outcome::late: return std::make_error_code(std::errc::timed_out);
    }
    return {};
}

}  // namespace weft::detail
