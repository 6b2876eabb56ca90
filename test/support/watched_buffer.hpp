// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_TEST_CAN_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_TEST_CAN_POISON 1
#endif
#endif
#ifdef WEFT_TEST_CAN_POISON
#include <sanitizer/asan_interface.h>
#endif

namespace weft::test {

/// A buffer on pages of its own that stands for memory which its user frees after an operation has
/// ended. From retire() on, a thread that touches it gets SIGSEGV, a system call that is given it
/// EFAULT, AddressSanitizer reports it, and a write of the kernel that needs no page table (into
/// pages that were pinned before) changes its contents.
class watched_buffer {
public:
    explicit watched_buffer(std::size_t size) : size_(size) {
        void* const memory =
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        memory_ = static_cast<std::byte*>(memory);
    }
    watched_buffer(const watched_buffer&) = delete;
    watched_buffer& operator=(const watched_buffer&) = delete;
    ~watched_buffer() {
        open();
        ::munmap(memory_, size_);
    }

    std::span<std::byte> bytes() const noexcept { return {memory_, size_}; }

    /// The memory now belongs to somebody else.
    void retire() noexcept {
        if (retired_) return;
        retired_ = true;
        std::memset(memory_, mark, size_);
#ifdef WEFT_TEST_CAN_POISON
        ASAN_POISON_MEMORY_REGION(memory_, size_);
#endif
        ::mprotect(memory_, size_, PROT_NONE);
    }

    bool retired() const noexcept { return retired_; }

    /// Ends the watch. Is everything as retire() has left it?
    bool untouched() noexcept {
        if (!retired_) return false;
        open();
        for (const std::byte each : bytes()) {
            if (each != std::byte{mark}) return false;
        }
        return true;
    }

private:
    static constexpr unsigned char mark = 0xa5;

    void open() noexcept {
        if (!retired_) return;
        retired_ = false;
        ::mprotect(memory_, size_, PROT_READ | PROT_WRITE);
#ifdef WEFT_TEST_CAN_POISON
        ASAN_UNPOISON_MEMORY_REGION(memory_, size_);
#endif
    }

    std::byte* memory_ = nullptr;
    std::size_t size_;
    bool retired_ = false;
};

}  // namespace weft::test
