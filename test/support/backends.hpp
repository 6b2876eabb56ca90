// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"

#include <weft/runtime.hpp>

#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

// Every test of I/O runs on both netpollers: `for (auto on : weft::test::backends())`.

namespace weft::test {

/// Sets WEFT_NETPOLL while it lives, since that comes before the option.
class forced_backend {
public:
    explicit forced_backend(const char* name) {
        if (const char* before = std::getenv("WEFT_NETPOLL")) before_ = before;
        ::setenv("WEFT_NETPOLL", name, 1);
    }
    forced_backend(const forced_backend&) = delete;
    forced_backend& operator=(const forced_backend&) = delete;
    ~forced_backend() {
        if (before_.empty()) {
            ::unsetenv("WEFT_NETPOLL");
        } else {
            ::setenv("WEFT_NETPOLL", before_.c_str(), 1);
        }
    }

private:
    std::string before_;
};

/// Can io_uring start here? For tests of its own start, whatever WEFT_NETPOLL says.
inline bool io_uring_starts() {
    static const bool starts = [] {
        const forced_backend forced("io_uring");
        try {
            const runtime probe({.processors = 1});
            return true;
        } catch (const std::system_error&) { return false; }
    }();
    return starts;
}

/// The netpollers to test: both, or epoll alone where io_uring cannot start or is not asked for.
inline std::vector<const char*> backends() {
    const char* const asked = std::getenv("WEFT_NETPOLL");
    if ((asked != nullptr && std::string(asked) == "epoll") || !io_uring_starts()) return {"epoll"};
    return {"io_uring", "epoll"};
}

/// Runs a task on one of them.
template <class T>
T run_on(const char* backend, task<T> main, unsigned processors = 2) {
    const forced_backend forced(backend);
    return run(std::move(main), {.processors = processors});
}

}  // namespace weft::test
