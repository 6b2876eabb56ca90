// SPDX-License-Identifier: MIT

// Model of the sends that a ring has taken over: their owner, and somebody who takes them for it.

#include <weft/detail/netpoll/gathered_sends.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;

namespace {

/// An operation with its frame, which whoever has it may destroy.
struct sending {
    layer::var<int> frame{0};
    int readied = 0;
};

using sends = weft::detail::gathered_sends<layer, sending, 1>;
using weft::detail::send_taking;

void ready(sending* got) {
    if (got == nullptr) return;
    model::check(got->frame.get() == 1, "the branch is not suspended as far as we see");
    got->frame.set(2);
    ++got->readied;
}

std::uint64_t add(sends& own, sending& added) {
    const std::uint64_t name = own.add(added, 0);
    added.frame.set(1);
    own.publish();
    return name;
}

/// The completion may be read from the push on: before the branch is suspended, and also late.
void take(sends& of, std::uint64_t name) {
    sending* taken = nullptr;
    if (of.take_for_owner(name, taken) == send_taking::taken) ready(taken);
}

constexpr std::uint64_t first_name = std::uint64_t{1} << 5;
constexpr std::uint64_t second_name = std::uint64_t{2} << 5;

// One of both has it.
void owner_and_taker() {
    sends own;
    sending only;
    model::run_threads(model::named_thread{"owner", [&] { ready(own.end(add(own, only))); }},
                       model::named_thread{"taker", [&] { take(own, first_name); }});
    model::check(only.readied == 1, "lost or readied twice");
    model::check(!own.any(), "the slot is not free");
}

// The slot is used again, while somebody still has the name of its first use, or the next one.
void used_again() {
    sends own;
    sending first, second;
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               ready(own.end(add(own, first)));
                                               ready(own.end(add(own, second)));
                                           }},
                       model::named_thread{"taker", [&] {
                                               take(own, first_name);
                                               take(own, second_name);
                                           }});
    model::check(first.readied == 1 && second.readied == 1, "lost or readied twice");
    model::check(!own.any(), "the slot is not free");
}

// What is not published is not taken, and can be taken later.
void asked_too_early() {
    sends own;
    sending only;
    model::run_threads([&] {
        const std::uint64_t name = own.add(only, 7);
        sending* taken = nullptr;
        model::check(own.take_for_owner(name, taken) == send_taking::too_early, "taken too early");
        own.for_each([&](std::uint64_t each, unsigned position) {
            model::check(each == name && position == 7, "another one");
        });
        own.publish();
        model::check(own.take_for_owner(name, taken) == send_taking::taken, "not taken");
        model::check(taken == &only, "another one was taken");
        model::check(own.any() && own.full(), "the slot is free before its completion is taken");
        model::check(own.end(name + 1) == nullptr && own.end(name) == nullptr, "taken twice");
        model::check(own.take_for_owner(name, taken) == send_taking::gone, "taken again");
    });
    model::check(!own.any(), "the slot is not free");
}

const model::scenario scenarios[] = {
    {"owner and taker", owner_and_taker},
    {"used again", used_again},
    {"asked too early", asked_too_early},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "gathered sends", scenarios);
}
