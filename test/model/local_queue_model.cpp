// SPDX-License-Identifier: MIT

// Model of the local run queue with a ring of two or four and indices of eight bits: put, get,
// steal half, overflow, wrap-around of the indices, a stolen runnext, and its part of the parking
// protocol.

#include <weft/detail/sched/local_queue.hpp>

#include "explorer.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using order = std::memory_order;

namespace {

struct node {
    layer::var<node*> next;
    // Written by whoever puts the node in and by whoever takes it out.
    layer::var<int> content;
    int number = 0;
    int taken = 0;
};

template <unsigned Capacity>
using queue = weft::detail::local_queue<layer, node, Capacity, std::uint8_t>;

// The nodes of one execution; all of them must have been taken once in the end.
template <int Count>
struct node_set {
    node nodes[Count];

    node_set() {
        for (int i = 0; i < Count; ++i) nodes[i].number = i;
    }
    // Whoever puts a node in fills it first.
    node* fresh(int number) {
        nodes[number].content.set(number);
        return &nodes[number];
    }
    void check_all_taken(int from = 0) {
        for (int i = from; i < Count; ++i) model::check(nodes[i].taken == 1, "a node is lost");
    }
};

int take(node* got) {
    if (got == nullptr) return -1;
    model::check(++got->taken == 1, "a node is taken twice");
    model::check(got->content.get() == got->number, "a node's content is not visible");
    got->content.set(-1);
    return got->number;
}

// The global queue: one list, used by one owner in the models below.
struct global_list {
    node* first = nullptr;
    node* last = nullptr;
    unsigned expected_count = 0;

    void operator()(node* batch_first, node* batch_last, std::size_t count) {
        model::check(count == expected_count, "a batch of the wrong size");
        node* walk = batch_first;
        for (std::size_t i = 1; i < count; ++i) {
            node* following = walk->next;
            model::check(following != nullptr, "a batch ends too early");
            model::check(following->number > walk->number, "a batch is not in order");
            walk = following;
        }
        model::check(walk == batch_last, "a batch is not linked");
        model::check(static_cast<node*>(batch_last->next) == nullptr, "a batch does not end");
        if (first == nullptr) {
            first = batch_first;
        } else {
            last->next = batch_first;
        }
        last = batch_last;
    }
    void take_all() {
        for (node* each = first; each != nullptr;) {
            node* following = each->next;
            take(each);
            each = following;
        }
    }
};

constexpr auto no_overflow = [](node*, node*, std::size_t) { model::fail("overflow"); };

template <class Queue>
void take_rest(Queue& from) {
    take(from.pop_next());
    while (node* got = from.pop()) take(got);
    model::check(from.empty() && from.size() == 0, "a drained queue is not empty");
}

// ---- the ring

// Owner puts and gets while a thief takes half; indices wrap.
void put_get_steal() {
    queue<4> own(254), thiefs(255);
    node_set<4> all;
    own.push_back(all.fresh(0), no_overflow);
    own.push_back(all.fresh(1), no_overflow);
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               own.push_back(all.fresh(2), no_overflow);
                                               const int first = take(own.pop());
                                               own.push_back(all.fresh(3), no_overflow);
                                               const int second = take(own.pop());
                                               model::check(second == -1 || second > first,
                                                            "the owner's order is not FIFO");
                                           }},
                       model::named_thread{"thief", [&] {
                                               node* got = own.steal_into(thiefs, false);
                                               const std::size_t kept = thiefs.ring_size();
                                               model::check(kept <= 1, "more than half is taken");
                                               const int last = take(got);
                                               const int earlier = take(thiefs.pop());
                                               model::check((earlier == -1) == (kept == 0),
                                                            "wrong ring size");
                                               model::check(earlier < last || last == -1,
                                                            "the thief's order is not FIFO");
                                           }});
    take_rest(own);
    take_rest(thiefs);
    all.check_all_taken();
}

// The slots of a ring of two are filled again at once.
void two_thieves() {
    queue<2> own(255), first(254), second(0);
    node_set<3> all;
    own.push_back(all.fresh(0), no_overflow);
    own.push_back(all.fresh(1), no_overflow);
    const auto steal = [&](queue<2>& into) { return [&] { take(own.steal_into(into, false)); }; };
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               take(own.pop());
                                               own.push_back(all.fresh(2), no_overflow);
                                           }},
                       model::named_thread{"thief 1", steal(first)},
                       model::named_thread{"thief 2", steal(second)});
    take_rest(own);
    take_rest(first);
    take_rest(second);
    all.check_all_taken();
}

