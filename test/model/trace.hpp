// SPDX-License-Identifier: MIT
#pragma once

// What an execution did, line by line, for whoever has to understand a violation. It is recorded
// only when a violation is replayed: the search itself runs without it.

#include "explorer.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

namespace weft::model {

class memory;

const char* order_name(std::memory_order order);

class trace {
public:
    struct event {
        unsigned thread = 0;
        const char* thread_name = nullptr;
        const char* what = "";
        int location = -1;  ///< -1: no access.
        const char* order = "";
        std::uint64_t value = 0;
        int index = -1;   ///< Of the entry; -1: none.
        int newest = -1;  ///< Index of the newest entry at that time.
        std::source_location where = {};
    };

    bool enabled = false;

    void begin_execution() {
        events_.clear();
        regions_.clear();
    }
    void add(const event& added) { events_.push_back(added); }
    void name_region(const void* begin, std::size_t size, const char* name);
    void print(const memory& model) const;

private:
    struct region {
        const std::byte* begin;
        std::size_t size;
        const char* name;
    };

    std::string name_of(const memory& model, unsigned location) const;

    std::vector<event> events_;
    std::vector<region> regions_;
};

}  // namespace weft::model
