// SPDX-License-Identifier: MIT
#include <weft/runtime.hpp>

#include "lib/sched/runtime_core.hpp"
#include "lib/sched/worker_thread.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/task_life.hpp>

#include <stdexcept>

namespace weft {

runtime::runtime(runtime_options options)
    : core_(new detail::runtime_core(std::move(options), false)) {}

runtime::~runtime() {
    shutdown();
    detail::runtime_core::dispose(core_);
}

void runtime::shutdown() {
    core_->check_not_forked();
    if (detail::current_worker_of(*core_) != nullptr) {
        detail::fatal(
            "a runtime was shut down or destroyed by one of its own tasks, which would "
            "wait for itself; do it on a thread outside, or let run() end by returning "
            "from the main task");
    }
    core_->begin_drain();
    core_->join();
}

runtime_statistics runtime::statistics() const {
    return core_->statistics();
}

void runtime::set_processors(unsigned count) {
    core_->set_processors(count);
}

namespace detail {

main_runtime::main_runtime(runtime_options options) : core_(nullptr) {
    if (current_worker() != nullptr) {
        throw std::logic_error(
            "weft: run was called inside a task, where it would stop every other "
            "task of that worker; co_await the task or co_spawn it");
    }
    core_ = new runtime_core(std::move(options), true);
}

main_runtime::~main_runtime() {
    runtime_core::dispose(core_);
}

task_control* main_runtime::run(std::coroutine_handle<> frame, std::source_location where) {
    task_control* main = nullptr;
    try {
        main = prepare_spawn({.runtime = core_, .name = "main", .stop_token = {}, .where = where});
    } catch (...) {
        destroy_refused(frame);
        core_->begin_drain();
        core_->run_caller();
        throw;
    }
    core_->run_main(*main, frame);
    return main;
}

bool main_runtime::deadlocked() const noexcept {
    return !core_->deadlock().empty();
}

void main_runtime::throw_deadlock() const {
    throw deadlock_error(core_->deadlock());
}

}  // namespace detail

namespace this_runtime {

namespace {

detail::runtime_core& here() {
    detail::worker* worker = detail::current_worker();
    if (worker == nullptr) {
        throw std::logic_error("weft: this_runtime was used on a thread that is no worker");
    }
    return worker->runtime();
}

}  // namespace

runtime_statistics statistics() {
    return here().statistics();
}

unsigned processors() {
    return here().processor_count();
}

void set_processors(unsigned count) {
    here().set_processors(count);
}

}  // namespace this_runtime

}  // namespace weft
