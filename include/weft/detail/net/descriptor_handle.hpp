// SPDX-License-Identifier: MIT
#pragma once

#include <weft/detail/netpoll/io_operation.hpp>

#include <utility>

namespace weft::detail {

/// Owns one life of a descriptor: closes it in the background when it goes.
class descriptor_handle {
public:
    descriptor_handle() noexcept = default;
    explicit descriptor_handle(descriptor_name owned) noexcept : name_(owned) {}
    descriptor_handle(descriptor_handle&& other) noexcept : name_(std::exchange(other.name_, {})) {}
    descriptor_handle& operator=(descriptor_handle&& other) noexcept {
        if (this != &other) {
            close();
            name_ = std::exchange(other.name_, {});
        }
        return *this;
    }
    ~descriptor_handle() { close(); }

    descriptor_name name() const noexcept { return name_; }
    bool empty() const noexcept { return name_.descriptor == nullptr; }

    /// Not empty, and neither closed nor being closed.
    bool is_open() const noexcept;

private:
    void close() noexcept;

    descriptor_name name_;
};

/// A file descriptor to be used in a system call: its number is not given to another file
/// meanwhile.
class descriptor_use {
public:
    explicit descriptor_use(descriptor_name used) noexcept;
    descriptor_use(const descriptor_use&) = delete;
    descriptor_use& operator=(const descriptor_use&) = delete;
    ~descriptor_use();

    /// -1: it is closed.
    int fd() const noexcept { return fd_; }

private:
    poll_descriptor* used_ = nullptr;
    int fd_ = -1;
};

}  // namespace weft::detail
