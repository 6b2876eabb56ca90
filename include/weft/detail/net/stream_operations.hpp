// SPDX-License-Identifier: MIT
//
// Reading and writing a stream of bytes: one system call after another, each for as much as is
// left, until the operation has what it wants.
#pragma once

#include <weft/detail/netpoll/io_operation.hpp>
#include <weft/detail/task/awaiter.hpp>
#include <weft/net/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

namespace weft::detail {

/// When a transfer is done.
enum class transfer_extent : std::uint8_t {
    some,  ///< When anything was moved.
    all    ///< When everything was moved.
};

/// One system call moves at most this many bytes, however large the buffer is; larger counts do not
/// fit everywhere in the kernel.
inline constexpr std::size_t largest_transfer = std::size_t{1} << 30;
/// One vectored system call names at most this many buffers.
inline constexpr std::size_t largest_vector = 64;
/// Sends of at most so many bytes are gathered (io_operation.hpp). With larger ones one system call
/// would copy for long, and what it saves is little beside the copying.
inline constexpr std::size_t largest_gathered = std::size_t{1} << 14;

/// Throws std::system_error(error, what).
[[noreturn]] void throw_system_error(std::error_code error, const char* what);
/// Throws io_error.
[[noreturn]] void throw_io_error(std::error_code error, std::size_t transferred, const char* what);

/// What all four have in common: the end of a transfer. `Byte` is std::byte or const std::byte.
class transfer_operation : public io_operation {
protected:
    transfer_operation(descriptor_name on, direction which, transfer_extent extent) noexcept
        : io_operation(on, which), extent_(extent) {}
    transfer_operation(const transfer_operation&) = default;
    ~transfer_operation() = default;

    /// Judges the result of a system call that was asked for something.
    attempt_outcome judge(std::ptrdiff_t result, std::size_t wanted) noexcept;

    /// start() of a transfer of nothing: no system call, but it is stopped, pays from the budget
    /// and is refused by a closed descriptor as any other.
    bool start_empty(branch& waiter) noexcept;

    /// For await_resume().
    std::size_t finish_transfer(const char* some, const char* all) {
        if (const std::error_code error = finish()) [[unlikely]] {
            if (extent_ == transfer_extent::all) throw_io_error(error, transferred_, all);
            throw_system_error(error, some);
        }
        return transferred_;
    }

    std::size_t transferred_ = 0;

private:
    transfer_extent extent_;
};

/// recv and send.
template <direction Which>
class buffer_operation : public transfer_operation {
public:
    using byte = std::conditional_t<Which == direction::read, std::byte, const std::byte>;

    buffer_operation(descriptor_name on, std::span<byte> buffer, transfer_extent extent) noexcept
        : transfer_operation(on, Which, extent), buffer_(buffer) {}

protected:
    buffer_operation(const buffer_operation&) = default;
    ~buffer_operation() = default;

    bool nothing_to_do() const noexcept { return buffer_.empty(); }

private:
    [[gnu::hot]] attempt_outcome attempt(int fd) noexcept final;
    [[gnu::hot]] attempt_outcome ended(int result) noexcept final;

    std::span<byte> buffer_;
};

/// recvmsg and sendmsg.
template <direction Which>
class vector_operation : public transfer_operation {
public:
    using byte = std::conditional_t<Which == direction::read, std::byte, const std::byte>;

    vector_operation(descriptor_name on, std::span<const std::span<byte>> buffers,
                     transfer_extent extent) noexcept
        : transfer_operation(on, Which, extent), buffers_(buffers) {
        for (const auto& each : buffers) size_ += each.size();
    }

protected:
    vector_operation(const vector_operation&) = default;
    ~vector_operation() = default;

    bool nothing_to_do() const noexcept { return size_ == 0; }

private:
    [[gnu::hot]] attempt_outcome attempt(int fd) noexcept final;
    void skip(std::size_t moved) noexcept;

    std::span<const std::span<byte>> buffers_;  ///< Those that are left.
    std::size_t size_ = 0;                      ///< Of all buffers.
    std::size_t offset_ = 0;                    ///< Moved already of the first one that is left.
};

extern template class buffer_operation<direction::read>;
extern template class buffer_operation<direction::write>;
extern template class vector_operation<direction::read>;
extern template class vector_operation<direction::write>;

/// The awaiter of a transfer; gives the number of bytes moved. Nothing to move is done without a
/// system call.
template <class Operation, direction Which>
class [[nodiscard]] transfer_awaiter final : public awaiter<Operation> {
public:
    using awaiter<Operation>::awaiter;

    bool start(branch& waiter) noexcept final {
        return this->nothing_to_do() ? this->start_empty(waiter) : Operation::start(waiter);
    }
    std::size_t await_resume() {
        return Which == direction::read ? this->finish_transfer("read_some", "read_exact")
                                        : this->finish_transfer("write_some", "write_all");
    }
};

using read_awaiter = transfer_awaiter<buffer_operation<direction::read>, direction::read>;
using write_awaiter = transfer_awaiter<buffer_operation<direction::write>, direction::write>;
using vector_read_awaiter = transfer_awaiter<vector_operation<direction::read>, direction::read>;
using vector_write_awaiter = transfer_awaiter<vector_operation<direction::write>, direction::write>;

}  // namespace weft::detail
