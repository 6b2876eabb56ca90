// SPDX-License-Identifier: MIT

// Model of select: tasks that wait at several channels at once meet plain senders and receivers,
// each other, cancellers and closes. One case is made, its value is received once or stays with its
// sender, nobody sleeps beside what it waits for, and nothing touches a frame that has ended.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/select_core.hpp>

#include "explorer.hpp"
#include "sent_values.hpp"
#include "watched_select.hpp"

#include <cstddef>

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::receive_step;
using weft::detail::send_step;
using weft::detail::suspend_outcome;

namespace {

struct party;

// What stands in line: a case of a select.
struct node : weft::detail::wait_links<layer, node> {
    party* owner = nullptr;
    std::uint32_t index = 0;
    bool sends = false;
    layer::var<int> number{0};
    weft::detail::select_event<layer> taken;

    bool claim() noexcept;
};

using core = weft::detail::channel_core<layer, node>;
using one_case = weft::detail::select_case<layer, node>;
using word = weft::detail::select_word<layer>;
using watched_word = model::watched_select_word;

// Something that happens once. It lies on an object, whose lock both who makes it happen and who
// takes it back hold.
struct event {
    weft::detail::select_event<layer> word;
    weft::detail::spin_lock<layer> lock;
    layer::var<bool> on_object{false};

    bool take_off() {
        lock.lock();
        const bool was_there = on_object;
        on_object = false;
        lock.unlock();
        return was_there;
    }
};

// A task in a select of up to two cases; one case is a plain send or receive.
struct party {
    weft::detail::operation_word<layer> operation;
    watched_word selected;
    model::lifetime frame;
    event happens;
    static constexpr std::size_t no_event = 9;
    std::size_t event_case = no_event;
    layer::var<bool> waits_for_event{false};
    node nodes[2];
    one_case cases[2];
    core* order[2] = {};
    std::size_t count = 0;
    layer::var<bool> closed{false};
    layer::var<bool> cancelled{false};
    layer::var<bool> happened{false};
    int resumed = 0;

    party() { selected.frame = &frame; }

    void add_event() {
        event_case = count;
        cases[count] = {.index = static_cast<std::uint32_t>(count)};
        ++count;
    }

    void add_case(core& on, int sent) {
        node& added = nodes[count];
        added.owner = this;
        added.index = static_cast<std::uint32_t>(count);
        added.sends = sent != 0;
        added.number = sent;
        cases[count++] = {&on, &added, added.index, sent != 0};
    }
};

bool node::claim() noexcept {
    owner->frame.touch("select");
    return taken.happen(owner->selected, index);
}

struct world {
    core channels[2]{core(0), core(0)};
    model::sent_values values;
};

world* all;

void take_note(int number) {
    all->values.note_received(number);
}

void keep(node& of) {
    if (of.sends && of.number != 0) ++all->values.kept[of.number];
}

// The task runs again: it is in no line any more, and its frame ends.
void resume(party& self) {
    ++self.resumed;
    weft::detail::leave_lines(self.cases, self.count, self.selected.winner());
    if (self.waits_for_event && !self.happens.take_off() &&
        self.selected.winner() != word::first_case + self.event_case) {
        self.happens.word.await_let_go();
    }
    for (std::size_t i = 0; i < self.count; ++i) {
        node& each = self.nodes[i];
        if (each.sends) {
            keep(each);
        } else if (each.number != 0) {
            take_note(each.number);
        }
    }
    const std::uint32_t winner = self.selected.winner();
    model::check(self.cancelled == (winner == word::cancelled), "the wrong one has won");
    model::check(self.happened == (winner == word::first_case + self.event_case),
                 "the wrong case was made");
    self.frame.destroy("select");
}

void complete(node& served) {
    party& owner = *served.owner;
    owner.frame.touch("select");
    if (owner.operation.complete()) resume(owner);
}

void hand(node& receiver, int number) {
    receiver.owner->frame.touch("select");
    receiver.number = number;
    complete(receiver);
}

int take_from(node& sender) {
    sender.owner->frame.touch("select");
    const int number = sender.number;
    sender.number = 0;
    complete(sender);
    return number;
}

void cancel(party& waiting) {
    if (waiting.selected.claim(word::cancelled)) {
        waiting.cancelled = true;
        waiting.operation.withdrawn();
        resume(waiting);
    } else if (waiting.operation.let_go()) {
        resume(waiting);
    }
}

// The event of a select, made to happen by somebody else.
void happen(party& waiting) {
    if (!waiting.happens.take_off()) return;
    const auto index = static_cast<std::uint32_t>(waiting.event_case);
    if (!waiting.happens.word.happen(waiting.selected, index)) return;
    waiting.happened = true;
    if (waiting.operation.complete()) resume(waiting);
}

void select(party& self) {
    const auto decided =
        weft::detail::select_or_line_up(self.cases, self.order, self.count, true);
    if (decided.chosen == decided.none) {
        if (self.event_case != party::no_event) {
            self.happens.lock.lock();
            self.happens.on_object = true;
            self.waits_for_event = true;
            self.happens.lock.unlock();
        }
        switch (self.operation.suspend()) {
        case suspend_outcome::suspended: return;
        case suspend_outcome::completed: return resume(self);
        case suspend_outcome::stopped: return cancel(self);
        }
    }
    node& made = self.nodes[decided.chosen];
    if (decided.sent.step == send_step::handed) {
        const int number = made.number;
        made.number = 0;
        hand(*decided.sent.receiver, number);
    } else if (decided.sent.step == send_step::closed ||
               decided.received.step == receive_step::ended) {
        self.closed = true;
    } else {
        made.number = take_from(*decided.received.sender);
    }
    resume(self);
}

void close(core& closed) {
    core::waiters gone;
    if (!closed.close(gone)) return;
    for (node* first : {gone.senders, gone.receivers}) {
        while (first != nullptr) {
            node& each = *first;
            first = each.next;
            each.owner->frame.touch("select");
            each.owner->closed = true;
            complete(each);
        }
    }
}

void stop(party& waiting) {
    if (waiting.operation.request_stop(false)) cancel(waiting);
}

struct fixture : world {
    fixture() { all = this; }
    core& one = channels[0];
    core& two = channels[1];

