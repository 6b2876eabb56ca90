// SPDX-License-Identifier: MIT
#include <weft/task.hpp>

#include <weft/detail/task/awaiter.hpp>

#include <cstdio>
#include <stdexcept>
#include <system_error>

namespace weft::detail {

void throw_empty_task() {
    throw std::logic_error(
        "weft: an empty task was awaited or spawned: it was moved from, or "
        "awaited before; a task runs once");
}

namespace {

void report_never_started([[maybe_unused]] const std::source_location& created) noexcept {
#ifndef NDEBUG
    std::fprintf(stderr,
                 "weft: debug: a task was destroyed without having run; it was made by %s (%s:%u); "
                 "co_await it or give it to co_spawn\n",
                 created.function_name(), created.file_name(),
                 static_cast<unsigned>(created.line()));
#endif
}

/// The destructions of unstarted frames that run inside each other on this thread.
struct nested_destructions {
    int depth = 0;
    /// Frames that are too deep to be destroyed now. A frame that was never started awaits nothing
    /// and is awaited by nobody, so its link can name the next one.
    std::coroutine_handle<> kept;
};
constinit thread_local nested_destructions destructions;

}  // namespace

void destroy_unstarted(std::coroutine_handle<> frame) noexcept {
    constexpr int deepest = 64;
    promise_base& promise = as_base(frame).promise();
    report_never_started(promise.location_);
    nested_destructions& here = destructions;
    if (here.depth == deepest) {
        promise.link_ = static_cast<await_link*>(here.kept.address());
        here.kept = frame;
        return;
    }
    ++here.depth;
    frame.destroy();
    // Those that lie deeper were kept by the frames above them; the outermost call has room again.
    while (here.depth == 1 && here.kept != nullptr) {
        const std::coroutine_handle<> next = here.kept;
        here.kept = std::coroutine_handle<>::from_address(as_base(next).promise().link_);
        next.destroy();
    }
    --here.depth;
}

std::error_code stopped_code(operation_outcome outcome) noexcept {
    return std::make_error_code(outcome == operation_outcome::late ? std::errc::timed_out
                                                                   : std::errc::operation_canceled);
}

void throw_stopped(operation_outcome outcome) {
    throw std::system_error(stopped_code(outcome));
}

}  // namespace weft::detail
