// SPDX-License-Identifier: MIT
#include <weft/detail/base/clock.hpp>

#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>

using std::chrono::duration;
using std::chrono::nanoseconds;
using weft::detail::to_nanoseconds;

namespace {

using samples = duration<std::int64_t, std::ratio<1, 44'100>>;
using frames = duration<std::int64_t, std::ratio<1'001, 30'000>>;

}  // namespace

TEST_CASE("a duration whose period divides no nanosecond becomes nanoseconds without overflow",
          "[clock]") {
    CHECK(to_nanoseconds(samples(0)) == nanoseconds(0));
    CHECK(to_nanoseconds(samples(1)) == nanoseconds(22'675));
    CHECK(to_nanoseconds(samples(-1)) == nanoseconds(-22'675));
    CHECK(to_nanoseconds(samples(44'100)) == nanoseconds(1'000'000'000));
    // 262 days; the count times 10^9 has no room in 64 bits.
    CHECK(to_nanoseconds(samples(1'000'000'000'000)) == nanoseconds(22'675'736'961'451'247));
    CHECK(to_nanoseconds(samples(-1'000'000'000'000)) == nanoseconds(-22'675'736'961'451'247));
    CHECK(to_nanoseconds(frames(30'000)) == nanoseconds(1'001'000'000'000));
    CHECK(to_nanoseconds(frames(100'000'000'000)) == nanoseconds(3'336'666'666'666'666'666));
}

TEST_CASE("a duration that is no number of nanoseconds is saturated", "[clock]") {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    CHECK(to_nanoseconds(samples(most)) == nanoseconds::max());
    CHECK(to_nanoseconds(samples(std::numeric_limits<std::int64_t>::min())) == nanoseconds::min());
    CHECK(to_nanoseconds(std::chrono::hours(most)) == nanoseconds::max());
    CHECK(to_nanoseconds(std::chrono::hours::max()) == nanoseconds::max());
    CHECK(to_nanoseconds(duration<double>(1e300)) == nanoseconds::max());
    CHECK(to_nanoseconds(duration<double>(-1e300)) == nanoseconds::min());
    CHECK(to_nanoseconds(duration<double>(std::numeric_limits<double>::quiet_NaN())) ==
          nanoseconds::max());
}

TEST_CASE("durations of every representation become nanoseconds", "[clock]") {
    using namespace std::chrono_literals;
    CHECK(to_nanoseconds(5ms) == nanoseconds(5'000'000));
    CHECK(to_nanoseconds(123'456'789ns) == nanoseconds(123'456'789));
    CHECK(to_nanoseconds(-3h) == nanoseconds(-10'800'000'000'000));
    CHECK(to_nanoseconds(duration<double>(0.25)) == nanoseconds(250'000'000));
    CHECK(to_nanoseconds(duration<float, std::milli>(1.5F)) == nanoseconds(1'500'000));
    CHECK(to_nanoseconds(duration<unsigned char>(200)) == nanoseconds(200'000'000'000));
    using picoseconds = duration<std::uint64_t, std::pico>;
    CHECK(to_nanoseconds(picoseconds(std::numeric_limits<std::uint64_t>::max())) ==
          nanoseconds(18'446'744'073'709'551));
}
