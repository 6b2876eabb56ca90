// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>

#include <stdexcept>

namespace weft {

/// What run() does when all tasks are asleep: each of them waits for another task, and there is no
/// timer, no I/O, no call of blocking() or blocking_detached() and no runtime::guard left that
/// could wake one, and no other runtime in the process. A task that was spawned with a stop token
/// may be woken by it, and so keeps this quiet until a worker that parks finds that its token has
/// no source any more. A sleep counts as a timer, also one that never ends. The environment
/// variable WEFT_DEADLOCK (report, throw, ignore) comes before the option. A `runtime` object never
/// says so: whoever holds it may spawn.
///
/// Tasks of another runtime may share a channel or a lock with these. So while there is one nothing
/// is said, also where its own tasks are all asleep, and when the last of them has ended the
/// question is asked again. It is there from the end of its constructor on: a thread that makes one
/// for the sake of tasks that wait already holds a runtime::guard until then.
enum class deadlock_action : unsigned char {
    report,           ///< Once, to the log: each task with where it was spawned and where it waits.
    throw_exception,  ///< That too, and run() stops all tasks and throws deadlock_error.
    ignore,
};

/// All tasks were asleep. what() is the report.
class deadlock_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

}  // namespace weft