    void account(int sent) {
        close(one);
        close(two);
        values.check_each_is_somewhere(sent);
    }
    static void check_resumed(const party& task) {
        model::check(task.resumed == 1, "a wake-up is lost or doubled");
    }
};

// One receives from either channel, two send to one each: one of them is served.
void receive_from_either() {
    fixture here;
    party selects, sends_one, sends_two;
    selects.add_case(here.one, 0);
    selects.add_case(here.two, 0);
    sends_one.add_case(here.one, 1);
    sends_two.add_case(here.two, 2);
    model::run_threads(model::named_thread{"select", [&] { select(selects); }},
                       model::named_thread{"sender 1", [&] { select(sends_one); }},
                       model::named_thread{"sender 2", [&] { select(sends_two); }});
    fixture::check_resumed(selects);
    model::check(sends_one.resumed + sends_two.resumed == 1, "not one of the senders");
    here.account(2);
    fixture::check_resumed(sends_one);
    fixture::check_resumed(sends_two);
}

// Only the second channel has anything for it.
void meet_at_the_second() {
    fixture here;
    party selects, sends;
    selects.add_case(here.one, 0);
    selects.add_case(here.two, 0);
    sends.add_case(here.two, 1);
    model::run_threads(model::named_thread{"select", [&] { select(selects); }},
                       model::named_thread{"sender", [&] { select(sends); }});
    fixture::check_resumed(selects);
    fixture::check_resumed(sends);
    model::check(here.values.received[1] == 1, "not received");
    here.account(1);
}

// Two selects over the same two channels, in opposite directions and orders, meet at one of them.
void two_selects() {
    fixture here;
    party sends, receives;
    sends.add_case(here.one, 1);
    sends.add_case(here.two, 2);
    receives.add_case(here.two, 0);
    receives.add_case(here.one, 0);
    model::run_threads(model::named_thread{"sends", [&] { select(sends); }},
                       model::named_thread{"receives", [&] { select(receives); }});
    fixture::check_resumed(sends);
    fixture::check_resumed(receives);
    model::check(here.values.received[1] + here.values.received[2] == 1, "not one value");
    here.account(2);
}

// A select that is over does not keep who stands in line behind it from being served.
void behind_a_select() {
    fixture here;
    party selects, receives, sends_one, sends_two;
    selects.add_case(here.one, 0);
    selects.add_case(here.two, 0);
    receives.add_case(here.one, 0);
    sends_one.add_case(here.one, 1);
    sends_two.add_case(here.two, 2);
    select(selects);
    select(receives);
    model::run_threads(model::named_thread{"sender 1", [&] { select(sends_one); }},
                       model::named_thread{"sender 2", [&] { select(sends_two); }});
    fixture::check_resumed(selects);
    fixture::check_resumed(sends_one);
    here.account(2);
    fixture::check_resumed(receives);
    fixture::check_resumed(sends_two);
}

void select_against_stop() {
    fixture here;
    party selects, sends_one, sends_two;
    selects.add_case(here.one, 0);
    selects.add_case(here.two, 0);
    sends_one.add_case(here.one, 1);
    sends_two.add_case(here.two, 2);
    select(selects);
    model::run_threads(model::named_thread{"sender 1", [&] { select(sends_one); }},
                       model::named_thread{"sender 2", [&] { select(sends_two); }},
                       model::named_thread{"canceller", [&] { stop(selects); }});
    fixture::check_resumed(selects);
    here.account(2);
    fixture::check_resumed(sends_one);
    fixture::check_resumed(sends_two);
}

void park_against_stop() {
    fixture here;
    party selects, sends;
    selects.add_case(here.one, 0);
    selects.add_case(here.two, 0);
    sends.add_case(here.two, 1);
    model::run_threads(model::named_thread{"select", [&] { select(selects); }},
                       model::named_thread{"sender", [&] { select(sends); }},
                       model::named_thread{"canceller", [&] { stop(selects); }});
    fixture::check_resumed(selects);
    here.account(1);
    fixture::check_resumed(sends);
}

void select_against_close() {
    fixture here;
    party selects, sends;
    selects.add_case(here.one, 0);
    selects.add_case(here.two, 0);
    sends.add_case(here.two, 1);
    model::run_threads(model::named_thread{"select", [&] { select(selects); }},
                       model::named_thread{"sender", [&] { select(sends); }},
                       model::named_thread{"closer", [&] { close(here.one); }});
    fixture::check_resumed(selects);
    here.account(1);
    fixture::check_resumed(sends);
}

// Both of its channels are closed at the same time.
void two_closes() {
    fixture here;
    party selects;
    selects.add_case(here.one, 1);
    selects.add_case(here.two, 0);
    select(selects);
    model::run_threads(model::named_thread{"closer 1", [&] { close(here.one); }},
                       model::named_thread{"closer 2", [&] { close(here.two); }});
    fixture::check_resumed(selects);
    here.account(1);
}

// Two cases at one channel: it is locked once, and one of them is made.
void one_channel_twice() {
    fixture here;
    party selects, sends, receives;
    selects.add_case(here.one, 1);
    selects.add_case(here.one, 0);
    sends.add_case(here.one, 2);
    receives.add_case(here.one, 0);
    model::run_threads(model::named_thread{"select", [&] { select(selects); }},
                       model::named_thread{"sender", [&] { select(sends); }},
                       model::named_thread{"receiver", [&] { select(receives); }});
    here.account(2);
    for (const party* each : {&selects, &sends, &receives}) fixture::check_resumed(*each);
}

// A value and an event come at the same time: one of them is the case that is made.
void event_against_sender() {
    fixture here;
    party selects, sends;
    selects.add_case(here.one, 0);
    selects.add_event();
    sends.add_case(here.one, 1);
    model::run_threads(model::named_thread{"select", [&] { select(selects); }},
                       model::named_thread{"sender", [&] { select(sends); }},
                       model::named_thread{"event", [&] { happen(selects); }});
    if (selects.resumed == 0) happen(selects);
    fixture::check_resumed(selects);
    here.account(1);
    fixture::check_resumed(sends);
}

void event_against_stop() {
    fixture here;
    party selects;
    selects.add_event();
    selects.add_case(here.one, 1);
    model::run_threads(model::named_thread{"select", [&] { select(selects); }},
                       model::named_thread{"event", [&] { happen(selects); }},
                       model::named_thread{"canceller", [&] { stop(selects); }});
    fixture::check_resumed(selects);
    here.account(1);
}

void event_against_close() {
    fixture here;
    party selects;
    selects.add_case(here.one, 1);
    selects.add_event();
    select(selects);
    model::run_threads(model::named_thread{"closer", [&] { close(here.one); }},
                       model::named_thread{"event", [&] { happen(selects); }});
    fixture::check_resumed(selects);
    here.account(1);
}

const model::scenario scenarios[] = {
    {"receive from either", receive_from_either},
    {"meet at the second", meet_at_the_second},
    {"two selects", two_selects},
    {"behind a select", behind_a_select},
    {"select against stop", select_against_stop},
    {"park against stop", park_against_stop},
    {"select against close", select_against_close},
    {"two closes", two_closes},
    {"one channel twice", one_channel_twice},
    {"event against sender", event_against_sender},
    {"event against stop", event_against_stop},
    {"event against close", event_against_close},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "select", scenarios);
}
