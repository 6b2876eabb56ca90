// SPDX-License-Identifier: MIT

// Model of a descriptor in an epoll set (lib/netpoll/epoll_poller.cpp). Nobody owns the set, so
// whoever makes a poll lose its place ends it there and then, on his own thread, beside the
// operation that is just arming it: the closer, a worker of another runtime to which the poll
// moves, and the end of the set. The file is closed once, when no operation is inside and nothing
// is registered; who waits is told.

#include "closing_reader.hpp"

namespace model = weft::model;
using weft::detail::direction;
using weft::detail::enter_outcome;
using weft::detail::wait_step;
using namespace weft::model;

namespace {

enum class cancel_reason : int { closing, moved, failed };

constexpr unsigned set = 0;
constexpr unsigned elsewhere = 1;

// The file and its place in the set of the kernel, in one word. Calls on the set take its mutex, so
// they order what is around them; all others are relaxed, as in kernel_file.
class kernel_set {
public:
    bool full = false;  // Nothing can be added.

    bool read() {
        bool got = false;
        change([&](unsigned value) {
            got = value >= one_message;
            return got ? value - one_message : value;
        });
        return got;
    }
    // The peer writes.
    void write() {
        change([](unsigned value) {
            value += one_message;
            return (value & registered) != 0 ? value | event : value;
        });
    }
    // Adds the file; saying it again reports what is ready now.
    void add() {
        change<order::acq_rel>([](unsigned value) {
            return value >= one_message ? value | registered | event : value | registered;
        });
    }
    void remove() {
        change<order::acq_rel>([](unsigned value) { return value & ~(registered | event); });
    }
    bool take_event() {
        bool got = false;
        change([&](unsigned value) {
            got = (value & event) != 0;
            return value & ~event;
        });
        return got;
    }
    bool has_event() const { return (word_.peek() & event) != 0; }
    bool is_registered() const { return (word_.peek() & registered) != 0; }

private:
    static constexpr unsigned registered = 1;
    static constexpr unsigned event = 2;
    static constexpr unsigned one_message = 4;

    template <order Success = order::relaxed, class Change>
    void change(Change&& next) {
        unsigned value = word_.peek();
        while (!word_.compare_exchange_strong(value, next(value), Success, order::relaxed)) {}
    }

    layer::atomic<unsigned> word_{0U};
};

// One life of a descriptor with its read side, in the steps of poll_descriptor.cpp and
// epoll_poller.cpp.
struct fixture {
    descriptor_word word;
    std::uint32_t generation;
    kernel_set kernel;
    side_of<2> reads;
    model::lifetime number;  // The number of the file: touched by each call that names it.
    model::lifetime lives;   // The set.
    layer::atomic<unsigned> unreleased{0U};
    layer::atomic<unsigned> visitors{0U};
    layer::atomic<unsigned> closed{0U};
    int closes = 0;
    bool set_ends = false;  // And with it what is registered there.

    fixture() : generation(word.open()) {}

    void end_life() {
        model::check(set_ends || !kernel.is_registered(),
                     "the file is closed while it is in the set");
        model::check(++closes == 1, "the file is closed twice");
        number.destroy("file");
        reads.reset();
        word.end_life();
        closed.store(1, order::release);
    }
    void drop() {
        if (word.drop_reference()) end_life();
    }

    weft::detail::wait_decision wait(waiter& branch, unsigned here) {
        return wait_at(reads, branch, here, poll_references{word});
    }

    bool read() { return kernel.read(); }

    // An operation on a worker of the set's runtime. False: refused.
    bool arm(unsigned, const weft::detail::wait_decision& decision) {
        if (!decision.arms) return true;
        unreleased.fetch_add(1, order::relaxed);
        number.touch("file");
        if (kernel.full) {
            cancel(decision.armed, cancel_reason::failed);
            return false;
        }
        kernel.add();
        if (word.closing()) kernel.remove();
        return true;
    }

    // Whoever has made the poll lose its place.
    void cancel(const weft::detail::poll_name& poll, cancel_reason why) {
        visitors.fetch_add(1, order::relaxed);
        lives.touch("set");
        if (why == cancel_reason::closing) {
            number.touch("file");
            kernel.remove();
        }
        if (why == cancel_reason::failed ? reads.end_refused(poll)
                                         : reads.end_poll(poll, why == cancel_reason::moved)) {
            drop();
            unreleased.fetch_sub(1, order::release);
        }
        visitors.fetch_sub(1, order::release);
    }

    void close() {
        if (!word.begin_close(generation)) return;
        const auto decision = reads.close();
        complete(decision.waiter);
        if (decision.cancels && decision.poll.home == set)
            cancel(decision.poll, cancel_reason::closing);
        drop();
    }

    // The runtime has ended.
    void end_set() {
        while (unreleased.load(order::acquire) != 0) {
            if (reads.end_unless_closing(set)) {
                complete(reads.notify());
                drop();
                unreleased.fetch_sub(1, order::relaxed);
            }
            layer::pause();
        }
        while (visitors.load(order::acquire) != 0) layer::pause();
        lives.destroy("set");
    }

