// SPDX-License-Identifier: MIT
#include <weft/detail/sched/promise.hpp>

namespace weft::detail {

namespace {

constinit thread_local unsigned refused_depth = 0;

}  // namespace

void destroy_refused(std::coroutine_handle<> frame) noexcept {
    ++refused_depth;
    frame.destroy();
    --refused_depth;
}

bool destroys_refused() noexcept {
    return refused_depth != 0;
}

void destroy_chain(std::coroutine_handle<> innermost) noexcept {
    std::coroutine_handle<> frame = innermost;
    while (frame != nullptr) {
        await_link* link = as_base(frame).promise().link_;
        std::coroutine_handle<> awaiting = nullptr;
        if (link != nullptr) {
            awaiting = link->parent;
            link->child = nullptr;  // The awaiting frame must not destroy it again.
        }
        frame.destroy();
        frame = awaiting;
    }
}

}  // namespace weft::detail
