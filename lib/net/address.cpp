// SPDX-License-Identifier: MIT
#include <weft/net/address.hpp>

#include "address_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <ostream>
#include <system_error>

#include <netinet/in.h>

namespace weft::net {

namespace {

constexpr ip_address::v6_bytes mapped_prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t mapped_prefix_size = 12;
constexpr std::size_t group_count = 8;

/// A text from outside as part of a message: in quotes, with what cannot be printed as "\xNN", and
/// cut where it is so long that it would hide the rest of the message.
std::string quoted(std::string_view text) {
    constexpr std::size_t longest = 100;
    constexpr char digits[] = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text.substr(0, longest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            out += c;
        } else {
            out += "\\x";
            out += digits[byte >> 4];
            out += digits[byte & 0xf];
        }
    }
    out += text.size() > longest ? "...\"" : "\"";
    return out;
}

[[noreturn]] void throw_parse_error(const detail::address_parser& parser, std::string_view text,
                                    std::string_view wanted) {
    std::string message = quoted(text);
    message += " is no ";
    message += wanted;
    message += ": ";
    message += parser.reason();
    if (parser.place() < text.size()) {
        message += ", at character ";
        message += std::to_string(parser.place() + 1);
        message += ", ";
        message += quoted(text.substr(parser.place(), 1));
    } else {
        message += ", at the end";
    }
    throw std::system_error(std::make_error_code(parser.code()), message);
}

template <class Number>
char* write_number(char* out, Number number, int base = 10) noexcept {
    // The caller has room for the largest number of the type, so this cannot fail.
    return std::to_chars(out, out + std::numeric_limits<Number>::digits10 + 1, number, base).ptr;
}

char* write_v4(char* out, std::span<const std::uint8_t> bytes) noexcept {
    for (std::size_t i = 0; i < 4; ++i) {
        if (i != 0) *out++ = '.';
        out = write_number(out, bytes[i]);
    }
    return out;
}

struct zero_run {
    std::size_t first = group_count;
    std::size_t length = 0;
};

/// The groups that "::" stands for: the longest run of zeros, the first of equal ones. One zero
/// group alone is written as it is (RFC 5952, section 4.2.2).
zero_run longest_zero_run(const std::uint16_t* groups) noexcept {
    zero_run best;
    zero_run run;
    for (std::size_t i = 0; i < group_count; ++i) {
        if (groups[i] != 0) {
            run = {};
            continue;
        }
        if (run.length == 0) run.first = i;
        ++run.length;
        if (run.length > best.length) best = run;
    }
    return best.length >= 2 ? best : zero_run{};
}

// Not inet_ntop: glibc writes the deprecated IPv4-compatible addresses with a dotted end, so that
// ::1:0 becomes ::0.1.0.0.
char* write_v6(char* out, std::span<const std::uint8_t> bytes) noexcept {
    std::uint16_t groups[group_count];
    for (std::size_t i = 0; i < group_count; ++i) {
        groups[i] = static_cast<std::uint16_t>(bytes[2 * i] << 8 | bytes[2 * i + 1]);
    }
    const zero_run zeros = longest_zero_run(groups);
    for (std::size_t i = 0; i < group_count; ++i) {
        if (i == zeros.first) {
            *out++ = ':';
            *out++ = ':';
            i += zeros.length - 1;
            continue;
        }
        if (i != 0 && i != zeros.first + zeros.length) *out++ = ':';
        out = write_number(out, groups[i], 16);
    }
    return out;
}

char* write_mapped(char* out, std::span<const std::uint8_t> bytes) noexcept {
    constexpr std::string_view prefix = "::ffff:";
    out = std::copy(prefix.begin(), prefix.end(), out);
    return write_v4(out, bytes.subspan(mapped_prefix_size));
}

/// 64-bit FNV-1a over the bytes in which two values can differ, with the final mix of splitmix64,
/// since hash tables take the low bits.
std::size_t hash_of(const ip_address& address, std::uint16_t port) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
    add(static_cast<std::uint64_t>(address.family()));
    for (const std::uint8_t byte : address.bytes()) add(byte);
    add(address.scope_id());
    add(port);
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::size_t>(hash ^ (hash >> 31));
}

}  // namespace

ip_address ip_address::parse(std::string_view text) {
    detail::address_parser parser(text);
    ip_address address;
    if (!parser.read_address(address)) throw_parse_error(parser, text, "IP address");
    return address;
}

result<ip_address> ip_address::try_parse(std::string_view text) noexcept {
    detail::address_parser parser(text);
    ip_address address;
    if (!parser.read_address(address)) return failure(std::make_error_code(parser.code()));
    return address;
}

bool ip_address::is_v4_mapped() const noexcept {
    return is_v6() &&
           std::equal(bytes_.begin(), bytes_.begin() + mapped_prefix_size, mapped_prefix.begin());
}

