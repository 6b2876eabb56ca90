// SPDX-License-Identifier: MIT
#include "lib/base/processor_count.hpp"

#include "lib/base/affinity.hpp"
#include "support/catch.hpp"
#include "support/quota_files.hpp"
#include "support/skip.hpp"

#include <thread>

using weft::detail::affinity_mask;
using weft::detail::processor_count_watch;
using weft::detail::processors_of_machine;
using machine = weft::test::quota_files;

namespace {

constexpr auto period = processor_count_watch::period;

}  // namespace

TEST_CASE("the smaller of affinity and quota is the count of the machine", "[processor_count]") {
    machine made;
    const std::uint32_t cores = affinity_mask::of_this_thread().count();
    REQUIRE(cores >= 1);
    CHECK(processors_of_machine(made.roots()) == cores);
    made.quota("100000 100000\n");
    CHECK(processors_of_machine(made.roots()) == 1);
    made.quota("99999999999 1000\n");
    CHECK(processors_of_machine(made.roots()) == cores);
}

TEST_CASE("the affinity counts for the thread that asks", "[processor_count]") {
    machine made;
    const affinity_mask before = affinity_mask::of_this_thread();
    std::uint32_t found = 0, last = 0;
    std::thread([&] {
        if (before.only(before.count() - 1).apply()) found = processors_of_machine(made.roots());
        last = affinity_mask::of_this_thread().count();
        before.apply();
    }).join();
    CHECK(found == 1);
    CHECK(last == 1);
    CHECK(processors_of_machine(made.roots()) == before.count());
}

TEST_CASE("a change of the count is told once, and looked for at most once a second",
          "[processor_count]") {
    machine made;
    const std::uint32_t cores = affinity_mask::of_this_thread().count();
    if (cores < 2) WEFT_SKIP("there is one core only");
    processor_count_watch watch(true, cores, 1000, made.roots());
    made.quota("100000 100000\n");
    CHECK(watch.next_look() == 1000 + period);
    CHECK(watch.look(1000 + period - 1) == std::nullopt);
    CHECK(watch.look(1000 + period) == 1U);
    CHECK(watch.look(1000 + 2 * period) == std::nullopt);
    made.quota("max 100000\n");
    CHECK(watch.look(1000 + 3 * period - 1) == std::nullopt);
    CHECK(watch.look(1000 + 5 * period) == cores);
    // A second counts from the last look, so late ones do not pile up.
    made.quota("100000 100000\n");
    CHECK(watch.look(1000 + 6 * period - 1) == std::nullopt);
    CHECK(watch.look(1000 + 6 * period) == 1U);
}

TEST_CASE("a count that was chosen by hand is not watched", "[processor_count]") {
    machine made;
    made.quota("100000 100000\n");
    processor_count_watch chosen(false, 7, 0, made.roots());
    CHECK(chosen.look(10 * period) == std::nullopt);
    CHECK(chosen.next_look() == weft::detail::no_deadline);
    processor_count_watch stopped(true, 7, 0, made.roots());
    CHECK(stopped.look(period) == 1U);
    made.quota("200000 100000\n");
    stopped.stop();
    CHECK(stopped.look(10 * period) == std::nullopt);
    CHECK_FALSE(stopped.active());
}

TEST_CASE("a single core is cut out of a mask, around its end", "[processor_count]") {
    const affinity_mask all = affinity_mask::of_this_thread();
    for (std::uint32_t i = 0; i < 2 * all.count(); ++i) CHECK(all.only(i).count() == 1);
    CHECK(affinity_mask().count() == 0);
}
