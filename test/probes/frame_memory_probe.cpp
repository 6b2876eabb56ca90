// SPDX-License-Identifier: MIT
//
// Traps A1 and A2, and sized delete: how the compiler gets and returns the memory of a frame.
#include "probe.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>

using namespace weft::probe;

namespace {

// Sized delete.

std::map<void*, std::size_t> frame_sizes;
int wrong_sizes = 0;

void* allocate_noting_size(std::size_t size) {
    void* frame = ::operator new(size);
    frame_sizes[frame] = size;
    return frame;
}

void free_checking_size(void* frame, std::size_t size) noexcept {
    const auto found = frame_sizes.find(frame);
    if (found == frame_sizes.end() || found->second != size) ++wrong_sizes;
    frame_sizes.erase(frame);
    ::operator delete(frame);
}

struct sized_promise : basic_promise<sized_promise> {
    static void* operator new(std::size_t size) { return allocate_noting_size(size); }
    static void operator delete(void* frame, std::size_t size) noexcept {
        free_checking_size(frame, size);
    }
};

template <std::size_t Size>
owner<sized_promise> frame_with_local(bool suspends) {
    volatile unsigned char local[Size];
    local[0] = 1;
    co_await give<int>(0, suspends);
    local[Size - 1] = local[0];
}

template <std::size_t Size>
void check_sized_delete() {
    for (const bool runs : {false, true}) {
        auto made = frame_with_local<Size>(true);
        auto ended = frame_with_local<Size>(false);
        if (!runs) continue;
        made.handle().resume();
        ended.handle().resume();
    }
    CHECK(frame_sizes.empty());
    CHECK(wrong_sizes == 0);
}

// A1: memory from an allocator that is passed to the coroutine.

struct counting_allocator {
    int given = 0;
    int taken = 0;
};

/// The allocator's address is stored behind the frame, where its size says, as weft stores what
/// belongs to frames of tasks with a memory limit.
struct allocating_promise : basic_promise<allocating_promise> {
    static void* allocate(std::size_t size, counting_allocator* from) {
        auto* frame = static_cast<unsigned char*>(::operator new(size + sizeof from));
        std::memcpy(frame + size, &from, sizeof from);
        if (from != nullptr) ++from->given;
        return frame;
    }

    static void* operator new(std::size_t size) { return allocate(size, nullptr); }
    template <class... Rest>
    static void* operator new(std::size_t size, std::allocator_arg_t, counting_allocator& from,
                              const Rest&...) {
        return allocate(size, &from);
    }
    /// For member functions, and for lambdas where the compiler passes the closure.
    template <class Self, class... Rest>
    static void* operator new(std::size_t size, const Self&, std::allocator_arg_t,
                              counting_allocator& from, const Rest&...) {
        return allocate(size, &from);
    }
    static void operator delete(void* frame, std::size_t size) noexcept {
        counting_allocator* from = nullptr;
        std::memcpy(&from, static_cast<unsigned char*>(frame) + size, sizeof from);
        if (from != nullptr) ++from->taken;
        ::operator delete(frame);
    }
};

owner<allocating_promise> allocated_function(std::allocator_arg_t, counting_allocator&, int) {
    co_await give<int>(0, true);
}

owner<allocating_promise> allocated_without_allocator(int) {
    co_await give<int>(0, true);
}

struct with_member {
    owner<allocating_promise> allocated_member(std::allocator_arg_t, counting_allocator&,
                                               int) const {
        co_await give<int>(number, true);
    }
    int number = 0;
};

// A2: no memory.

struct refusing_promise : basic_promise<refusing_promise> {
    static owner<refusing_promise> get_return_object_on_allocation_failure() noexcept {
        ++reported;
        return {};
    }
    static void* operator new(std::size_t size) noexcept {
        return refuses ? nullptr : std::malloc(size);
    }
    static void operator delete(void* frame, std::size_t) noexcept { std::free(frame); }

    static inline bool refuses = false;
    static inline int reported = 0;
};

owner<refusing_promise> with_parameters(tracked by_value, tracked& by_reference) {
    observed = by_value.value() + by_reference.value();
    co_return;
}

}  // namespace

TEST_CASE("the size that a frame's delete gets is the size that its new got") {
    INFO("If this fails, weft's frame cache files frames under wrong sizes: not fit for weft.");
    check_sized_delete<1>();
    check_sized_delete<100>();
    check_sized_delete<1000>();
    check_sized_delete<100000>();
}

TEST_CASE("A1: an allocator among the parameters reaches operator new", "[A1]") {
    INFO("If this fails, limits on the memory of a task miss some of its frames.");
    counting_allocator allocator;
    {
        auto made = allocated_function(std::allocator_arg, allocator, 1);
        CHECK(allocator.given == 1);
        auto plain = allocated_without_allocator(1);
        CHECK(allocator.given == 1);
    }
    CHECK(allocator.taken == 1);
    {
        const with_member object;
        auto made = object.allocated_member(std::allocator_arg, allocator, 1);
        made.handle().resume();
    }
    CHECK(allocator.given == 2);
    CHECK(allocator.taken == 2);
    {
        // GCC passes the closure before the parameters, clang does not; both are declared.
        int captured = 3;
        const auto capturing = [captured](std::allocator_arg_t, counting_allocator&,
                                          int) -> owner<allocating_promise> {
            co_await give<int>(captured, true);
        };
        const auto plain = [](std::allocator_arg_t, counting_allocator&,
                              int) -> owner<allocating_promise> { co_await give<int>(0, true); };
        auto first = capturing(std::allocator_arg, allocator, 1);
        auto second = plain(std::allocator_arg, allocator, 1);
        first.handle().resume();
    }
    CHECK(allocator.given == 4);
    CHECK(allocator.taken == 4);
}

TEST_CASE("A2: a coroutine whose frame cannot be had says so and loses no parameter", "[A2]") {
    INFO("If this fails, weft cannot report a lack of memory as an error of the task.");
    live_objects.close();
    refusing_promise::reported = 0;
    for (const bool refuses : {true, false}) {
        refusing_promise::refuses = refuses;
        observed = 0;
        {
            tracked by_reference(3);
            auto made = with_parameters(tracked(4), by_reference);
            CHECK(static_cast<bool>(made.handle()) == !refuses);
            if (made.handle()) made.handle().resume();
        }
        CHECK(observed == (refuses ? 0 : 7));
        CHECK(refusing_promise::reported == 1);
        CHECK(live_objects.close() == "");
    }
}
