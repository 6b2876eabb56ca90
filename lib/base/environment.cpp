// SPDX-License-Identifier: MIT
#include "lib/base/environment.hpp"

#include <fmt/format.h>

#include <sched.h>
#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

namespace weft::detail {

namespace {

std::string_view environment(const char* name) noexcept {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view{} : std::string_view{value};
}

// The processors in the affinity mask; the mask is enlarged until the kernel accepts its size.
std::uint32_t processors_allowed() {
    for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
        cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(capacity));
        if (mask == nullptr) {
            break;
        }
        const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
        const bool known = ::sched_getaffinity(0, size, mask) == 0;
        const int count = known ? CPU_COUNT_S(size, mask) : 0;
        CPU_FREE(mask);
        if (known && count > 0) {
            return static_cast<std::uint32_t>(count);
        }
    }
    return std::max(1U, std::thread::hardware_concurrency());
}

std::uint32_t checked(std::uint64_t count, std::string_view source, std::string_view text) {
    if (count < 1 || count > largest_processor_count) {
        throw std::invalid_argument(fmt::format("weft: {} is {}; it must be a number from 1 to {}",
                                                source, text, largest_processor_count));
    }
    return static_cast<std::uint32_t>(count);
}

}  // namespace

std::uint32_t resolve_processors(const runtime_options& options) {
    const std::string_view text = environment("WEFT_MAXPROCS");
    if (!text.empty()) {
        std::uint64_t count = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
        const bool whole = error == std::errc{} && end == text.data() + text.size();
        return checked(whole ? count : 0, "WEFT_MAXPROCS", fmt::format("\"{}\"", text));
    }
    if (options.processors != 0) {
        return checked(options.processors, "runtime_options::processors",
                       fmt::format("{}", options.processors));
    }
    return std::min(processors_allowed(), std::uint32_t{largest_processor_count});
}

netpoll_backend resolve_backend(netpoll_backend option) {
    const std::string_view text = environment("WEFT_NETPOLL");
    if (text.empty()) {
        return option;
    }
    if (text == "auto") {
        return netpoll_backend::automatic;
    }
    if (text == "io_uring") {
        return netpoll_backend::io_uring;
    }
    if (text == "epoll") {
        return netpoll_backend::epoll;
    }
    throw std::invalid_argument(
        fmt::format("weft: WEFT_NETPOLL is \"{}\"; it must be auto, io_uring or epoll", text));
}

}  // namespace weft::detail
