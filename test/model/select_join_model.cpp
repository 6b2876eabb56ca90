// SPDX-License-Identifier: MIT

// Model of a select that waits at a channel and for the end of a task: a sender, the task, and a
// canceller come from three threads. One case is made; the value is received once or stays with its
// sender; the handle is usable afterwards and sees the result; and nothing touches a frame that has
// ended, also where the handle is deserted at the end of a runtime.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/select_core.hpp>
#include <weft/detail/sync/select_join.hpp>

#include "explorer.hpp"
#include "watched_select.hpp"

#include <cstdint>

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::join_kind;
using weft::detail::receive_step;
using weft::detail::send_step;
using weft::detail::suspend_outcome;

namespace {

struct selecting;

// A case at the channel.
struct node : weft::detail::wait_links<layer, node> {
    selecting* owner = nullptr;
    weft::detail::select_event<layer> taken;
    bool claim() noexcept;
};

// What stands in the join word: a case, or the branch that joins afterwards.
struct alignas(8) waiter {
    selecting* owner = nullptr;
    layer::var<int> contents{0};
};

using core = weft::detail::channel_core<layer, node>;
using one_case = weft::detail::select_case<layer, node>;
using word = weft::detail::select_word<layer>;
using watched_word = model::watched_select_word;
using join = weft::detail::join_word<layer, waiter>;

constexpr std::uint32_t receives = 0;
constexpr std::uint32_t ends = 1;

struct task {
    join ended;
    layer::var<int> result{0};
};

// A task that waits to receive, or for the end of another one.
struct selecting {
    weft::detail::operation_word<layer> operation;
    watched_word selected;
    model::lifetime frame;
    node line;
    waiter listens;
    weft::detail::select_join<layer, waiter, watched_word> end;
    one_case cases[2];
    core* order[2] = {};
    layer::var<int> got{0};
    layer::var<bool> cancelled{false};
    int resumed = 0;
    bool armed = false;

    selecting(core& on) {
        selected.frame = &frame;
        line.owner = this;
        listens.owner = this;
        cases[0] = {&on, &line, receives, false};
        cases[1] = {.index = ends};
    }
};

bool node::claim() noexcept {
    return taken.happen(owner->selected, receives);
}

// All of one run.
struct world {
    core channel{0};
    task other;
    selecting selects{channel};
    layer::var<int> kept{0};
    bool deserted = false;
    bool joined = false;

    void join_other() {
        model::check(other.ended.finished(), "the case was made before the end");
        model::check(other.result == 42, "the result is not visible");
        joined = true;
    }

    // The task runs again.
    void resume() {
        ++selects.resumed;
        weft::detail::leave_lines(selects.cases, 2, selects.selected.winner());
        if (selects.armed) {
            selects.end.leave(other.ended, &selects.listens, selects.selected, ends);
        }
        const std::uint32_t winner = selects.selected.winner();
        model::check(selects.cancelled == (winner == word::cancelled), "the wrong one has won");
        model::check((selects.got == 1) == (winner == word::first_case + receives),
                     "the wrong case was made");
        if (winner == word::first_case + ends && !deserted) join_other();
        selects.frame.destroy("select");
        after();
    }

    // The handle is as it was: it can be joined by another waiter, which the end finds.
    void after() {
        if (deserted || joined) return;
        joiner.contents = 7;
        if (!other.ended.publish(&joiner)) join_other();
    }

    void complete() {
        selects.frame.touch("select");
        if (selects.operation.complete()) resume();
    }

    void cancel() {
        if (selects.selected.claim(word::cancelled)) {
            selects.cancelled = true;
            selects.operation.withdrawn();
            resume();
        } else if (selects.operation.let_go()) {
            resume();
        }
    }

    void select() {
        const auto decided = weft::detail::select_or_line_up(selects.cases, selects.order, 2, true);
        if (decided.chosen == receives) {
            model::check(false, "nobody else waits at this channel");
        }
        arm();
        switch (selects.operation.suspend()) {
        case suspend_outcome::suspended: return;
        case suspend_outcome::completed: return resume();
        case suspend_outcome::stopped: return cancel();
        }
    }

    // As select_end::arm().
    void arm() {
        selects.armed = true;
        selects.listens.contents = 7;
        if (!selects.end.publish(other.ended, &selects.listens)) {
            model::check(other.ended.finished(), "not published, and not finished");
            happen();
        }
    }

    // As select_end::ended().
    void happen() {
        if (selects.end.happen(selects.selected, ends)) complete();
    }

    // As tell_waiter().
    void tell(const join::finish_result& found) {
        if (found.waiter == nullptr) return;
        model::check(found.waiter->contents == 7, "the waiter is not visible");
        if (found.kind == join_kind::listener) {
            model::check(found.waiter == &selects.listens, "who listens?");
            happen();
        } else {
            model::check(found.kind == join_kind::branch && found.waiter == &joiner,
                         "a case was taken for a branch");
            join_other();
        }
    }

    void finish() {
        other.result = 42;
        tell(other.ended.finish());
    }

    // The owner gives the task up at the end of a runtime.
    void desert() { tell(other.ended.desert()); }

    // A sender that does not wait.
    void send() {
        const auto decided = channel.send(nullptr);
        if (decided.step != send_step::handed) {
            kept = 1;
            return;
        }
        decided.receiver->owner->got = 1;
        complete();
    }

    void stop() {
        if (selects.operation.request_stop(false)) cancel();
    }

    void check_end() const {
        model::check(selects.resumed == 1, "a wake-up is lost or doubled");
        model::check(selects.got + kept == 1, "a value is lost or doubled");
    }

    waiter joiner;
};

// The select lines up while both come.
void select_against_both() {
    world all;
    model::run_threads(model::named_thread{"select", [&] { all.select(); }},
                       model::named_thread{"sender", [&] { all.send(); }},
                       model::named_thread{"task", [&] { all.finish(); }});
    all.check_end();
    model::check(all.joined, "the handle is of no use");
}

void waiting_against_all() {
    world all;
    all.select();
    model::run_threads(model::named_thread{"sender", [&] { all.send(); }},
                       model::named_thread{"task", [&] { all.finish(); }},
                       model::named_thread{"canceller", [&] { all.stop(); }});
    all.check_end();
    model::check(all.joined, "the handle is of no use");
}

void parking_against_end_and_stop() {
    world all;
    model::run_threads(model::named_thread{"select", [&] { all.select(); }},
                       model::named_thread{"task", [&] { all.finish(); }},
                       model::named_thread{"canceller", [&] { all.stop(); }});
    model::check(all.selects.resumed == 1, "a wake-up is lost or doubled");
    model::check(all.joined, "the handle is of no use");
}

void desertion() {
    world all;
    all.deserted = true;
    all.select();
    model::run_threads(model::named_thread{"owner", [&] { all.desert(); }},
                       model::named_thread{"sender", [&] { all.send(); }},
                       model::named_thread{"canceller", [&] { all.stop(); }});
    all.check_end();
}

const model::scenario scenarios[] = {
    {"select against sender and end", select_against_both},
    {"waiting select against sender, end and stop", waiting_against_all},
    {"parking select against end and stop", parking_against_end_and_stop},
    {"deserted handle against sender and stop", desertion},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "select_join", scenarios);
}
