// SPDX-License-Identifier: MIT
#include <weft/this_task.hpp>

#include <weft/detail/sched/task_control.hpp>
#include <weft/detail/sched/worker.hpp>

#include <stdexcept>

namespace weft::this_task {

namespace {

detail::branch& running_branch() {
    detail::worker* here = detail::current_worker();
    if (here == nullptr || here->running() == nullptr) {
        throw std::logic_error("weft: this_task was used where no task runs");
    }
    return *here->running();
}

}  // namespace

std::uint64_t id() {
    return running_branch().owner->id;
}

std::string_view name() {
    const detail::task_extras* extras = running_branch().owner->extras;
    return extras == nullptr ? std::string_view{} : std::string_view(extras->name);
}

std::source_location spawn_site() {
    return running_branch().owner->spawn_site;
}

bool stop_requested() {
    return running_branch().word.stop_requested();
}

}  // namespace weft::this_task
