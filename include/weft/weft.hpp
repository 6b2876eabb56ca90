// SPDX-License-Identifier: MIT
#pragma once

// All of weft.

#include <weft/detail/base/compiler.hpp>

#include <weft/as_result.hpp>
#include <weft/auto_reset_event.hpp>
#include <weft/barrier.hpp>
#include <weft/blocking.hpp>
#include <weft/broadcast.hpp>
#include <weft/channel.hpp>
#include <weft/channel_ends.hpp>
#include <weft/condition_variable.hpp>
#include <weft/deadlock.hpp>
#include <weft/error.hpp>
#include <weft/event.hpp>
#include <weft/io_error.hpp>
#include <weft/latch.hpp>
#include <weft/mutex.hpp>
#include <weft/net/address.hpp>
#include <weft/net/address_format.hpp>
#include <weft/net/buffer.hpp>
#include <weft/net/tcp.hpp>
#include <weft/net/tcp_options.hpp>
#include <weft/on_end.hpp>
#include <weft/on_stop.hpp>
#include <weft/once.hpp>
#include <weft/result.hpp>
#include <weft/runtime.hpp>
#include <weft/select.hpp>
#include <weft/semaphore.hpp>
#include <weft/semaphore_permits.hpp>
#include <weft/shared_lock.hpp>
#include <weft/shared_mutex.hpp>
#include <weft/shield.hpp>
#include <weft/sleep.hpp>
#include <weft/spawn.hpp>
#include <weft/statistics.hpp>
#include <weft/task.hpp>
#include <weft/task_group.hpp>
#include <weft/task_local.hpp>
#include <weft/this_task.hpp>
#include <weft/timeout.hpp>
#include <weft/unique_lock.hpp>
#include <weft/version.hpp>
#include <weft/wait_group.hpp>
#include <weft/watch.hpp>
#include <weft/when_all.hpp>
#include <weft/when_any.hpp>
#include <weft/yield.hpp>
