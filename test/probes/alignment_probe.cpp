// SPDX-License-Identifier: MIT
//
// Trap G12: the alignment of what lies in a frame.
#include "probe.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace weft::probe;

namespace {

int misaligned = 0;

template <std::size_t Alignment>
struct alignas(Alignment) aligned_object {
    unsigned char bytes[Alignment] = {};

    // Not inlined and by address, so that the compiler does not answer from the type.
    [[gnu::noinline]] void note() const {
        const void* here = this;
        asm volatile("" : "+r"(here));
        misaligned += reinterpret_cast<std::uintptr_t>(here) % Alignment != 0;
    }
};

template <std::size_t Alignment>
routine with_aligned_local(bool suspends) {
    const aligned_object<Alignment> before;
    before.note();
    observed = co_await give<int>(7, suspends);
    const aligned_object<Alignment> after;
    before.note();
    after.note();
}

template <std::size_t Alignment>
routine with_aligned_awaiter(bool suspends) {
    struct awaiter : aligned_object<Alignment> {
        explicit awaiter(bool its_suspends) : suspends(its_suspends) {}
        bool await_ready() const noexcept { return !suspends; }
        void await_suspend(std::coroutine_handle<>) const { this->note(); }
        void await_resume() const { this->note(); }
        bool suspends;
    };
    co_await awaiter(suspends);
    observed = 7;
}

template <std::size_t Alignment>
routine with_aligned_parameter(aligned_object<Alignment> parameter, bool suspends) {
    parameter.note();
    observed = co_await give<int>(7, suspends);
    parameter.note();
}

/// Many frames at once, with blocks of several sizes between them, so that their addresses differ.
template <class Make>
int misaligned_of(Make make) {
    misaligned = 0;
    std::vector<routine> frames;
    std::vector<std::unique_ptr<unsigned char[]>> between;
    for (std::size_t i = 0; i < 80; ++i) {
        frames.push_back(make(true));
        between.push_back(std::make_unique<unsigned char[]>(16 + 16 * (i % 5)));
        frames.back().resume();
    }
    for (routine& each : frames) each.resume();
    return misaligned;
}

template <std::size_t Alignment>
int misaligned_of_all() {
    return misaligned_of(with_aligned_local<Alignment>) +
           misaligned_of(with_aligned_awaiter<Alignment>) + misaligned_of([](bool suspends) {
               return with_aligned_parameter(aligned_object<Alignment>(), suspends);
           });
}

}  // namespace

TEST_CASE("G12: locals, awaiters and parameters are aligned to 16 bytes", "[G12]") {
    INFO("If this fails, objects of ordinary alignment are misaligned: not fit for weft.");
    static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= 16);
    CHECK(misaligned_of_all<1>() == 0);
    CHECK(misaligned_of_all<8>() == 0);
    CHECK(misaligned_of_all<16>() == 0);
}

TEST_CASE("G12: objects in a frame with more alignment than operator new gives", "[G12]") {
    INFO("weft refuses results and awaiters of such types; locals are the task's own matter.");
    // In a child: code that trusts an alignment may end with a signal.
    const auto fault =
        fault_in_child([] { return misaligned_of_all<32>() + misaligned_of_all<64>() == 0; });
    report_avoided("G12, over-aligned objects in frames", fault.empty() ? "" : "misaligned",
                   "results and awaiters are aligned to 16 at most; locals: allocate them");
    SUCCEED();
}
