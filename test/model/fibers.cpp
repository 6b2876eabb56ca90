// SPDX-License-Identifier: MIT

#include "fibers.hpp"

#include "engine.hpp"

#include <cstdlib>
#include <string>
#include <utility>

namespace weft::model {

// ---- fibers

void fibers::run(body_function body) {
    current_ = thread_count_ = 0;
    steps_ = stutters_ = 0;
    futex_sequence_ = 0;
    observing_ = false;
    for (thread& each : threads_) each = thread{};
    threads_[0].function = {&run_body, &body, "body"};
    prepare(0);
    running_ = true;
    if (_setjmp(outside_) == 0) jump_to(0);
    running_ = false;
}

void fibers::leave_execution() {
    _longjmp(outside_, 1);
}

void fibers::run_body(void* function) {
    (*static_cast<body_function*>(function))();
}

void fibers::prepare(unsigned index) {
    fiber& its = fibers_[index];
    if (its.at_rest) return;
    if (!its.stack) its.stack.reset(new std::byte[stack_size]);
    its.started = false;
    getcontext(&its.start);
    its.start.uc_stack.ss_sp = its.stack.get();
    its.start.uc_stack.ss_size = stack_size;
    its.start.uc_link = nullptr;
    makecontext(&its.start, &entry, 0);
}

void fibers::jump_to(unsigned index) {
    fiber& to = fibers_[index];
    to.at_rest = false;
    if (std::exchange(to.started, true)) _longjmp(to.jump, 1);
    setcontext(&to.start);
    std::abort();
}

void fibers::switch_to(unsigned index) {
    if (index == current_) return;
    const unsigned from = std::exchange(current_, index);
    if (_setjmp(fibers_[from].jump) == 0) jump_to(index);
}

void fibers::entry() {
    fibers& self = the_engine().threads;
    for (;;) {
        const auto& function = self.threads_[self.current_].function;
        try {
            function.run(function.context);
        } catch (...) { violate("an exception left a thread"); }
        self.finish_thread();
    }
}

void fibers::finish_thread() {
    fiber& own = fibers_[current_];
    if (current_ == 0) {
        own.at_rest = true;
        if (_setjmp(own.jump) == 0) leave_execution();
        return;
    }
    threads_[current_].state = thread_state::finished;
    const unsigned next = pick(false);
    own.at_rest = true;
    switch_to(next);
}

void fibers::run_threads(const detail::thread_function* functions, unsigned count) {
    if (current_ != 0) violate("threads are started by the body only");
    if (count >= max_threads) violate("too many threads in the model");
    thread_count_ = count;
    for (unsigned i = 1; i <= count; ++i) {
        thread& each = threads_[i];
        each = thread{};
        each.state = thread_state::ready;
        each.name = functions[i - 1].name;
        each.function = functions[i - 1];
        memory_.fork(i);
        prepare(i);
    }
    switch_to(pick(false));
    memory_.join_threads(count);
    thread_count_ = 0;
}

// ---- who goes next

bool fibers::asks(const thread& waiting) {
    const bool outer = std::exchange(observing_, true);
    const bool ready = waiting.ready(waiting.ready_context);
    observing_ = outer;
    return ready;
}

bool fibers::can_run(unsigned index) {
    const thread& candidate = threads_[index];
    switch (candidate.state) {
    case thread_state::ready: return true;
    case thread_state::spinning: return candidate.released || memory_.watched_has_changed(index);
    case thread_state::waiting:
        if (candidate.in_futex) return candidate.woken || candidate.released;
        return asks(candidate);
    default: return false;
    }
}

// Of threads that are alike the lower one starts first.
bool fibers::out_of_turn(unsigned index) const {
    return !decisions_.random && index + decisions_.options.alike > thread_count_ + 1 &&
           !threads_[index].begun && !threads_[index - 1].begun;
}

// 0 is the body, which goes on when all threads have ended.
unsigned fibers::pick(bool current_can_run) {
    if (reduction_.end_step()) the_engine().cut_short();
    if (current_can_run && !decisions_.preemption_allowed()) return current_;
    std::array<std::uint8_t, max_threads> candidates;
    unsigned count = 0;
    if (current_can_run) candidates[count++] = static_cast<std::uint8_t>(current_);
    for (unsigned i = 1; i <= thread_count_; ++i) {
        if (!(current_can_run && i == current_) && !out_of_turn(i) && can_run(i)) {
            candidates[count++] = static_cast<std::uint8_t>(i);
        }
    }
    const unsigned chosen = count == 0 ? nobody_can_run() : candidates[decisions_.decide(count)];
    threads_[chosen].begun = true;
    if (chosen == current_) return chosen;
    if (current_can_run) decisions_.preempted();
    if (current_ != 0 && reduction_.end_run()) the_engine().cut_short();
    if (chosen != 0) reduction_.start_run(chosen);
    if (threads_[chosen].released) reduction_.depend_on_everything();
    return chosen;
}

unsigned fibers::nobody_can_run() {
    bool all_finished = true;
    bool all_may_sleep = true;
    unsigned spinner = 0;
    const auto may_go_on = [](const thread& each) {
        return each.state == thread_state::spinning || (each.in_futex && each.timed);
    };
    for (unsigned i = 1; i <= thread_count_; ++i) {
        const thread& each = threads_[i];
        if (each.state == thread_state::finished) continue;
        all_finished = false;
        if (!each.may_sleep) all_may_sleep = false;
        if (may_go_on(each) && spinner == 0) spinner = i;
    }
    if (all_finished) return 0;
    if (spinner != 0 && !all_may_sleep && ++stutters_ <= stutter_limit) {
        for (unsigned i = 1; i <= thread_count_; ++i) {
            if (may_go_on(threads_[i])) threads_[i].released = true;
        }
        return spinner;
    }
    if (all_may_sleep) return 0;
    std::string text = "deadlock:";
    for (unsigned i = 1; i <= thread_count_; ++i) {
        const thread& each = threads_[i];
        if (each.state == thread_state::finished) continue;
        text += " thread " + std::to_string(i);
        if (each.name != nullptr) text += std::string(" (") + each.name + ")";
        text += each.state == thread_state::spinning ? " spins;"
                                              : std::string(" waits in ") + each.why + ";";
    }
    violate(std::move(text));
}

void fibers::count_step() {
    if (++steps_ > decisions_.options.step_limit) {
        violate("no end in sight: too many steps in one execution");
    }
}

void fibers::point() {
    if (current_ == 0) return;
    count_step();
    switch_to(pick(true));
}

// The current thread cannot go on; returns when it can.
void fibers::give_up_processor() {
    const unsigned self = current_;
    const unsigned next = pick(false);
    // Whoever spins may be the only one to go on.
    if (next == self) reduction_.depend_on_everything();
    switch_to(next);
    thread& own = threads_[self];
    own.state = thread_state::ready;
    own.in_futex = own.released = own.woken = false;
}

// ---- waiting

void fibers::pause() {
    count_step();
    const auto look = [&](unsigned id) { reduction_.read(id); };
    memory_.for_each_watched(current_, look);
    if (!memory_.watched_has_changed(current_)) {
        threads_[current_].state = thread_state::spinning;
        threads_[current_].why = "pause";
        give_up_processor();
        memory_.for_each_watched(current_, look);
    }
    memory_.refresh_watched(current_);
}

void fibers::block(bool (*ready)(void*), void* context, const char* why) {
    if (current_ == 0) {
        if (!ready(context)) violate("deadlock: the body waits");
        return;
    }
    point();
    if (ready(context)) return;
    thread& self = threads_[current_];
    self.state = thread_state::waiting;
    self.ready = ready;
    self.ready_context = context;
    self.why = why;
    give_up_processor();
    static_cast<void>(ready(context));  // What it looks at is read by this step.
}

void fibers::sleep_in_futex(unsigned location, bool timed) {
    thread& self = threads_[current_];
    self.state = thread_state::waiting;
    self.in_futex = true;
    self.timed = timed;
    self.futex_location = location;
    self.futex_order = ++futex_sequence_;
    self.why = "futex_wait";
    give_up_processor();
    reduction_.write(location);
}

void fibers::wake_from_futex(unsigned location, unsigned count) {
    stutters_ = 0;
    for (; count > 0; --count) {
        thread* first = nullptr;
        for (unsigned i = 1; i <= thread_count_; ++i) {
            thread& each = threads_[i];
            const bool sleeps = each.state == thread_state::waiting && each.in_futex &&
                                !each.woken && each.futex_location == location;
            if (sleeps && (first == nullptr || each.futex_order < first->futex_order)) {
                first = &each;
            }
        }
        if (first == nullptr) return;
        first->woken = true;
    }
}

}  // namespace weft::model
