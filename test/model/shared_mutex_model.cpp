// SPDX-License-Identifier: MIT

// Model of a shared mutex: readers and writers lock, wait, are served, and are stopped or destroyed
// on the way. A writer is alone, nobody waits beside what it could have, and nobody overtakes.

#include <weft/detail/sync/shared_mutex_core.hpp>

#include "explorer.hpp"
#include "parked_task.hpp"

namespace model = weft::model;
using layer = model::model_layer;
using weft::detail::lock_kind;

namespace {

// A task that wants the mutex: its branch, and what its frame holds.
struct party : weft::detail::wait_links<layer, party>, model::parked_task {
    explicit party(lock_kind how) : kind(how) {}

    const lock_kind kind;
    layer::var<bool> locked{false};
    bool keeps = false;  // It has the mutex until the scenario takes it from it.
    int sections = 0;
};

struct reader : party {
    reader() : party(lock_kind::shared) {}
};
struct writer : party {
    writer() : party(lock_kind::exclusive) {}
};

using core = weft::detail::shared_mutex_core<layer, party>;

struct world {
    core mutex;
    layer::var<int> guarded{0};
};

world* all;

void run(party& self);

void complete_all(party* first) {
    while (first != nullptr) {
        party& each = *first;
        each.frame.touch("task");
        first = each.next;
        each.locked = true;
        if (each.word.complete() && !each.ending) run(each);
    }
}

void unlock(lock_kind kind) {
    const auto decided = all->mutex.unlock(kind);
    model::check(decided.was_locked, "a holder finds it unlocked");
    complete_all(decided.served);
}

// What the mutex guards is used; a race would be found.
void section(party& self) {
    ++self.sections;
    if (self.kind == lock_kind::shared) {
        static_cast<void>(all->guarded.get());
    } else {
        all->guarded = all->guarded + 1;
    }
    if (!self.keeps) unlock(self.kind);
}

// The branch goes on after its wait.
void run(party& self) {
    if (self.locked) section(self);
    self.end();
}

// As shared_mutex_base::withdraw().
bool withdraw(party& waiting) {
    party* served = nullptr;
    if (!all->mutex.withdraw(waiting, served)) return false;
    complete_all(served);
    return true;
}

// As shared_mutex_operation::start(), and then a section.
void lock(party& self) {
    if (!self.word.stop_requested()) {
        if (all->mutex.lock_or_line_up(self)) {
            self.locked = true;
        } else if (!model::park(self, withdraw)) {
            return;
        }
    }
    run(self);
}

void stop(party& waiting) {
    if (model::stop(waiting, withdraw)) run(waiting);
}

void destroy(party& left) {
    model::end_wait(left, withdraw);
    if (left.locked) unlock(left.kind);
    left.end();
}

struct fixture : world {
    fixture() { all = this; }

