// SPDX-License-Identifier: MIT
#include "lib/base/environment.hpp"

#include "lib/base/processor_count.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace weft::detail {

namespace {

std::string_view environment(const char* name) noexcept {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view{} : std::string_view{value};
}

std::uint32_t checked(std::uint64_t count, std::string_view source, std::string_view text) {
    if (count < 1 || count > largest_processor_count) {
        throw std::invalid_argument(fmt::format("weft: {} is {}; it must be a number from 1 to {}",
                                                source, text, largest_processor_count));
    }
    return static_cast<std::uint32_t>(count);
}

}  // namespace

processor_choice resolve_processors(const runtime_options& options) {
    const std::string_view text = environment("WEFT_MAXPROCS");
    if (!text.empty()) {
        std::uint64_t count = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
        const bool whole = error == std::errc{} && end == text.data() + text.size();
        return {checked(whole ? count : 0, "WEFT_MAXPROCS", fmt::format("\"{}\"", text)), true};
    }
    if (options.processors != 0) {
        return {checked(options.processors, "runtime_options::processors",
                        fmt::format("{}", options.processors)),
                true};
    }
    return {processors_of_machine(), false};
}

deadlock_action resolve_deadlock(deadlock_action option) {
    const std::string_view text = environment("WEFT_DEADLOCK");
    if (text.empty()) {
        return option;
    }
    if (text == "report") {
        return deadlock_action::report;
    }
    if (text == "throw") {
        return deadlock_action::throw_exception;
    }
    if (text == "ignore") {
        return deadlock_action::ignore;
    }
    throw std::invalid_argument(
        fmt::format("weft: WEFT_DEADLOCK is \"{}\"; it must be report, throw or ignore", text));
}

bool resolve_pin(bool option) {
    const std::string_view text = environment("WEFT_PIN");
    if (text.empty()) {
        return option;
    }
    if (text != "0" && text != "1") {
        throw std::invalid_argument(
            fmt::format("weft: WEFT_PIN is \"{}\"; it must be 0 or 1", text));
    }
    return text == "1";
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
