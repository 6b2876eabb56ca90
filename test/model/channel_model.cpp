// SPDX-License-Identifier: MIT

// Model of a channel: senders and receivers meet, wait, are cancelled, and find it closed. Each
// value must be received once, or stay with its sender, and nobody may wait beside what it waits
// for.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/channel_core.hpp>
#include <weft/detail/sync/channel_slot.hpp>

#include "explorer.hpp"
#include "sent_values.hpp"

#include <cstddef>

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::receive_step;
using weft::detail::send_step;
using weft::detail::suspend_outcome;

namespace {

// A value that tells whether moves of it race, also with the use of its room for another one.
struct value {
    explicit value(int number) : number(number) {}
    value(value&& from) noexcept {
        use_room();
        number = from.number.get();
        from.number = 0;
    }
    ~value() { use_room(); }

    layer::var<int> number;

private:
    void use_room() const noexcept;
};

// A task at the channel: its branch, and what its frame holds.
struct party : weft::detail::wait_links<layer, party> {
    weft::detail::operation_word<layer> word;
    model::lifetime frame;
    layer::var<int> number{0};  // The value; of a receiver the one that it got.
    layer::var<bool> closed{false};
    layer::var<bool> cancelled{false};
    bool sends = false;
    int resumed = 0;

    bool claim() const noexcept { return true; }
};

using core = weft::detail::channel_core<layer, party>;
using slot = weft::detail::channel_slot<layer, value>;

struct world {
    explicit world(std::size_t capacity) : channel(capacity) {}
    core channel;
    slot slots[2];
    layer::var<int> rooms[2]{0, 0};  // Written by whoever makes or destroys a value in the slot.
    model::sent_values values;
    bool ended = false;  // A receiver was told that nothing comes any more.
};

world* all;

void value::use_room() const noexcept {
    for (std::size_t i = 0; i < 2; ++i) {
        const auto* const begin = reinterpret_cast<const std::byte*>(&all->slots[i]);
        const auto* const here = reinterpret_cast<const std::byte*>(this);
        if (here >= begin && here < begin + sizeof(slot)) all->rooms[i] = all->rooms[i] + 1;
    }
}

void take_note(int number) {
    model::check(!all->ended, "a value after the end");
    all->values.note_received(number);
}

// The branch runs again, and its frame ends.
void resume(party& self) {
    ++self.resumed;
    const int number = self.number;
    if (!self.sends) {
        if (number != 0) {
            take_note(number);
        } else if (!self.cancelled) {
            model::check(all->channel.closed(), "resumed for nothing");
            all->ended = true;
        }
    } else if (number != 0) {
        model::check(self.closed || self.cancelled, "neither sent nor told why");
        ++all->values.kept[number];
    }
    self.frame.destroy("task");
}

void complete(party& waiting) {
    waiting.frame.touch("task");
    if (waiting.word.complete()) resume(waiting);
}

// As channel::put().
void put(const weft::detail::send_decision<party>& decided, int number) {
    if (decided.step == send_step::stored) {
        all->slots[decided.to.slot].fill(decided.to.round, value(number));
    } else if (decided.step == send_step::handed) {
        decided.receiver->frame.touch("task");
        decided.receiver->number = number;
        complete(*decided.receiver);
    }
}

// As channel::get().
int get(const weft::detail::receive_decision<party>& decided) {
    int number = 0;
    if (decided.step == receive_step::taken) {
        all->slots[decided.from.slot].empty(
            decided.from.round, [&](value&& from) { number = value(std::move(from)).number; });
    }
    if (decided.sender == nullptr) return number;
    party& sender = *decided.sender;
    sender.frame.touch("task");
    const int sent = sender.number;
    sender.number = 0;
    if (decided.step == receive_step::taken) {
        all->slots[decided.to.slot].fill(decided.to.round, value(sent));
    } else {
        number = sent;
    }
    complete(sender);
    return number;
}

void cancel(party& waiting) {
    const bool was_there = waiting.sends ? all->channel.withdraw_sender(waiting)
                                         : all->channel.withdraw_receiver(waiting);
    if (was_there) {
        waiting.cancelled = true;
        waiting.word.withdrawn();
        resume(waiting);
    } else if (waiting.word.let_go()) {
        resume(waiting);
    }
}

void park(party& self) {
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume(self);
    case suspend_outcome::stopped: return cancel(self);
    }
}

