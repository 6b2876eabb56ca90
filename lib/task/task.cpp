// SPDX-License-Identifier: MIT
#include <weft/task.hpp>

#include "lib/base/bounded_nesting.hpp"
#include "lib/sched/runtime_core.hpp"

#include <weft/detail/sched/worker.hpp>
#include <weft/detail/task/awaiter.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace weft::detail {

void throw_empty_task() {
    throw std::logic_error(
        "weft: an empty task was awaited or spawned: it was moved from, or "
        "awaited before; a task runs once");
}

namespace {

/// To the log of the runtime whose worker this thread is. Elsewhere no runtime is known.
void report_never_started([[maybe_unused]] const std::source_location& created) noexcept {
#ifndef NDEBUG
    if (destroys_refused()) { return; }
    std::array<char, 512> line;  // Longer names are cut; to report needs no memory.
    const auto written = fmt::format_to_n(
        line.data(), line.size(),
        "weft: debug: a task was destroyed without having run; it was made at {}:{} by {}; "
        "co_await it or give it to co_spawn",
        created.file_name(), created.line(), created.function_name());
    const std::string_view text(line.data(), std::min(written.size, line.size()));
    if (worker* const here = current_worker()) {
        here->runtime().log(text);
    } else {
        std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    }
#endif
}

/// An unstarted frame may hold another one among its arguments.
constinit thread_local bounded_nesting<std::coroutine_handle<>> destructions;

}  // namespace

void destroy_unstarted(std::coroutine_handle<> frame) noexcept {
    report_never_started(as_base(frame).promise().location_);
    // A frame that was never started awaits nothing and is awaited by nobody, so its link can name
    // the next one.
    destructions.end(
        frame, [](std::coroutine_handle<> now) { now.destroy(); },
        [](std::coroutine_handle<> kept, std::coroutine_handle<> next) {
            as_base(kept).promise().link_ = static_cast<await_link*>(next.address());
        },
        [](std::coroutine_handle<> kept) {
            return std::coroutine_handle<>::from_address(as_base(kept).promise().link_);
        });
}

std::error_code stopped_code(operation_outcome outcome) noexcept {
    return std::make_error_code(outcome == operation_outcome::late ? std::errc::timed_out
                                                                   : std::errc::operation_canceled);
}

void throw_stopped(operation_outcome outcome) {
    throw std::system_error(stopped_code(outcome));
}

}  // namespace weft::detail
