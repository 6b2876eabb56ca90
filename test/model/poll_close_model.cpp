// SPDX-License-Identifier: MIT

// Model of the life of a descriptor: closing against operations that enter, arm, wait and leave,
// against moving polls and against final completions. The file is closed once, when nothing in the
// program or in the kernel can name it any more; who waits is told; old handles get nowhere. And
// those who wait for the end: a second closer against the last reference.

#include "closing_reader.hpp"

#include <weft/detail/base/spin_lock.hpp>

#include <utility>

namespace model = weft::model;
using weft::detail::direction;
using weft::detail::enter_outcome;
using weft::detail::suspend_outcome;
using weft::detail::wait_step;
using namespace weft::model;

namespace {

// One life of a descriptor with its read side, and the rings of two workers.
struct fixture {
    descriptor_word word;
    std::uint32_t generation;
    kernel_file file;
    side_of<2> reads;
    model::lifetime number;  // The number of the file: touched by each call that names it.
    std::array<layer::atomic<unsigned>, 2> inboxes{0U, 0U};
    layer::atomic<unsigned> closed{0};
    int closes = 0;

    fixture() : generation(word.open()) {}

    void end_life() {
        model::check(file.idle(), "the file is closed while a poll of it is in the kernel");
        model::check(++closes == 1, "the file is closed twice");
        model::check(inboxes[0].peek() == 0 && inboxes[1].peek() == 0,
                     "the file is closed while a request for it is under way");
        number.destroy("file");
        // The next life may arm at once.
        for (unsigned i = 0; i < 2; ++i) {
            model::check(!reads.record(i).requested && !reads.record(i).listed, "a poll is left");
            reads.record(i).listed = false;
        }
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

    bool read() { return file.read(); }

    bool arm(unsigned here, const weft::detail::wait_decision& decision) {
        if (decision.arms) {
            number.touch("file");
            reads.record(decision.armed.record).listed = true;
            file.submit(decision.armed.record, here, decision.armed.multishot,
                        decision.armed.sequence);
        }
        if (decision.cancels_old) request(decision.old);
        return true;
    }
    void request(const weft::detail::poll_name& poll) {
        reads.record(poll.record).requested = true;
        inboxes[poll.home].fetch_or(1U << poll.record, order::release);
    }

    bool has_work(unsigned here) const { return inboxes[here].peek() != 0 || file.pending(here); }

    void reap(unsigned here) {
        const unsigned requests =
            inboxes[here].peek() != 0 ? inboxes[here].exchange(0, order::acquire) : 0;
        for (unsigned i = 0; i < 2; ++i) {
            if ((requests & (1U << i)) == 0) continue;
            record& requested = reads.record(i);
            requested.requested = false;
            const std::uint32_t sequence = requested.sequence;
            if (reads.take_cancel_request(requested)) {
                drop();
            } else {
                file.cancel(i, sequence);
            }
        }
        for (unsigned i = 0; i < 2; ++i) {
            if (!file.pending(here, i)) continue;
            const auto completion = file.reap(i);
            if (!completion.more) reads.record(i).listed = false;
            const auto decision = reads.completed(reads.record(i), completion);
            complete(decision.waiter);
            if (decision.released) drop();
        }
    }

    void close() {
        if (!word.begin_close(generation)) return;
        const auto decision = reads.close();
        complete(decision.waiter);
        if (decision.cancels) request(decision.poll);
        drop();
    }

    // A worker that only reaps.
    auto reaper(const char* name, unsigned here) {
        return model::named_thread{name, [this, here] {
                                       for (;;) {
                                           model::block_until(
                                               [&] { return has_work(here) || closed.peek() != 0; },
                                               "reaper without work");
                                           if (has_work(here)) reap(here);
                                           if (closed.peek() != 0) return;
                                       }
                                   }};
    }
    auto closer() {
        return model::named_thread{"closer", [this] { close(); }};
    }
};

// A read of one message.
struct reader : closing_reader<fixture> {
    using closing_reader::closing_reader;

