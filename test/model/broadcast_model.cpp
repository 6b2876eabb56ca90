// SPDX-License-Identifier: MIT

// Model of a broadcast, and of a watch, which is one with room for one value: each receiver must
// get each value in order, or be told how many it has lost, and nobody may wait beside a value or
// after the end.

#include <weft/detail/branch/operation_word.hpp>
#include <weft/detail/sync/broadcast_core.hpp>

#include "explorer.hpp"

#include <cstddef>
#include <cstdint>

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::suspend_outcome;
using weft::detail::take_decision;
using weft::detail::take_step;

namespace {

// A task that receives: its branch, and what its frame holds.
struct party : weft::detail::wait_links<layer, party> {
    weft::detail::operation_word<layer> word;
    model::lifetime frame;
    layer::var<bool> cancelled{false};
    layer::var<std::uint64_t> wanted{0};  // The number of the value that it wants next.
    int resumed = 0;
    int got = 0;  // The last value, 0 for none.
    std::uint64_t lost = 0;
    std::uint64_t count = 0;
    bool ended = false;
};

using core = weft::detail::broadcast_core<layer, party>;

struct fixture {
    explicit fixture(std::size_t capacity) : broadcast(capacity) { all = this; }

    core broadcast;
    layer::var<int> slots[2]{0, 0};
    static fixture* all;
};

fixture* fixture::all;

fixture& here() {
    return *fixture::all;
}

void complete_all(party* first);

take_decision take(party& self, party* waits) {
    std::uint64_t next = self.wanted;
    int value = 0;
    const take_decision decided = here().broadcast.take(
        next, [&](std::size_t slot) noexcept { value = here().slots[slot]; }, waits);
    // One that waits is not to be touched any more.
    if (decided.step == take_step::waits) return decided;
    self.wanted = next;
    if (decided.step == take_step::ended) {
        self.ended = true;
        return decided;
    }
    model::check(!self.ended, "a value after the end");
    model::check(value == self.got + 1 + static_cast<int>(decided.lost), "not the next value");
    self.got = value;
    self.lost += decided.lost;
    ++self.count;
    return decided;
}

// The branch runs again, and its frame ends.
void resume(party& self, bool has_waited) {
    ++self.resumed;
    if (!self.cancelled && has_waited) {
        model::check(take(self, nullptr).step != take_step::waits, "it was woken for nothing");
    }
    self.frame.destroy("task");
}

void complete_all(party* first) {
    while (first != nullptr) {
        party& each = *first;
        first = each.next;
        each.frame.touch("task");
        if (each.word.complete()) resume(each, true);
    }
}

// Values are numbers, from 1.
void send(int value) {
    const auto sent =
        here().broadcast.publish([&](std::size_t slot) noexcept { here().slots[slot] = value; });
    if (sent.open) complete_all(sent.woken);
}

void close() {
    party* gone = nullptr;
    if (here().broadcast.close(gone)) complete_all(gone);
}

void cancel(party& waiting) {
    if (here().broadcast.withdraw(waiting)) {
        waiting.cancelled = true;
        waiting.word.withdrawn();
        resume(waiting, true);
    } else if (waiting.word.let_go()) {
        resume(waiting, true);
    }
}

// As follow_operation::start().
void receive(party& self) {
    if (take(self, &self).step != take_step::waits) return resume(self, false);
    switch (self.word.suspend()) {
    case suspend_outcome::suspended: return;
    case suspend_outcome::completed: return resume(self, true);
    case suspend_outcome::stopped: return cancel(self);
    }
}

void stop(party& waiting) {
    if (waiting.word.request_stop(false)) cancel(waiting);
}

// Takes what is left without waiting, and counts.
void account(party& receiver, std::uint64_t sent) {
    while (take(receiver, nullptr).step == take_step::got) {}
    model::check(receiver.count + receiver.lost == sent, "what is received and lost is not all");
    model::check(receiver.ended == here().broadcast.closed(), "it does not see the end");
}

void check_resumed(const party& task) {
    model::check(task.resumed == 1, "a wake-up is lost or doubled");
}

void receive_against_send() {
    fixture broadcast(2);
    party receivers[2];
    model::run_threads(model::named_thread{"receiver 1", [&] { receive(receivers[0]); }},
                       model::named_thread{"receiver 2", [&] { receive(receivers[1]); }},
                       model::named_thread{"sender", [] { send(1); }});
    for (party& each : receivers) {
        check_resumed(each);
        account(each, 1);
        model::check(each.lost == 0, "lost although there was room");
    }
}

// The sender is faster than its receiver, which has room for one value, or two.
void overtaken(std::size_t capacity) {
    fixture broadcast(capacity);
    party receiver;
    model::run_threads(model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"sender", [] {
                                               send(1);
                                               send(2);
                                               send(3);
                                               close();
                                           }});
    check_resumed(receiver);
    account(receiver, 3);
    model::check(receiver.got == 3, "the last value is not seen");
    model::check(receiver.count >= capacity, "it has lost what was kept");
}

