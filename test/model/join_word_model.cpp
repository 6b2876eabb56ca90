// SPDX-License-Identifier: MIT

// Model of the join of a handle: a task finishes while its handle is awaited, dropped, awaited and
// cancelled, or deserted while it is awaited. The control block must be destroyed once, by the side
// that came second.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sched/join_word.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;
using weft::detail::join_kind;
using weft::detail::suspend_outcome;

namespace {

constexpr auto outside = join_kind::thread;

struct waiter;
using join = weft::detail::join_word<layer, waiter>;

// The control block of the task that is joined.
struct control {
    join word;
    layer::var<int> result;
    // What the owner of the handle wrote while it had it, read by whoever destroys.
    layer::var<int> owners;
};

// Whoever waits: a branch with the word of its operation, or a foreign thread with a flag.
struct alignas(8) waiter {
    weft::detail::operation_word<layer> word;
    layer::var<control*> on;
    layer::var<int> contents;
    layer::var<bool> cancelled;
    layer::atomic<bool> signalled{false};
    int resumed = 0;
};

control* block;
int destroyed = 0;

void destroy_block() {
    ++destroyed;
    model::check(block->owners == 5, "destroyed before its owner left");
    model::destroy(block);
}

void read_result() {
    model::check(block->result == 42, "the result is not visible");
    block->owners = 5;
}

// The awaiting branch runs again. It has joined, or it was cancelled and drops the handle.
void resume(waiter& self) {
    ++self.resumed;
    if (!self.cancelled) {
        read_result();
        destroy_block();
    } else {
        block->owners = 5;
        if (!block->word.abandon()) destroy_block();
    }
}

void finish_task() {
    block->result = 42;
    const join::finish_result found = block->word.finish();
    if (found.abandoned) {
        destroy_block();
    } else if (found.waiter != nullptr) {
        waiter& waiting = *found.waiter;
        model::check(waiting.contents == 7, "the waiter is not visible");
        if (found.kind == outside) {
            waiting.signalled.store(true, order::release);
        } else if (waiting.word.complete()) {
            resume(waiting);
        }
    }
}

void cancel(waiter& waiting) {
    if (block->word.withdraw(&waiting)) {
        waiting.cancelled = true;
        waiting.word.withdrawn();
        resume(waiting);
    } else if (waiting.word.let_go()) {
        resume(waiting);
    }
}

void await_task(waiter& self) {
    if (block->word.finished()) return resume(self);
    self.contents = 7;
    self.on = block;
    if (!block->word.publish(&self)) return resume(self);
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume(self);
    case suspend_outcome::stopped: return cancel(self);
    }
}

struct fixture {
    waiter waiting;
    fixture() {
        destroyed = 0;
        block = model::make<control>();
    }
    void check_end() const { model::check(destroyed == 1, "not destroyed once"); }
};

void await_against_finish() {
    fixture all;
    model::run_threads(model::named_thread{"awaiter", [&] { await_task(all.waiting); }},
                       model::named_thread{"task", finish_task});
    all.check_end();
    model::check(all.waiting.resumed == 1, "a wake-up is lost or doubled");
}

void drop_against_finish() {
    fixture all;
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               block->owners = 5;
                                               if (!block->word.abandon()) {
                                                   model::check(block->result == 42, "no result");
                                                   destroy_block();
                                               }
                                           }},
                       model::named_thread{"task", [&] { finish_task(); }});
    all.check_end();
}

// As worker_thread::finish_task(): it asks first, and finishes for good when all is done.
void drop_against_finish_of_two_steps() {
    fixture all;
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               block->owners = 5;
                                               if (!block->word.abandon()) {
                                                   model::check(block->result == 42, "no result");
                                                   destroy_block();
                                               }
                                           }},
                       model::named_thread{"task", [&] {
                                               block->result = 42;
                                               if (!block->word.is_abandoned()) {
                                                   if (!block->word.finish().abandoned) return;
                                                   block->word.reset();
                                               }
                                               model::check(block->owners == 5, "not yet its own");
                                               block->word.finish();
                                               destroy_block();
                                           }});
    all.check_end();
}

void cancelled_await_against_finish() {
    fixture all;
    model::run_threads(model::named_thread{"awaiter", [&] { await_task(all.waiting); }},
                       model::named_thread{"task", finish_task},
                       model::named_thread{"canceller", [&] {
                                               if (all.waiting.word.request_stop(false)) {
                                                   cancel(all.waiting);
                                               }
                                           }});
    all.check_end();
    model::check(all.waiting.resumed == 1, "a wake-up is lost or doubled");
}

void wait_for_signal(waiter& foreign) {
    while (!foreign.signalled.load(order::acquire)) layer::pause();
}

// A foreign thread asks, then waits.
void foreign_thread_waits() {
    fixture all;
    model::run_threads(model::named_thread{"foreign",
                                           [&] {
                                               all.waiting.contents = 7;
                                               if (block->word.publish(&all.waiting, outside)) {
                                                   wait_for_signal(all.waiting);
                                               }
                                               read_result();
                                               destroy_block();
                                           }},
                       model::named_thread{"task", finish_task});
    all.check_end();
}

