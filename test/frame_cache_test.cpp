// SPDX-License-Identifier: MIT
#include <weft/detail/sched/frame_cache.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

using weft::detail::frame_cache;
using weft::detail::frame_classes;

TEST_CASE("frame classes: each size fits its class and not the one below", "[frames]") {
    std::size_t largest_waste = 0;
    for (std::size_t size = 1; size <= frame_classes::largest; ++size) {
        const std::size_t index = frame_classes::index_of(size);
        if (index >= frame_classes::count) FAIL("no such class");
        if (frame_classes::size_of(index) < size) FAIL("does not fit");
        if (index != 0 && frame_classes::size_of(index - 1) >= size) FAIL("a class too large");
        if (size <= 256) {
            largest_waste = std::max(largest_waste, frame_classes::size_of(index) - size);
        }
    }
    CHECK(largest_waste == 15);
    CHECK(frame_classes::index_of(frame_classes::largest) == frame_classes::count - 1);
    CHECK(frame_classes::size_of(frame_classes::count - 1) == frame_classes::largest);
}

TEST_CASE("a frame cache gives a freed block again, the last one first", "[frames]") {
    frame_cache cache;
    void* first = cache.allocate(5);
    void* second = cache.allocate(5);
    CHECK(first != second);
    cache.deallocate(first, 5);
    cache.deallocate(second, 5);
    // A block of another class is another one.
    void* other = cache.allocate(6);
    CHECK(other != first);
    CHECK(other != second);
    CHECK(cache.allocate(5) == second);
    CHECK(cache.allocate(5) == first);
    cache.deallocate(first, 5);
    cache.deallocate(second, 5);
    cache.deallocate(other, 6);
}

TEST_CASE("half of a full list moves to the list that all share, and from there to others",
          "[frames]") {
    constexpr std::size_t index = 39;  // The largest class: nobody else uses it here.
    const std::uint32_t limit = frame_classes::limit_of(index);
    frame_cache giver, taker;
    std::vector<void*> blocks;
    for (std::uint32_t i = 0; i < limit; ++i) blocks.push_back(giver.allocate(index));
    for (void* each : blocks) giver.deallocate(each, index);
    // The last one filled the list, and the newest half left.
    const std::set<void*> moved(blocks.begin() + limit / 2, blocks.end());
    std::set<void*> taken;
    for (std::uint32_t i = 0; i < limit / 2; ++i) taken.insert(taker.allocate(index));
    CHECK(taken == moved);
    std::set<void*> kept;
    for (std::uint32_t i = 0; i < limit / 2; ++i) kept.insert(giver.allocate(index));
    CHECK(kept == std::set<void*>(blocks.begin(), blocks.begin() + limit / 2));
    for (void* each : taken) taker.deallocate(each, index);
    for (void* each : kept) giver.deallocate(each, index);
}

TEST_CASE("frames that are made on one worker and freed on another go round in a circle",
          "[frames]") {
    constexpr std::size_t index = 38;
    constexpr int rounds = 200;
    frame_cache giver, taker;
    std::set<void*> different;
    std::size_t made = 0;
    for (int i = 0; i < rounds; ++i) {
        std::array<void*, 16> blocks;
        for (void*& each : blocks) {
            each = giver.allocate(index);
            different.insert(each);
            ++made;
        }
        for (void* each : blocks) taker.deallocate(each, index);
    }
    // What is out at a time, two lists, and what lies between them.
    CHECK(made == 16 * rounds);
    CHECK(different.size() <= 16 + 3 * frame_classes::limit_of(index));
}
