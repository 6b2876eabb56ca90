// SPDX-License-Identifier: MIT
#include "lib/task/suppressed.hpp"

#include "lib/sched/runtime_core.hpp"

#include <weft/detail/branch/operation.hpp>
#include <weft/detail/task/awaiter.hpp>

#include <string_view>
#include <system_error>
#include <utility>

namespace weft::detail {

bool comes_from_stop(const branch& of, const std::exception_ptr& failure) noexcept {
    if (!of.word.stop_requested()) { return false; }
    try {
        std::rethrow_exception(failure);
    } catch (const std::system_error& error) {
        return error.code() == stopped_code(stop_outcome(of));
    } catch (...) { return false; }
}

void report_suppressed_failure(const branch& of, std::exception_ptr failure) noexcept {
    if (comes_from_stop(of, failure)) { return; }
    const task_control& task = *of.owner;
    task.runtime().report_failure(
        {.task_id = task.id,
         .task_name = task.extras != nullptr ? std::string_view(task.extras->name) : "",
         .spawn_site = task.spawn_site,
         .exception = std::move(failure),
         .suppressed = true});
}

}  // namespace weft::detail
