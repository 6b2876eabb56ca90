// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace echo {

/// Counts durations in buckets whose width grows with the value: exact below 64, and from there
/// on 64 buckets for each power of two, so that a quantile is wrong by less than 1.6 %.
class histogram {
public:
    void record(std::uint64_t value) {
        ++buckets_[index_of(value)];
        ++count_;
    }

    void clear() {
        buckets_.fill(0);
        count_ = 0;
    }

    std::uint64_t count() const { return count_; }

    /// The smallest value of the bucket in which `fraction` of all recorded values is reached;
    /// 0 where nothing was recorded.
    std::uint64_t quantile(double fraction) const {
        const auto wanted = static_cast<std::uint64_t>(fraction * static_cast<double>(count_));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < buckets_.size(); ++i) {
            seen += buckets_[i];
            if (seen > wanted) return value_of(i);
        }
        return 0;
    }

private:
    static constexpr unsigned bits = 6;
    static constexpr std::uint64_t steps = std::uint64_t{1} << bits;

    static std::size_t index_of(std::uint64_t value) {
        if (value < steps) return value;
        const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - bits - 1;
        return (shift + 1) * steps + ((value >> shift) - steps);
    }

    static std::uint64_t value_of(std::size_t index) {
        if (index < steps) return index;
        const std::size_t shift = index / steps - 1;
        return (steps + index % steps) << shift;
    }

    std::array<std::uint64_t, (64 - bits + 1) * steps> buckets_{};
    std::uint64_t count_ = 0;
};

}  // namespace echo
