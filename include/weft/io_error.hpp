// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/base/compiler.hpp>

#include <cstddef>
#include <string_view>
#include <system_error>

namespace weft {

/// A transfer that was to move all of a buffer and moved only part of it. Thrown by write_all
/// and read_exact; code() has the error that ended it.
///
/// The bytes counted by transferred() have been moved: read ones are at the front of the buffer,
/// written ones were handed to the kernel (the peer need not have got them).
class io_error : public std::system_error {
public:
    /// `operation` names what was done, as in "write_all to 10.0.0.7:80"; what() reads
    /// "OPERATION failed after N bytes: MESSAGE OF THE CODE".
    io_error(std::error_code code, std::size_t transferred, std::string_view operation);
    ~io_error() override;

    io_error(const io_error&) = default;
    io_error& operator=(const io_error&) = default;

    /// How many bytes had been moved when the error came.
    std::size_t transferred() const noexcept { return transferred_; }

private:
    std::size_t transferred_;
};

}  // namespace weft
