// SPDX-License-Identifier: MIT
#include "lib/sched/worker_registry.hpp"

#include "lib/sched/worker_thread.hpp"

#include <weft/detail/base/assert.hpp>

namespace weft::detail {

worker_registry::~worker_registry() {
    shrink(0);
}

void worker_registry::reserve(std::uint32_t count) {
    WEFT_ASSERT(count <= capacity);
    for (std::uint32_t block = 0; block * block_size < count; ++block) {
        if (blocks_[block] == nullptr) {
            blocks_[block] = std::make_unique<worker_thread*[]>(block_size);
        }
    }
}

void worker_registry::add(std::unique_ptr<worker_thread> added) noexcept {
    // Relaxed: only whoever adds changes it.
    const std::uint32_t at = size_.load(std::memory_order_relaxed);
    WEFT_ASSERT(blocks_[at / block_size] != nullptr && added->index() == at);
    blocks_[at / block_size][at % block_size] = added.release();
    // seq_cst, with release in it: see size().
    size_.store(at + 1, std::memory_order_seq_cst);
}

void worker_registry::shrink(std::uint32_t count) noexcept {
    for (std::uint32_t size = size_.load(std::memory_order_relaxed); size > count;) {
        --size;
        size_.store(size, std::memory_order_relaxed);
        delete blocks_[size / block_size][size % block_size];
    }
}

}  // namespace weft::detail