ip_address ip_address::unmapped() const noexcept {
    if (!is_v4_mapped()) return *this;
    v4_bytes bytes;
    std::copy(bytes_.begin() + mapped_prefix_size, bytes_.end(), bytes.begin());
    return ip_address(bytes);
}

ip_address ip_address::mapped() const noexcept {
    if (is_v6()) return *this;
    v6_bytes bytes = mapped_prefix;
    std::copy(bytes_.begin(), bytes_.begin() + sizeof(v4_bytes),
              bytes.begin() + mapped_prefix_size);
    return ip_address(bytes);
}

bool ip_address::is_loopback() const noexcept {
    const ip_address plain = unmapped();
    return plain.is_v4() ? plain.bytes_[0] == 127 : plain == loopback_v6();
}

bool ip_address::is_multicast() const noexcept {
    const ip_address plain = unmapped();
    return plain.is_v4() ? (plain.bytes_[0] & 0xf0) == 0xe0 : plain.bytes_[0] == 0xff;
}

bool ip_address::is_link_local() const noexcept {
    const ip_address plain = unmapped();
    if (plain.is_v4()) return plain.bytes_[0] == 169 && plain.bytes_[1] == 254;
    return plain.bytes_[0] == 0xfe && (plain.bytes_[1] & 0xc0) == 0x80;
}

char* ip_address::write_to(char* out) const noexcept {
    if (is_v4()) return write_v4(out, bytes_);
    out = is_v4_mapped() ? write_mapped(out, bytes_) : write_v6(out, bytes_);
    if (scope_id_ != 0) {
        *out++ = '%';
        out = write_number(out, scope_id_);
    }
    return out;
}

std::string ip_address::to_string() const {
    char text[max_text_size];
    return std::string(text, write_to(text));
}

std::ostream& operator<<(std::ostream& out, const ip_address& address) {
    return out << address.to_string();
}

endpoint endpoint::parse(std::string_view text) {
    detail::address_parser parser(text);
    endpoint where;
    if (!parser.read_endpoint(where)) throw_parse_error(parser, text, "endpoint");
    return where;
}

result<endpoint> endpoint::try_parse(std::string_view text) noexcept {
    detail::address_parser parser(text);
    endpoint where;
    if (!parser.read_endpoint(where)) return failure(std::make_error_code(parser.code()));
    return where;
}

result<endpoint> endpoint::from_sockaddr(const sockaddr_storage& from, socklen_t size) noexcept {
    const auto too_small = failure(std::make_error_code(std::errc::invalid_argument));
    if (size < sizeof(sa_family_t)) {
        // The kernel gives size 0 for a peer without an address, as an unnamed Unix socket has.
        return failure(std::make_error_code(std::errc::address_family_not_supported));
    }
    switch (from.ss_family) {
        case AF_INET: {
            sockaddr_in v4;
            if (size < sizeof v4) return too_small;
            std::memcpy(&v4, &from, sizeof v4);
            ip_address::v4_bytes bytes;
            std::memcpy(bytes.data(), &v4.sin_addr, bytes.size());
            return endpoint(ip_address(bytes), ntohs(v4.sin_port));
        }
        case AF_INET6: {
            sockaddr_in6 v6;
            if (size < sizeof v6) return too_small;
            std::memcpy(&v6, &from, sizeof v6);
            ip_address::v6_bytes bytes;
            std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
            return endpoint(ip_address(bytes, v6.sin6_scope_id), ntohs(v6.sin6_port));
        }
        default:
            return failure(std::make_error_code(std::errc::address_family_not_supported));
    }
}

socklen_t endpoint::to_sockaddr(sockaddr_storage& to) const noexcept {
    to = {};
    if (address_.is_v4()) {
        sockaddr_in v4{};
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port_);
        std::memcpy(&v4.sin_addr, address_.bytes().data(), sizeof v4.sin_addr);
        std::memcpy(&to, &v4, sizeof v4);
        return sizeof v4;
    }
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port_);
    v6.sin6_scope_id = address_.scope_id();
    std::memcpy(&v6.sin6_addr, address_.bytes().data(), sizeof v6.sin6_addr);
    std::memcpy(&to, &v6, sizeof v6);
    return sizeof v6;
}

char* endpoint::write_to(char* out) const noexcept {
    if (address_.is_v6()) *out++ = '[';
    out = address_.write_to(out);
    if (address_.is_v6()) *out++ = ']';
    *out++ = ':';
    return write_number(out, port_);
}

std::string endpoint::to_string() const {
    char text[max_text_size];
    return std::string(text, write_to(text));
}

std::ostream& operator<<(std::ostream& out, const endpoint& where) {
    return out << where.to_string();
}

}  // namespace weft::net

std::size_t std::hash<weft::net::ip_address>::operator()(
    const weft::net::ip_address& address) const noexcept {
    return weft::net::hash_of(address, 0);
}

std::size_t std::hash<weft::net::endpoint>::operator()(
    const weft::net::endpoint& where) const noexcept {
    return weft::net::hash_of(where.address(), where.port());
}