    // A worker that runs the operation and reaps its ring until both have come to an end.
    auto worker(const char* name) {
        return model::named_thread{
            name, [this] {
                start();
                for (;;) {
                    model::block_until(
                        [&] {
                            return on.has_work(here) || branch.runnable.peek() != 0 ||
                                   (ended != read_result::running && on.closed.peek() != 0);
                        },
                        "worker without work");
                    if (on.has_work(here)) on.reap(here);
                    if (branch.runnable.exchange(0, order::acquire) != 0) start();
                    if (ended != read_result::running && on.closed.peek() != 0) return;
                }
            }};
    }
};

void check_closed(fixture& all) {
    model::check(all.closes == 1, "the file is never closed");
    model::check(all.word.enter(all.generation, direction::read) == enter_outcome::closed,
                 "a handle of an earlier life gets in");
    // The slot lives again, with nothing left of the last life.
    const std::uint32_t next = all.word.open();
    model::check(next != all.generation, "two lives have one generation");
    model::check(all.word.enter(all.generation, direction::read) == enter_outcome::closed,
                 "a handle of an earlier life gets into a later one");
    model::check(!all.word.begin_close(all.generation), "an old handle closes a later life");
    model::check(all.word.enter(next, direction::read) == enter_outcome::entered,
                 "the new life is not usable");
    waiter branch;
    all.reads.forget_readiness();
    const auto decision = all.wait(branch, 0);
    model::check(decision.step == wait_step::wait && decision.arms && !decision.armed.multishot,
                 "the new life inherits a poll");
}

// The operation enters, arms and waits; the worker that reaps is its own.
void close_against_arm() {
    fixture all;
    reader reading(all, 0);
    model::run_threads(reading.worker("worker"), all.closer());
    model::check(reading.ended == read_result::closed, "a waiter is not told");
    check_closed(all);
}

// The same while data arrives.
void close_against_data() {
    fixture all;
    reader reading(all, 0);
    model::run_threads(reading.worker("worker"), all.closer(),
                       model::named_thread{"peer", [&] { all.file.write(); }});
    model::check(reading.ended != read_result::running, "a waiter is not told");
    check_closed(all);
}

// The poll is at home in another ring, with or without an event in its queue.
void close_elsewhere(bool event) {
    fixture all;
    {
        waiter early;
        all.arm(1, all.wait(early, 1));
        model::check(all.reads.withdraw(&early), "nobody took the waiter");
    }
    if (event) {
        all.file.write();
        model::check(all.file.read(), "the message is there");
    }
    reader reading(all, 0);
    model::run_threads(reading.worker("worker 0"), all.reaper("worker 1", 1), all.closer());
    model::check(reading.ended == read_result::closed, "a waiter is not told");
    check_closed(all);
}

// The poll moves from ring 1 to ring 0 while the descriptor is closed.
void close_against_move() {
    fixture all;
    for (unsigned here : {1U, 0U, 0U}) {
        waiter early;
        all.arm(here, all.wait(early, here));
        model::check(all.reads.withdraw(&early), "nobody took the waiter");
    }
    reader reading(all, 0);
    model::run_threads(reading.worker("worker 0"), all.reaper("worker 1", 1), all.closer());
    model::check(reading.ended == read_result::closed, "a waiter is not told");
    check_closed(all);
}

// The owner of the ring gives the poll up while the descriptor is closed.
void close_against_give_up() {
    fixture all;
    {
        waiter early;
        all.arm(1, all.wait(early, 1));
        model::check(all.reads.withdraw(&early), "nobody took the waiter");
    }
    reader reading(all, 0);
    auto& given_up = all.reads.record(0);
    model::run_threads(reading.worker("worker 0"),
                       model::named_thread{"worker 1",
                                           [&] {
                                               const std::uint32_t sequence = given_up.sequence;
                                               if (all.reads.give_up(given_up)) {
                                                   all.file.cancel(0, sequence);
                                               }
                                               all.reaper("worker 1", 1).function();
                                           }},
                       all.closer());
    model::check(reading.ended == read_result::closed, "a waiter is not told");
    check_closed(all);
}

// Two closers and a call that needs no turn.
void two_closers() {
    fixture all;
    model::run_threads(all.closer(), model::named_thread{"other closer", [&] { all.close(); }},
                       model::named_thread{"user", [&] {
                                               if (!all.word.add_use(all.generation)) return;
                                               all.number.touch("file");
                                               all.drop();
                                           }});
    check_closed(all);
}

// The queue for the turn: its list is a stand-in, in the steps of poll_descriptor.cpp.
struct turn_user {
    layer::var<bool> queued{false};
    layer::var<bool> has_turn{false};
    waiter branch;
    int turns = 0;
};

struct turn_fixture {
    descriptor_word word;
    std::uint32_t generation;
    weft::detail::spin_lock<layer> lock;
    std::array<turn_user*, 3> queue{};
    unsigned length = 0;
    layer::var<int> guarded{0};  // Belongs to the turn.
    layer::atomic<unsigned> closed{0};