void send(party& self, int number) {
    self.sends = true;
    self.number = number;
    const auto decided = all->channel.send(&self);
    if (decided.step == send_step::waits) return park(self);
    if (decided.step == send_step::closed) {
        self.closed = true;
    } else {
        self.number = 0;
        put(decided, number);
    }
    resume(self);
}

void receive(party& self) {
    const auto decided = all->channel.receive(&self);
    if (decided.step == receive_step::waits) return park(self);
    self.number = get(decided);
    resume(self);
}

bool try_send(int number) {
    const auto decided = all->channel.send(nullptr);
    put(decided, number);
    const bool sent = decided.step == send_step::stored || decided.step == send_step::handed;
    if (!sent) ++all->values.kept[number];
    return sent;
}

bool try_receive() {
    const auto decided = all->channel.receive(nullptr);
    if (const int number = get(decided)) take_note(number);
    return decided.step == receive_step::taken || decided.step == receive_step::passed;
}

void stop(party& waiting) {
    if (waiting.word.request_stop(false)) cancel(waiting);
}

void tell_closed(party* first) {
    while (first != nullptr) {
        party& each = *first;
        first = each.next;
        each.frame.touch("task");
        each.closed = true;
        complete(each);
    }
}

void close() {
    core::waiters gone;
    if (!all->channel.close(gone)) return;
    tell_closed(gone.senders);
    tell_closed(gone.receivers);
}

struct fixture : world {
    explicit fixture(std::size_t capacity) : world(capacity) { all = this; }

    // Takes what is left, ends all waits, and counts.
    void account(int sent) {
        while (try_receive()) {}
        close();
        values.check_each_is_somewhere(sent);
    }
    static void check_resumed(const party& task) {
        model::check(task.resumed == 1, "a wake-up is lost or doubled");
    }
    void check_full_beside(const party& sender) const {
        model::check(sender.resumed == 1 || channel.size() == channel.capacity(),
                     "a sender waits beside room");
    }
};

void meet(std::size_t capacity) {
    fixture here(capacity);
    party sender;
    party receiver;
    model::run_threads(model::named_thread{"sender", [&] { send(sender, 1); }},
                       model::named_thread{"receiver", [&] { receive(receiver); }});
    fixture::check_resumed(sender);
    fixture::check_resumed(receiver);
    model::check(here.values.received[1] == 1, "not received");
}

void meet_without_room() { meet(0); }
void meet_with_room() { meet(1); }

void two_senders() {
    fixture here(1);
    party senders[2];
    party receiver;
    model::run_threads(model::named_thread{"sender 1", [&] { send(senders[0], 1); }},
                       model::named_thread{"sender 2", [&] { send(senders[1], 2); }},
                       model::named_thread{"receiver", [&] {
                                               receive(receiver);
                                               try_receive();
                                           }});
    fixture::check_resumed(receiver);
    here.account(2);
    for (const party& each : senders) fixture::check_resumed(each);
}

void two_receivers() {
    fixture here(1);
    party receivers[2];
    party sender;
    model::run_threads(model::named_thread{"receiver 1", [&] { receive(receivers[0]); }},
                       model::named_thread{"receiver 2", [&] { receive(receivers[1]); }},
                       model::named_thread{"sender", [&] { send(sender, 1); }});
    fixture::check_resumed(sender);
    model::check(here.values.received[1] == 1, "not received");
    model::check(receivers[0].resumed + receivers[1].resumed == 1, "resumed for nothing");
    here.account(1);
    for (const party& each : receivers) fixture::check_resumed(each);
}

// One thread sends twice through one slot, two receive: the slot's turns are decided on early.
void turns_of_a_slot() {
    fixture here(1);
    model::run_threads(model::named_thread{"sender",
                                           [&] {
                                               try_send(1);
                                               try_send(2);
                                           }},
                       model::named_thread{"receiver 1", [&] { try_receive(); }},
                       model::named_thread{"receiver 2", [&] { try_receive(); }});
    here.account(2);
}

