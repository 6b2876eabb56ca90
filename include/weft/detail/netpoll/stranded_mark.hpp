// SPDX-License-Identifier: MIT
//
// Whether a ring is *stranded*: a task keeps its owner, and others look after those who wait there.
//
//     party             steps, in this order
//     rescuer           strand(); make the owner post its completions; read them, and notify the
//                       wait word of each
//     operation         forget readiness; system call; EAGAIN; read the mark of the ring in which
//                       the poll is; publish in the wait word; leave that ring if it is stranded
//     owner, back       back(); take the completions, and notify once more
//
// Why nobody waits for a poll that has ended unseen. A one-shot poll ends with its first event, but
// in the home word it ends only when its owner takes that completion, which may be long after the
// rescuer has notified for it. An operation that parks behind it in that time would wait for the
// owner. It does so only if it has read the mark before the rescuer set it, so before the rescuer
// notified. If that notification comes before its publication, the publication fails, and it tries
// again; if it comes after, it takes the waiter. In both cases the operation has acquired the
// notification when it reads the mark the next time, and leaves.
//
// When the owner comes back between, the mark may be gone again; then the owner takes that
// completion next, and its own notification finds the waiter.
//
// The mark is therefore relaxed: the wait word carries what order is needed. Set too long, it makes
// polls leave that need not; nothing else.
#pragma once

#include <atomic>

namespace weft::detail {

template <class Layer>
class stranded_mark {
public:
    constexpr stranded_mark() noexcept = default;

    /// Rescuer, before it looks. Relaxed: the notifications that follow release it.
    void strand() noexcept { mark_.store(true, std::memory_order_relaxed); }

    /// Owner, before it takes completions. Relaxed: a rescuer that sets it again is harmless.
    void back() noexcept {
        if (stranded()) [[unlikely]] { mark_.store(false, std::memory_order_relaxed); }
    }

    /// Anybody. Relaxed: see above.
    bool stranded() const noexcept { return mark_.load(std::memory_order_relaxed); }

private:
    typename Layer::template atomic<bool> mark_{false};
};

}  // namespace weft::detail
