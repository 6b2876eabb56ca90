// SPDX-License-Identifier: MIT

#include "explorer.hpp"

#include <weft/detail/base/assert.hpp>

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::model {
namespace {

using std::memory_order;

constexpr std::size_t stack_size = 256 * 1024;
// How often in a row spinning threads go on although nobody has written anything.
constexpr unsigned stutter_limit = 128;
// How often in a row a thread may read the same stale value.
constexpr unsigned stale_repeats = 3;
constexpr unsigned watch_limit = 16;
constexpr int no_snapshot = -1;

struct snapshot {
    std::array<std::uint32_t, max_threads> clock;
    std::array<std::uint16_t, max_locations> view;
    unsigned locations = 0;
};

struct message {
    std::uint64_t value;
    int carried;
};

struct location {
    std::vector<message> history;
    // Stamp of the last access by each thread, to be compared with the clock of who destroys it.
    std::array<std::uint32_t, max_threads> accessed;
    std::array<std::uint16_t, max_threads> last_read;
    std::array<std::uint8_t, max_threads> repeats;
    // The newest entry that a seq_cst access has written or read.
    std::uint16_t ordered = 0;
    std::uint8_t creator = 0;
    std::uint32_t created = 0;
    bool alive = true;
    const void* address = nullptr;
};

struct watch {
    std::uint16_t location;
    std::uint16_t index;
};

enum class thread_state : std::uint8_t { unused, ready, spinning, waiting, finished };

struct thread {
    thread_state state = thread_state::unused;
    bool may_sleep = false;
    bool released = false;
    bool timed = false;
    bool in_futex = false;
    bool woken = false;
    unsigned futex_location = 0;
    std::uint64_t futex_order = 0;
    bool (*ready)(void*) = nullptr;
    void* ready_context = nullptr;
    const char* why = "";
    const char* name = nullptr;
    std::array<std::uint32_t, max_threads> clock{};
    std::array<std::uint16_t, max_locations> view{};
    std::array<watch, watch_limit> watched{};
    unsigned watched_count = 0;
    weft::model::detail::thread_function function{};
};

struct fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    // The fiber waits at the top of its loop for the next function.
    bool at_rest = false;
};

struct decision {
    std::uint16_t chosen;
    std::uint16_t count;
};

struct event {
    unsigned thread;
    const char* what;
    int location;
    const char* order;
    std::uint64_t value;
    int index;
    int newest;
    std::source_location where;
};

struct region {
    const std::byte* begin;
    std::size_t size;
    const char* name;
};

const char* order_name(memory_order order) {
    switch (order) {
    case memory_order::relaxed: return "relaxed";
    case memory_order::consume: return "consume";
    case memory_order::acquire: return "acquire";
    case memory_order::release: return "release";
    case memory_order::acq_rel: return "acq_rel";
    case memory_order::seq_cst: return "seq_cst";
    }
    return "?";
}

bool acquires(memory_order order) {
    return order == memory_order::acquire || order == memory_order::acq_rel ||
           order == memory_order::seq_cst || order == memory_order::consume;
}

bool releases(memory_order order) {
    return order == memory_order::release || order == memory_order::acq_rel ||
           order == memory_order::seq_cst;
}

std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

class engine {
public:
    // One execution of `body`. Returns false after a violation.
    bool run(body_function body);
    // Prepares the tape for the next execution of the exhaustive search; false when there is none.
    bool advance();

    void create(std::uint64_t initial, const void* address, unsigned& id);
    void destroy(unsigned id);
    void name_region(const void* begin, std::size_t size, const char* name) {
        if (tracing) regions_.push_back({static_cast<const std::byte*>(begin), size, name});
    }
    std::uint64_t newest(unsigned id) { return locations_[id].history.back().value; }
    std::uint64_t load(unsigned id, memory_order order, const std::source_location& where);
    void store(unsigned id, std::uint64_t value, memory_order order,
               const std::source_location& where);
    std::uint64_t rmw_begin(unsigned id, const std::source_location& where);
    void rmw_commit(unsigned id, std::uint64_t value, memory_order order, const char* what,
                    const std::source_location& where);
    void rmw_fail(unsigned id, memory_order order, const std::source_location& where);
    bool fails_spuriously();
    void plain_read(weft::model::detail::access_history& history, const char* what);
    void plain_write(weft::model::detail::access_history& history, const char* what);
    void pause();
    void block(bool (*ready)(void*), void* context, const char* why);
    void futex_wait(unsigned id, std::uint64_t expected, bool timed);
    void futex_wake(unsigned id, unsigned count);
    void run_threads(const weft::model::detail::thread_function* functions, unsigned count);
    void* allocate(std::size_t size, std::size_t alignment);
    void note(const char* text, std::uint64_t value);
    unsigned choose(unsigned count) { return passive() ? 0 : decide(count); }
    void may_sleep(bool allowed) { threads_[current_].may_sleep = allowed; }
    // Leaves the execution for good; no destructor of the model runs.
    [[noreturn]] void fail(std::string text);

    std::string tape_text() const;
    bool read_tape(const char* text);
    void print_trace() const;
    std::string name_of(unsigned id) const;

    explore_options options;
    bool random = false;
    std::uint64_t seed = 0;
    bool tracing = false;
    std::uint64_t total_steps = 0;
    std::string violation;
    std::vector<decision> tape;

private:
    // Outside an execution operations act on the newest value.
    bool passive() const { return !running_; }
    unsigned decide(unsigned count);
    void point();
    bool can_run(unsigned index);
    unsigned pick(bool current_can_run);
    unsigned nobody_can_run();
    void switch_to(unsigned index);
    void give_up_processor();
    void finish_thread();
    void prepare_fiber(unsigned index);
    static void run_body(void* function);
    static void fiber_entry();
    void tick() { ++threads_[current_].clock[current_]; }
    location& access(unsigned id, const std::source_location& where);
    int capture(int joined);
    void join(int carried);
    void remember(unsigned id, unsigned index, bool add);
    void append(location& place, unsigned id, std::uint64_t value, int carried, memory_order order);
    void record(const char* what, int id, const char* order, std::uint64_t value, int index,
                const std::source_location& where);
    bool watch_changed(const thread& of) const;
    std::uint64_t next_random() {
        random_state_ += 0x9e3779b97f4a7c15u;
        return mix(random_state_);
    }

    std::array<thread, max_threads> threads_;
    std::array<fiber, max_threads> fibers_;
    ucontext_t main_context_{};
    std::array<location, max_locations> locations_;
    unsigned location_count_ = 0;
    std::vector<snapshot> snapshots_;
    unsigned snapshot_count_ = 0;
    unsigned current_ = 0;
    unsigned thread_count_ = 0;
    bool running_ = false;
    bool failed_ = false;
    std::size_t position_ = 0;
    unsigned preemptions_used_ = 0;
    unsigned stale_used_ = 0;
    unsigned spurious_used_ = 0;
    unsigned steps_ = 0;
    unsigned stutters_ = 0;
    std::uint64_t futex_sequence_ = 0;
    std::uint64_t random_state_ = 0;
    unsigned switch_shift_ = 1;
    unsigned stale_shift_ = 1;
    std::vector<event> events_;
    std::vector<region> regions_;
    std::vector<std::pair<void*, std::size_t>> allocations_;
};

engine& the_engine() {
    static engine instance;
    return instance;
}

// ---- executions and decisions

bool engine::run(body_function body) {
    location_count_ = snapshot_count_ = 0;
    current_ = thread_count_ = 0;
    position_ = 0;
    preemptions_used_ = stale_used_ = spurious_used_ = steps_ = stutters_ = 0;
    failed_ = false;
    violation.clear();
    events_.clear();
    regions_.clear();
    for (thread& each : threads_) each = thread{};
    threads_[0].clock[0] = 1;
    if (random) {
        tape.clear();
        random_state_ = seed;
        switch_shift_ = static_cast<unsigned>(next_random() % 4);
        stale_shift_ = static_cast<unsigned>(next_random() % 3);
    }
    running_ = true;
    threads_[0].function = {&run_body, &body, "body"};
    prepare_fiber(0);
    fibers_[0].at_rest = false;
    swapcontext(&main_context_, &fibers_[0].context);
    running_ = false;
    total_steps += steps_;
    for (auto& [memory, alignment] : allocations_) {
        ::operator delete(memory, std::align_val_t(alignment));
    }
    allocations_.clear();
    return !failed_;
}

bool engine::advance() {
    while (!tape.empty() && tape.back().chosen + 1u == tape.back().count) tape.pop_back();
    if (tape.empty()) return false;
    ++tape.back().chosen;
    return true;
}

unsigned engine::decide(unsigned count) {
    if (count <= 1) return 0;
    if (position_ < tape.size()) {
        const decision& taken = tape[position_++];
        if (taken.count != count) {
            std::fprintf(stderr,
                         "model: the same decisions gave another execution; a body must depend on "
                         "nothing but them (no addresses, clocks or left-over statics)\n");
            std::exit(2);
        }
        return taken.chosen;
    }
    ++position_;
    const unsigned chosen = random ? static_cast<unsigned>(next_random() % count) : 0;
    tape.push_back({static_cast<std::uint16_t>(chosen), static_cast<std::uint16_t>(count)});
    return chosen;
}

void engine::fail(std::string text) {
    if (!running_) {
        std::fprintf(stderr, "model: %s, outside of an execution\n", text.c_str());
        std::exit(2);
    }
    failed_ = true;
    record("VIOLATION", -1, "", 0, -1, std::source_location());
    violation = std::move(text);
    // The fibers are left as they stand, and are made anew for the next execution.
    setcontext(&main_context_);
    std::abort();
}

// ---- threads

void engine::run_body(void* function) {
    (*static_cast<body_function*>(function))();
}

void engine::prepare_fiber(unsigned index) {
    fiber& its = fibers_[index];
    if (its.at_rest) return;
    if (!its.stack) its.stack.reset(new std::byte[stack_size]);
    getcontext(&its.context);
    its.context.uc_stack.ss_sp = its.stack.get();
    its.context.uc_stack.ss_size = stack_size;
    its.context.uc_link = nullptr;
    makecontext(&its.context, &fiber_entry, 0);
}

bool engine::watch_changed(const thread& of) const {
    for (unsigned i = 0; i < of.watched_count; ++i) {
        if (locations_[of.watched[i].location].history.size() - 1 != of.watched[i].index) {
            return true;
        }
    }
    return false;
}

bool engine::can_run(unsigned index) {
    thread& candidate = threads_[index];
    switch (candidate.state) {
    case thread_state::ready: return true;
    case thread_state::spinning: return candidate.released || watch_changed(candidate);
    case thread_state::waiting:
        if (candidate.in_futex) return candidate.woken || candidate.released;
        return candidate.ready(candidate.ready_context);
    default: return false;
    }
}

// Who goes next. 0 is the body, which goes on when all threads have ended.
unsigned engine::pick(bool current_can_run) {
    if (current_can_run && !random && preemptions_used_ >= options.preemptions) return current_;
    if (current_can_run && random && position_ >= tape.size()) {
        // Long stretches of one thread in some executions, wild interleaving in others.
        if ((next_random() & ((1u << switch_shift_) - 1)) != 0) return current_;
    }
    std::array<std::uint8_t, max_threads> candidates;
    unsigned count = 0;
    if (current_can_run) candidates[count++] = static_cast<std::uint8_t>(current_);
    for (unsigned i = 1; i <= thread_count_; ++i) {
        if (!(current_can_run && i == current_) && can_run(i)) {
            candidates[count++] = static_cast<std::uint8_t>(i);
        }
    }
    if (count == 0) return nobody_can_run();
    const unsigned chosen = candidates[decide(count)];
    if (current_can_run && chosen != current_) ++preemptions_used_;
    return chosen;
}

unsigned engine::nobody_can_run() {
    bool all_finished = true;
    bool all_may_sleep = true;
    unsigned spinner = 0;
    for (unsigned i = 1; i <= thread_count_; ++i) {
        thread& each = threads_[i];
        if (each.state == thread_state::finished) continue;
        all_finished = false;
        if (!each.may_sleep) all_may_sleep = false;
        const bool may_go_on =
            each.state == thread_state::spinning || (each.in_futex && each.timed);
        if (may_go_on && spinner == 0) spinner = i;
    }
    if (all_finished) return 0;
    if (spinner != 0 && !all_may_sleep && ++stutters_ <= stutter_limit) {
        for (unsigned i = 1; i <= thread_count_; ++i) {
            thread& each = threads_[i];
            if (each.state == thread_state::spinning || (each.in_futex && each.timed)) {
                each.released = true;
            }
        }
        return spinner;
    }
    if (all_may_sleep) return 0;
    std::string text = "deadlock:";
    for (unsigned i = 1; i <= thread_count_; ++i) {
        const thread& each = threads_[i];
        if (each.state == thread_state::finished) continue;
        text += " thread " + std::to_string(i);
        if (each.name != nullptr) text += std::string(" (") + each.name + ")";
        text += each.state == thread_state::spinning ? " spins;"
                                                     : std::string(" waits in ") + each.why + ";";
    }
    fail(std::move(text));
}

void engine::switch_to(unsigned index) {
    if (index == current_) return;
    const unsigned from = current_;
    current_ = index;
    fiber& to = fibers_[index];
    to.at_rest = false;
    swapcontext(&fibers_[from].context, &to.context);
}

void engine::point() {
    if (current_ == 0) return;
    if (++steps_ > options.step_limit) fail("no end in sight: too many steps in one execution");
    switch_to(pick(true));
}

// The current thread cannot go on; returns when it can.
void engine::give_up_processor() {
    switch_to(pick(false));
    thread& self = threads_[current_];
    self.state = thread_state::ready;
    self.in_futex = self.released = self.woken = false;
}

void engine::fiber_entry() {
    engine& self = the_engine();
    for (;;) {
        const auto& function = self.threads_[self.current_].function;
        try {
            function.run(function.context);
        } catch (...) { self.fail("an exception left a thread"); }
        self.finish_thread();
    }
}

void engine::finish_thread() {
    fiber& own = fibers_[current_];
    if (current_ == 0) {
        own.at_rest = true;
        swapcontext(&own.context, &main_context_);
        return;
    }
    threads_[current_].state = thread_state::finished;
    const unsigned next = pick(false);
    own.at_rest = true;
    switch_to(next);
}

void engine::run_threads(const weft::model::detail::thread_function* functions, unsigned count) {
    if (passive()) return;
    if (current_ != 0) fail("threads are started by the body only");
    if (count >= max_threads) fail("too many threads in the model");
    thread& body = threads_[0];
    thread_count_ = count;
    for (unsigned i = 1; i <= count; ++i) {
        thread& each = threads_[i];
        const std::uint32_t stamp = each.clock[i];
        each = thread{};
        each.state = thread_state::ready;
        each.name = functions[i - 1].name;
        each.function = functions[i - 1];
        each.clock = body.clock;
        each.clock[i] = std::max(stamp, body.clock[i]) + 1;
        each.view = body.view;
        prepare_fiber(i);
    }
    ++body.clock[0];
    switch_to(pick(false));
    for (unsigned i = 1; i <= count; ++i) {
        for (unsigned k = 0; k < max_threads; ++k) {
            body.clock[k] = std::max(body.clock[k], threads_[i].clock[k]);
        }
    }
    for (unsigned id = 0; id < location_count_; ++id) {
        body.view[id] = static_cast<std::uint16_t>(locations_[id].history.size() - 1);
    }
    thread_count_ = 0;
}

void engine::pause() {
    if (passive() || current_ == 0) return;
    thread& self = threads_[current_];
    if (++steps_ > options.step_limit) fail("no end in sight: too many steps in one execution");
    record("pause", -1, "", 0, -1, std::source_location());
    if (!watch_changed(self)) {
        self.state = thread_state::spinning;
        self.why = "pause";
        give_up_processor();
    }
    // What others wrote becomes visible in the end.
    for (unsigned i = 0; i < self.watched_count; ++i) {
        const unsigned id = self.watched[i].location;
        self.view[id] = static_cast<std::uint16_t>(locations_[id].history.size() - 1);
    }
    self.watched_count = 0;
}

void engine::block(bool (*ready)(void*), void* context, const char* why) {
    if (passive()) return;
    if (current_ == 0) {
        if (!ready(context)) fail("deadlock: the body waits");
        return;
    }
    point();
    thread& self = threads_[current_];
    record(why, -1, "", 0, -1, std::source_location());
    if (ready(context)) return;
    self.state = thread_state::waiting;
    self.ready = ready;
    self.ready_context = context;
    self.why = why;
    give_up_processor();
}

void engine::futex_wait(unsigned id, std::uint64_t expected, bool timed) {
    if (passive() || current_ == 0) return;
    point();
    access(id, std::source_location());
    record("futex_wait", static_cast<int>(id), timed ? "timed" : "", expected, -1,
           std::source_location());
    if (newest(id) != expected) return;
    if (timed && decide(2) == 1) return;
    thread& self = threads_[current_];
    self.state = thread_state::waiting;
    self.in_futex = true;
    self.timed = timed;
    self.futex_location = id;
    self.futex_order = ++futex_sequence_;
    self.why = "futex_wait";
    give_up_processor();
}

void engine::futex_wake(unsigned id, unsigned count) {
    if (passive()) return;
    point();
    access(id, std::source_location());
    record("futex_wake", static_cast<int>(id), "", count, -1, std::source_location());
    stutters_ = 0;
    for (; count > 0; --count) {
        thread* first = nullptr;
        for (unsigned i = 1; i <= thread_count_; ++i) {
            thread& each = threads_[i];
            const bool sleeps = each.state == thread_state::waiting && each.in_futex &&
                                !each.woken && each.futex_location == id;
            if (sleeps && (first == nullptr || each.futex_order < first->futex_order))
                first = &each;
        }
        if (first == nullptr) return;
        first->woken = true;
    }
}

// ---- memory

void engine::create(std::uint64_t initial, const void* address, unsigned& id) {
    if (location_count_ == max_locations) {
        std::fprintf(stderr, "model: more than %u atomics in one execution\n", max_locations);
        std::exit(2);
    }
    id = location_count_++;
    location& place = locations_[id];
    place.history.clear();
    place.history.push_back({initial, no_snapshot});
    place.accessed.fill(0);
    place.last_read.fill(0xffff);
    place.repeats.fill(0);
    place.ordered = 0;
    place.alive = true;
    place.address = address;
    place.creator = static_cast<std::uint8_t>(current_);
    tick();
    place.created = threads_[current_].clock[current_];
    for (thread& each : threads_) each.view[id] = 0;
}

void engine::destroy(unsigned id) {
    if (passive()) return;
    location& place = access(id, std::source_location());
    record("destroy", static_cast<int>(id), "", newest(id), -1, std::source_location());
    const thread& self = threads_[current_];
    for (unsigned i = 0; i < max_threads; ++i) {
        if (place.accessed[i] > self.clock[i]) {
            fail("an atomic is destroyed, and an access by thread " + std::to_string(i) +
                 " is not ordered before that");
        }
    }
    place.alive = false;
}

location& engine::access(unsigned id, const std::source_location& where) {
    location& place = locations_[id];
    if (!place.alive) {
        record("touch", static_cast<int>(id), "", 0, -1, where);
        fail("an atomic is used after it was destroyed");
    }
    tick();
    const thread& self = threads_[current_];
    if (self.clock[place.creator] < place.created) {
        record("touch", static_cast<int>(id), "", 0, -1, where);
        fail("an atomic is used, and its construction is not ordered before that");
    }
    place.accessed[current_] = self.clock[current_];
    return place;
}

int engine::capture(int joined) {
    if (snapshot_count_ == snapshots_.size()) snapshots_.emplace_back();
    const int index = static_cast<int>(snapshot_count_++);
    snapshot& made = snapshots_[static_cast<std::size_t>(index)];
    const thread& self = threads_[current_];
    made.clock = self.clock;
    made.locations = location_count_;
    std::copy_n(self.view.begin(), location_count_, made.view.begin());
    if (joined != no_snapshot) {
        const snapshot& other = snapshots_[static_cast<std::size_t>(joined)];
        for (unsigned i = 0; i < max_threads; ++i) {
            made.clock[i] = std::max(made.clock[i], other.clock[i]);
        }
        for (unsigned i = 0; i < other.locations; ++i) {
            made.view[i] = std::max(made.view[i], other.view[i]);
        }
    }
    return index;
}

void engine::join(int carried) {
    if (carried == no_snapshot) return;
    const snapshot& other = snapshots_[static_cast<std::size_t>(carried)];
    thread& self = threads_[current_];
    for (unsigned i = 0; i < max_threads; ++i) {
        self.clock[i] = std::max(self.clock[i], other.clock[i]);
    }
    for (unsigned i = 0; i < other.locations; ++i) {
        self.view[i] = std::max(self.view[i], other.view[i]);
    }
}

// What the thread has read since its last pause; a write of its own only moves an entry.
void engine::remember(unsigned id, unsigned index, bool add) {
    thread& self = threads_[current_];
    for (unsigned i = 0; i < self.watched_count; ++i) {
        if (self.watched[i].location == id) {
            self.watched[i].index = static_cast<std::uint16_t>(index);
            return;
        }
    }
    if (!add) return;
    if (self.watched_count == watch_limit) {
        std::copy(self.watched.begin() + 1, self.watched.end(), self.watched.begin());
        --self.watched_count;
    }
    self.watched[self.watched_count++] = {static_cast<std::uint16_t>(id),
                                          static_cast<std::uint16_t>(index)};
}

std::uint64_t engine::load(unsigned id, memory_order order, const std::source_location& where) {
    if (passive()) return newest(id);
    point();
    location& place = access(id, where);
    thread& self = threads_[current_];
    const bool ordered = order == memory_order::seq_cst;
    const unsigned last = static_cast<unsigned>(place.history.size() - 1);
    unsigned low = self.view[id];
    if (ordered) low = std::max<unsigned>(low, place.ordered);
    if (low < last && place.last_read[current_] == low &&
        place.repeats[current_] >= stale_repeats) {
        ++low;
    }
    unsigned index = last;
    if (low < last && current_ != 0) {
        const bool allowed = random ? (next_random() & ((1u << stale_shift_) - 1)) == 0
                                    : stale_used_ < options.stale_reads;
        if (allowed) index = last - decide(last - low + 1);
        if (index != last) ++stale_used_;
    }
    if (place.last_read[current_] != index) place.repeats[current_] = 0;
    place.last_read[current_] = static_cast<std::uint16_t>(index);
    ++place.repeats[current_];
    self.view[id] = static_cast<std::uint16_t>(index);
    if (acquires(order)) join(place.history[index].carried);
    if (ordered) place.ordered = std::max(place.ordered, static_cast<std::uint16_t>(index));
    remember(id, index, true);
    record("load", static_cast<int>(id), order_name(order), place.history[index].value,
           static_cast<int>(index), where);
    return place.history[index].value;
}

void engine::append(location& place, unsigned id, std::uint64_t value, int carried,
                    memory_order order) {
    place.history.push_back({value, carried});
    const auto index = static_cast<std::uint16_t>(place.history.size() - 1);
    threads_[current_].view[id] = index;
    if (order == memory_order::seq_cst) place.ordered = index;
    stutters_ = 0;
}

void engine::store(unsigned id, std::uint64_t value, memory_order order,
                   const std::source_location& where) {
    if (passive()) {
        locations_[id].history.back().value = value;
        return;
    }
    point();
    location& place = access(id, where);
    append(place, id, value, no_snapshot, order);
    if (releases(order)) place.history.back().carried = capture(no_snapshot);
    remember(id, static_cast<unsigned>(place.history.size() - 1), false);
    record("store", static_cast<int>(id), order_name(order), value,
           static_cast<int>(place.history.size() - 1), where);
}

std::uint64_t engine::rmw_begin(unsigned id, const std::source_location& where) {
    if (passive()) return newest(id);
    point();
    access(id, where);
    return newest(id);
}

void engine::rmw_commit(unsigned id, std::uint64_t value, memory_order order, const char* what,
                        const std::source_location& where) {
    location& place = locations_[id];
    if (passive()) {
        place.history.back().value = value;
        return;
    }
    const int carried = place.history.back().carried;
    if (acquires(order)) join(carried);
    append(place, id, value, carried, order);
    if (releases(order)) place.history.back().carried = capture(carried);
    remember(id, static_cast<unsigned>(place.history.size() - 1), true);
    record(what, static_cast<int>(id), order_name(order), value,
           static_cast<int>(place.history.size() - 1), where);
}

void engine::rmw_fail(unsigned id, memory_order order, const std::source_location& where) {
    if (passive()) return;
    location& place = locations_[id];
    const unsigned index = static_cast<unsigned>(place.history.size() - 1);
    threads_[current_].view[id] = static_cast<std::uint16_t>(index);
    if (acquires(order)) join(place.history[index].carried);
    if (order == memory_order::seq_cst) place.ordered = static_cast<std::uint16_t>(index);
    remember(id, index, true);
    record("cas failed", static_cast<int>(id), order_name(order), place.history[index].value,
           static_cast<int>(index), where);
}

bool engine::fails_spuriously() {
    if (passive() || current_ == 0 || spurious_used_ >= options.spurious_failures) return false;
    if (decide(2) == 0) return false;
    ++spurious_used_;
    return true;
}

void engine::plain_read(weft::model::detail::access_history& history, const char* what) {
    if (passive()) return;
    if (!history.alive) fail(std::string("use after the end of its life: ") + what);
    tick();
    const thread& self = threads_[current_];
    if (history.write_stamp > self.clock[history.writer]) {
        fail(std::string("data race: ") + what + " is read, and the write by thread " +
             std::to_string(history.writer) + " is not ordered before that");
    }
    history.reads[current_] = self.clock[current_];
}

void engine::plain_write(weft::model::detail::access_history& history, const char* what) {
    if (passive()) return;
    if (!history.alive) fail(std::string("use after the end of its life: ") + what);
    tick();
    const thread& self = threads_[current_];
    if (history.write_stamp > self.clock[history.writer]) {
        fail(std::string("data race: ") + what + " is written, and the write by thread " +
             std::to_string(history.writer) + " is not ordered before that");
    }
    for (unsigned i = 0; i < max_threads; ++i) {
        if (history.reads[i] > self.clock[i]) {
            fail(std::string("data race: ") + what + " is written, and the read by thread " +
                 std::to_string(i) + " is not ordered before that");
        }
    }
    history.writer = static_cast<std::uint8_t>(current_);
    history.write_stamp = self.clock[current_];
}

void* engine::allocate(std::size_t size, std::size_t alignment) {
    void* memory = ::operator new(size, std::align_val_t(alignment));
    std::memset(memory, 0, size);
    allocations_.emplace_back(memory, alignment);
    return memory;
}

// ---- reports

void engine::record(const char* what, int id, const char* order, std::uint64_t value, int index,
                    const std::source_location& where) {
    if (!tracing) return;
    const int last =
        id < 0 ? -1 : static_cast<int>(locations_[static_cast<unsigned>(id)].history.size() - 1);
    events_.push_back({current_, what, id, order, value, index, last, where});
}

void engine::note(const char* text, std::uint64_t value) {
    if (!passive()) record(text, -1, "", value, -1, std::source_location());
}

// The innermost named object that the atomic lies in, and where.
std::string engine::name_of(unsigned id) const {
    std::string name = "a" + std::to_string(id);
    const auto* address = static_cast<const std::byte*>(locations_[id].address);
    std::size_t smallest = SIZE_MAX;
    for (const region& each : regions_) {
        if (address < each.begin || address >= each.begin + each.size) continue;
        if (each.size >= smallest) continue;
        smallest = each.size;
        name = std::string(each.name) + "+" + std::to_string(address - each.begin);
    }
    return name;
}

void engine::print_trace() const {
    for (const event& each : events_) {
        const char* thread_name = threads_[each.thread].name;
        std::printf("  %u %-10s %-12s", each.thread, thread_name == nullptr ? "" : thread_name,
                    each.what);
        if (each.location >= 0) {
            std::printf(" %-18s %-8s = 0x%" PRIx64,
                        name_of(static_cast<unsigned>(each.location)).c_str(), each.order,
                        each.value);
            if (each.index >= 0 && each.index != each.newest) {
                std::printf(" (stale: entry %d of %d)", each.index, each.newest);
            }
        } else if (each.value != 0) {
            std::printf(" %" PRIu64, each.value);
        }
        if (each.where.line() != 0) {
            std::string file = each.where.file_name();
            if (const auto slash = file.rfind('/'); slash != std::string::npos) {
                file.erase(0, slash + 1);
            }
            std::printf("   %s:%u", file.c_str(), static_cast<unsigned>(each.where.line()));
        }
        std::printf("\n");
    }
}

// "chosen/count" for each decision; "*N" repeats.
std::string engine::tape_text() const {
    std::string text;
    for (std::size_t i = 0; i < tape.size();) {
        std::size_t same = i;
        while (same < tape.size() && tape[same].chosen == tape[i].chosen &&
               tape[same].count == tape[i].count) {
            ++same;
        }
        if (!text.empty()) text += ',';
        text += std::to_string(tape[i].chosen) + '/' + std::to_string(tape[i].count);
        if (same - i > 1) text += '*' + std::to_string(same - i);
        i = same;
    }
    return text;
}

bool engine::read_tape(const char* text) {
    tape.clear();
    while (*text != '\0') {
        unsigned chosen = 0, count = 0, repeat = 1;
        int used = 0;
        if (std::sscanf(text, "%u/%u%n", &chosen, &count, &used) < 2) return false;
        text += used;
        if (*text == '*') {
            if (std::sscanf(text, "*%u%n", &repeat, &used) < 1) return false;
            text += used;
        }
        for (; repeat > 0; --repeat) {
            tape.push_back({static_cast<std::uint16_t>(chosen), static_cast<std::uint16_t>(count)});
        }
        if (*text == ',') ++text;
    }
    return true;
}

// Runs the failed execution once more with the trace, and prints it.
void report(engine& machine, body_function body) {
    const std::string first = machine.violation;
    machine.tracing = true;
    machine.run(body);
    machine.tracing = false;
    std::printf("violation: %s\n", first.c_str());
    machine.print_trace();
    if (machine.violation != first) {
        std::printf("  (the replay ended differently: \"%s\")\n", machine.violation.c_str());
    }
    if (machine.random) {
        std::printf("  replay with --replay-seed %" PRIu64 "\n", machine.seed);
    } else {
        std::printf("  replay with --replay-tape %s\n", machine.tape_text().c_str());
    }
    std::fflush(stdout);
}

// Texts of violations live as long as the program.
const char* keep(const std::string& text) {
    static std::vector<std::unique_ptr<std::string>> kept;
    kept.push_back(std::make_unique<std::string>(text));
    return kept.back()->c_str();
}

void finish(engine& machine, explore_result& result, body_function body,
            const explore_options& options) {
    result.violated = true;
    result.violation = keep(machine.violation);
    if (options.verbose) report(machine, body);
}

}  // namespace

