// SPDX-License-Identifier: MIT

#include "memory.hpp"

#include "engine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace weft::model {

using std::memory_order;

bool acquires(memory_order order) {
    return order == memory_order::acquire || order == memory_order::acq_rel ||
           order == memory_order::seq_cst || order == memory_order::consume;
}

bool releases(memory_order order) {
    return order == memory_order::release || order == memory_order::acq_rel ||
           order == memory_order::seq_cst;
}

void memory::begin_execution() {
    location_count_ = snapshot_count_ = 0;
    for (thread& each : threads_) each = thread{};
    threads_[0].time[0] = 1;
}

// ---- lives

unsigned memory::create(unsigned self, std::uint64_t initial, const void* address) {
    if (location_count_ == max_locations) {
        std::fprintf(stderr, "model: more than %u atomics in one execution\n", max_locations);
        std::exit(2);
    }
    const unsigned id = location_count_++;
    location& place = locations_[id];
    place.history.clear();
    place.history.push_back({initial, no_snapshot});
    place.accessed.fill(0);
    place.last_read.fill(0xffff);
    place.repeats.fill(0);
    place.ordered = 0;
    place.alive = true;
    place.address = address;
    place.creator = static_cast<std::uint8_t>(self);
    tick(self);
    place.created = threads_[self].time[self];
    for (thread& each : threads_) each.view[id] = 0;
    return id;
}

void memory::destroy(unsigned self, unsigned id) {
    location& place = locations_[id];
    for (unsigned i = 0; i < max_threads; ++i) {
        if (place.accessed[i] > threads_[self].time[i]) {
            violate("an atomic is destroyed, and an access by thread " + std::to_string(i) +
                    " is not ordered before that");
        }
    }
    place.alive = false;
}

const char* memory::begin_access(unsigned self, unsigned id) {
    location& place = locations_[id];
    if (!place.alive) return "an atomic is used after it was destroyed";
    tick(self);
    thread& user = threads_[self];
    if (user.time[place.creator] < place.created) {
        return "an atomic is used, and its construction is not ordered before that";
    }
    place.accessed[self] = user.time[self];
    return nullptr;
}

void memory::fork(unsigned child) {
    thread& started = threads_[child];
    const std::uint32_t stamp = started.time[child];
    started = threads_[0];
    started.watched_count = 0;
    started.time[child] = std::max(stamp, threads_[0].time[child]) + 1;
    tick(0);
}

void memory::join_threads(unsigned count) {
    thread& body = threads_[0];
    for (unsigned i = 1; i <= count; ++i) {
        for (unsigned k = 0; k < max_threads; ++k) {
            body.time[k] = std::max(body.time[k], threads_[i].time[k]);
        }
    }
    for (unsigned id = 0; id < location_count_; ++id) {
        body.view[id] = static_cast<std::uint16_t>(last(id));
    }
}

// ---- snapshots

int memory::capture(unsigned self, int joined) {
    if (snapshot_count_ == snapshots_.size()) snapshots_.emplace_back();
    const int index = static_cast<int>(snapshot_count_++);
    snapshot& made = snapshots_[static_cast<std::size_t>(index)];
    made.time = threads_[self].time;
    made.locations = location_count_;
    std::copy_n(threads_[self].view.begin(), location_count_, made.view.begin());
    if (joined != no_snapshot) {
        const snapshot& other = snapshots_[static_cast<std::size_t>(joined)];
        for (unsigned i = 0; i < max_threads; ++i) {
            made.time[i] = std::max(made.time[i], other.time[i]);
        }
        for (unsigned i = 0; i < other.locations; ++i) {
            made.view[i] = std::max(made.view[i], other.view[i]);
        }
    }
    return index;
}

void memory::join(unsigned self, int carried) {
    if (carried == no_snapshot) return;
    const snapshot& other = snapshots_[static_cast<std::size_t>(carried)];
    thread& joining = threads_[self];
    for (unsigned i = 0; i < max_threads; ++i) {
        joining.time[i] = std::max(joining.time[i], other.time[i]);
    }
    for (unsigned i = 0; i < other.locations; ++i) {
        joining.view[i] = std::max(joining.view[i], other.view[i]);
    }
}

// ---- atomics

