// SPDX-License-Identifier: MIT
//
// Where coroutine frames come from: a cache of free blocks for each worker, by size class.
//
// A block is freed where its task ended, which need not be where it was made. Each list is
// therefore bounded, and half of a full one moves to a list that all workers share, from which an
// empty one is filled again: spawning on one worker and ending on another goes in a circle instead
// of growing one of the caches for ever. The shared lists are bounded as well; what does not fit is
// freed.
//
// Sizes are always rounded up to their class, whether or not a cache is at hand, so that a block
// may be freed on any thread, and by code that was compiled with other options.
//
// In sanitizer builds the cache is off, so that AddressSanitizer sees every frame end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_FRAME_CACHE 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define WEFT_FRAME_CACHE 0
#endif
#endif
#ifndef WEFT_FRAME_CACHE
#define WEFT_FRAME_CACHE 1
#endif

namespace weft::detail {

/// The size classes: 16 bytes apart up to 256, 64 up to 1024, 256 up to 4096; above, the heap.
struct frame_classes {
    static constexpr std::size_t largest = 4096;
    static constexpr std::size_t count = 16 + 12 + 12;

    /// The class of a size from 1 to largest.
    static constexpr std::size_t index_of(std::size_t size) noexcept {
        if (size <= 256) {
            return (size + 15) / 16 - 1;
        }
        if (size <= 1024) {
            return 16 + (size - 256 + 63) / 64 - 1;
        }
        return 28 + (size - 1024 + 255) / 256 - 1;
    }
    static constexpr std::size_t size_of(std::size_t index) noexcept {
        if (index < 16) {
            return (index + 1) * 16;
        }
        if (index < 28) {
            return 256 + (index - 15) * 64;
        }
        return 1024 + (index - 27) * 256;
    }
    /// How many free blocks a worker keeps.
    static constexpr std::uint32_t limit_of(std::size_t index) noexcept {
        return index < 16 ? 256 : index < 28 ? 64 : 16;
    }
};

/// The free blocks of one worker. Only its thread touches them.
class frame_cache {
public:
    frame_cache() noexcept = default;
    frame_cache(const frame_cache&) = delete;
    frame_cache& operator=(const frame_cache&) = delete;
    /// Frees all blocks.
    ~frame_cache();

    void* allocate(std::size_t index) {
        list& from = lists_[index];
        if (block* taken = from.first; taken != nullptr) [[likely]] {
            from.first = taken->next;
            --from.count;
            return taken;
        }
        return refill(index);
    }

    void deallocate(void* memory, std::size_t index) noexcept {
        list& to = lists_[index];
        to.first = ::new (memory) block{to.first};
        if (++to.count >= frame_classes::limit_of(index)) [[unlikely]] {
            spill(index);
        }
    }

private:
    friend class shared_frames;
    struct block {
        block* next;
    };
    struct list {
        block* first = nullptr;
        std::uint32_t count = 0;
    };

    void* refill(std::size_t index);
    void spill(std::size_t index) noexcept;

    list lists_[frame_classes::count];
};

/// The cache of the worker that this thread is, or null. Read inline in frame allocation only: a
/// thread_local that is constant-initialised and of the initial-exec model is one load, and in
/// operator new and operator delete there is no suspension that it could be kept across.
extern constinit thread_local frame_cache* this_thread_frames [[gnu::tls_model("initial-exec")]];

/// Around a fork: the list that all workers share must not be in the middle of a change.
void lock_shared_frames() noexcept;
void unlock_shared_frames() noexcept;

inline void* allocate_frame(std::size_t size) {
    if (size > frame_classes::largest) {
        return ::operator new(size);
    }
    const std::size_t index = frame_classes::index_of(size);
#if WEFT_FRAME_CACHE
    if (frame_cache* cache = this_thread_frames; cache != nullptr) [[likely]] {
        return cache->allocate(index);
    }
#endif
    return ::operator new(frame_classes::size_of(index));
}

inline void deallocate_frame(void* memory, [[maybe_unused]] std::size_t size) noexcept {
#if WEFT_FRAME_CACHE
    if (size <= frame_classes::largest) {
        if (frame_cache* cache = this_thread_frames; cache != nullptr) [[likely]] {
            cache->deallocate(memory, frame_classes::index_of(size));
            return;
        }
    }
#endif
    ::operator delete(memory);
}

}  // namespace weft::detail
