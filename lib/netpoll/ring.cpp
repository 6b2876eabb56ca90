// SPDX-License-Identifier: MIT
#include "lib/netpoll/ring.hpp"

#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/base/assert.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace weft::detail {

namespace {

constexpr unsigned ring_flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
                                IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP |
                                IORING_SETUP_R_DISABLED;

/// One mapping for both queues, no lost completions, a timeout as argument of the wait.
constexpr unsigned needed_features =
    IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;

constexpr std::array needed_operations = {IORING_OP_NOP, IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL,
                                          IORING_OP_SEND};

}  // namespace

start_result io_ring::set_up(unsigned entries) noexcept {
    WEFT_ASSERT(fd_ < 0);
    io_uring_params parameters{};
    parameters.flags = ring_flags;
    parameters.cq_entries = 4 * entries;
    fd_ = enter_fd_ = sys().io_uring_setup(entries, &parameters);
    if (fd_ < 0) return {errno, "io_uring_setup"};
    entries_ = parameters.sq_entries;
    completion_mask_ = parameters.cq_entries - 1;
    features_ = parameters.features;
    if ((features_ & needed_features) != needed_features) {
        return {EOPNOTSUPP, "checking the features of the ring"};
    }
    if (const start_result result = map(parameters); result.error != 0) return result;
    return check_operations();
}

/// Both queues lie in one mapping (needed_features), the entries in another one.
start_result io_ring::map(const io_uring_params& parameters) noexcept {
    const io_sqring_offsets& sq = parameters.sq_off;
    const io_cqring_offsets& cq = parameters.cq_off;
    const std::size_t queues_size =
        std::max(sq.array + entries_ * sizeof(unsigned),
                 cq.cqes + parameters.cq_entries * sizeof(io_uring_cqe));
    start_result result = queues_.map(fd_, queues_size, IORING_OFF_SQ_RING);
    if (result.error != 0) return result;
    result = entry_memory_.map(fd_, entries_ * sizeof(io_uring_sqe), IORING_OFF_SQES);
    if (result.error != 0) return result;
    submission_head_ = queues_.at<unsigned>(sq.head);
    submission_tail_ = queues_.at<unsigned>(sq.tail);
    submission_flags_ = queues_.at<unsigned>(sq.flags);
    submission_entries_ = entry_memory_.at<io_uring_sqe>(0);
    completion_head_ = queues_.at<unsigned>(cq.head);
    completion_tail_ = queues_.at<unsigned>(cq.tail);
    completions_ = queues_.at<io_uring_cqe>(cq.cqes);
    // Slot i of the index array names entry i for good.
    for (unsigned i = 0; i < entries_; ++i) queues_.at<unsigned>(sq.array)[i] = i;
    return {};
}

start_result io_ring::check_operations() noexcept {
    constexpr unsigned count = 64;
    constexpr std::size_t size = sizeof(io_uring_probe) + count * sizeof(io_uring_probe_op);
    alignas(io_uring_probe) std::array<std::byte, size> memory{};
    auto* const probe = reinterpret_cast<io_uring_probe*>(memory.data());
    if (sys().io_uring_register(fd_, IORING_REGISTER_PROBE, probe, count) < 0) {
        return {errno, "asking for the operations of the ring"};
    }
    for (const auto operation : needed_operations) {
        if (operation > probe->last_op ||
            (probe->ops[operation].flags & IO_URING_OP_SUPPORTED) == 0) {
            return {EOPNOTSUPP, "checking the operations of the ring"};
        }
    }
    return {};
}

start_result io_ring::enable() noexcept {
    WEFT_ASSERT(fd_ >= 0 && !enabled_);
    if (sys().io_uring_register(fd_, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) < 0) {
        return {errno, "enabling the ring"};
    }
    enabled_ = true;
    if ((features_ & IORING_FEAT_NO_IOWAIT) != 0) wait_flags_ |= IORING_ENTER_NO_IOWAIT;
    register_for_thread();
    if (const start_result result = no_op_round_trip(); result.error != 0) {
        give_back_thread();  // Or the ring would stay as long as the thread does.
        return result;
    }
    detect_absolute_timer();
    return {};
}

void io_ring::register_for_thread() noexcept {
    io_uring_rsrc_update update{};
    update.offset = ~0U;  // Any free index.
    update.data = static_cast<unsigned long long>(fd_);
    // It saves a reference count for each call. Where it is refused the descriptor serves as well.
    if (sys().io_uring_register(fd_, IORING_REGISTER_RING_FDS, &update, 1) == 1) {
        enter_fd_ = static_cast<int>(update.offset);
        enter_flags_ = IORING_ENTER_REGISTERED_RING;
    }
}

void io_ring::give_back_thread() noexcept {
    if (!has_registered_fd()) return;
    io_uring_rsrc_update update{};
    update.offset = static_cast<unsigned>(enter_fd_);
    // A failure would leave one of the sixteen indices of this thread in use; nothing else breaks.
    sys().io_uring_register(fd_, IORING_UNREGISTER_RING_FDS, &update, 1);
    enter_fd_ = fd_;
    enter_flags_ = 0;
}