unsigned memory::load(unsigned self, unsigned id, memory_order order) {
    location& place = locations_[id];
    const bool ordered = order == memory_order::seq_cst;
    const unsigned newest_index = last(id);
    unsigned low = threads_[self].view[id];
    if (ordered) low = std::max<unsigned>(low, place.ordered);
    if (low < newest_index && place.last_read[self] == low &&
        place.repeats[self] >= stale_repeats) {
        ++low;
    }
    unsigned index = newest_index;
    if (low < newest_index && self != 0) {
        if (decisions_.stale_read_allowed()) {
            index = newest_index - decisions_.decide(newest_index - low + 1);
        }
        if (index != newest_index) decisions_.read_stale();
    }
    if (place.last_read[self] != index) place.repeats[self] = 0;
    place.last_read[self] = static_cast<std::uint16_t>(index);
    ++place.repeats[self];
    threads_[self].view[id] = static_cast<std::uint16_t>(index);
    if (acquires(order)) join(self, place.history[index].carried);
    if (ordered) place.ordered = std::max(place.ordered, static_cast<std::uint16_t>(index));
    remember(self, id, index, true);
    return index;
}

unsigned memory::append(unsigned self, unsigned id, std::uint64_t value, int carried,
                        memory_order order) {
    location& place = locations_[id];
    place.history.push_back({value, carried});
    const unsigned index = last(id);
    threads_[self].view[id] = static_cast<std::uint16_t>(index);
    if (order == memory_order::seq_cst) place.ordered = static_cast<std::uint16_t>(index);
    if (releases(order)) place.history.back().carried = capture(self, carried);
    return index;
}

unsigned memory::store(unsigned self, unsigned id, std::uint64_t value, memory_order order) {
    const unsigned index = append(self, id, value, no_snapshot, order);
    remember(self, id, index, false);
    return index;
}

unsigned memory::modify(unsigned self, unsigned id, std::uint64_t value, memory_order order) {
    const int carried = locations_[id].history.back().carried;
    if (acquires(order)) join(self, carried);
    const unsigned index = append(self, id, value, carried, order);
    remember(self, id, index, true);
    return index;
}

unsigned memory::fail_to_modify(unsigned self, unsigned id, memory_order order) {
    location& place = locations_[id];
    const unsigned index = last(id);
    threads_[self].view[id] = static_cast<std::uint16_t>(index);
    if (acquires(order)) join(self, place.history[index].carried);
    if (order == memory_order::seq_cst) place.ordered = static_cast<std::uint16_t>(index);
    remember(self, id, index, true);
    return index;
}

// ---- watching

// A write of its own only moves an entry.
void memory::remember(unsigned self, unsigned id, unsigned index, bool add) {
    thread& reader = threads_[self];
    for (unsigned i = 0; i < reader.watched_count; ++i) {
        if (reader.watched[i].location == id) {
            reader.watched[i].index = static_cast<std::uint16_t>(index);
            return;
        }
    }
    if (!add) return;
    if (reader.watched_count == watch_limit) {
        std::copy(reader.watched.begin() + 1, reader.watched.end(), reader.watched.begin());
        --reader.watched_count;
    }
    reader.watched[reader.watched_count++] = {static_cast<std::uint16_t>(id),
                                              static_cast<std::uint16_t>(index)};
}

bool memory::watched_has_changed(unsigned self) const {
    const thread& reader = threads_[self];
    for (unsigned i = 0; i < reader.watched_count; ++i) {
        if (last(reader.watched[i].location) != reader.watched[i].index) return true;
    }
    return false;
}

void memory::refresh_watched(unsigned self) {
    thread& reader = threads_[self];
    for (unsigned i = 0; i < reader.watched_count; ++i) {
        const unsigned id = reader.watched[i].location;
        reader.view[id] = static_cast<std::uint16_t>(last(id));
    }
    reader.watched_count = 0;
}

// ---- plain memory

void memory::check_ordered(const thread& self, const detail::access_history& history,
                           const char* what, const char* how) {
    if (!history.alive) violate(std::string("use after the end of its life: ") + what);
    if (history.write_stamp > self.time[history.writer]) {
        violate(std::string("data race: ") + what + how + ", and the write by thread " +
                std::to_string(history.writer) + " is not ordered before that");
    }
}

void memory::count_access(unsigned self) {
    tick(self);
    if (threads_[self].time[self] > access_limit) {
        violate("no end in sight: too many accesses in one execution");
    }
}

void memory::plain_read(unsigned self, detail::access_history& history, const char* what) {
    count_access(self);
    check_ordered(threads_[self], history, what, " is read");
    history.reads[self] = threads_[self].time[self];
}

void memory::plain_write(unsigned self, detail::access_history& history, const char* what) {
    count_access(self);
    check_ordered(threads_[self], history, what, " is written");
    for (unsigned i = 0; i < max_threads; ++i) {
        if (history.reads[i] > threads_[self].time[i]) {
            violate(std::string("data race: ") + what + " is written, and the read by thread " +
                    std::to_string(i) + " is not ordered before that");
        }
    }
    history.writer = static_cast<std::uint8_t>(self);
    history.write_stamp = threads_[self].time[self];
}

}  // namespace weft::model
