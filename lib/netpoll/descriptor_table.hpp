// SPDX-License-Identifier: MIT
//
// The slots of all descriptors of the process. They are made in chunks, each twice as big as the
// one before, used again and never freed: a stale name or a late event always finds a descriptor,
// whose words tell that it lives another life. One table serves all runtimes, so that a stream may
// outlive its runtime and be used in the next one.
//
// Free slots are in a list, last in first out. It is guarded by a spin lock and not by a
// compare-and-swap loop, whose classic fault (the head is taken and put back between load and swap)
// would need a counter; an open and a close cost several microseconds of system calls anyway.
#pragma once

#include <weft/detail/base/spin_lock.hpp>

#include "lib/netpoll/poll_descriptor.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace weft::detail {

class descriptor_table {
public:
    constexpr descriptor_table() noexcept = default;

    /// A slot nobody uses. Null: no memory, or 2^26 slots are in use.
    poll_descriptor* take() noexcept;
    void give_back(poll_descriptor& unused) noexcept;

    /// The slot of that number, which has been handed out before.
    poll_descriptor& at(std::uint32_t slot) const noexcept {
        const std::uint32_t position = slot + first_chunk;
        const unsigned chunk = static_cast<unsigned>(std::bit_width(position) - 1);
        // Acquire pairs with grow(): the slots of the chunk are constructed.
        poll_descriptor* const slots =
            chunks_[chunk - first_chunk_bits].load(std::memory_order_acquire);
        return slots[position - (std::uint32_t{1} << chunk)];
    }
    poll_record& record(record_ref ref) const noexcept {
        const record_ref value = ref - 1;
        return at(value >> 2).sides_[(value >> 1) & 1].record(value & 1);
    }

    /// How many slots there are; those below the number can be looked at.
    std::uint32_t size() const noexcept { return size_.load(std::memory_order_acquire); }
    /// Both locks, held over a fork.
    void lock() noexcept;
    void unlock() noexcept;

    /// For tests: how many of them are free.
    std::uint32_t free_count() noexcept;

private:
    static constexpr unsigned first_chunk_bits = 6;
    static constexpr std::uint32_t first_chunk = std::uint32_t{1} << first_chunk_bits;
    static constexpr std::size_t chunk_count = slot_bits - first_chunk_bits;

    bool grow() noexcept;

    std::array<layer::atomic<poll_descriptor*>, chunk_count> chunks_{};
    layer::atomic<std::uint32_t> size_{0};
    std::mutex growth_;  ///< One thread makes a chunk; the others wait for it.
    spin_lock<layer> lock_;
    poll_descriptor* free_ = nullptr;
    std::uint32_t free_count_ = 0;
};

extern descriptor_table descriptors;

}  // namespace weft::detail
