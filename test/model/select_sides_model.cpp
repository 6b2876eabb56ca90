// SPDX-License-Identifier: MIT

// Model of a select that waits at a channel and has sides: branches of their own that wait for the
// readiness of a descriptor. A sender, notifiers that wake the sides up, rightly or falsely, and a
// canceller come from other threads. One case is made; the select goes on once, when no side is
// left that could touch it; no wake-up is lost.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/select_core.hpp>
#include <weft/detail/sync/select_sides.hpp>

#include "explorer.hpp"
#include "watched_select.hpp"

#include <cstddef>
#include <cstdint>

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::receive_step;
using weft::detail::send_step;
using weft::detail::suspend_outcome;

namespace {

struct world;

struct node : weft::detail::wait_links<layer, node> {
    world* owner = nullptr;
    weft::detail::select_event<layer> taken;
    bool claim() noexcept;
};

using core = weft::detail::channel_core<layer, node>;
using one_case = weft::detail::select_case<layer, node>;
using word = weft::detail::select_word<layer>;
using watched_word = model::watched_select_word;
using counted_sides = weft::detail::select_sides<layer>;

// What a side waits on: the file and the wait word of one direction.
struct descriptor {
    layer::atomic<int> ready{0};
    layer::atomic<int> waits{0};  // 0: nobody, 1: something has happened, 2: the side waits.
};

// The operation of a side, and its branch.
struct side {
    weft::detail::operation_word<layer> word;
    descriptor* on = nullptr;
    std::uint32_t index = 0;
    layer::var<int> turn{0};  // Touched by whoever has the operation.
    bool started = false;
};

constexpr std::uint32_t receives = 0;
constexpr std::uint32_t first_side = 1;

struct world {
    core channel{0};
    descriptor files[2];

    weft::detail::operation_word<layer> operation;
    watched_word selected;
    model::lifetime frame;
    node line;
    one_case cases[3];
    core* order[3] = {};
    counted_sides sides;
    side each[2];
    std::size_t side_count = 1;
    bool leaves = false;
    layer::var<int> got{0};
    layer::var<int> kept{0};
    layer::var<bool> cancelled{false};
    int resumed = 0;
    int won = 0;

    explicit world(std::size_t sides_of_it) : side_count(sides_of_it) {
        selected.frame = &frame;
        line.owner = this;
        cases[0] = {&channel, &line, receives, false};
        for (std::uint32_t i = 0; i < side_count; ++i) {
            each[i].index = first_side + i;
            each[i].on = &files[i];
            cases[1 + i] = {.index = first_side + i};
        }
    }

    // The side runs, on whichever thread, as io_operation::start().
    void run(side& self) {
        for (;;) {
            self.turn = self.turn + 1;
            if (self.word.stop_requested()) return end(self);
            self.on->waits.exchange(0, std::memory_order_acquire);
            if (self.on->ready.load(std::memory_order_acquire) != 0) return end(self);
            int nobody = 0;
            if (!self.on->waits.compare_exchange_strong(nobody, 2, std::memory_order_release,
                                                        std::memory_order_relaxed)) {
                continue;
            }
            switch (self.word.suspend()) {
            case suspend_outcome::suspended: return;
            case suspend_outcome::completed: break;
            case suspend_outcome::stopped:
                if (unlink(self)) {
                    self.word.withdrawn();
                } else if (!self.word.let_go()) {
                    return;
                }
                break;
            }
        }
    }

    static bool unlink(side& self) {
        int itself = 2;
        return self.on->waits.compare_exchange_strong(itself, 0, std::memory_order_acquire,
                                                      std::memory_order_relaxed);
    }

    // As select_readiness::ended().
    void end(side& self) {
        if (sides.ended(selected, self.index)) complete();
    }

    // Wakes a side up, and runs it then; falsely, if the file is not ready.
    void notify(std::size_t which, bool rightly) {
        descriptor& file = files[which];
        if (rightly) file.ready.store(1, std::memory_order_release);
        int found = file.waits.load(std::memory_order_relaxed);
        while (!file.waits.compare_exchange_weak(
            found, found == 2 ? 0 : 1, std::memory_order_acq_rel, std::memory_order_relaxed)) {}
        if (found == 2 && each[which].word.complete()) run(each[which]);
    }

    void complete() {
        frame.touch("select");
        if (operation.complete()) resume();
    }

    // The branch of the select is started again.
    void resume() {
        if (leaves) return go_on();
        leave();
    }

    // As select_operation::leave_with_sides().
    void leave() {
        leaves = true;
        weft::detail::leave_lines(cases, 1 + side_count, selected.winner());
        for (std::size_t i = 0; i < side_count; ++i) {
            if (withdraw(each[i])) sides.withdrawn();
        }
        if (sides.leave()) return go_on();
        park();
    }