// A thief whose loot is stolen in turn: half is published in its own ring, contents and all.
void loot_is_stolen() {
    queue<4> own(253), middle(254), last(255);
    node_set<4> all;
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               for (int i = 0; i < 4; ++i)
                                                   own.push_back(all.fresh(i), no_overflow);
                                           }},
                       model::named_thread{"middle", [&] { take(own.steal_into(middle, false)); }},
                       model::named_thread{"last", [&] { take(middle.steal_into(last, false)); }});
    take_rest(own);
    take_rest(middle);
    take_rest(last);
    all.check_all_taken();
}

// Nobody disturbs: half rounded up, in order, and the last one is returned.
void halves() {
    for (int filled = 0; filled <= 4; ++filled) {
        queue<4> own(254), thiefs(255);
        node_set<4> all;
        for (int i = 0; i < filled; ++i) own.push_back(all.fresh(i), no_overflow);
        const int half = (filled + 1) / 2;
        model::check(own.ring_size() == static_cast<std::size_t>(filled), "size");
        model::check(take(own.steal_into(thiefs, false)) == half - 1, "not the last of half");
        for (int i = 0; i < half - 1; ++i) model::check(take(thiefs.pop()) == i, "order of thief");
        for (int i = half; i < filled; ++i) model::check(take(own.pop()) == i, "order of owner");
        model::check(own.pop() == nullptr && thiefs.pop() == nullptr, "too many");
    }
}

// ---- overflow

template <unsigned Capacity, std::uint8_t First>
void overflow_with_thief() {
    constexpr int count = static_cast<int>(Capacity) + 2;
    queue<Capacity> own(First), thiefs(255);
    global_list global{.expected_count = Capacity / 2 + 1};
    node_set<count> all;
    for (int i = 0; i < static_cast<int>(Capacity) - 1; ++i) {
        own.push_back(all.fresh(i), no_overflow);
    }
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               for (int i = Capacity - 1; i < count; ++i) {
                                                   own.push_back(all.fresh(i), global);
                                               }
                                           }},
                       model::named_thread{"thief", [&] { take(own.steal_into(thiefs, false)); }});
    global.take_all();
    take_rest(own);
    take_rest(thiefs);
    all.check_all_taken();
}

// S17 in small: the older half of the ring and the kicked node leave in order; the rest stays.
void overflow_order() {
    queue<4> own(254);
    global_list global{.expected_count = 3};
    node_set<6> all;
    for (int i = 0; i < 6; ++i) own.push_next(all.fresh(i), global);
    model::check(own.size() == 3, "size after overflow");
    const int expected[] = {0, 1, 4};
    node* walk = global.first;
    for (int number : expected) {
        model::check(walk != nullptr && walk->number == number, "wrong batch");
        walk = walk->next;
    }
    global.take_all();
    model::check(take(own.pop_next()) == 5, "the newest goes first");
    model::check(take(own.pop()) == 2 && take(own.pop()) == 3, "then the ring in order");
    all.check_all_taken();
}

// ---- batches from the global queue

void batch_with_thief() {
    queue<4> own(255), thiefs(255);
    node_set<5> all;
    for (int i = 0; i < 5; ++i) all.fresh(i);
    for (int i = 1; i < 4; ++i) all.nodes[i].next = &all.nodes[i + 1];
    all.nodes[4].next = nullptr;
    own.push_back(&all.nodes[0], no_overflow);
    node* chain = &all.nodes[1];
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               const std::size_t moved = own.push_batch(chain, 4);
                                               model::check(moved >= 3, "there was room");
                                               model::check((chain == nullptr) == (moved == 4),
                                                            "wrong rest");
                                           }},
                       model::named_thread{"thief", [&] { take(own.steal_into(thiefs, false)); }});
    if (chain != nullptr) take(chain);
    int last = -1;
    while (node* got = own.pop()) {
        model::check(got->number > last, "a batch is out of order");
        last = take(got);
    }
    take_rest(thiefs);
    all.check_all_taken();
}

// ---- empty()

