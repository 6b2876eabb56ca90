// SPDX-License-Identifier: MIT

#include "trace.hpp"

#include "memory.hpp"

#include <cinttypes>
#include <cstdio>

namespace weft::model {

using std::memory_order;

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

void trace::name_region(const void* begin, std::size_t size, const char* name) {
    if (enabled) regions_.push_back({static_cast<const std::byte*>(begin), size, name});
}

// The innermost named object that the atomic lies in, and where.
std::string trace::name_of(const memory& model, unsigned location) const {
    std::string name = "a" + std::to_string(location);
    const auto* address = static_cast<const std::byte*>(model.address(location));
    std::size_t smallest = SIZE_MAX;
    for (const region& each : regions_) {
        if (address < each.begin || address >= each.begin + each.size) continue;
        if (each.size >= smallest) continue;
        smallest = each.size;
        name = std::string(each.name) + "+" + std::to_string(address - each.begin);
    }
    return name;
}

void trace::print(const memory& model) const {
    for (const event& each : events_) {
        std::printf("  %u %-10s %-12s", each.thread,
                    each.thread_name == nullptr ? "" : each.thread_name, each.what);
        if (each.location >= 0) {
            std::printf(" %-18s %-8s = 0x%" PRIx64,
                        name_of(model, static_cast<unsigned>(each.location)).c_str(), each.order,
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

}  // namespace weft::model
