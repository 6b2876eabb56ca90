// SPDX-License-Identifier: MIT
#pragma once

#include "lib/netpoll/system_calls.hpp"

#include <weft/detail/netpoll/netpoller.hpp>

#include <cerrno>
#include <cstddef>
#include <utility>

#include <sys/mman.h>

namespace weft::detail {

/// A part of the memory that a ring shares with the kernel.
class ring_mapping {
public:
    ring_mapping() noexcept = default;
    ring_mapping(const ring_mapping&) = delete;
    ring_mapping& operator=(const ring_mapping&) = delete;
    ~ring_mapping() { unmap(); }

    /// Maps the part of the ring `fd` that io_uring names by `part`.
    start_result map(int fd, std::size_t size, off_t part) noexcept {
        void* const mapped =
            sys().mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, part);
        if (mapped == MAP_FAILED) return {errno, "mapping the ring"};
        memory_ = static_cast<std::byte*>(mapped);
        size_ = size;
        // A child without exec must not see a ring that belongs to a thread of its parent.
        if (sys().madvise(mapped, size, MADV_DONTFORK) != 0) {
            return {errno, "excluding the ring from fork"};
        }
        return {};
    }

    /// It cannot fail: the range is one that mmap gave.
    void unmap() noexcept {
        if (std::byte* const mapped = std::exchange(memory_, nullptr)) {
            sys().munmap(mapped, size_);
        }
    }

    /// What lies there.
    template <class Value>
    Value* at(std::size_t offset) const noexcept {
        return reinterpret_cast<Value*>(memory_ + offset);
    }

private:
    std::byte* memory_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace weft::detail