    turn_fixture() : generation(word.open()) {}

    void end_life() { closed.store(1, order::release); }

    void unlink(turn_user& leaving) {
        unsigned kept = 0;
        for (unsigned i = 0; i < length; ++i) {
            if (queue[i] != &leaving) queue[kept++] = queue[i];
        }
        length = kept;
        leaving.queued = false;
        if (length == 0) word.queue_is_empty(direction::read);
    }

    void leave(turn_user& leaving) {
        leaving.has_turn = false;
        for (;;) {
            switch (word.leave(direction::read)) {
            case descriptor_word::leave_outcome::left: return;
            case descriptor_word::leave_outcome::last: end_life(); return;
            case descriptor_word::leave_outcome::hand_over: break;
            }
            lock.lock();
            turn_user* next = length != 0 ? queue[0] : nullptr;
            if (next != nullptr) {
                unlink(*next);
                next->has_turn = true;
            }
            lock.unlock();
            if (next == nullptr) continue;
            complete(&next->branch);
            if (word.drop_reference()) end_life();
            return;
        }
    }

    // Takes the turn, uses what belongs to it, and leaves. False: closed.
    bool use(turn_user& user) {
        enter_outcome outcome = word.enter(generation, direction::read);
        if (outcome == enter_outcome::busy) {
            lock.lock();
            outcome = word.queue(generation, direction::read);
            if (outcome == enter_outcome::busy) {
                user.queued = true;
                queue[length++] = &user;
            }
            lock.unlock();
        }
        if (outcome == enter_outcome::closed) return false;
        if (outcome == enter_outcome::busy) {
            if (user.branch.word.suspend() == suspend_outcome::suspended) {
                model::block_until([&] { return user.branch.runnable.peek() != 0; }, "no turn");
                user.branch.runnable.exchange(0, order::acquire);
            }
            if (!user.has_turn) {  // Evicted.
                model::check(word.closing(), "evicted from an open descriptor");
                if (word.drop_reference()) end_life();
                return false;
            }
        }
        guarded = guarded + 1;
        ++user.turns;
        user.has_turn = true;
        leave(user);
        return true;
    }