explore_result explore(body_function body, const explore_options& options) {
    engine& machine = the_engine();
    machine.options = options;
    machine.random = false;
    machine.tape.clear();
    machine.total_steps = 0;
    explore_result result;
    for (;;) {
        ++result.executions;
        if (!machine.run(body)) {
            finish(machine, result, body, options);
            break;
        }
        if (!machine.advance()) {
            result.exhausted = true;
            break;
        }
        if (result.executions >= options.execution_limit) break;
    }
    result.steps = machine.total_steps;
    return result;
}

explore_result explore_random(body_function body, std::uint64_t executions, std::uint64_t seed,
                              const explore_options& options) {
    engine& machine = the_engine();
    machine.options = options;
    machine.random = true;
    machine.total_steps = 0;
    explore_result result;
    while (result.executions < executions) {
        machine.seed = mix(seed + result.executions);
        ++result.executions;
        if (!machine.run(body)) {
            finish(machine, result, body, options);
            break;
        }
    }
    result.steps = machine.total_steps;
    return result;
}

namespace {

struct arguments {
    const char* only = nullptr;
    std::uint64_t seed = 1;
    std::uint64_t random = UINT64_MAX;
    const char* replay_seed = nullptr;
    const char* replay_tape = nullptr;
    bool stop = false;
};

bool parse(int argc, char** argv, arguments& parsed) {
    for (int i = 1; i < argc; i += 2) {
        const std::string name = argv[i];
        if (i + 1 == argc) return false;
        char* value = argv[i + 1];
        if (name == "--only") {
            parsed.only = value;
        } else if (name == "--seed") {
            parsed.seed = std::strtoull(value, nullptr, 10);
        } else if (name == "--random") {
            parsed.random = std::strtoull(value, nullptr, 10);
        } else if (name == "--replay-seed") {
            parsed.replay_seed = value;
        } else if (name == "--replay-tape") {
            parsed.replay_tape = value;
        } else if (name == "--stop-at-violation") {
            parsed.stop = std::string(value) == "yes";
        } else {
            return false;
        }
    }
    return (parsed.replay_seed == nullptr && parsed.replay_tape == nullptr) ||
           parsed.only != nullptr;
}

// One execution again, with its trace. True when it ends without a violation.
bool replay(const scenario& one, const arguments& given) {
    engine& machine = the_engine();
    machine.options = one.options;
    machine.random = given.replay_seed != nullptr;
    if (machine.random) {
        machine.seed = std::strtoull(given.replay_seed, nullptr, 10);
    } else if (!machine.read_tape(given.replay_tape)) {
        return false;
    }
    machine.tracing = true;
    const bool clean = machine.run(one.body);
    machine.tracing = false;
    machine.print_trace();
    std::printf("%s%s\n", clean ? "no violation" : "violation: ", machine.violation.c_str());
    return clean;
}

explore_result run_random(const scenario& one, const char* subject, const arguments& given) {
    const std::uint64_t count = given.random == UINT64_MAX ? one.random_executions : given.random;
    explore_options options = one.options;
    options.spurious_failures = std::max(options.spurious_failures, 1u);
    const explore_result some = explore_random(one.body, count, given.seed, options);
    if (some.violated) {
        std::printf("%s: %s: FAILED, violation after %" PRIu64 " random executions\n", subject,
                    one.name, some.executions);
    }
    return some;
}

// 0, 1 after a violation, 2 where the search was not finished.
int run_one(const scenario& one, const char* subject, const arguments& given) {
    const auto start = std::chrono::steady_clock::now();
    const explore_result all = explore(one.body, one.options);
    if (all.violated) {
        std::printf("%s: %s: FAILED, violation after %" PRIu64 " executions\n", subject, one.name,
                    all.executions);
        return 1;
    }
    const explore_result some = run_random(one, subject, given);
    if (some.violated) return 1;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::string bounds = std::to_string(one.options.preemptions) + " preemptions";
    if (one.options.stale_reads < 1000) {
        bounds += ", " + std::to_string(one.options.stale_reads) + " stale reads";
    }
    std::printf("%s: %s: %s, %" PRIu64 " executions at %s (%s), %" PRIu64 " random (seed %" PRIu64
                "), %" PRIu64 " steps, %.2f s\n",
                subject, one.name, all.exhausted ? "ok" : "FAILED", all.executions, bounds.c_str(),
                all.exhausted ? "exhaustive" : "not finished", some.executions, given.seed,
                all.steps + some.steps, elapsed.count());
    return all.exhausted ? 0 : 2;
}

// A protocol that follows a null pointer has failed like any other, only without a trace.
void report_crash(int) {
    constexpr char text[] = "violation: crash\n";
    static_cast<void>(!::write(STDOUT_FILENO, text, sizeof(text) - 1));
    ::_exit(1);
}

void catch_crashes() {
    static std::byte stack[64 * 1024];
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof(stack);
    ::sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_handler = report_crash;
    action.sa_flags = SA_ONSTACK;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigaction(number, &action, nullptr);
}

}  // namespace

