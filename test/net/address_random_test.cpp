// SPDX-License-Identifier: MIT
//
// Random addresses and random damage, with fixed seeds: what is written is read back, and the
// parser agrees with inet_pton on what is an address and which one it is.
#include <weft/net/address.hpp>

#include "support/catch.hpp"
#include "support/scale.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include <arpa/inet.h>

using weft::net::endpoint;
using weft::net::ip_address;

namespace {

class random_source {
public:
    explicit random_source(std::uint32_t seed) : engine_(seed) {}

    std::uint32_t below(std::uint32_t bound) { return engine_() % bound; }
    bool one_in(std::uint32_t chance) { return below(chance) == 0; }

    ip_address address() {
        if (one_in(3)) {
            ip_address::v4_bytes bytes;
            for (auto& byte : bytes) byte = this->byte();
            return ip_address(bytes);
        }
        ip_address::v6_bytes bytes{};
        // Whole groups are zero half of the time, so that "::" is met in every place.
        for (std::size_t group = 0; group < 8; ++group) {
            if (one_in(2)) continue;
            bytes[2 * group] = byte();
            bytes[2 * group + 1] = byte();
        }
        if (one_in(8)) {
            std::fill_n(bytes.begin(), 10, std::uint8_t{0});
            bytes[10] = bytes[11] = 0xff;
        }
        return ip_address(bytes, one_in(4) ? engine_() : 0);
    }

    /// One to three characters of `text` are removed, doubled, replaced or added.
    std::string damaged(std::string text) {
        static constexpr std::string_view alphabet = "0123456789abcdefABCDEFg:::...%[]/ x-+\0\n";
        for (std::uint32_t edits = 1 + below(3); edits != 0; --edits) {
            const auto at =
                static_cast<std::size_t>(below(static_cast<std::uint32_t>(text.size()) + 1));
            const char c = alphabet[below(static_cast<std::uint32_t>(alphabet.size()))];
            switch (below(4)) {
                case 0:
                    text.insert(at, 1, c);
                    break;
                case 1:
                    text.erase(at, 1);
                    break;
                case 2:
                    text.insert(at, text.substr(at, 1 + below(4)));
                    break;
                default:
                    if (at < text.size()) text[at] = c;
            }
        }
        return text;
    }

private:
    std::uint8_t byte() { return one_in(3) ? 0 : static_cast<std::uint8_t>(below(256)); }

    std::mt19937 engine_;
};

/// What inet_pton makes of a text without a scope.
std::optional<ip_address> libc_address(const std::string& text) {
    if (text.find('\0') != text.npos) return std::nullopt;
    ip_address::v4_bytes v4;
    if (::inet_pton(AF_INET, text.c_str(), v4.data()) == 1) return ip_address(v4);
    ip_address::v6_bytes v6;
    if (::inet_pton(AF_INET6, text.c_str(), v6.data()) == 1) return ip_address(v6);
    return std::nullopt;
}

}  // namespace

TEST_CASE("random addresses and endpoints are read back as they were") {
    random_source random(20240501);
    const std::size_t rounds = weft::test::scaled_count(200'000, 5'000'000);
    for (std::size_t round = 0; round < rounds; ++round) {
        const ip_address address = random.address();
        const endpoint where(address, static_cast<std::uint16_t>(random.below(65536)));
        const auto read_address = ip_address::try_parse(address.to_string());
        if (!read_address.has_value() || *read_address != address) FAIL(address);
        const auto read_endpoint = endpoint::try_parse(where.to_string());
        if (!read_endpoint.has_value() || *read_endpoint != where) FAIL(where);
        sockaddr_storage storage;
        const socklen_t size = where.to_sockaddr(storage);
        if (endpoint::from_sockaddr(storage, size) != where) FAIL(where);
    }
    SUCCEED(rounds << " rounds");
}

TEST_CASE("the parser and inet_pton agree on whole and on damaged addresses") {
    random_source random(20240502);
    const std::size_t rounds = weft::test::scaled_count(300'000, 10'000'000);
    std::size_t accepted = 0;
    std::size_t refused = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        std::string text = random.address().to_string();
        text = text.substr(0, text.find('%'));
        if (!random.one_in(4)) text = random.damaged(text);
        if (text.find('%') != text.npos) continue;  // inet_pton knows no scopes
        const auto ours = ip_address::try_parse(text);
        const auto theirs = libc_address(text);
        if (ours.has_value() != theirs.has_value()) {
            FAIL("\"" << text << "\" is " << (ours.has_value() ? "accepted" : "refused")
                      << ", and inet_pton disagrees");
        }
        if (ours.has_value() && *ours != *theirs) FAIL(text << " was read as " << *ours);
        ++(ours.has_value() ? accepted : refused);
    }
    // Both kinds were met often enough for the comparison to mean something.
    REQUIRE(accepted > rounds / 10);
    REQUIRE(refused > rounds / 10);
}

TEST_CASE("the canonical text is that of inet_ntop but for IPv4-compatible addresses") {
    random_source random(20240503);
    const std::size_t rounds = weft::test::scaled_count(100'000, 1'000'000);
    std::size_t compared = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        const ip_address address = random.address();
        char buffer[INET6_ADDRSTRLEN];
        const int family = address.is_v4() ? AF_INET : AF_INET6;
        const char* text = ::inet_ntop(family, address.bytes().data(), buffer, sizeof buffer);
        REQUIRE(text != nullptr);
        std::string ours = address.to_string();
        ours = ours.substr(0, ours.find('%'));
        const std::string_view theirs = text;
        const bool dotted = address.is_v6() && theirs.find('.') != theirs.npos;
        if (dotted && !address.is_v4_mapped()) continue;
        if (ours != theirs) FAIL(ours << " is written as " << theirs << " by inet_ntop");
        ++compared;
    }
    REQUIRE(compared > rounds / 2);
}

TEST_CASE("damaged endpoints never make the parser throw anything but its own error") {
    random_source random(20240504);
    const std::size_t rounds = weft::test::scaled_count(100'000, 2'000'000);
    std::size_t refused = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
        const endpoint where(random.address(), static_cast<std::uint16_t>(random.below(65536)));
        const std::string text = random.damaged(where.to_string());
        const auto read = endpoint::try_parse(text);
        if (read.has_value()) {
            // Whatever is accepted means one endpoint: its canonical text reads the same.
            if (endpoint::try_parse(read->to_string()) != *read) FAIL(text);
            continue;
        }
        ++refused;
        try {
            (void)endpoint::parse(text);
            FAIL(text << " is refused by try_parse and accepted by parse");
        } catch (const std::system_error& error) {
            if (error.code() != read.error()) FAIL(text);
        }
    }
    REQUIRE(refused > rounds / 10);
}
