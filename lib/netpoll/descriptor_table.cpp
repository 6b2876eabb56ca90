// SPDX-License-Identifier: MIT
#include "lib/netpoll/descriptor_table.hpp"

#include <new>

namespace weft::detail {

constinit descriptor_table descriptors;

poll_descriptor* descriptor_table::take() noexcept {
    for (;;) {
        lock_.lock();
        poll_descriptor* const taken = free_;
        if (taken != nullptr) {
            free_ = taken->next_free_;
            --free_count_;
        }
        lock_.unlock();
        if (taken != nullptr) return taken;
        if (!grow()) return nullptr;
    }
}

void descriptor_table::give_back(poll_descriptor& unused) noexcept {
    lock_.lock();
    unused.next_free_ = free_;
    free_ = &unused;
    ++free_count_;
    lock_.unlock();
}

std::uint32_t descriptor_table::free_count() noexcept {
    lock_.lock();
    const std::uint32_t count = free_count_;
    lock_.unlock();
    return count;
}

void descriptor_table::lock() noexcept {
    growth_.lock();
    lock_.lock();
}
void descriptor_table::unlock() noexcept {
    lock_.unlock();
    growth_.unlock();
}

bool descriptor_table::grow() noexcept {
    const std::lock_guard guard(growth_);
    if (free_count() > 0) return true;  // Somebody was faster.
    const std::uint32_t first = size_.load(std::memory_order_relaxed);
    const unsigned chunk =
        static_cast<unsigned>(std::bit_width(first + first_chunk) - 1) - first_chunk_bits;
    if (chunk == chunk_count) return false;
    const std::uint32_t count = first_chunk << chunk;
    auto* const slots = new (std::nothrow) poll_descriptor[count];
    if (slots == nullptr) return false;
    for (std::uint32_t i = 0; i < count; ++i) slots[i].place(first + i);
    // Release pairs with at() and size().
    chunks_[chunk].store(slots, std::memory_order_release);
    size_.store(first + count, std::memory_order_release);
    // Backwards, so that the lowest number is taken first.
    for (std::uint32_t i = count; i > 0; --i) give_back(slots[i - 1]);
    return true;
}

}  // namespace weft::detail
