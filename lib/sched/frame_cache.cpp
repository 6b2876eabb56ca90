// SPDX-License-Identifier: MIT
#include <weft/detail/sched/frame_cache.hpp>

#include <array>
#include <mutex>
#include <type_traits>

namespace weft::detail {

constinit thread_local frame_cache* this_thread_frames [[gnu::tls_model("initial-exec")]] = nullptr;

/// Free blocks between two workers, in batches of half a list. A mutex is enough: it is taken once
/// for each half list.
class shared_frames {
public:
    using block = frame_cache::block;

    /// A batch of the class, or null.
    block* take(std::size_t index) noexcept {
        const std::lock_guard held(mutex_);
        auto& of_class = batches_[index];
        return of_class.count == 0 ? nullptr : of_class.items[--of_class.count];
    }

    /// False: full, the caller frees the batch.
    bool give(std::size_t index, block* batch) noexcept {
        const std::lock_guard held(mutex_);
        auto& of_class = batches_[index];
        if (of_class.count == of_class.items.size()) {
            return false;
        }
        of_class.items[of_class.count++] = batch;
        return true;
    }

    void lock() noexcept { mutex_.lock(); }
    void unlock() noexcept { mutex_.unlock(); }

    static void free(block* batch) noexcept {
        while (batch != nullptr) {
            block* next = batch->next;
            ::operator delete(batch);
            batch = next;
        }
    }

private:
    struct of_class {
        std::array<block*, 64> items{};
        std::size_t count = 0;
    };
    std::mutex mutex_;
    std::array<of_class, frame_classes::count> batches_{};
};

namespace {

/// Never destroyed, since a static object may end a runtime, or free a frame, later than any other
/// one; what it holds then goes with the process.
constinit shared_frames shared;

}  // namespace

static_assert(std::is_trivially_destructible_v<shared_frames>);

void lock_shared_frames() noexcept {
    shared.lock();
}
void unlock_shared_frames() noexcept {
    shared.unlock();
}

frame_cache::~frame_cache() {
    for (list& each : lists_) {
        shared_frames::free(each.first);
    }
}

[[gnu::hot]]
void* frame_cache::refill(std::size_t index) {
    block* batch = shared.take(index);
    if (batch == nullptr) {
        return ::operator new(frame_classes::size_of(index));
    }
    list& to = lists_[index];
    to.first = batch->next;
    to.count = frame_classes::limit_of(index) / 2 - 1;
    return batch;
}

[[gnu::hot]]
void frame_cache::spill(std::size_t index) noexcept {
    list& from = lists_[index];
    const std::uint32_t half = frame_classes::limit_of(index) / 2;
    block* batch = from.first;
    block* last = batch;
    for (std::uint32_t i = 1; i < half; ++i) {
        last = last->next;
    }
    from.first = last->next;
    from.count -= half;
    last->next = nullptr;
    if (!shared.give(index, batch)) {
        shared_frames::free(batch);
    }
}

}  // namespace weft::detail
