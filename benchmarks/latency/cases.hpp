// SPDX-License-Identifier: MIT
//
// The cases of the suite latency: docs/benchmarks.md says what each one measures.
#pragma once

#include "samples.hpp"

#include <weft/task.hpp>

namespace latency {

// Tasks that do not let go of their processor, and others that want it.
weft::task<> hog_echo(samples& found, unsigned rounds);
weft::task<> busy_socket(samples& found, unsigned rounds);
weft::task<> spawn_chain(samples& found, unsigned rounds);

// A processor whose task spins for 100 ms, and what waits there.
weft::task<> stuck_ready(samples& found, unsigned rounds);
weft::task<> stuck_timer(samples& found, unsigned rounds);
weft::task<> stuck_socket(samples& found, unsigned rounds);

// The same, while a task keeps the other processor busy and lets others in each millisecond.
weft::task<> stuck_ready_all_busy(samples& found, unsigned rounds);
weft::task<> stuck_timer_all_busy(samples& found, unsigned rounds);
weft::task<> stuck_socket_all_busy(samples& found, unsigned rounds);

// Time.
weft::task<> sleep_50us(samples& found, unsigned rounds);
weft::task<> blocking_ticker(samples& found, unsigned rounds);
/// The ticker of a bare thread, which runs beside blocking_ticker() for comparison.
void thread_ticker(samples& found, unsigned rounds);

/// Keeps the calling thread busy.
inline void spin(clock::duration length) {
    const auto end = clock::now() + length;
    while (clock::now() < end) {
    }
}

}  // namespace latency
