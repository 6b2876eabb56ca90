// SPDX-License-Identifier: MIT
//
// Reads addresses and endpoints from text. One grammar serves both those who want the value and
// those who want to be told what is wrong and where, which inet_pton cannot tell; the tests compare
// it with inet_pton.
#pragma once

#include <weft/net/address.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <system_error>

namespace weft::net::detail {

/// Reads one text once. Each read_ function returns whether it succeeded; the first one that does
/// not sets code(), reason() and place().
class address_parser {
public:
    explicit address_parser(std::string_view text) noexcept : text_(text) {}

    /// The whole text is one address.
    bool read_address(ip_address& address) noexcept;
    /// The whole text is one endpoint.
    bool read_endpoint(endpoint& where) noexcept;

    std::errc code() const noexcept { return code_; }
    const char* reason() const noexcept { return reason_; }
    /// Index of the character where the reason lies; the size of the text if something is missing.
    std::size_t place() const noexcept { return place_; }

private:
    bool read_v4(ip_address::v4_bytes& bytes) noexcept;
    bool read_octet(std::uint8_t& octet) noexcept;
    bool read_v6(ip_address& address) noexcept;
    bool at_end_of_v6() const noexcept;
    bool read_dotted_end(std::span<std::uint8_t> room) noexcept;
    bool read_groups(ip_address::v6_bytes& bytes) noexcept;
    bool read_group(std::uint16_t& group) noexcept;
    bool read_scope(std::uint32_t& scope_id) noexcept;
    bool read_port(std::uint16_t& port) noexcept;
    bool read_end() noexcept;

    bool at_end() const noexcept { return at_ == text_.size(); }
    /// The current character, or 0 at the end (a real 0 is no part of any address).
    char current() const noexcept { return at_end() ? '\0' : text_[at_]; }
    bool take(char wanted) noexcept;
    bool fail(std::size_t place, const char* reason,
              std::errc code = std::errc::invalid_argument) noexcept;

    std::string_view text_;
    std::size_t at_ = 0;
    std::errc code_{};
    const char* reason_ = "";
    std::size_t place_ = 0;
};

}  // namespace weft::net::detail
