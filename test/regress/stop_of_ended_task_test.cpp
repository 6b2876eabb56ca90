// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include "support/scale.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

// request_stop() and done() may be called while another thread awaits the handle. The task may have
// ended by then, and its control block may be the next task's, which must not be stopped.

namespace {

weft::task<> short_lived() {
    co_await weft::yield();
}
weft::task<> bystander() {
    for (int i = 0; i < 3; ++i) co_await weft::yield();
}

struct shared {
    std::atomic<weft::join_handle<void>*> target{nullptr};
    std::atomic<bool> over{false};
};

weft::task<std::size_t> spawn_and_join(std::vector<weft::join_handle<void>>& handles,
                                       shared& with) {
    std::size_t wrongly_stopped = 0;
    for (auto& handle : handles) {
        handle = weft::co_spawn(short_lived());
        with.target.store(&handle);
        static_cast<void>(co_await weft::as_result(handle));
        for (int i = 0; i < 4; ++i) {
            const auto result = co_await weft::as_result(weft::co_spawn(bystander()));
            if (!result) ++wrongly_stopped;
        }
    }
    with.over = true;
    co_return wrongly_stopped;
}

}  // namespace

TEST_CASE("a stop of a task that has ended never hits the next task of its block", "[regress]") {
    std::vector<weft::join_handle<void>> handles(weft::test::scaled_count(100'000, 5'000'000));
    shared with;
    std::size_t asked_too_early = 0;
    std::thread stopper([&] {
        while (!with.over) {
            if (auto* handle = with.target.load()) {
                const bool before = handle->done();
                handle->request_stop();
                // An end is never taken back, but an emptied handle has no task.
                if (before && !handle->done() && *handle) ++asked_too_early;
            }
        }
    });
    const std::size_t wrong = weft::run(spawn_and_join(handles, with), {.processors = 2});
    stopper.join();
    CHECK(wrong == 0);
    CHECK(asked_too_early == 0);
}
