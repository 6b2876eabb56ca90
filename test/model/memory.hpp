// SPDX-License-Identifier: MIT
#pragma once

// The memory model: what a load may return, and what happens before what.
//
//     location   every value that was ever written to one atomic, oldest first (its modification
//                order), and the newest entry that a seq_cst access has written or read
//     view       of a thread: for each location the oldest entry that it may still read
//     snapshot   a view and a vector clock, carried by an entry that was released
//
// A load returns the entry of the view or any newer one, and moves the view there: that is
// coherence. A release store carries a snapshot of its thread; an acquire load that reads the entry
// joins it. A read-modify-write reads the newest entry and hands on what that one carried, which
// makes release sequences. A seq_cst load returns no entry older than `ordered` of its own
// location; nothing is promised about other locations. Relaxed stores carry nothing.
//
// Vector clocks, one component for each thread, tell whether two accesses of plain memory are
// ordered by happens-before. They also find a use of an atomic before its construction or after its
// destruction has become visible: that is a touch after free.
//
// Nothing here decides who runs. The functions take the running thread as `self`; the order in
// which they are called is the order of the modification orders. What that leaves out is listed in
// explorer.hpp under its known limits.
//
// Rejected: executions as graphs of events, checked for consistency at the end (finds load
// buffering too, but a program that has read an inconsistent value may do anything until then).

#include "explorer.hpp"
#include "search.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace weft::model {

bool acquires(std::memory_order order);
bool releases(std::memory_order order);

class memory {
public:
    explicit memory(search& decisions) : decisions_(decisions) {}

    void begin_execution();
    unsigned count() const { return location_count_; }
    const void* address(unsigned id) const { return locations_[id].address; }
    std::uint64_t newest(unsigned id) const { return locations_[id].history.back().value; }
    void set_newest(unsigned id, std::uint64_t to) { locations_[id].history.back().value = to; }
    std::uint64_t value(unsigned id, unsigned index) const {
        return locations_[id].history[index].value;
    }
    unsigned last(unsigned id) const {
        return static_cast<unsigned>(locations_[id].history.size() - 1);
    }

    // Accesses by thread `self`. Those that return an index return that of the entry.

    unsigned create(unsigned self, std::uint64_t initial, const void* address);
    void destroy(unsigned self, unsigned id);
    /// Before each other access. Null, or why there must be none: the location is not alive, or its
    /// construction is not visible.
    const char* begin_access(unsigned self, unsigned id);
    unsigned load(unsigned self, unsigned id, std::memory_order order);
    unsigned store(unsigned self, unsigned id, std::uint64_t value, std::memory_order order);
    unsigned modify(unsigned self, unsigned id, std::uint64_t value, std::memory_order order);
    /// A compare-and-swap that fails reads the newest entry.
    unsigned fail_to_modify(unsigned self, unsigned id, std::memory_order order);
    void plain_read(unsigned self, detail::access_history& history, const char* what);
    void plain_write(unsigned self, detail::access_history& history, const char* what);

    // Threads.

    /// Thread `child` starts with all that the body has done.
    void fork(unsigned child);
    /// The body goes on after `count` threads with all that they have done.
    void join_threads(unsigned count);

    // What a thread has read since its last pause.

    bool watched_has_changed(unsigned self) const;
    /// What others wrote there becomes visible in the end.
    void refresh_watched(unsigned self);
    template <class Visit>
    void for_each_watched(unsigned self, Visit&& visit) const {
        const thread& reader = threads_[self];
        for (unsigned i = 0; i < reader.watched_count; ++i) visit(reader.watched[i].location);
    }

private:
    static constexpr unsigned watch_limit = 16;
    static constexpr int no_snapshot = -1;
    // How often in a row a thread may read the same stale value.
    static constexpr unsigned stale_repeats = 3;

    using clock = std::array<std::uint32_t, max_threads>;

    struct snapshot {
        clock time;
        std::array<std::uint16_t, max_locations> view;
        unsigned locations = 0;
    };
    struct entry {
        std::uint64_t value;
        int carried;
    };
    struct location {
        std::vector<entry> history;
        // Stamp of the last access by each thread, to be compared with the clock of who destroys
        // it.
        clock accessed;
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
    struct thread {
        clock time{};
        std::array<std::uint16_t, max_locations> view{};
        std::array<watch, watch_limit> watched{};
        unsigned watched_count = 0;
    };

    /// Of one thread in one execution. A loop over plain variables takes no step, so the limit of
    /// those would never end it.
    static constexpr std::uint32_t access_limit = 1'000'000;

    void tick(unsigned self) { ++threads_[self].time[self]; }
    void count_access(unsigned self);
    int capture(unsigned self, int joined);
    void join(unsigned self, int carried);
    void remember(unsigned self, unsigned id, unsigned index, bool add);
    unsigned append(unsigned self, unsigned id, std::uint64_t value, int carried,
                    std::memory_order order);
    static void check_ordered(const thread& self, const detail::access_history& history,
                              const char* what, const char* how);

    search& decisions_;
    std::array<thread, max_threads> threads_;
    std::array<location, max_locations> locations_;
    unsigned location_count_ = 0;
    std::vector<snapshot> snapshots_;
    unsigned snapshot_count_ = 0;
};

}  // namespace weft::model