    static void check_served(const party& task) {
        task.check_ended();
        model::check(task.sections == 1, "it did not get the mutex");
    }
    void check_free() {
        model::check(mutex.try_lock(lock_kind::exclusive), "the mutex stays locked");
        model::check(!mutex.try_lock(lock_kind::shared), "a writer is not alone");
        model::check(mutex.unlock(lock_kind::exclusive).served == nullptr, "somebody waits for it");
        model::check(mutex.try_lock(lock_kind::shared), "the mutex stays locked");
        model::check(!mutex.try_lock(lock_kind::exclusive), "a writer is not alone");
    }
};

void read_and_write() {
    fixture here;
    reader one;
    writer two;
    writer three;
    model::run_threads(model::named_thread{"reader", [&] { lock(one); }},
                       model::named_thread{"writer 1", [&] { lock(two); }},
                       model::named_thread{"writer 2", [&] { lock(three); }});
    fixture::check_served(one);
    fixture::check_served(two);
    fixture::check_served(three);
    model::check(here.guarded == 2, "a section was overwritten");
    here.check_free();
}

void readers_and_a_writer() {
    fixture here;
    reader readers[2];
    writer one;
    model::run_threads(model::named_thread{"reader 1", [&] { lock(readers[0]); }},
                       model::named_thread{"reader 2", [&] { lock(readers[1]); }},
                       model::named_thread{"writer", [&] { lock(one); }});
    for (const party& each : readers) fixture::check_served(each);
    fixture::check_served(one);
    here.check_free();
}

// Readers that stand together are served together; those behind the writer are not.
void serve_in_order() {
    fixture here;
    writer first;
    reader readers[2];
    writer second;
    reader last;
    first.keeps = true;
    readers[0].keeps = true;
    readers[1].keeps = true;
    second.keeps = true;
    lock(first);
    lock(readers[0]);
    lock(readers[1]);
    lock(second);
    lock(last);
    model::check(readers[0].ended == 0, "a reader is served beside a writer");
    unlock(lock_kind::exclusive);
    fixture::check_served(readers[0]);
    fixture::check_served(readers[1]);
    model::check(!here.mutex.try_lock(lock_kind::shared), "a reader overtakes a writer");
    unlock(lock_kind::shared);
    model::check(second.ended == 0, "a writer is not alone");
    model::check(last.ended == 0, "a reader overtakes a writer");
    unlock(lock_kind::shared);
    fixture::check_served(second);
    model::check(last.ended == 0, "a reader is served beside a writer");
    unlock(lock_kind::exclusive);
    fixture::check_served(last);
    here.check_free();
}

// A writer that is stopped, and a reader behind it; somebody reads meanwhile.
void stop_the_writer() {
    fixture here;
    reader now;
    writer stopped;
    reader behind;
    now.keeps = true;
    lock(now);
    lock(stopped);
    lock(behind);
    model::run_threads(model::named_thread{"canceller", [&] { stop(stopped); }},
                       model::named_thread{"another", [&] {
                                               if (here.mutex.try_lock(lock_kind::shared)) {
                                                   unlock(lock_kind::shared);
                                               }
                                           }});
    stopped.check_ended();
    fixture::check_served(behind);
    unlock(lock_kind::shared);
    here.check_free();
}

void stop_against_unlock() {
    fixture here;
    reader now;
    writer stopped;
    writer behind;
    now.keeps = true;
    lock(now);
    lock(stopped);
    lock(behind);
    model::run_threads(model::named_thread{"canceller", [&] { stop(stopped); }},
                       model::named_thread{"holder", [] { unlock(lock_kind::shared); }});
    stopped.check_ended();
    fixture::check_served(behind);
    here.check_free();
}

void stop_a_reader_in_line() {
    fixture here;
    writer now;
    reader readers[3];
    now.keeps = true;
    lock(now);
    for (party& each : readers) lock(each);
    model::run_threads(model::named_thread{"canceller", [&] { stop(readers[1]); }},
                       model::named_thread{"holder", [] { unlock(lock_kind::exclusive); }});
    fixture::check_served(readers[0]);
    readers[1].check_ended();
    fixture::check_served(readers[2]);
    here.check_free();
}

void lock_against_stop() {
    fixture here;
    writer first;
    writer second;
    reader third;
    model::run_threads(model::named_thread{"first", [&] { lock(first); }},
                       model::named_thread{"second", [&] { lock(second); }},
                       model::named_thread{"canceller", [&] { stop(second); }});
    fixture::check_served(first);
    second.check_ended();
    lock(third);
    fixture::check_served(third);
    here.check_free();
}

// The runtime of one that waits ends while it is served: the mutex goes on to the next one.
void destroy_against_unlock() {
    fixture here;
    writer now;
    writer left;
    reader behind;
    now.keeps = true;
    lock(now);
    lock(left);
    lock(behind);
    left.ending = true;
    model::run_threads(model::named_thread{"end", [&] { destroy(left); }},
                       model::named_thread{"holder", [] { unlock(lock_kind::exclusive); }});
    left.check_ended();
    fixture::check_served(behind);
    here.check_free();
}

const model::scenario scenarios[] = {
    {"read and write", read_and_write},
    {"readers and a writer", readers_and_a_writer},
    {"serve in order", serve_in_order},
    {"stop the writer", stop_the_writer},
    {"stop against unlock", stop_against_unlock},
    {"stop a reader in line", stop_a_reader_in_line},
    {"lock against stop", lock_against_stop},
    {"destroy against unlock", destroy_against_unlock},
};

}  // namespace

int main(int argc, char** argv) {
    return model::run_scenarios(argc, argv, "shared_mutex", scenarios);
}
