// SPDX-License-Identifier: MIT
#include <weft/detail/task/blocking_operation.hpp>

#include "lib/sched/runtime_core.hpp"

#include <weft/detail/base/assert.hpp>
#include <weft/detail/sched/task_control.hpp>
#include <weft/detail/sched/worker.hpp>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace weft::detail {

namespace {

[[noreturn]] void throw_saturated() {
    throw std::system_error(EBUSY, std::generic_category(),
                            "weft: all threads of blocking() are busy, and the call may not wait; "
                            "see runtime_options::blocking_threads and blocking_queue");
}

std::system_error no_thread() {
    return std::system_error(EAGAIN, std::generic_category(),
                             "weft: blocking_detached() cannot start its first thread; raise the "
                             "limit on threads (ulimit -u), or try again later");
}

}  // namespace

bool blocking_operation::start(branch& waiter) noexcept {
    if (!prepare_park(waiter, *this)) { return true; }
    runtime_core& runtime = waiter.current->runtime();
    // Whatever becomes of the call, nobody resumes the branch before park() has suspended it.
    if (runtime.blocking.submit(*this, waits_) == submission::waits) {
        runtime.watch_blocking(*waiter.current);
    }
    return park(waiter, *this);
}

bool blocking_operation::unlink() noexcept {
    blocking_pool& pool = waiter()->owner->runtime().blocking;
    if (pool.withdraw(*this)) { return true; }
    // A machine has it. The canceller has not let go yet, so the frame is still there. Callbacks on
    // the token are no business of this thread.
    if (std::shared_ptr<stop_order> order = stop()) { pool.request_stop(std::move(order)); }
    return false;
}

void blocking_operation::run() noexcept {
    if (const std::shared_ptr<stop_order> order = stop()) {
        if (!waiter()->owner->runtime().blocking.prepare_stops()) { return refuse(EAGAIN); }
        // It is stopped already, and has no callbacks yet. seq_cst: see stop_messenger.hpp.
        if (order->wanted.load(std::memory_order_seq_cst)) { order->source.request_stop(); }
    }
    invoke();
    finish();
}

void blocking_operation::refuse(int error) noexcept {
    refusal_ = error;
    finish();
}

void blocking_operation::finish() noexcept {
    branch* waiting = waiter();
    if (waiting->word.complete()) { make_ready(waiting); }
}

void blocking_operation::throw_if_refused() const {
    if (refusal_ == 0) [[likely]] { return; }
    if (refusal_ == EAGAIN) {
        throw std::system_error(refusal_, std::generic_category(),
                                "weft: blocking() cannot start its first thread, or the one that "
                                "stops calls; raise the limit on threads (ulimit -u)");
    }
    if (refusal_ == EBUSY) { throw_saturated(); }
    throw std::system_error(refusal_, std::generic_category(), "weft: blocking() was refused");
}

void detached_call::run() noexcept {
    const std::unique_ptr<detached_call> self(this);
    std::string what = "an exception that is no std::exception";
    try {
        invoke();
        return;
    } catch (const std::exception& error) { what = error.what(); } catch (...) {}
    // The runtime, and with it its handler, may have ended.
    fatal("an exception left a function that was given to blocking_detached: " + what +
          "; catch it in the function");
}

// With EAGAIN on a worker of its runtime, inside the submit() of another call (blocking_pool.hpp).
void detached_call::refuse(int error) noexcept {
    const std::unique_ptr<detached_call> self(this);
    if (error != EAGAIN) { return; }  // The runtime ends, and leaves it behind.
    const auto& on_failure = current_worker()->runtime().options().on_failure;
    if (!on_failure) {
        fatal(
            "a call of blocking_detached() was queued, and no thread is left for it; raise the "
            "limit on threads (ulimit -u), or set runtime_options::on_failure");
    }
    on_failure({.task_id = task_id_,
                .task_name = {},
                .spawn_site = spawn_site_,
                .exception = std::make_exception_ptr(no_thread())});
}

void submit_detached(std::unique_ptr<detached_call> call) {
    worker* here = current_worker();
    if (here == nullptr) {
        throw std::logic_error(
            "weft: blocking_detached was called on a thread that is no worker; call it in a task");
    }
    runtime_core& runtime = here->runtime();
    call->hold(runtime_hold(runtime));
    if (const branch* caller = here->running()) {
        call->made_by(caller->owner->id, caller->owner->spawn_site);
    }
    detached_call* const given = call.release();
    switch (runtime.blocking.submit(*given)) {
        case submission::placed:
            break;
        case submission::waits:
            runtime.watch_blocking(*here);
            break;
        case submission::full:
            call.reset(given);
            throw_saturated();
        case submission::no_thread:
            call.reset(given);
            throw no_thread();
    }
}

}  // namespace weft::detail
