// SPDX-License-Identifier: MIT
//
// Memory for frames that tells whether a freed frame is written to. A freed frame is filled with a
// pattern and kept until it has been looked at; under AddressSanitizer it is also poisoned, which
// finds reads as well.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_PROBE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_PROBE_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef WEFT_PROBE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace weft::probe {

class quarantine {
public:
    void* allocate(std::size_t size) { return ::operator new(size); }

    void free(void* frame, std::size_t size) noexcept {
        std::memset(frame, pattern, size);
#ifdef WEFT_PROBE_ADDRESS_SANITIZER
        __asan_poison_memory_region(frame, size);
#endif
        freed_.push_back({static_cast<unsigned char*>(frame), size});
    }

    /// How many bytes of freed frames have changed since. Empties the quarantine.
    std::size_t bytes_changed() {
        std::size_t changed = 0;
        for (const block& each : freed_) {
#ifdef WEFT_PROBE_ADDRESS_SANITIZER
            __asan_unpoison_memory_region(each.begin, each.size);
#endif
            for (std::size_t i = 0; i < each.size; ++i) changed += each.begin[i] != pattern;
            ::operator delete(each.begin);
        }
        freed_.clear();
        return changed;
    }

    std::size_t frames() const noexcept { return freed_.size(); }

private:
    static constexpr unsigned char pattern = 0xdd;

    struct block {
        unsigned char* begin;
        std::size_t size;
    };

    std::vector<block> freed_;
};

inline quarantine freed_frames;

/// A promise that derives from this has its frame in the quarantine.
struct quarantined {
    static void* operator new(std::size_t size) { return freed_frames.allocate(size); }
    static void operator delete(void* frame, std::size_t size) noexcept {
        freed_frames.free(frame, size);
    }
};

}  // namespace weft::probe
