// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::detail {

/// The cores that a thread may run on, of a machine of any size.
class affinity_mask {
public:
    /// Of the calling thread. Empty (count() == 0) where the system does not tell. Throws
    /// std::bad_alloc.
    static affinity_mask of_this_thread();

    std::uint32_t count() const noexcept;

    /// The mask that holds the core of this index in this one alone, counted from 0 and around the
    /// end. This one must not be empty.
    affinity_mask only(std::uint32_t index) const;

    /// For the calling thread, and those that it will start. False: refused, with errno.
    bool apply() const noexcept;

private:
    static constexpr std::size_t word_bits = 8 * sizeof(unsigned long);

    std::vector<unsigned long> words_;
};

}  // namespace weft::detail
