// SPDX-License-Identifier: MIT
//
// Who still holds an end of a channel (channel_ends.hpp).
//
// A channel with ends has two sides, those who send and those who receive. Each side counts its
// ends, and the channel counts its sides:
//
//     ends of a side    copied by who holds one         count + 1
//                       dropped                         count - 1; at 0 the side has gone for good,
//                                                       since nobody is left to copy one
//     sides             the last end of a side          does what the going of that side means,
//                                                       then sides - 1; at 0 the channel is its own
//
// Why the channel is destroyed once, and by somebody who finds all of it done. Whoever holds an end
// keeps its side at 1 or more, and a side that has not gone keeps the channel. A side goes once, so
// the sides are counted down twice, and the second one destroys. Each countdown releases what its
// thread has done with the channel, and acquires what those before it did: the last end of a side
// what the other ends did, the last side what the other side did.
//
// Rejected: one count for both sides (the last sender has to be known before the last receiver
// has gone); std::shared_ptr for each side, holding one of the channel (two blocks more, and the
// same operations).
#pragma once

#include <weft/detail/base/assert.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::detail {

/// Begins with one end on each side.
template <class Layer>
class end_counts {
public:
    enum side : std::uint8_t { sending, receiving };

    /// Whoever holds an end of that side. Relaxed: it is there, so nobody learns anything new.
    void add(side of) noexcept { ends_[of].fetch_add(1, std::memory_order_relaxed); }

    /// Gives an end up. True: it was the last one of its side. The caller does what that means, and
    /// then calls leave(). False: it touches the channel no more.
    [[nodiscard]] bool drop(side of) noexcept {
        // Release for who comes last, acquire of those before: see above.
        const std::size_t before = ends_[of].fetch_sub(1, std::memory_order_acq_rel);
        WEFT_ASSERT(before != 0);
        return before == 1;
    }

    /// The side has gone. True: so has the other one, and the channel is the caller's to destroy.
    /// False: it touches the channel no more.
    [[nodiscard]] bool leave() noexcept {
        // Release and acquire as in drop().
        return sides_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }

private:
    using counter = typename Layer::template atomic<std::size_t>;

    counter ends_[2]{1, 1};
    counter sides_{2};
};

}  // namespace weft::detail