void overtaken_by_one() {
    overtaken(1);
}
void overtaken_by_two() {
    overtaken(2);
}

void two_senders() {
    fixture broadcast(2);
    party receiver;
    // Both send the same number, as the order is theirs: the counts tell what is lost.
    const auto send_next = [] {
        const auto sent = here().broadcast.publish([](std::size_t slot) noexcept {
            const std::size_t other = 1 - slot;
            here().slots[slot] = here().slots[other] + 1;
        });
        complete_all(sent.woken);
    };
    model::run_threads(model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"sender 1", send_next},
                       model::named_thread{"sender 2", send_next});
    check_resumed(receiver);
    account(receiver, 2);
    model::check(receiver.lost == 0, "lost although there was room");
}

void receive_against_close() {
    fixture broadcast(1);
    party receiver;
    model::run_threads(model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"closer", close});
    check_resumed(receiver);
    account(receiver, 0);
    model::check(receiver.ended, "it does not see the end");
    const auto sent = broadcast.broadcast.publish(
        [](std::size_t) noexcept { model::fail("a value after the end"); });
    model::check(!sent.open, "it does not say that it is closed");
    party* gone = nullptr;
    model::check(!broadcast.broadcast.close(gone), "closed twice");
}

void receive_against_stop() {
    fixture broadcast(1);
    party receiver;
    model::run_threads(model::named_thread{"receiver", [&] { receive(receiver); }},
                       model::named_thread{"sender", [] { send(1); }},
                       model::named_thread{"canceller", [&] { stop(receiver); }});
    check_resumed(receiver);
    account(receiver, 1);
    model::check(receiver.count == 1, "the value is lost");
}

void stop_in_line() {
    fixture broadcast(1);
    party receivers[3];
    for (party& each : receivers) receive(each);
    model::run_threads(model::named_thread{"sender", [] { send(1); }},
                       model::named_thread{"canceller", [&] { stop(receivers[1]); }});
    for (party& each : receivers) check_resumed(each);
    for (party& each : receivers) account(each, 1);
}

void subscribe_to_the_newest() {
    fixture broadcast(2);
    int newest = 0;
    const auto look = [&] {
        return here().broadcast.newest(
            [&](std::size_t slot) noexcept { newest = here().slots[slot]; });
    };
    model::check(look() == 0 && newest == 0, "something out of nothing");
    send(1);
    model::run_threads(model::named_thread{"sender", [] { send(2); }},
                       model::named_thread{"reader", [&] {
                                               const std::uint64_t next = look();
                                               model::check(
                                                   next == static_cast<std::uint64_t>(newest),
                                                   "not the newest");
                                           }});
    model::check(look() == 2 && newest == 2, "not the newest");
}

const model::scenario scenarios[] = {
    {"receive against send", receive_against_send},
    {"overtaken, room for one", overtaken_by_one},
    {"overtaken, room for two", overtaken_by_two},
    {"two senders", two_senders},
    {"receive against close", receive_against_close},
    {"receive against stop", receive_against_stop},
    {"stop in line", stop_in_line},
    {"subscribe to the newest", subscribe_to_the_newest},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "broadcast", scenarios);
}
