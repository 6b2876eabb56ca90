// SPDX-License-Identifier: MIT
#include "address_parser.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

#include <net/if.h>

namespace weft::net::detail {

namespace {

// The functions of <cctype> depend on the locale; an address does not.
bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) noexcept {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

bool address_parser::fail(std::size_t place, const char* reason, std::errc code) noexcept {
    place_ = place;
    reason_ = reason;
    code_ = code;
    return false;
}

bool address_parser::take(char wanted) noexcept {
    if (at_end() || text_[at_] != wanted) return false;
    ++at_;
    return true;
}

bool address_parser::read_end() noexcept {
    return at_end() || fail(at_, "nothing may follow here");
}

bool address_parser::read_octet(std::uint8_t& octet) noexcept {
    const std::size_t start = at_;
    unsigned value = 0;
    while (is_digit(current())) {
        value = value * 10 + static_cast<unsigned>(current() - '0');
        ++at_;
        if (value > 255) return fail(start, "a part of an IPv4 address is at most 255");
        if (at_ - start > 1 && text_[start] == '0') {
            return fail(start, "a part of an IPv4 address has no leading zero");
        }
    }
    if (at_ == start && start == 0) {
        return fail(0, "an IPv4 address starts with a digit; host names are not resolved here");
    }
    if (at_ == start) return fail(at_, "a decimal digit is wanted here");
    octet = static_cast<std::uint8_t>(value);
    return true;
}

bool address_parser::read_v4(ip_address::v4_bytes& bytes) noexcept {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (i != 0 && !take('.'))
            return fail(at_, "an IPv4 address has four parts with dots between");
        if (!read_octet(bytes[i])) return false;
    }
    return true;
}

bool address_parser::read_group(std::uint16_t& group) noexcept {
    const std::size_t start = at_;
    while (is_hex_digit(current()) && at_ - start < 4) ++at_;
    if (at_ == start) return fail(at_, "a hexadecimal digit is wanted here");
    if (is_hex_digit(current())) {
        return fail(start, "a group of an IPv6 address has at most four digits");
    }
    std::from_chars(text_.data() + start, text_.data() + at_, group, 16);
    return true;
}

bool address_parser::at_end_of_v6() const noexcept {
    return at_end() || current() == '%' || current() == ']';
}

// The group that was just read turned out to be the first part of an IPv4 address at the end.
bool address_parser::read_dotted_end(std::span<std::uint8_t> room) noexcept {
    if (room.size() < 4) return fail(at_, "no room for an IPv4 address as the last two groups");
    ip_address::v4_bytes last{};
    if (!read_v4(last)) return false;
    std::copy(last.begin(), last.end(), room.begin());
    return at_end_of_v6() || fail(at_, "an IPv4 address must be the end of an IPv6 address");
}

// Groups are read one after the other; where "::" stands is remembered, and the groups behind it
// are moved to the end once their number is known.
bool address_parser::read_groups(ip_address::v6_bytes& bytes) noexcept {
    bytes.fill(0);
    std::size_t count = 0;           // bytes read
    std::size_t gap = bytes.size();  // bytes read before "::"; the size of bytes if there was none
    std::size_t gap_place = 0;
    bool group_wanted = true;
    if (text_.substr(at_).starts_with("::")) {
        gap = 0;
        gap_place = at_;
        at_ += 2;
        group_wanted = false;
    }
    while (group_wanted || !at_end_of_v6()) {
        const std::size_t group_place = at_;
        std::uint16_t group = 0;
        if (!read_group(group)) return false;
        if (current() == '.') {
            at_ = group_place;
            if (!read_dotted_end(std::span(bytes).subspan(count))) return false;
            count += 4;
            break;
        }
        bytes[count++] = static_cast<std::uint8_t>(group >> 8);
        bytes[count++] = static_cast<std::uint8_t>(group & 0xff);
        if (at_end_of_v6()) break;
        if (count == bytes.size()) return fail(at_, "an IPv6 address has at most eight groups");
        if (!take(':')) return fail(at_, "a colon or a hexadecimal digit is wanted here");
        group_wanted = current() != ':';
        if (group_wanted) continue;
        if (gap != bytes.size()) return fail(at_ - 1, "\"::\" may stand only once");
        gap = count;
        gap_place = at_ - 1;
        ++at_;
    }
    if (gap == bytes.size()) {
        if (count == bytes.size()) return true;
        return fail(at_, "an IPv6 address has eight groups, or \"::\" for those that are zero");
    }
    if (count == bytes.size()) return fail(gap_place, "\"::\" stands beside eight groups already");
    std::rotate(bytes.begin() + static_cast<std::ptrdiff_t>(gap),
                bytes.begin() + static_cast<std::ptrdiff_t>(count), bytes.end());
    return true;
}

bool address_parser::read_scope(std::uint32_t& scope_id) noexcept {
    const std::size_t start = at_;
    at_ = std::min(text_.find(']', at_), text_.size());
    const std::string_view name = text_.substr(start, at_ - start);
    if (name.empty()) return fail(start, "a scope after \"%\" is an interface's name or number");
    if (std::all_of(name.begin(), name.end(), is_digit)) {
        const auto read = std::from_chars(name.data(), name.data() + name.size(), scope_id);
        if (read.ec != std::errc{}) return fail(start, "a scope is at most 4294967295");
        return true;
    }
    std::array<char, IF_NAMESIZE> terminated{};
    if (name.size() >= terminated.size()) {
        return fail(start, "the name of a network interface has at most 15 characters");
    }
    std::copy(name.begin(), name.end(), terminated.begin());
    // A name with a zero inside would be looked up as something shorter.
    scope_id = name.find('\0') == name.npos ? ::if_nametoindex(terminated.data()) : 0;
    if (scope_id == 0) {
        return fail(start, "this machine has no network interface of that name",
                    std::errc::no_such_device);
    }
    return true;
}

bool address_parser::read_v6(ip_address& address) noexcept {
    ip_address::v6_bytes bytes;
    if (!read_groups(bytes)) return false;
    address = ip_address(bytes);
    if (!take('%')) return true;
    std::uint32_t scope_id = 0;
    if (!read_scope(scope_id)) return false;
    address = ip_address(bytes, scope_id);
    return true;
}

bool address_parser::read_address(ip_address& address) noexcept {
    if (text_.find(':') != text_.npos) return read_v6(address) && read_end();
    ip_address::v4_bytes bytes{};
    if (!read_v4(bytes)) return false;
    address = ip_address(bytes);
    return read_end();
}

bool address_parser::read_port(std::uint16_t& port) noexcept {
    const std::size_t start = at_;
    unsigned value = 0;
    while (is_digit(current())) {
        value = value * 10 + static_cast<unsigned>(current() - '0');
        ++at_;
        if (value > 65535) return fail(start, "a port is at most 65535");
        if (at_ - start > 1 && text_[start] == '0')
            return fail(start, "a port has no leading zero");
    }
    if (at_ == start) return fail(at_, "a port is a decimal number");
    port = static_cast<std::uint16_t>(value);
    return true;
}

bool address_parser::read_endpoint(endpoint& where) noexcept {
    ip_address address;
    if (take('[')) {
        if (!read_v6(address)) return false;
        if (!take(']')) return fail(at_, "a closing bracket is wanted here");
    } else {
        if (std::count(text_.begin(), text_.end(), ':') > 1) {
            return fail(0, "an IPv6 address with a port stands in brackets, as in \"[::1]:80\"");
        }
        ip_address::v4_bytes bytes{};
        if (!read_v4(bytes)) return false;
        address = ip_address(bytes);
    }
    if (!take(':')) return fail(at_, "a colon and a port are wanted here, as in \":80\"");
    std::uint16_t port = 0;
    if (!read_port(port)) return false;
    where = endpoint(address, port);
    return read_end();
}

}  // namespace weft::net::detail
