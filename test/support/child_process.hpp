// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace weft::test {

/// How a child process ended.
struct child_result {
    int signal = 0;      ///< The signal that ended it, or 0.
    int status = 0;      ///< Its exit status where no signal ended it.
    bool hung = false;   ///< It was killed because it did not end in time.
    std::string errors;  ///< What it wrote to its standard error stream.

    /// Did it end by abort() or std::terminate, after it wrote `text`?
    bool aborted_with(const std::string& text) const {
        return !hung && signal == 6 && errors.find(text) != std::string::npos;
    }
    /// Everything in one line, for the message of a failed check.
    std::string describe() const;
};

/// Runs `body` in a forked child and waits for its end: for what terminates the process, and for
/// what needs other limits or another user. The child exits with 0 when `body` returns, with 125
/// when an exception leaves it. It has no signal handlers of the test framework and makes no core
/// file. Nothing of the framework is to be used in `body`.
///
/// The calling process must have one thread (every runtime before has ended): a fork copies the
/// calling thread only, and would copy locks that others hold.
child_result run_in_child(const std::function<void()>& body,
                          std::chrono::seconds limit = std::chrono::seconds(60));

/// In a child: ends it at once with status 1 and a line on the standard error stream unless the
/// condition holds.
void child_check(bool condition, const char* text);

/// In a child that root has started: from now on it belongs to a user that has no other process, so
/// that a limit for each user counts what this child does and nothing beside it, such as another
/// run of the same test. Ends it as child_check() does if that is refused.
void become_another_user();

/// Number of threads of this process.
std::size_t thread_count();

/// Number of open file descriptors of this process.
std::size_t descriptor_count();

}  // namespace weft::test
