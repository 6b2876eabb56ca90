// SPDX-License-Identifier: MIT
#include "lib/base/affinity.hpp"

#include <sched.h>

#include <bit>

namespace weft::detail {

namespace {

cpu_set_t* as_set(unsigned long* words) noexcept {
    return reinterpret_cast<cpu_set_t*>(words);
}

}  // namespace

// The kernel refuses a mask that is smaller than its own, whose size it does not tell.
affinity_mask affinity_mask::of_this_thread() {
    affinity_mask mask;
    for (std::size_t bits = 1024; bits <= std::size_t{1} << 20; bits *= 2) {
        mask.words_.assign(bits / word_bits, 0);
        if (::sched_getaffinity(0, bits / 8, as_set(mask.words_.data())) == 0) {
            return mask;
        }
    }
    mask.words_.clear();
    return mask;
}

std::uint32_t affinity_mask::count() const noexcept {
    std::uint32_t sum = 0;
    for (const unsigned long word : words_) {
        sum += static_cast<std::uint32_t>(std::popcount(word));
    }
    return sum;
}

affinity_mask affinity_mask::only(std::uint32_t index) const {
    affinity_mask single;
    single.words_.assign(words_.size(), 0);
    std::uint32_t left = index % count();
    for (std::size_t i = 0; i < words_.size(); ++i) {
        for (unsigned long word = words_[i]; word != 0; word &= word - 1) {
            if (left-- == 0) {
                single.words_[i] = word & (~word + 1);
                return single;
            }
        }
    }
    return single;
}

bool affinity_mask::apply() const noexcept {
    const std::size_t bytes = words_.size() * sizeof(unsigned long);
    return ::sched_setaffinity(0, bytes, as_set(const_cast<unsigned long*>(words_.data()))) == 0;
}

}  // namespace weft::detail