    auto closer() {
        return model::named_thread{"closer", [this] { close(); }};
    }
    auto ender() {
        return model::named_thread{"end of the set", [this] { end_set(); }};
    }
    auto peer() {
        return model::named_thread{"peer", [this] { kernel.write(); }};
    }
    // A worker that takes the events of the set.
    auto watcher() {
        return model::named_thread{
            "watcher", [this] {
                for (;;) {
                    model::block_until([&] { return kernel.has_event() || closed.peek() != 0; },
                                       "watcher without work");
                    if (closed.peek() != 0) return;
                    if (kernel.take_event() && word.generation() == generation) {
                        complete(reads.notify());
                    }
                }
            }};
    }
};

// A read of one message.
struct reader : closing_reader<fixture> {
    using closing_reader::closing_reader;

    void work() {
        start();
        while (ended == read_result::running) {
            model::block_until([&] { return branch.runnable.peek() != 0; },
                               "a waiter that nobody wakes");
            branch.runnable.exchange(0, order::acquire);
            start();
        }
    }
    auto worker() {
        return model::named_thread{"worker", [this] { work(); }};
    }
};

// A poll is in the set, and nobody waits for it.
void arm_before(fixture& all) {
    waiter early;
    model::check(all.arm(set, all.wait(early, set)), "refused");
    model::check(all.reads.withdraw(&early), "nobody took the waiter");
}

void check_closed(fixture& all) {
    model::check(all.closes == 1, "the file is never closed");
    model::check(all.unreleased.peek() == 0, "polls are released too often or too seldom");
    // The slot lives again, with nothing left of the last life but perhaps a late event.
    all.word.open();
    waiter branch;
    all.reads.forget_readiness();
    const auto decision = all.wait(branch, set);
    model::check(decision.step == wait_step::wait && decision.arms, "the new life inherits a poll");
}

// The operation enters, arms and waits.
void close_against_arm() {
    fixture all;
    reader reading(all, set);
    model::run_threads(reading.worker(), all.closer());
    model::check(reading.ended == read_result::closed, "a waiter is not told");
    check_closed(all);
}

// The same while data arrives.
void close_against_data() {
    fixture all;
    reader reading(all, set);
    model::run_threads(reading.worker(), all.watcher(), all.closer(), all.peer());
    model::check(reading.ended != read_result::running, "a waiter is not told");
    check_closed(all);
}

// The set does not take the file.
void close_against_refusal() {
    fixture all;
    all.kernel.full = true;
    reader reading(all, set);
    model::run_threads(reading.worker(), all.closer());
    model::check(reading.ended == read_result::closed || reading.ended == read_result::refused,
                 "a waiter is not told");
    check_closed(all);
}

// The same, and the runtime of the set ends as soon as the operation has been refused. The closer
// may have seen the poll that was not armed, and be on his way to its set.
void close_against_refusal_and_end() {
    fixture all;
    all.kernel.full = true;
    all.set_ends = true;
    reader reading(all, set);
    model::run_threads(model::named_thread{"worker",
                                           [&] {
                                               reading.work();
                                               all.end_set();
                                           }},
                       all.closer());
    check_closed(all);
}

// The poll is there before the operation waits, and before the closer comes.
void close_what_is_armed() {
    fixture all;
    arm_before(all);
    reader reading(all, set);
    model::run_threads(reading.worker(), all.closer());
    model::check(reading.ended == read_result::closed, "a waiter is not told");
    check_closed(all);
}

// The runtime of the set ends while somebody else closes a stream that outlives it.
void close_against_end() {
    fixture all;
    arm_before(all);
    all.set_ends = true;
    model::run_threads(all.closer(), all.ender());
    check_closed(all);
}

// The runtime of the set ends while an operation of another runtime takes the poll there. The end
// waits for what the mover has still to do here.
void move_against_end() {
    fixture all;
    arm_before(all);
    for (int i = 0; i < 2; ++i) {
        waiter early;
        static_cast<void>(all.wait(early, elsewhere));
        model::check(all.reads.withdraw(&early), "nobody took the waiter");
    }
    waiter branch;
    model::check(all.word.enter(all.generation, direction::read) == enter_outcome::entered, "");
    model::run_threads(
        all.ender(), model::named_thread{"mover", [&] {
                                             for (;;) {
                                                 all.reads.forget_readiness();
                                                 const auto decision = all.wait(branch, elsewhere);
                                                 if (decision.cancels_old) {
                                                     all.cancel(decision.old, cancel_reason::moved);
                                                 }
                                                 if (decision.step == wait_step::wait) return;
                                             }
                                         }});
    model::check(all.unreleased.peek() == 0, "polls are released too often or too seldom");
    bool moves = false;
    for (int i = 0; i < 3; ++i) {
        waiter late;
        all.reads.forget_readiness();
        static_cast<void>(all.reads.withdraw(&branch));
        moves = all.wait(late, set).cancels_old || moves;
        model::check(all.reads.withdraw(&late), "nobody took the waiter");
    }
    model::check(moves, "a poll cannot move any more");
    model::check(!all.word.drop_reference(), "too few");  // Of the poll in the other ring.
    // The operation's reference, and that of its poll in the set.
    model::check(all.word.begin_close(all.generation), "the life has ended");
    model::check(all.word.leave(direction::read) == descriptor_word::leave_outcome::left,
                 "too few");
    model::check(!all.word.drop_reference() && all.word.drop_reference(), "too many");
}

constexpr model::scenario scenarios[] = {
    {"close against arm", close_against_arm},
    {"close against data", close_against_data, {.stale_reads = 2}},
    {"close against a refusal", close_against_refusal},
    {"close against a refusal and the end of the set", close_against_refusal_and_end},
    {"close what is armed", close_what_is_armed},
    {"close against the end of the set", close_against_end},
    {"move against the end of the set", move_against_end},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "epoll_close", scenarios);
}