// done() in a loop, without waiting.
void poll_until_finished() {
    fixture all;
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               while (!block->word.finished()) layer::pause();
                                               read_result();
                                               destroy_block();
                                           }},
                       model::named_thread{"task", finish_task});
    all.check_end();
}

// A foreign thread gives up, and a branch awaits the handle instead.
void withdraw_and_await() {
    fixture all;
    waiter foreign;
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               foreign.contents = 7;
                                               if (block->word.publish(&foreign, outside)) {
                                                   if (block->word.withdraw(&foreign, outside)) {
                                                       return await_task(all.waiting);
                                                   }
                                                   wait_for_signal(foreign);
                                               }
                                               read_result();
                                               destroy_block();
                                           }},
                       model::named_thread{"task", finish_task});
    all.check_end();
}

// ---- the end of a runtime: the handle goes while somebody waits

// Control blocks are type-stable, so this one stays; what matters is that one side disposes of it.
struct ending {
    control shared;
    waiter waiting;
    model::lifetime frame;  // Of the awaiter: whoever completes the waiter touches it before.
    layer::atomic<int> disposed{0};

    void wait_already(join_kind kind = join_kind::branch) {
        waiting.contents = 7;
        model::check(shared.word.publish(&waiting, kind), "published");
        if (kind == join_kind::branch) {
            model::check(waiting.word.suspend() == suspend_outcome::suspended, "suspended");
        }
    }
    void dispose() {
        model::check(shared.owners == 5, "disposed of before its owner left");
        model::check(disposed.fetch_add(1, order::relaxed) == 0, "disposed of twice");
    }
    // As tell_waiter(): nothing is resumed any more.
    void tell(const join::finish_result& found) {
        if (found.waiter == nullptr) return;
        model::check(found.waiter == &waiting && waiting.contents == 7, "who is that?");
        frame.touch("awaiter");
        if (found.kind == outside) {
            waiting.signalled.store(true, order::release);
        } else {
            waiting.word.complete();
        }
    }
    // As abandon() and abandon_awaited().
    auto owner() {
        return model::named_thread{"owner", [this] {
                                       shared.owners = 5;
                                       if (shared.word.abandon()) return;
                                       if (shared.word.finished()) return end_for_owner();
                                       const auto found = shared.word.desert();
                                       if (found.abandoned) return end_for_owner();
                                       tell(found);
                                   }};
    }
    void end_for_owner() {
        model::check(shared.result == 42, "the result is not visible");
        dispose();
    }
    auto task() {
        return model::named_thread{"task", [this] {
                                       shared.result = 42;
                                       const auto found = shared.word.finish();
                                       if (found.abandoned) return dispose();
                                       tell(found);
                                   }};
    }
    // The frame of the awaiter is destroyed, as operation::unlink_if_parked() allows it.
    auto awaiter() {
        return model::named_thread{"awaiter", [this] {
                                       destroy_frame();
                                   }};
    }
    void destroy_frame() {
        waiting.word.end_parked([this] { return shared.word.withdraw(&waiting); });
        frame.destroy("awaiter");
    }
    // The same when its runtime has stopped all of its tasks before. A branch that is readied by
    // that is not parked any more.
    auto stopped_awaiter() {
        return model::named_thread{
            "awaiter", [this] {
                if (waiting.word.request_stop(false)) {
                    if (shared.word.withdraw(&waiting)) {
                        waiting.word.withdrawn();
                        return frame.destroy("awaiter");
                    }
                    if (waiting.word.let_go()) return frame.destroy("awaiter");
                }
                destroy_frame();
            }};
    }
};

void desert_alone() {
    ending all;
    all.wait_already();
    model::run_threads(all.owner(), all.awaiter());
    model::run_threads(all.task());
    model::check(all.disposed.peek() == 1, "not disposed of");
}

void desert_against_finish() {
    ending all;
    all.wait_already();
    model::run_threads(all.owner(), all.task(), all.awaiter());
    model::check(all.disposed.peek() == 1, "not disposed of");
}

// The same where all tasks of the awaiter's runtime were asked to stop first.
void stop_against_finish() {
    ending all;
    all.wait_already();
    model::run_threads(all.task(), all.stopped_awaiter());
}

void desert_a_thread() {
    ending all;
    all.wait_already(outside);
    model::run_threads(all.owner(), all.task(), model::named_thread{"foreign", [&] {
                                                                wait_for_signal(all.waiting);
                                                                all.frame.destroy("waiter");
                                                            }});
    model::check(all.disposed.peek() == 1, "not disposed of");
}

const model::scenario scenarios[] = {
    {"await", await_against_finish},
    {"drop", drop_against_finish},
    {"drop while the end has two steps", drop_against_finish_of_two_steps},
    {"cancelled await", cancelled_await_against_finish},
    {"foreign thread", foreign_thread_waits},
    {"poll", poll_until_finished},
    {"withdraw and await", withdraw_and_await},
    {"desert", desert_alone},
    {"desert against finish", desert_against_finish},
    {"stop and end against finish", stop_against_finish},
    {"desert a thread", desert_a_thread},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "join_word", scenarios);
}