start_result io_ring::no_op_round_trip() noexcept {
    constexpr const char* step = "sending a no-op through the ring";
    io_uring_sqe entry{};
    entry.opcode = IORING_OP_NOP;
    entry.user_data = no_op_token;
    push(entry);
    // A signal may end the wait early: a few attempts, then it counts as a ring that does not work.
    for (int attempt = 0; attempt < 16; ++attempt) {
        const int error = wait(after(monotonic_now(), std::chrono::seconds(1)));
        ring_completion completion;
        if (next_completion(completion)) {
            if (completion.user_data != no_op_token) return {EPROTO, step};
            return {completion.result < 0 ? -completion.result : 0, step};
        }
        if (error != 0 && error != EINTR) return {error, step};
    }
    return {EINTR, step};
}

void io_ring::detect_absolute_timer() noexcept {
    io_uring_getevents_arg argument{};
    const int error = call_enter(
        0, 0, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | IORING_ENTER_ABS_TIMER, &argument);
    absolute_timer_ = error == 0;
    if (absolute_timer_) wait_flags_ |= IORING_ENTER_ABS_TIMER;
}

void io_ring::tear_down() noexcept {
    if (fd_ < 0) return;
    queues_.unmap();
    entry_memory_.unmap();
    sys().close(fd_);
    fd_ = enter_fd_ = -1;
    enabled_ = false;
    enter_flags_ = 0;
}

[[gnu::hot]]
void io_ring::push(const io_uring_sqe& entry) noexcept {
    WEFT_ASSERT(space() > 0);
    const std::atomic_ref tail(*submission_tail_);
    const unsigned at = tail.load(std::memory_order_relaxed);  // Only the owner writes it.
    submission_entries_[at & (entries_ - 1)] = entry;
    // Release pairs with the kernel's acquire of the tail: the entry is complete.
    tail.store(at + 1, std::memory_order_release);
}

[[gnu::hot]]
int io_ring::call_enter(unsigned to_submit, unsigned wanted, unsigned flags,
                        const io_uring_getevents_arg* argument) noexcept {
    const std::size_t size = argument != nullptr ? sizeof(*argument) : 0;
    const int result =
        sys().io_uring_enter(enter_fd_, to_submit, wanted, flags | enter_flags_, argument, size);
    return result < 0 ? errno : 0;
}

[[gnu::hot]]
int io_ring::enter() noexcept {
    return call_enter(unsubmitted(), 0, IORING_ENTER_GETEVENTS, nullptr);
}

// At least 20 items of deferred work for each call.
bool io_ring::enter_for_others() noexcept {
    int error = 0;
    bool admitted = false;
    for (int entered = 0; entered < 16 && error == 0; ++entered) {
        error = enter();
        admitted = admitted || admits(error);
        if (!needs_enter()) break;
    }
    // Every other error tells of a state that lasts, so the owner meets it as well.
    if (error != EBADR) return admitted;
    lost_.store(true, std::memory_order_relaxed);  // For take_loss(), on this thread.
    const std::uint64_t one = 1;
    // Async-signal-safe. It cannot fill up: that takes 2^64 - 2 writes.
    [[maybe_unused]] const auto written = sys().write(bell_, &one, sizeof(one));
    WEFT_ASSERT(written == sizeof(one));
    return admitted;
}

int io_ring::submit() noexcept {
    return call_enter(unsubmitted(), 0, 0, nullptr);
}

[[gnu::hot]]
int io_ring::wait(monotonic_time deadline) noexcept {
    io_uring_getevents_arg argument{};
    __kernel_timespec timeout{};
    if (deadline != no_deadline) {
        constexpr monotonic_time second = 1'000'000'000;
        const monotonic_time value = absolute_timer_
                                         ? std::max<monotonic_time>(deadline, 0)
                                         : std::max<monotonic_time>(deadline - monotonic_now(), 0);
        timeout.tv_sec = value / second;
        timeout.tv_nsec = value % second;
        argument.ts = reinterpret_cast<std::uintptr_t>(&timeout);
    }
    return call_enter(unsubmitted(), 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | wait_flags_,
                      &argument);
}

[[gnu::hot]]
bool io_ring::next_completion(ring_completion& taken) noexcept {
    const std::atomic_ref head(*completion_head_);
    const unsigned at = head.load(std::memory_order_relaxed);  // Only the owner writes it.
    // Acquire pairs with the kernel's release of the tail: the completion is complete.
    if (at == std::atomic_ref(*completion_tail_).load(std::memory_order_acquire)) return false;
    const io_uring_cqe& completion = completions_[at & completion_mask_];
    taken = {completion.user_data, completion.res, completion.flags};
    // Release pairs with the kernel's acquire of the head: the slot has been read.
    head.store(at + 1, std::memory_order_release);
    return true;
}

}  // namespace weft::detail
