// SPDX-License-Identifier: MIT
#include "lib/netpoll/ring_poller.hpp"

#include "lib/netpoll/descriptor_table.hpp"
#include "lib/netpoll/rescue_signal.hpp"
#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/base/assert.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>

namespace weft::detail {

namespace {

// user_data: what kind of entry it was in the highest four bits; for a poll its record in the next
// 28 and its sequence number below.
enum class entry_kind : std::uint64_t {
    poll = 0,
    doorbell = 1,
    cancel = 2,
    cancel_all = 3,
    send = 4
};

constexpr unsigned kind_shift = 60;
constexpr std::uint64_t rest_mask = (std::uint64_t{1} << kind_shift) - 1;
constexpr unsigned record_shift = 32;
constexpr std::uint64_t record_mask = (std::uint64_t{1} << (kind_shift - record_shift)) - 1;
static_assert(slot_bits + 2 <= kind_shift - record_shift);

constexpr std::uint64_t user_data(entry_kind kind, std::uint64_t rest = 0) noexcept {
    return (static_cast<std::uint64_t>(kind) << kind_shift) | rest;
}

constexpr std::uint64_t user_data_of(const poll_record& record) noexcept {
    return user_data(entry_kind::poll,
                     (std::uint64_t{record.self - 1} << record_shift) | record.sequence);
}

/// A turn enters at most so often; each enter runs at least 20 items of deferred work.
constexpr unsigned enters_per_turn = 8;
/// A turn takes at most so many completions, so that those who were readied get to run.
constexpr unsigned completions_per_turn = 256;
/// The same for a turn in the signal handler, which others wait for. About a millisecond at worst,
/// less than the kernel itself takes when it lets another thread run.
constexpr unsigned enters_per_interrupt = 64;
constexpr unsigned completions_per_interrupt = 1024;
constexpr unsigned requests_per_interrupt = 1024;
/// A multishot poll is given up after so many events in a row that nobody waited for.
constexpr std::uint8_t unused_events_limit = 32;
/// See the head of ring_poller.hpp.
constinit layer::atomic<monotonic_time> patience{10'000'000'000};

/// Between two attempts of a worker that has nothing else to do.
void rest() noexcept {
    const timespec millisecond{.tv_sec = 0, .tv_nsec = 1'000'000};
    ::nanosleep(&millisecond, nullptr);
}

/// More than data is to be had: the end of the stream, or an error.
constexpr int hang_up_events = POLLRDHUP | POLLHUP | POLLERR;

poll_descriptor& descriptor_of(const poll_record& record) noexcept {
    return descriptors.at(record.slot());
}

}  // namespace

poll_record* ring_poller::poll_list::front() const noexcept {
    return empty() ? nullptr : &descriptors.record(first_);
}

void ring_poller::poll_list::push_back(poll_record& added) noexcept {
    added.next = no_record;
    added.previous = last_;
    (last_ != no_record ? descriptors.record(last_).next : first_) = added.self;
    last_ = added.self;
}

void ring_poller::poll_list::remove(poll_record& removed) noexcept {
    const record_ref next = removed.next;
    const record_ref previous = removed.previous;
    (previous != no_record ? descriptors.record(previous).next : first_) = next;
    (next != no_record ? descriptors.record(next).previous : last_) = previous;
}

ring_poller::ring_poller() {
    home_ = home_index();
}

ring_poller::~ring_poller() {
    ring_.tear_down();
    branch_list readied;
    // Whoever has taken a poll's place in a home word is about to ask for its cancellation.
    for (;;) {
        end(polls_, readied);
        end(unarmed_, readied);
        take_requests();
        release_cancelled(readied);
        if (unreleased_ == 0) break;
        ::sched_yield();
    }
    await_visitors();
    WEFT_ASSERT(handed_.empty());  // Its worker took everything when it left its loop.
    if (doorbell_ >= 0) sys().close(doorbell_);
    ready_each(readied);
}

start_result ring_poller::set_up(unsigned entries) noexcept {
    const start_result result = ring_.set_up(entries);
    if (result.error != 0) {
        ring_.tear_down();
        return result;
    }
    if (doorbell_ < 0) doorbell_ = sys().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (doorbell_ < 0) {
        const int error = errno;
        ring_.tear_down();  // The starter may try again with less.
        return {error, "making an eventfd"};
    }
    ring_.set_bell(doorbell_);
    return {};
}

start_result ring_poller::enable_on_this_thread() noexcept {
    const start_result result = ring_.enable();
    if (result.error == 0 && may_interrupt_) admit_rescue(*this);
    return result;
}

void ring_poller::disable_on_this_thread() noexcept {
    end_rescue();
    ring_.give_back_thread();
}

// Rescue.

bool ring_poller::interrupt_owner(::pid_t thread) noexcept {
    if (!may_interrupt_) return false;
    mark().strand();
    // What was taken already needs no signal.
    if (wants_turn()) send_rescue_signal(thread);
    return true;
}

// As a turn; but a loss is left to the owner, which repairs it at leisure, and so is a kernel that
// refuses. Nothing that waits is told before the end, so there is no point in a small slice. Where
// nobody looks after what is found (there is one processor only, or the signal came from elsewhere)
// the kernel gets what is prepared, no more.
void ring_poller::serve_interrupted(bool runs_task) noexcept {
    if (!runs_task || arming.held() || !mark().stranded()) {
        if (ring_.enter_for_others()) refusal_.admitted();
        return;
    }
    branch_list none;
    later_ = &handed_;
    // What was taken before comes first; to put more in front of it takes a step for each.
    if (uncancelled_ == no_record) uncancelled_ = inbox_.take();
    unsigned left = completions_per_interrupt;
    unsigned requests = requests_per_interrupt;
    for (unsigned entered = 0; entered < enters_per_interrupt; ++entered) {
        left -= reap(left, none);
        requests -= push_waiting(none, requests);
        if (left == 0 || (ring_.unsubmitted() == 0 && !ring_.needs_enter())) break;
        const int error = ring_.enter();
        judge(error);
        if (error != 0) break;
    }
    reap(left, none);
    later_ = nullptr;
    waits_for_next_signal_.store(!unarmed_.empty() || uncancelled_ != no_record,
                                 std::memory_order_relaxed);
    if (lost_) rung_ = true;  // The owner must not sleep before it has taken a turn.
    WEFT_ASSERT(none.empty());
}

// Pushing.

[[gnu::hot]]
bool ring_poller::make_space() noexcept {
    if (ring_.space() == 0) judge(ring_.submit());
    return ring_.space() > 0;
}

[[gnu::hot]]
void ring_poller::push_poll(poll_record& record) noexcept {
    io_uring_sqe entry{};
    const unsigned events = record.which() == direction::read ? POLLIN | POLLRDHUP : POLLOUT;
    io_uring_prep_poll_add(&entry, descriptor_of(record).fd(), events);
    if (record.multishot) entry.len = IORING_POLL_ADD_MULTI;
    entry.user_data = user_data_of(record);
    ring_.push(entry);
    polls_.push_back(record);
    record.in_kernel = true;
}

void ring_poller::push_cancel(const poll_record& record) noexcept {
    // Not POLL_REMOVE, which gives up with EALREADY on a poll that is just being run.
    io_uring_sqe entry{};
    entry.opcode = IORING_OP_ASYNC_CANCEL;
    entry.fd = -1;
    entry.addr = user_data_of(record);
    // Only a failure is reported: ENOENT, when the poll has ended by itself.
    entry.flags = IOSQE_CQE_SKIP_SUCCESS;
    entry.user_data = user_data(entry_kind::cancel);
    ring_.push(entry);
}

void ring_poller::push_doorbell() noexcept {
    io_uring_sqe entry{};
    io_uring_prep_poll_add(&entry, doorbell_, POLLIN);
    entry.len = IORING_POLL_ADD_MULTI;
    entry.user_data = user_data(entry_kind::doorbell);
    ring_.push(entry);
    doorbell_armed_ = true;
}

void ring_poller::push_cancel_all() noexcept {
    io_uring_sqe entry{};
    entry.opcode = IORING_OP_ASYNC_CANCEL;
    entry.fd = -1;
    entry.cancel_flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
    entry.user_data = user_data(entry_kind::cancel_all);
    ring_.push(entry);
}

[[gnu::hot]]
int ring_poller::arm(poll_record& record) noexcept {
    ++unreleased_;
    if (unarmed_.empty() && make_space()) {
        push_poll(record);
    } else {
        unarmed_.push_back(record);
    }
    return 0;
}

[[gnu::hot]]
unsigned ring_poller::push_waiting(branch_list& readied, unsigned limit) noexcept {
    if (!doorbell_armed_ && !ending_ && make_space()) push_doorbell();
    if (retiring_ && !cancel_all_sent_ && !polls_.empty() && make_space()) {
        push_cancel_all();
        cancel_all_sent_ = true;
    }
    unsigned done = 0;
    for (; poll_record* const record = unarmed_.front(); ++done) {
        if (done == limit || !make_space()) return done;
        unarmed_.remove(*record);
        push_poll(*record);
    }
    for (; uncancelled_ != no_record; ++done) {
        if (done == limit || !make_space()) return done;
        poll_record& record = descriptors.record(uncancelled_);
        uncancelled_ = record.next_request;
        if (descriptor_of(record).take_cancel_request(record, readied, later_)) {
            release_one();
        } else {
            push_cancel(record);
        }
    }
    return done;
}

// Requests.

bool ring_poller::cancel(const poll_name&, poll_record& record, cancel_reason,
                         branch_list&) noexcept {
    const bool sleeps =
        inbox_.push(record.self, [&record](record_ref next) { record.next_request = next; });
    if (sleeps) wake();
    return false;
}

[[gnu::hot]]
void ring_poller::take_requests() noexcept {
    record_ref taken = inbox_.take();
    while (taken != no_record) {
        poll_record& record = descriptors.record(taken);
        taken = std::exchange(record.next_request, uncancelled_);
        uncancelled_ = record.self;
    }
}

[[gnu::hot]]
void ring_poller::wake() noexcept {
    const std::uint64_t one = 1;
    // It cannot fill up: that takes 2^64 - 2 writes.
    [[maybe_unused]] const auto written = sys().write(doorbell_, &one, sizeof(one));
    WEFT_ASSERT(written == sizeof(one));
}

// Turns.

[[gnu::hot]]
bool ring_poller::has_work() const noexcept {
    return ring_.needs_enter() || ring_.has_completions() || has_unsubmitted() || lost_ ||
           !inbox_.empty() || !handed_.empty();
}

[[gnu::hot]]
void ring_poller::poll(branch_list& readied, poll_extent extent) noexcept {
    be_back(readied);
    take_requests();
    turn(extent == poll_extent::few ? 1 : enters_per_turn, readied);
}

[[gnu::hot]]
void ring_poller::wait(monotonic_time deadline, branch_list& readied) noexcept {
    be_back(readied);
    take_requests();
    push_waiting(readied);
    const bool nothing_to_do = !rung_ && doorbell_armed_ && unarmed_.empty() &&
                               uncancelled_ == no_record && readied.empty();
    if (nothing_to_do && inbox_.prepare_sleep()) {
        judge(ring_.wait(deadline));
        inbox_.finish_sleep();
    }
    take_requests();
    turn(enters_per_turn, readied);
    rung_ = false;
    if (refusal_.lasts()) rest();
}

[[gnu::hot]]
void ring_poller::be_back(branch_list& readied) noexcept {
    WEFT_ASSERT(!arming.held() && later_ == nullptr);
    mark().back();
    waits_for_next_signal_.store(false, std::memory_order_relaxed);
    if (!handed_.empty()) [[unlikely]] handed_.finish(readied);
}

[[gnu::hot]]
void ring_poller::turn(unsigned enters, branch_list& readied) noexcept {
    unsigned left = completions_per_turn - reap(completions_per_turn, readied);
    for (unsigned entered = 0; entered < enters; ++entered) {
        push_waiting(readied);
        if (left == 0 || (ring_.unsubmitted() == 0 && !ring_.needs_enter())) break;
        judge(ring_.enter());
        left -= reap(left, readied);
    }
    if (ring_.take_loss() || lost_) recover(readied);
}

/// What an enter says. Of the expected errors none but a loss has to be acted upon here, since a
/// turn looks at what is left afterwards: entries in the queue, completions, flags.
///
/// In the handler a loss is kept for the owner, and so is that the kernel has let it enter. Every
/// refusal the owner is left to meet itself: to measure for how long a kernel refuses, and to end
/// the process with a message, is no work for a handler.
[[gnu::hot]]
void ring_poller::judge(int error) noexcept {
    if (later_ != nullptr) [[unlikely]] {
        lost_ |= error == EBADR;
        if (io_ring::admits(error)) refusal_.admitted();
        return;
    }
    if (io_ring::admits(error)) {
        refusal_.admitted();
        return;
    }
    switch (error) {
    case EAGAIN:  // No memory for a request: its entry stays, the next turn tries again.
    case ENOMEM:  // No memory for anything else: as before.
    case EBUSY:   // The kernel wants its completions taken before it takes entries.
        refused(error);
        return;
    case EBADR:  // No memory for a completion: it is gone.
        lost_ = true;
        refused(error);
        return;
    default: break;
    }
    // EPERM, EACCES: forbidden since the start. EBADF, EBADFD, EEXIST, EFAULT, EINVAL, ENXIO,
    // EOPNOTSUPP: somebody has closed the ring, or entered it on another thread.
    std::array<char, 256> text;
    std::snprintf(text.data(), text.size(),
                  "io_uring_enter failed: %s (errno %d); a running ring cannot be replaced. Set "
                  "WEFT_NETPOLL=epoll if io_uring is forbidden here after the start",
                  std::strerror(error), error);
    fatal(text.data());
}

void ring_poller::refused(int error) noexcept {
    const refusal_time::nanoseconds passed = refusal_.refused(monotonic_now());
    // Relaxed: it is set before a runtime starts.
    if (passed.count() < patience.load(std::memory_order_relaxed)) return;
    std::array<char, 256> text;
    std::snprintf(text.data(), text.size(),
                  "io_uring_enter has failed for %lld ms, each time: %s (errno %d); the "
                  "system is short of memory: use fewer connections, or set WEFT_NETPOLL=epoll",
                  static_cast<long long>(passed.count() / 1'000'000),
                  std::strerror(error), error);
    fatal(text.data());
}

void ring_poller::set_patience(std::chrono::nanoseconds value) noexcept {
    patience.store(value.count(), std::memory_order_relaxed);
}

[[gnu::hot]]
unsigned ring_poller::reap(unsigned limit, branch_list& readied) noexcept {
    unsigned taken = 0;
    ring_completion completion;
    while (taken < limit && ring_.next_completion(completion)) {
        take(completion, readied);
        ++taken;
    }
    return taken;
}

[[gnu::hot]]
void ring_poller::take(const ring_completion& completion, branch_list& readied) noexcept {
    switch (static_cast<entry_kind>(completion.user_data >> kind_shift)) {
    case entry_kind::poll: take_poll(completion, readied); return;
    case entry_kind::doorbell: take_doorbell(completion); return;
    case entry_kind::cancel: return;  // The completion of a cancel proves nothing.
    case entry_kind::cancel_all:
        everything_cancelled_ = true;
        cancel_all_sent_ = false;
        return;
    case entry_kind::send:
        end_send(completion.user_data & rest_mask, completion.result, readied);
        return;
    }
    // Nobody asked for it: whatever the kernel says, it is no reason to stop here.
}

[[gnu::hot]]
bool ring_poller::gather_send(io_operation& sending, int fd, const void* data,
                              std::size_t size) noexcept {
    // Without the rescue signal nothing bounds how long a task may keep the entry waiting.
    if (!may_interrupt_ || sends_.full()) return false;
    // Until publish_gathered(): the position must be that of the entry, which may complete at any
    // moment then, and the branch must be suspended before it is readied.
    arming.begin();
    if (ring_.space() == 0) {
        arming.end();
        return false;
    }
    io_uring_sqe entry{};
    io_uring_prep_send(&entry, fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    entry.user_data = user_data(entry_kind::send, sends_.add(sending, ring_.next_position()));
    ring_.push(entry);
    return true;
}

void ring_poller::end_send(std::uint64_t name, int result, branch_list& readied) noexcept {
    io_operation* const sent = sends_.end(name);
    if (sent == nullptr) return;  // Never asked for.
    sent->sent_ = result;
    if (later_ != nullptr) {
        later_->add_sent(*sent);
    } else {
        readied.push_back(sent->waiter());
    }
}

void ring_poller::hand_over_for_owner(::pid_t thread) noexcept {
    if (may_interrupt_ && ring_.unsubmitted() != 0) send_rescue_signal(thread);
}

[[gnu::hot]]
void ring_poller::take_poll(const ring_completion& completion, branch_list& readied) noexcept {
    const auto ref =
        static_cast<record_ref>((completion.user_data >> record_shift) & record_mask) + 1;
    poll_record& record = descriptors.record(ref);
    poll_descriptor& descriptor = descriptor_of(record);
    const poll_completion of{
        .sequence = static_cast<std::uint32_t>(completion.user_data),
        .result = completion.result,
        .more = (completion.flags & IORING_CQE_F_MORE) != 0,
        .hung_up = completion.result > 0 && (completion.result & hang_up_events) != 0};
    // A completion of an earlier poll of this record: it must not end this one.
    if (!record.in_kernel || record.sequence != of.sequence) return;
    if (!of.more) {
        polls_.remove(record);
        record.in_kernel = false;
    }
    if (descriptor.completed(record, of, readied, later_)) release_one();
    if (of.more && record.unused_events >= unused_events_limit && make_space() &&
        descriptor.give_up(record)) {
        push_cancel(record);
    }
}

void ring_poller::take_doorbell(const ring_completion& completion) noexcept {
    rung_ = true;
    if ((completion.flags & IORING_CQE_F_MORE) != 0) return;
    doorbell_armed_ = false;
    if (completion.result == -EBADF) {
        fatal(
            "the eventfd of a worker was closed by somebody else; close only descriptors that "
            "you own");
    }
}

// Ending.

void ring_poller::begin_retiring(branch_list& readied) noexcept {
    WEFT_ASSERT(unverified.empty());
    retiring_ = true;
    // The kernel does not know them, so nobody else would end them.
    end(unarmed_, readied);
}

/// Completions were dropped, so polls may have ended unseen. Everything is cancelled; what has not
/// ended after that has ended before. Waiters try again and arm anew.
void ring_poller::recover(branch_list& readied) noexcept {
    lost_ = false;
    cancel_all_sent_ = false;  // Its answer may be among what is lost.
    cancel_everything(readied);
    end(polls_, readied);
    sends_.for_each([&](std::uint64_t name, unsigned position) {
        if (ring_.submitted(position)) end_send(name, -EBADR, readied);
    });
    // The bell was cancelled too, or its end was among what is lost.
    doorbell_armed_ = false;
}

/// True: no poll is left in the kernel. False: the kernel did not answer, or its answer was lost.
bool ring_poller::cancel_everything(branch_list& readied) noexcept {
    everything_cancelled_ = false;
    bool asked = false;
    const monotonic_time give_up_at = after(monotonic_now(), std::chrono::seconds(1));
    do {
        if (!asked && make_space()) {
            push_cancel_all();
            asked = true;
        }
        judge(ring_.enter());
        reap(completions_per_turn, readied);
        if (ring_.take_loss()) lost_ = true;
        if (std::exchange(lost_, false) && !everything_cancelled_) asked = false;
        if (everything_cancelled_ && !ring_.needs_enter() && !ring_.has_completions()) break;
    } while (monotonic_now() < give_up_at);
    return polls_.empty();
}

/// Ends what the kernel does not know, or does not know any more.
void ring_poller::end(poll_list& list, branch_list& readied) noexcept {
    while (poll_record* const record = list.front()) {
        list.remove(*record);
        record->in_kernel = false;
        const poll_completion ended{.sequence = record->sequence, .result = -ECANCELED};
        if (descriptor_of(*record).completed(*record, ended, readied, later_)) release_one();
    }
}

void ring_poller::release_cancelled(branch_list& readied) noexcept {
    while (uncancelled_ != no_record) {
        poll_record& record = descriptors.record(uncancelled_);
        uncancelled_ = record.next_request;
        if (descriptor_of(record).take_cancel_request(record, readied, later_)) release_one();
    }
}

void ring_poller::shut_down() noexcept {
    if (!ring_.enabled()) return;
    ending_ = true;
    branch_list readied;
    end(unarmed_, readied);
    cancel_everything(readied);
    take_requests();
    release_cancelled(readied);
    disable_on_this_thread();
    ready_each(readied);
}

}  // namespace weft::detail
