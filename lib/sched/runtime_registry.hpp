// SPDX-License-Identifier: MIT
//
// The runtimes of the process: who is told of a fork, and who keeps whom from taking its tasks for
// asleep.
//
//     registered    when its workers can start, before it has a task    register_runtime()
//     lives         its tasks may wake those of others
//     ended         no task of it is left, and nobody runs on it        end_life()
//     gone          when it is destroyed: handles may outlive its end   unregister_runtime()
//
// Tasks of several runtimes may share a channel, a lock, an event. So each runtime that lives may
// wake a task of any other one, and holds a guard of every other one for that time
// (all_asleep.hpp). It gives them back when its last frame has been destroyed, since what that
// leaves behind may still unlock, or close, something. Whoever gets the last one back asks again
// whether all of its tasks are asleep.
//
// A guard for each pair of runtimes costs a count for each when one begins and when one ends, which
// is nothing beside the threads that it starts; and the decision reads one count as before.
//
// In the child of a fork none of those lives that the process had before.
//
// Rejected: one count of all runtimes (the decision would read two words, and who ends would have
// to find those to tell in any case); to count only runtimes whose tasks do share something with
// others (each object would have to know its users).
#pragma once

namespace weft::detail {

class runtime_core;

/// Throws std::bad_alloc, and has then changed nothing.
void register_runtime(runtime_core& made);
/// No task of it is left, and there will be none. With no lock held.
void end_life(runtime_core& ended) noexcept;
/// It may live or have ended.
void unregister_runtime(runtime_core& gone) noexcept;

// For fork_guard.cpp: held over a fork, so that the child finds the registry whole.
void lock_registry() noexcept;
void unlock_registry() noexcept;
/// In the child, with the registry locked: none of them lives. False: there were none.
bool mark_all_forked() noexcept;

}  // namespace weft::detail
