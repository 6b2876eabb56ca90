// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/random.hpp>

#include <cstdint>
#include <numeric>

namespace weft::detail {

/// The order in which a thief visits the processors: each of them once, from a random one on in
/// steps of random width. A width without a common divisor with their number passes none twice
/// before it has passed all. These are not all permutations, but each processor is equally often in
/// each place. Source: `randomOrder` of Go's proc.go.
class victim_order {
public:
    /// `count` is not 0.
    victim_order(random_source& random, std::uint32_t count) noexcept
        : count_(count), left_(count), step_(random.below(count) + 1), at_(random.below(count)) {
        while (std::gcd(step_, count_) != 1) {
            step_ = random.below(count_) + 1;
        }
    }

    bool over() const noexcept { return left_ == 0; }

    /// The next one, unless it is over.
    std::uint32_t next() noexcept {
        const std::uint32_t visited = at_;
        --left_;
        at_ = (at_ + step_) % count_;
        return visited;
    }

private:
    std::uint32_t count_;
    std::uint32_t left_;
    std::uint32_t step_;
    std::uint32_t at_;
};

}  // namespace weft::detail
