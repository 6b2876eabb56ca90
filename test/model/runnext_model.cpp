// SPDX-License-Identifier: MIT

// Model of `runnext` alone: its owner puts and takes, thieves take what they saw before.

#include <weft/detail/sched/local_queue.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;

namespace {

struct node {
    node* next = nullptr;
    layer::var<int> content;
    int taken = 0;
};

using queue = weft::detail::local_queue<layer, node, 2, std::uint8_t>;

constexpr auto no_overflow = [](node*, node*, std::size_t) { model::fail("overflow"); };

void take(node* got) {
    if (got == nullptr) return;
    ++got->taken;
    model::check(got->content.get() == 1, "a node's content is not visible");
    got->content.set(0);
}

void put(queue& own, node& added) {
    added.content.set(1);
    own.push_next(&added, no_overflow);
}

void take_rest(queue& own) {
    take(own.pop_next());
    while (node* got = own.pop()) take(got);
}

// The owner puts, takes back and puts again; a thief takes what it saw a while ago.
void owner_and_thief() {
    queue own(255);
    node first, second;
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               put(own, first);
                                               take(own.pop_next());
                                               put(own, second);
                                               take(own.pop_next());
                                           }},
                       model::named_thread{"thief", [&] {
                                               node* seen = own.peek_next();
                                               take(own.steal_next(seen));
                                           }});
    take_rest(own);
    model::check(first.taken == 1 && second.taken == 1, "lost or taken twice");
}

// The same node is there again: it may be taken, once for each time that it was put.
void same_node_again() {
    queue own(255);
    node only;
    int puts = 1;
    put(own, only);
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               if (node* got = own.pop_next()) {
                                                   take(got);
                                                   ++puts;
                                                   put(own, *got);
                                               }
                                           }},
                       model::named_thread{"thief", [&] {
                                               node* seen = own.peek_next();
                                               take(own.steal_next(seen));
                                           }});
    take_rest(own);
    model::check(only.taken == puts, "lost or taken twice");
}

// The older node is kicked to the ring while two thieves want it.
void kick_and_two_thieves() {
    queue own(255), loot(0);
    node first, second;
    put(own, first);
    const auto thief = [&] { take(own.steal_next(own.peek_next())); };
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               put(own, second);
                                               take(own.pop_next());
                                           }},
                       model::named_thread{"thief 1", thief},
                       model::named_thread{"thief 2", [&] { take(own.steal_into(loot, true)); }});
    take_rest(own);
    take_rest(loot);
    model::check(first.taken == 1 && second.taken == 1, "lost or taken twice");
}

// Who steals only the ring leaves next alone.
void left_alone() {
    queue own(255), loot(0);
    node only;
    put(own, only);
    model::run_threads([&] { model::check(own.steal_into(loot, false) == nullptr, "taken"); });
    model::check(own.pop_next() == &only, "gone");
}

const model::scenario scenarios[] = {
    {"owner and thief", owner_and_thief},
    {"the same node again", same_node_again},
    {"kick and two thieves", kick_and_two_thieves},
    {"left alone", left_alone},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "runnext", scenarios);
}