// Who waits for room, and a receiver that makes it.
void refill() {
    fixture here(1);
    party sender;
    try_send(1);
    model::run_threads(model::named_thread{"sender", [&] { send(sender, 2); }},
                       model::named_thread{"receiver", [&] { try_receive(); }},
                       model::named_thread{"another", [&] { try_receive(); }});
    here.check_full_beside(sender);
    here.account(2);
    fixture::check_resumed(sender);
}

void refill_by_one() {
    fixture here(1);
    party sender;
    try_send(1);
    model::run_threads(model::named_thread{"sender", [&] { send(sender, 2); }},
                       model::named_thread{"receiver", [&] { try_receive(); }});
    here.check_full_beside(sender);
    fixture::check_resumed(sender);
    here.account(2);
}

void receive_against_stop() {
    fixture here(0);
    party sender;
    party receiver;
    model::run_threads(model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"sender", [&] { send(sender, 1); }},
                       model::named_thread{"canceller", [&] { stop(receiver); }});
    fixture::check_resumed(receiver);
    here.account(1);
    fixture::check_resumed(sender);
}

void send_against_stop() {
    fixture here(0);
    party sender;
    party receiver;
    model::run_threads(model::named_thread{"sender", [&] { send(sender, 1); }},
                       model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"canceller", [&] { stop(sender); }});
    fixture::check_resumed(sender);
    here.account(1);
    fixture::check_resumed(receiver);
}

// Two stand in line; the second one is stopped while the first one is served.
void stop_in_line() {
    fixture here(0);
    party senders[2];
    send(senders[0], 1);
    send(senders[1], 2);
    model::run_threads(model::named_thread{"receiver",
                                           [&] {
                                               try_receive();
                                               try_receive();
                                           }},
                       model::named_thread{"canceller", [&] { stop(senders[1]); }});
    for (const party& each : senders) fixture::check_resumed(each);
    here.account(2);
}

void stop_receiver_in_line() {
    fixture here(0);
    party receivers[3];
    for (party& each : receivers) receive(each);
    model::run_threads(model::named_thread{"sender", [&] { try_send(1); }},
                       model::named_thread{"canceller", [&] { stop(receivers[1]); }});
    fixture::check_resumed(receivers[0]);
    try_send(2);
    here.account(2);
    for (const party& each : receivers) fixture::check_resumed(each);
    model::check(here.values.received[2] == 1, "who stood in line behind is forgotten");
}

void meet_against_close() {
    fixture here(0);
    party sender;
    party receiver;
    model::run_threads(model::named_thread{"sender", [&] { send(sender, 1); }},
                       model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"closer", close});
    fixture::check_resumed(sender);
    fixture::check_resumed(receiver);
    here.account(1);
}

void store_against_close() {
    fixture here(1);
    party receiver;
    model::run_threads(model::named_thread{"sender", [&] { try_send(1); }},
                       model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"closer", close});
    fixture::check_resumed(receiver);
    here.account(1);
}

void send_against_close() {
    fixture here(0);
    party sender;
    model::run_threads(model::named_thread{"sender", [&] { send(sender, 1); }},
                       model::named_thread{"closer", close});
    fixture::check_resumed(sender);
    here.account(1);
}

void stop_against_close() {
    fixture here(0);
    party receiver;
    model::run_threads(model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"closer", close},
                       model::named_thread{"canceller", [&] { stop(receiver); }});
    fixture::check_resumed(receiver);
    here.account(0);
}

const model::scenario scenarios[] = {
    {"meet", meet_without_room},
    {"meet, with room", meet_with_room},
    {"two senders", two_senders},
    {"two receivers", two_receivers},
    {"turns of a slot", turns_of_a_slot},
    {"refill", refill},
    {"refill by one", refill_by_one},
    {"receive against stop", receive_against_stop},
    {"send against stop", send_against_stop},
    {"stop in line", stop_in_line},
    {"stop a receiver in line", stop_receiver_in_line},
    {"meet against close", meet_against_close},
    {"store against close", store_against_close},
    {"send against close", send_against_close},
    {"stop against close", stop_against_close},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "channel", scenarios);
}
