// SPDX-License-Identifier: MIT
//
// IP addresses and endpoints (an address with a port): plain values that never allocate, never
// resolve a host name and never suspend.
#pragma once

#include <weft/result.hpp>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include <sys/socket.h>

namespace weft::net {

enum class address_family : std::uint8_t { v4 = 4, v6 = 6 };

/// An IPv4 address, or an IPv6 address with its scope. The default is 0.0.0.0.
///
/// Order: every IPv4 address comes before every IPv6 address; within a family the bytes decide,
/// then the scope. An IPv4-mapped IPv6 address (::ffff:1.2.3.4) is an IPv6 address and differs from
/// its IPv4 form; unmapped() makes them equal.
class ip_address {
public:
    using v4_bytes = std::array<std::uint8_t, 4>;
    using v6_bytes = std::array<std::uint8_t, 16>;

    /// The longest text that write_to writes.
    static constexpr std::size_t max_text_size = 50;

    constexpr ip_address() noexcept = default;

    /// From bytes in the order in which they are written and sent: {127, 0, 0, 1}.
    constexpr explicit ip_address(const v4_bytes& bytes) noexcept {
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes_[i] = bytes[i];
    }

    /// `scope_id` is the number of the network interface that a link-local address belongs to, as
    /// if_nametoindex gives it; 0 means none.
    constexpr explicit ip_address(const v6_bytes& bytes, std::uint32_t scope_id = 0) noexcept
        : family_(address_family::v6), bytes_(bytes), scope_id_(scope_id) {}

    /// Reads "127.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "fe80::1%eth0" or "fe80::1%2": the
    /// whole text must be one address. Octets are decimal without leading zeros. A scope that is
    /// not a number is looked up among the network interfaces of this machine; an IPv4
    /// address takes none.
    ///
    /// Throws std::system_error with std::errc::invalid_argument, or no_such_device for an unknown
    /// interface; what() has the text, what is wrong with it and at which character.
    static ip_address parse(std::string_view text);

    /// The same without an exception: the error code alone.
    static result<ip_address> try_parse(std::string_view text) noexcept;

    static constexpr ip_address any_v4() noexcept { return {}; }
    static constexpr ip_address any_v6() noexcept { return ip_address(v6_bytes{}); }
    static constexpr ip_address loopback_v4() noexcept {
        return ip_address(v4_bytes{127, 0, 0, 1});
    }
    static constexpr ip_address loopback_v6() noexcept {
        return ip_address(v6_bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    }
    static constexpr ip_address broadcast_v4() noexcept {
        return ip_address(v4_bytes{255, 255, 255, 255});
    }

    constexpr address_family family() const noexcept { return family_; }
    constexpr bool is_v4() const noexcept { return family_ == address_family::v4; }
    constexpr bool is_v6() const noexcept { return family_ == address_family::v6; }

    /// 4 or 16 bytes in the order in which they are sent, valid as long as this object.
    constexpr std::span<const std::uint8_t> bytes() const noexcept {
        return {bytes_.data(), is_v4() ? sizeof(v4_bytes) : sizeof(v6_bytes)};
    }

    /// 0 where there is none, and for every IPv4 address.
    constexpr std::uint32_t scope_id() const noexcept { return scope_id_; }

    /// 0.0.0.0 or ::, which a listener binds to for all interfaces.
    constexpr bool is_any() const noexcept { return *this == any_v4() || *this == any_v6(); }
    /// 127.0.0.0/8, ::1, or one of the former as an IPv4-mapped address.
    bool is_loopback() const noexcept;
    /// 224.0.0.0/4, ff00::/8, or one of the former as an IPv4-mapped address.
    bool is_multicast() const noexcept;
    /// 169.254.0.0/16, fe80::/10, or one of the former as an IPv4-mapped address.
    bool is_link_local() const noexcept;
    /// ::ffff:0:0/96: how a dual-stack IPv6 socket shows an IPv4 peer.
    bool is_v4_mapped() const noexcept;

    /// The IPv4 address in an IPv4-mapped one; every other address as it is.
    ip_address unmapped() const noexcept;
    /// The IPv4-mapped form of an IPv4 address; an IPv6 address as it is.
    ip_address mapped() const noexcept;

    /// The canonical text of RFC 5952: lower case, no leading zeros, the longest run of at least
    /// two zero groups (the first of equal ones) as "::", IPv4-mapped addresses with a dotted end.
    /// A scope follows as a number: "fe80::1%2". parse() reads it back to an equal address.
    std::string to_string() const;

    /// Writes the same text to `out`, which has room for max_text_size characters, without a
    /// terminating zero. Returns the place behind the last character.
    char* write_to(char* out) const noexcept;

    friend constexpr auto operator<=>(const ip_address&, const ip_address&) noexcept = default;
    friend std::ostream& operator<<(std::ostream& out, const ip_address& address);

private:
    address_family family_ = address_family::v4;
    v6_bytes bytes_{};  // An IPv4 address uses the first four; the others stay 0.
    std::uint32_t scope_id_ = 0;
};

/// An address and a port: where a socket is bound, or connected to. The default is 0.0.0.0:0.
/// Ordered by address, then by port.
class endpoint {
public:
    /// The longest text that write_to writes.
    static constexpr std::size_t max_text_size = ip_address::max_text_size + 8;

    constexpr endpoint() noexcept = default;
    constexpr endpoint(const ip_address& address, std::uint16_t port) noexcept
        : address_(address), port_(port) {}

    /// Reads "127.0.0.1:80" or "[::1]:80": the address as ip_address::parse reads it, the port as a
    /// decimal number from 0 to 65535 without leading zeros. Both are required, and no host name
    /// is resolved. Port 0 lets the system choose when a listener is bound.
    ///
    /// Throws as ip_address::parse does.
    static endpoint parse(std::string_view text);

    /// The same without an exception: the error code alone.
    static result<endpoint> try_parse(std::string_view text) noexcept;

    /// From what accept, getsockname and their like have filled in; `size` is the size that they
    /// gave. Errors: address_family_not_supported for anything but IPv4 and IPv6 (a size of 0
    /// included), invalid_argument for a size too small for its family. The flow label of an IPv6
    /// address is dropped.
    static result<endpoint> from_sockaddr(const sockaddr_storage& from, socklen_t size) noexcept;

    /// Fills `to` as bind and connect want it and returns the size to pass along with it.
    socklen_t to_sockaddr(sockaddr_storage& to) const noexcept;

    constexpr const ip_address& address() const noexcept { return address_; }
    constexpr std::uint16_t port() const noexcept { return port_; }

    /// "127.0.0.1:80" or "[::1]:80", with the address as ip_address::to_string writes it.
    std::string to_string() const;

    /// As ip_address::write_to, with room for endpoint::max_text_size characters.
    char* write_to(char* out) const noexcept;

    friend constexpr auto operator<=>(const endpoint&, const endpoint&) noexcept = default;
    friend std::ostream& operator<<(std::ostream& out, const endpoint& where);

private:
    ip_address address_;
    std::uint16_t port_ = 0;
};

}  // namespace weft::net

template <>
struct std::hash<weft::net::ip_address> {
    std::size_t operator()(const weft::net::ip_address& address) const noexcept;
};

template <>
struct std::hash<weft::net::endpoint> {
    std::size_t operator()(const weft::net::endpoint& where) const noexcept;
};
