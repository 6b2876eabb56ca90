// SPDX-License-Identifier: MIT

// Model of the inbox of a ring: every request is taken once, and the owner does not sleep over one.

#include <weft/detail/netpoll/request_inbox.hpp>

#include "explorer.hpp"

#include <array>
#include <cstdint>

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;

namespace {

struct fixture {
    weft::detail::request_inbox<layer> inbox;
    // What an entry brings along: its link, and what it is about.
    std::array<layer::var<std::uint32_t>, 4> links{0U, 0U, 0U, 0U};
    std::array<layer::var<int>, 4> content{0, 0, 0, 0};
    // The bell is a counter in the kernel: it orders nothing for the program.
    layer::atomic<unsigned> bell{0};
    std::array<int, 4> taken{};
    unsigned sleeps = 0;

    void push(std::uint32_t entry) {
        content[entry] = 7;
        if (inbox.push(entry, [&](std::uint32_t next) { links[entry] = next; })) {
            bell.fetch_add(1, order::relaxed);
        }
    }

    unsigned take() {
        unsigned count = 0;
        for (std::uint32_t entry = inbox.take(); entry != 0; entry = links[entry]) {
            model::check(content[entry] == 7, "a request is not visible");
            model::check(++taken[entry] == 1, "a request is taken twice");
            ++count;
        }
        return count;
    }

    void own(unsigned expected) {
        for (unsigned count = take(); count < expected; count += take()) {
            if (!inbox.prepare_sleep()) continue;
            ++sleeps;
            model::block_until([&] { return bell.peek() != 0; }, "asleep in the ring");
            bell.exchange(0, order::relaxed);
            inbox.finish_sleep();
        }
    }

    auto owner(unsigned expected) {
        return model::named_thread{"owner", [this, expected] { own(expected); }};
    }
    auto pusher(std::uint32_t first, std::uint32_t last) {
        return model::named_thread{"pusher", [this, first, last] {
                                       for (std::uint32_t i = first; i <= last; ++i) push(i);
                                   }};
    }
};

void one_pusher() {
    fixture all;
    model::run_threads(all.owner(2), all.pusher(1, 2));
}

void two_pushers() {
    fixture all;
    model::run_threads(all.owner(3), all.pusher(1, 2), all.pusher(3, 3));
}

// Nobody is woken who is awake: a system call for nothing.
void awake() {
    fixture all;
    all.push(1);
    model::check(all.bell.peek() == 0, "the bell is rung for an owner that is awake");
    all.own(1);
    model::check(all.inbox.prepare_sleep(), "nothing to do");
    all.push(2);
    model::check(all.bell.peek() == 1, "the bell is not rung for an owner that sleeps");
    all.inbox.finish_sleep();
    all.push(3);
    model::check(all.bell.peek() == 1, "the bell is rung for an owner that is awake");
    model::check(!all.inbox.prepare_sleep(), "the owner sleeps over a request");
    model::check(all.take() == 2, "a request is lost");
    model::check(all.inbox.prepare_sleep(), "nothing to do");
}

constexpr model::scenario scenarios[] = {
    {"one pusher", one_pusher},
    {"two pushers", two_pushers},
    {"awake", awake},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "request_inbox", scenarios);
}