// The kicked node is always somewhere.
void never_empty_while_kicked() {
    queue<2> own(255);
    node_set<2> all;
    own.push_next(all.fresh(0), no_overflow);
    model::run_threads(
        model::named_thread{"owner",
                            [&] {
                                own.push_next(all.fresh(1), no_overflow);
                                take(own.pop_next());
                            }},
        model::named_thread{"observer", [&] { model::check(!own.empty(), "spuriously empty"); }});
    take_rest(own);
    all.check_all_taken();
}

// Before next is emptied another node is in the ring.
void never_empty_while_next_is_taken() {
    queue<2> own(255);
    node_set<2> all;
    own.push_next(all.fresh(0), no_overflow);
    model::run_threads(
        model::named_thread{"owner",
                            [&] {
                                own.push_back(all.fresh(1), no_overflow);
                                take(own.pop_next());
                            }},
        model::named_thread{"observer", [&] { model::check(!own.empty(), "spuriously empty"); }});
    take_rest(own);
    all.check_all_taken();
}

// ---- the parking protocol: publish, then read the counts; park, then recheck

enum class publication { next, kick_and_theft, back, batch };

template <publication How>
void publish_against_park() {
    queue<2> own(255), thiefs(0);
    node_set<2> all;
    layer::atomic<int> parked{0};
    bool owner_sees_parked = false;
    bool parker_sees_work = false;
    const bool kick = How == publication::kick_and_theft;
    if (kick) own.push_next(all.fresh(0), no_overflow);
    model::run_threads(model::named_thread{"owner",
                                           [&] {
                                               node* added = all.fresh(1);
                                               if (How == publication::next || kick) {
                                                   own.push_next(added, no_overflow);
                                               } else if (How == publication::back) {
                                                   own.push_back(added, no_overflow);
                                                   own.publish_barrier();
                                               } else {
                                                   added->next = nullptr;
                                                   own.push_batch(added, 1);
                                                   own.publish_barrier();
                                               }
                                               owner_sees_parked = parked.load(order::seq_cst) != 0;
                                           }},
                       model::named_thread{"parker", [&] {
                                               if (kick) take(own.steal_next(own.peek_next()));
                                               parked.fetch_add(1, order::seq_cst);
                                               parker_sees_work = !own.empty();
                                           }});
    const bool left = own.size() != 0;
    model::check(owner_sees_parked || parker_sees_work || !left, "a wake-up is lost");
    take_rest(own);
    all.check_all_taken(kick ? 0 : 1);
}

// As launch() and begin_drain(): a spawner marks its task alive, pushes it and reads the phase; a
// thread that ends the runtime changes the phase, meets the owner and looks for tasks alive.
void meet_the_owner() {
    queue<2> own(255);
    node_set<2> all;
    layer::atomic<bool> alive{false}, draining{false};
    layer::var<int> contents{0};
    bool spawner_sees_end = false;
    bool end_sees_task = false;
    own.push_next(all.fresh(0), no_overflow);
    model::run_threads(
        model::named_thread{"spawner",
                            [&] {
                                contents = 7;
                                alive.store(true, order::release);
                                own.push_next(all.fresh(1), no_overflow);
                                spawner_sees_end = draining.load(order::acquire);
                            }},
        model::named_thread{"end", [&] {
                                draining.store(true, order::release);
                                own.meet_owner();
                                end_sees_task = alive.load(order::acquire);
                                if (end_sees_task) model::check(contents == 7, "not set up");
                            }});
    model::check(spawner_sees_end || end_sees_task, "a task is asked to stop by nobody");
    while (own.pop_next() != nullptr || own.pop() != nullptr) {
    }
}

const model::scenario scenarios[] = {
    {"put, get and steal", put_get_steal},
    {"two thieves", two_thieves},
    {"the loot is stolen", loot_is_stolen},
    {"halves", halves},
    {"overflow of a ring of two", overflow_with_thief<2, 255>},
    {"overflow of a ring of four", overflow_with_thief<4, 253>},
    {"order of an overflow", overflow_order},
    {"batch against a thief", batch_with_thief},
    {"never empty while a node is kicked", never_empty_while_kicked},
    {"never empty while next is taken", never_empty_while_next_is_taken},
    {"publish by runnext against park", publish_against_park<publication::next>},
    {"publish a kicked node against park", publish_against_park<publication::kick_and_theft>},
    {"publish by the ring against park", publish_against_park<publication::back>},
    {"publish a batch against park", publish_against_park<publication::batch>},
    {"meet the owner", meet_the_owner},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "local_queue", scenarios);
}
