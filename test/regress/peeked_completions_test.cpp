// SPDX-License-Identifier: MIT
#include "lib/netpoll/ring.hpp"
#include "support/backends.hpp"
#include "support/catch.hpp"
#include "support/skip.hpp"

#include <liburing.h>

#include <cstdint>
#include <vector>

// The watchdog reads the completions of a worker that is kept without taking them, from where its
// last look ended. That position may be from a rescue long ago: it visited the same few completions
// once for each that had passed since. And a completion that a worker had left in its ring when it
// was back for a moment was never looked at again.

using weft::detail::io_ring;

namespace {

/// `count` operations that do nothing, numbered from `first`, end.
void complete(io_ring& ring, std::uint64_t first, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        io_uring_sqe entry{};
        entry.opcode = IORING_OP_NOP;
        entry.user_data = first + i;
        ring.push(entry);
    }
    REQUIRE(ring.enter() == 0);
}

std::vector<std::uint64_t> peek(io_ring& ring, unsigned& from) {
    std::vector<std::uint64_t> seen;
    ring.peek_completions(from, [&](const weft::detail::peeked_completion& told) {
        CHECK(told.intact);
        seen.push_back(told.user_data);
        return true;
    });
    return seen;
}

void take(io_ring& ring, unsigned count) {
    weft::detail::ring_completion taken;
    for (unsigned i = 0; i < count; ++i) REQUIRE(ring.next_completion(taken));
}

}  // namespace

TEST_CASE("completions that are peeked at are those that the owner has not taken",
          "[regress][netpoll]") {
    if (weft::test::backends().size() < 2) {
        WEFT_SKIP("this run is not to use io_uring, or cannot");
    }
    using numbers = std::vector<std::uint64_t>;
    io_ring ring;
    REQUIRE(ring.set_up(io_ring::smallest).error == 0);
    REQUIRE(ring.enable().error == 0);
    unsigned from = ring.completions_taken();
    complete(ring, 1, 3);
    CHECK(peek(ring, from) == numbers{1, 2, 3});
    CHECK(peek(ring, from).empty());
    complete(ring, 4, 2);
    CHECK(peek(ring, from) == numbers{4, 5});
    take(ring, 3);
    // What is left is looked at again from the first one that was not taken.
    from = ring.completions_taken();
    CHECK(peek(ring, from) == numbers{4, 5});
    take(ring, 2);
    // A position from long ago, or from a ring that has wrapped around since, costs nothing.
    for (int round = 0; round < 20; ++round) {
        complete(ring, 100, io_ring::smallest);
        take(ring, io_ring::smallest);
    }
    complete(ring, 6, 2);
    CHECK(peek(ring, from) == numbers{6, 7});
    from += 1'000'000'000;
    CHECK(peek(ring, from) == numbers{6, 7});
    take(ring, 2);
    ring.give_back_thread();
}
