// SPDX-License-Identifier: MIT
#pragma once

#include <weft/net/tcp_options.hpp>

#include <optional>

namespace weft::detail {

// Each returns 0 or an errno.

int set_option(int fd, int level, int name, int value) noexcept;
int get_option(int fd, int level, int name, int& value) noexcept;

/// Off without options.
int set_keep_alive_options(int fd, const std::optional<net::keep_alive_options>& options) noexcept;
int get_keep_alive_options(int fd, std::optional<net::keep_alive_options>& options) noexcept;

int set_buffer_sizes(int fd, const std::optional<int>& receive,
                     const std::optional<int>& send) noexcept;

}  // namespace weft::detail