int run_scenarios(int argc, char** argv, const char* subject, const scenario* scenarios,
                  std::size_t count) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    catch_crashes();
    arguments given;
    if (!parse(argc, argv, given)) {
        std::fprintf(stderr,
                     "usage: %s [--only NAME [--replay-seed N | --replay-tape TAPE]] [--seed N] "
                     "[--random N] [--stop-at-violation yes]\n",
                     argv[0]);
        return 2;
    }
    // Random executions find most faults sooner than a search in order.
    for (std::size_t i = 0; given.stop && i < count; ++i) {
        if (run_random(scenarios[i], subject, given).violated) return 1;
    }
    int worst = 0;
    unsigned passed = 0, failed = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const scenario& one = scenarios[i];
        if (given.only != nullptr && std::string(given.only) != one.name) continue;
        if (given.replay_seed != nullptr || given.replay_tape != nullptr) {
            return replay(one, given) ? 0 : 1;
        }
        const int outcome = run_one(one, subject, given);
        ++(outcome == 0 ? passed : failed);
        if (outcome != 0 && worst != 1) worst = outcome;
        if (outcome == 1 && given.stop) break;
    }
    std::printf("%u passed, %u failed\n", passed, failed);
    return passed + failed == 0 ? 2 : worst;
}

void fail(const char* text) {
    the_engine().fail(text);
}
void note(const char* text, std::uint64_t value) {
    the_engine().note(text, value);
}
unsigned choose(unsigned count) {
    return the_engine().choose(count);
}
void may_sleep_for_ever(bool allowed) {
    the_engine().may_sleep(allowed);
}

