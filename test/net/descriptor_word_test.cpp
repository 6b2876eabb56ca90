// SPDX-License-Identifier: MIT
//
// The limits of a descriptor's word. What threads do with it is explored in test/model/.
#include "support/catch.hpp"

#include <weft/detail/base/layer.hpp>
#include <weft/detail/netpoll/descriptor_word.hpp>

#include <cstdint>

using weft::detail::direction;
using weft::detail::enter_outcome;
using word_type = weft::detail::descriptor_word<weft::detail::layer>;

TEST_CASE("more operations than a descriptor can count are refused, and nothing changes") {
    word_type word;
    const std::uint32_t generation = word.open();
    REQUIRE(word.enter(generation, direction::read) == enter_outcome::entered);
    std::uint32_t queued = 1;
    while (word.queue(generation, direction::read) == enter_outcome::busy) ++queued;
    CHECK(queued == word_type::most_queued);
    CHECK(word.queue(generation, direction::read) == enter_outcome::crowded);
    // The other direction is free, so its turn is given; one more would have to queue.
    CHECK(word.queue(generation, direction::write) == enter_outcome::entered);
    CHECK(word.queue(generation, direction::write) == enter_outcome::crowded);
    CHECK(word.leave(direction::write) == word_type::leave_outcome::left);
    CHECK(word.is_open(generation));
    // One goes, one more comes.
    CHECK_FALSE(word.drop_reference());
    CHECK(word.queue(generation, direction::read) == enter_outcome::busy);
    CHECK(word.queue(generation, direction::read) == enter_outcome::crowded);
    // All of them can be closed.
    CHECK(word.begin_close(generation));
    CHECK(word.queue(generation, direction::read) == enter_outcome::closed);
    for (std::uint32_t i = 0; i < queued; ++i) {
        if (word.drop_reference()) FAIL("the last reference is the closer's");
    }
    CHECK(word.drop_reference());
}
