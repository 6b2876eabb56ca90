// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace weft::detail {

/// A small random number generator for choices of the scheduler: xorshift64*, after Marsaglia and
/// Vigna. Not for anything that must not be guessed.
class random_source {
public:
    explicit random_source(std::uint64_t seed) noexcept
        : state_(seed * 0x9e3779b97f4a7c15ULL | 1U) {}

    std::uint32_t next() noexcept {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return static_cast<std::uint32_t>((state_ * 0x2545f4914f6cdd1dULL) >> 32);
    }

    /// A number below `limit`, which is not 0.
    std::uint32_t below(std::uint32_t limit) noexcept {
        return static_cast<std::uint32_t>((std::uint64_t{next()} * limit) >> 32);
    }

private:
    std::uint64_t state_;
};

}  // namespace weft::detail