namespace detail {

unsigned create_location(std::uint64_t initial, const void* address) {
    unsigned id = 0;
    the_engine().create(initial, address, id);
    return id;
}
void destroy_location(unsigned location) {
    the_engine().destroy(location);
}
void name_region(const void* begin, std::size_t size, const char* name) {
    the_engine().name_region(begin, size, name);
}
std::uint64_t newest(unsigned location) {
    return the_engine().newest(location);
}
std::uint64_t load(unsigned location, memory_order order, const std::source_location& where) {
    return the_engine().load(location, order, where);
}
void store(unsigned location, std::uint64_t value, memory_order order,
           const std::source_location& where) {
    the_engine().store(location, value, order, where);
}
std::uint64_t rmw_begin(unsigned location, const std::source_location& where) {
    return the_engine().rmw_begin(location, where);
}
void rmw_commit(unsigned location, std::uint64_t value, memory_order order, const char* what,
                const std::source_location& where) {
    the_engine().rmw_commit(location, value, order, what, where);
}
void rmw_fail(unsigned location, memory_order order, const std::source_location& where) {
    the_engine().rmw_fail(location, order, where);
}
bool fails_spuriously() {
    return the_engine().fails_spuriously();
}
void plain_read(access_history& history, const char* what) {
    the_engine().plain_read(history, what);
}
void plain_write(access_history& history, const char* what) {
    the_engine().plain_write(history, what);
}
void pause() {
    the_engine().pause();
}
void block(bool (*ready)(void*), void* context, const char* why) {
    the_engine().block(ready, context, why);
}
void futex_wait(unsigned location, std::uint64_t expected, bool timed) {
    the_engine().futex_wait(location, expected, timed);
}
void futex_wake(unsigned location, unsigned count) {
    the_engine().futex_wake(location, count);
}
void run_threads(const thread_function* functions, unsigned count) {
    the_engine().run_threads(functions, count);
}
void* allocate(std::size_t size, std::size_t alignment) {
    return the_engine().allocate(size, alignment);
}

}  // namespace detail

}  // namespace weft::model

// What weft's own checks call: in a model they are violations.
namespace weft::detail {

void fatal(std::string_view message) noexcept {
    model::the_engine().fail(std::string(message));
}

void assertion_failed(const char* condition, std::source_location where) noexcept {
    model::the_engine().fail(std::string("assertion failed: ") + condition + ", line " +
                             std::to_string(where.line()));
}

}  // namespace weft::detail
