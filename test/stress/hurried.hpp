// SPDX-License-Identifier: MIT
#pragma once

#include <weft/as_result.hpp>
#include <weft/timeout.hpp>

#include <chrono>
#include <random>
#include <utility>

namespace weft::test {

/// Awaits an operation for a time that lets stops hit waits at any point, and gives its result.
template <class Operation>
auto hurried(Operation operation, std::minstd_rand& random) {
    return as_result(
        with_timeout(std::chrono::nanoseconds(random() % 20'000), std::move(operation)));
}

}  // namespace weft::test
