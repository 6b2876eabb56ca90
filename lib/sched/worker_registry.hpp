// SPDX-License-Identifier: MIT
#pragma once

#include "lib/base/environment.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace weft::detail {

class worker_thread;

/// The workers of a runtime, with a processor or without. Any thread reads; one at a time adds.
/// They are added while others read, so a place never moves and a worker never goes before the
/// runtime does: the places come in blocks, and the size is published after them.
class worker_registry {
public:
    /// Compensating workers come on top of the processors.
    static constexpr std::uint32_t capacity = 2 * largest_processor_count;

    worker_registry() noexcept = default;
    worker_registry(const worker_registry&) = delete;
    worker_registry& operator=(const worker_registry&) = delete;
    ~worker_registry();

    /// seq_cst: a worker that parks looks into the queues of all that this says, and the sentinel
    /// into their heaps. A worker that it misses publishes after the look began, so its later load
    /// of the counts, or of the sentinel's deadline, sees the looker. Acquire is part of it and
    /// pairs with add().
    std::uint32_t size() const noexcept { return size_.load(std::memory_order_seq_cst); }

    worker_thread& operator[](std::uint32_t index) const noexcept {
        return *blocks_[index / block_size][index % block_size];
    }

    template <class Function>
    void for_each(Function&& function) const {
        for (std::uint32_t i = 0, count = size(); i < count; ++i) {
            function((*this)[i]);
        }
    }

    /// Makes room for so many in all, at most the capacity. Throws std::bad_alloc.
    void reserve(std::uint32_t count);

    /// There is room for it.
    void add(std::unique_ptr<worker_thread> added) noexcept;

    /// Before any worker runs: only the first ones stay.
    void shrink(std::uint32_t count) noexcept;

private:
    static constexpr std::uint32_t block_size = 64;

    std::array<std::unique_ptr<worker_thread*[]>, capacity / block_size> blocks_;
    std::atomic<std::uint32_t> size_{0};
};

}  // namespace weft::detail