    void close() {
        if (!word.begin_close(generation)) return;
        for (;;) {
            lock.lock();
            turn_user* evicted = length != 0 ? queue[0] : nullptr;
            if (evicted != nullptr) unlink(*evicted);
            lock.unlock();
            if (evicted == nullptr) break;
            complete(&evicted->branch);
        }
        if (word.drop_reference()) end_life();
    }
};

// Three operations in one direction: each gets its turn, one at a time.
void turns() {
    turn_fixture all;
    turn_user users[3];
    model::run_threads([&] { model::check(all.use(users[0]), "refused"); },
                       [&] { model::check(all.use(users[1]), "refused"); },
                       [&] { model::check(all.use(users[2]), "refused"); });
    model::check(all.guarded == 3, "a turn is lost");
    model::check(all.length == 0, "somebody queues for ever");
}

// One is taken out of the queue again, as a canceller does.
void cancel_in_queue() {
    turn_fixture all;
    turn_user users[2];
    model::check(all.word.enter(all.generation, direction::read) == enter_outcome::entered, "");
    all.lock.lock();
    model::check(all.word.queue(all.generation, direction::read) == enter_outcome::busy, "");
    users[1].queued = true;
    all.queue[all.length++] = &users[1];
    all.lock.unlock();
    model::check(users[1].branch.word.suspend() == suspend_outcome::suspended, "");
    bool withdrawn = false;
    model::run_threads(model::named_thread{"leaver", [&] { all.leave(users[0]); }},
                       model::named_thread{"canceller", [&] {
                                               if (!users[1].branch.word.request_stop(false))
                                                   return;
                                               all.lock.lock();
                                               withdrawn = users[1].queued;
                                               if (withdrawn) all.unlink(users[1]);
                                               all.lock.unlock();
                                               if (withdrawn) {
                                                   users[1].branch.word.withdrawn();
                                               } else if (!users[1].branch.word.let_go()) {
                                                   return;
                                               }
                                               users[1].branch.runnable.exchange(1, order::release);
                                           }});
    model::check(users[1].branch.runnable.peek() == 1, "a wake-up is lost");
    if (withdrawn) {
        model::check(!all.word.drop_reference(), "it is open");
    } else {
        all.leave(users[1]);
    }
    turn_user late;
    model::check(all.use(late), "the turn is lost");
}

// The descriptor is closed while operations queue.
void close_with_queue() {
    turn_fixture all;
    turn_user users[2];
    int refused = 0;
    const auto user = [&](int which) {
        return [&all, &users, &refused, which] { refused += all.use(users[which]) ? 0 : 1; };
    };
    model::run_threads(user(0), user(1), model::named_thread{"closer", [&] { all.close(); }});
    model::check(all.closed.peek() == 1, "the life never ends");
    model::check(all.guarded + refused == 2, "a turn is lost");
}

// Those who wait for the end of a life: the list is a stand-in, in the steps of poll_descriptor.cpp
// and close_operation.cpp. Whoever returns from a close comes after close(2).
struct close_waiter {
    waiter branch;
    layer::var<bool> linked{false};
};

struct waiting_fixture {
    descriptor_word word;
    std::uint32_t generation;
    weft::detail::spin_lock<layer> lock;
    std::array<close_waiter*, 3> waiters{};
    unsigned length = 0;
    layer::var<int> file{1};  // 0: close(2) has returned.
    int closes = 0;
    bool lives_again = false;  // The slot is taken at once.
    std::uint32_t next = 0;

    waiting_fixture() : generation(word.open()) {}

    void end_life() {
        model::check(++closes == 1, "the file is closed twice");
        file = 0;
        lock.lock();
        const auto told = std::exchange(waiters, {});
        length = 0;
        for (close_waiter* each : told) {
            if (each != nullptr) each->linked = false;
        }
        word.end_life();
        lock.unlock();
        if (lives_again) next = word.open();
        for (close_waiter* each : told) {
            if (each != nullptr) complete(&each->branch);
        }
    }
    void drop() {
        if (word.drop_reference()) end_life();
    }
    void close() {
        if (word.begin_close(generation)) drop();
    }

    // As close_operation::start(). True: the branch is parked.
    bool start(close_waiter& self) {
        lock.lock();
        const bool waits = word.generation() == generation;
        if (waits) {
            self.linked = true;
            waiters[length++] = &self;
        }
        lock.unlock();
        close();
        return waits && self.branch.word.suspend() == suspend_outcome::suspended;
    }

