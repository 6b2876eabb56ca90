// SPDX-License-Identifier: MIT

#include <weft/detail/sched/local_queue.hpp>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/scale.hpp"

namespace {

struct node {
    node* next = nullptr;
    unsigned number = 0;
    std::atomic<unsigned> taken{0};
};

using queue = weft::detail::local_queue<weft::detail::std_layer, node>;

std::vector<node> numbered(unsigned count) {
    std::vector<node> nodes(count);
    for (unsigned i = 0; i < count; ++i) nodes[i].number = i + 1;
    return nodes;
}

// What an overflow hands over, in order.
struct collected {
    std::vector<unsigned> numbers;
    void operator()(node* first, node* last, std::size_t count) {
        for (node* each = first; each != nullptr; each = each->next)
            numbers.push_back(each->number);
        CHECK(numbers.size() == count);
        CHECK(numbers.back() == last->number);
    }
};

constexpr auto no_overflow = [](node*, node*, std::size_t) { FAIL("unexpected overflow"); };

std::vector<unsigned> drain(queue& from) {
    std::vector<unsigned> numbers;
    if (node* next = from.pop_next()) numbers.push_back(next->number);
    while (node* each = from.pop()) numbers.push_back(each->number);
    return numbers;
}

std::vector<unsigned> range(unsigned first, unsigned last) {
    std::vector<unsigned> numbers;
    for (unsigned i = first; i <= last; ++i) numbers.push_back(i);
    return numbers;
}

}  // namespace

TEST_CASE("local queue: the newest goes first, then the others in order") {
    queue own;
    auto nodes = numbered(10);
    CHECK(own.empty());
    for (node& each : nodes) own.push_next(&each, no_overflow);
    CHECK(own.size() == 10);
    CHECK(own.ring_size() == 9);
    CHECK_FALSE(own.empty());
    CHECK(drain(own) == std::vector<unsigned>{10, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK(own.empty());
}

TEST_CASE("local queue: 257 nodes fit, the next one moves 129 in order") {
    queue own;
    auto nodes = numbered(258);
    for (unsigned i = 0; i < 257; ++i) own.push_next(&nodes[i], no_overflow);
    CHECK(own.size() == 257);
    collected batch;
    own.push_next(&nodes[257], batch);
    auto expected = range(1, 128);
    expected.push_back(257);
    CHECK(batch.numbers == expected);
    auto left = range(129, 256);
    left.insert(left.begin(), 258);
    CHECK(drain(own) == left);
}

TEST_CASE("local queue: a batch fills the ring and leaves the rest") {
    queue own;
    auto nodes = numbered(300);
    for (unsigned i = 0; i < 299; ++i) nodes[i].next = &nodes[i + 1];
    node* first = &nodes[0];
    CHECK(own.push_batch(first, 100) == 100);
    CHECK(first == &nodes[100]);
    CHECK(own.push_batch(first, 200) == 156);
    CHECK(first == &nodes[256]);
    CHECK(own.push_batch(first, 44) == 0);
    CHECK(first == &nodes[256]);
    own.publish_barrier();
    CHECK(drain(own) == range(1, 256));
}

TEST_CASE("local queue: a thief takes half, rounded up, and runs the last of it") {
    for (unsigned filled : {1U, 2U, 3U, 7U, 255U, 256U}) {
        queue own, thiefs;
        auto nodes = numbered(filled);
        for (node& each : nodes) own.push_back(&each, no_overflow);
        const unsigned half = (filled + 1) / 2;
        node* got = own.steal_into(thiefs, false);
        REQUIRE(got != nullptr);
        CHECK(got->number == half);
        CHECK(drain(thiefs) == range(1, half - 1));
        CHECK(drain(own) == range(half + 1, filled));
    }
}

TEST_CASE("local queue: the node in front is stolen only when that is asked for") {
    queue own, thiefs;
    auto nodes = numbered(2);
    own.push_next(&nodes[0], no_overflow);
    CHECK(own.steal_into(thiefs, false) == nullptr);
    node* seen = own.peek_next();
    CHECK(seen == &nodes[0]);
    own.push_next(&nodes[1], no_overflow);
    CHECK(own.steal_next(seen) == nullptr);
    CHECK(own.steal_next(nullptr) == nullptr);
    CHECK(own.steal_into(thiefs, true) == &nodes[0]);
    CHECK(own.steal_into(thiefs, true) == &nodes[1]);
    CHECK(own.empty());
}

TEST_CASE("local queue: thieves and owner under load take every node once") {
    const unsigned rounds = static_cast<unsigned>(weft::test::scaled_count(1'000'000, 20'000'000));
    static constexpr unsigned thieves = 3;
    std::vector<node> nodes(rounds);
    queue own;
    std::mutex global_mutex;
    std::vector<node*> global;
    std::atomic<bool> done{false};
    std::atomic<unsigned> stolen{0};
    const auto overflow = [&](node* first, node*, std::size_t) {
        const std::lock_guard lock(global_mutex);
        for (node* each = first; each != nullptr; each = each->next) global.push_back(each);
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < thieves; ++i) {
        threads.emplace_back([&] {
            queue mine;
            for (bool last_look = false; !last_look;) {
                last_look = done.load();
                node* got = own.steal_into(mine, true);
                if (got == nullptr) {
                    std::this_thread::yield();
                    continue;
                }
                last_look = false;
                stolen.fetch_add(1);
                for (; got != nullptr; got = mine.pop()) got->taken.fetch_add(1);
            }
        });
    }
    for (unsigned i = 0; i < rounds; ++i) {
        if (i % 3 == 0) {
            own.push_back(&nodes[i], overflow);
        } else {
            own.push_next(&nodes[i], overflow);
        }
        // Bursts of up to 400, so that the ring overflows now and then, and stretches of taking.
        if (i % 400 < 250) continue;
        node* got = own.pop_next();
        if (got == nullptr) got = own.pop();
        if (got != nullptr) got->taken.fetch_add(1);
    }
    done.store(true);
    for (auto& each : threads) each.join();
    for (node* each : global) each->taken.fetch_add(1);
    CHECK(own.empty());
    unsigned wrong = 0;
    for (const node& each : nodes) wrong += each.taken.load() == 1 ? 0 : 1;
    CHECK(wrong == 0);
    CHECK(stolen.load() > 0);
}