    // As select_readiness::withdraw().
    bool withdraw(side& of) {
        if (selected.winner() == word::first_case + of.index) return false;
        if (!counted_sides::withdraw(of.word, [&of] { return unlink(of); })) return false;
        of.turn = of.turn + 1;
        return true;
    }

    void go_on() {
        ++resumed;
        const std::uint32_t winner = selected.winner();
        model::check(cancelled == (winner == word::cancelled), "the wrong one has won");
        model::check((got == 1) == (winner == word::first_case + receives),
                     "the wrong case was made");
        for (std::size_t i = 0; i < side_count; ++i) {
            if (winner != word::first_case + each[i].index) continue;
            ++won;
            model::check(files[i].ready.load(std::memory_order_relaxed) != 0,
                         "a case was made that has not happened");
        }
        // Everything of the sides is seen, and goes with the frame.
        for (side& of : each) of.turn = -1;
        frame.destroy("select");
    }

    void cancel() {
        if (selected.claim(word::cancelled)) {
            cancelled = true;
            operation.withdrawn();
            resume();
        } else if (operation.let_go()) {
            resume();
        }
    }

    void park() {
        switch (operation.suspend()) {
        case suspend_outcome::suspended: return;
        case suspend_outcome::completed: return resume();
        case suspend_outcome::stopped: return cancel();
        }
    }

    void select() {
        const auto decided = weft::detail::select_or_line_up(cases, order, 1 + side_count, true);
        model::check(decided.chosen == decided.none, "nobody waits at this channel");
        sides.begin(side_count);
        for (std::size_t i = 0; i < side_count; ++i) run(each[i]);
        park();
    }

    void send() {
        const auto decided = channel.send(nullptr);
        if (decided.step != send_step::handed) {
            kept = 1;
            return;
        }
        frame.touch("select");
        got = 1;
        complete();
    }

    void stop() {
        if (operation.request_stop(false)) cancel();
    }

    void check_end() const { model::check(resumed == 1, "a wake-up is lost or doubled"); }
};

bool node::claim() noexcept {
    return taken.happen(owner->selected, receives);
}

void select_against_readiness_and_sender() {
    world all(1);
    model::run_threads(model::named_thread{"select", [&] { all.select(); }},
                       model::named_thread{"notifier", [&] { all.notify(0, true); }},
                       model::named_thread{"sender", [&] { all.send(); }});
    all.check_end();
    model::check(all.got + all.kept == 1, "a value is lost or doubled");
}

void readiness_alone() {
    world all(1);
    model::run_threads(model::named_thread{"select", [&] { all.select(); }},
                       model::named_thread{"notifier", [&] { all.notify(0, true); }});
    all.check_end();
    model::check(all.won == 1, "readiness is no case");
}

void waiting_against_all() {
    world all(1);
    all.select();
    model::run_threads(model::named_thread{"notifier", [&] { all.notify(0, true); }},
                       model::named_thread{"sender", [&] { all.send(); }},
                       model::named_thread{"canceller", [&] { all.stop(); }});
    all.check_end();
    model::check(all.got + all.kept == 1, "a value is lost or doubled");
}

// A false wake-up is no case; its side ends when the sender or the stop has come.
void false_wake_up() {
    world all(1);
    all.select();
    model::run_threads(model::named_thread{"notifier", [&] { all.notify(0, false); }},
                       model::named_thread{"sender", [&] { all.send(); }},
                       model::named_thread{"canceller", [&] { all.stop(); }});
    all.check_end();
    model::check(all.won == 0, "a false wake-up made a case");
}

void two_sides() {
    world all(2);
    all.select();
    model::run_threads(model::named_thread{"notifier 1", [&] { all.notify(0, true); }},
                       model::named_thread{"notifier 2", [&] { all.notify(1, true); }},
                       model::named_thread{"canceller", [&] { all.stop(); }});
    all.check_end();
}

void parking_against_readiness_and_stop() {
    world all(1);
    model::run_threads(model::named_thread{"select", [&] { all.select(); }},
                       model::named_thread{"notifier", [&] { all.notify(0, true); }},
                       model::named_thread{"canceller", [&] { all.stop(); }});
    all.check_end();
}

const model::scenario scenarios[] = {
    {"readiness alone", readiness_alone},
    {"select against readiness and sender", select_against_readiness_and_sender},
    {"waiting select against readiness, sender and stop", waiting_against_all},
    {"false wake-up against sender and stop", false_wake_up},
    {"two sides and a stop", two_sides},
    {"parking select against readiness and stop", parking_against_readiness_and_stop},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "select_sides", scenarios);
}