    auto closer(const char* name, close_waiter& self) {
        return model::named_thread{
            name, [this, &self] {
                if (start(self)) {
                    model::block_until([&] { return self.branch.runnable.peek() != 0; }, "close");
                    self.branch.runnable.exchange(0, order::acquire);
                }
                model::check(file == 0, "a close returns before close(2)");
            }};
    }
};

// Two close the same descriptor and wait; the second may come before, while or after the first one
// drops the last reference.
void two_who_wait() {
    waiting_fixture all;
    close_waiter first, second;
    model::run_threads(all.closer("first", first), all.closer("second", second));
    model::check(all.closes == 1, "the file is never closed");
}

// The same while somebody uses the descriptor.
void two_who_wait_and_a_user() {
    waiting_fixture all;
    close_waiter first, second;
    model::run_threads(all.closer("first", first), all.closer("second", second),
                       model::named_thread{"user", [&] {
                                               if (!all.word.add_use(all.generation)) return;
                                               model::check(all.file == 1, "used after its end");
                                               all.drop();
                                           }});
    model::check(all.closes == 1, "the file is never closed");
}

// The slot lives again at once, before the second one comes or while it waits: an old handle
// neither joins nor ends that life.
void late_closer() {
    waiting_fixture all;
    all.lives_again = true;
    close_waiter late;
    model::run_threads(model::named_thread{"first", [&] { all.close(); }},
                       all.closer("late", late));
    const std::uint32_t next = all.next;
    model::check(all.closes == 1, "the file is never closed");
    model::check(all.word.enter(next, direction::read) == enter_outcome::entered,
                 "the new life is not usable");
    model::check(all.word.leave(direction::read) == descriptor_word::leave_outcome::left,
                 "a reference of the new life is wrong");
    model::check(all.word.begin_close(next) && all.word.drop_reference(),
                 "a reference of the new life is wrong");
}

// Whoever asks without waiting: after another generation has been seen, the file is closed.
void ask_for_the_end() {
    waiting_fixture all;
    model::run_threads(model::named_thread{"first", [&] { all.close(); }},
                       model::named_thread{"asker", [&] {
                                               if (all.word.generation() == all.generation) return;
                                               model::check(all.file == 0, "ended before close(2)");
                                           }});
}

// A wait that is cancelled while the life ends.
void cancel_the_wait() {
    waiting_fixture all;
    close_waiter waiting;
    model::check(all.word.add_use(all.generation), "open");
    model::check(all.start(waiting), "parked");
    model::run_threads(
        model::named_thread{"user", [&] { all.drop(); }},
        model::named_thread{"canceller", [&] {
                                if (!waiting.branch.word.request_stop(false)) return;
                                all.lock.lock();
                                const bool withdrawn = waiting.linked;
                                if (withdrawn) {
                                    all.waiters = {};
                                    waiting.linked = false;
                                }
                                all.lock.unlock();
                                if (withdrawn) {
                                    waiting.branch.word.withdrawn();
                                } else if (!waiting.branch.word.let_go()) {
                                    return;
                                }
                                waiting.branch.runnable.exchange(1, order::release);
                            }});
    model::check(waiting.branch.runnable.peek() == 1, "a wake-up is lost");
    model::check(all.closes == 1, "the file is never closed");
}

constexpr model::scenario scenarios[] = {
    {"close against arm", close_against_arm},
    {"close against data", close_against_data},
    {"close elsewhere", [] { close_elsewhere(false); }},
    {"close elsewhere, after an event", [] { close_elsewhere(true); }},
    {"close against move", close_against_move},
    {"close against give up", close_against_give_up},
    {"two closers", two_closers},
    {"turns", turns},
    {"cancel in the queue", cancel_in_queue},
    {"close with a queue", close_with_queue},
    {"two who wait", two_who_wait},
    {"two who wait and a user", two_who_wait_and_a_user},
    {"late closer", late_closer},
    {"ask for the end", ask_for_the_end},
    {"cancel the wait", cancel_the_wait},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "poll_close", scenarios);
}
