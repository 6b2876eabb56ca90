// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kv {

/// SipHash-1-3 by Jean-Philippe Aumasson and Daniel J. Bernstein: one round for each 8 bytes, three
/// at the end. With a seed that clients do not know they cannot choose keys that all fall into one
/// bucket, which would turn each access into a walk over all of them.
class sip_hash {
public:
    /// `seed` is 128 bits of secret, from a random source.
    explicit sip_hash(std::array<std::uint64_t, 2> seed) noexcept : seed_(seed) {}

    std::uint64_t operator()(std::string_view text) const noexcept {
        // The bytes "somepseudorandomlygeneratedbytes", as the algorithm prescribes.
        state s{seed_[0] ^ 0x736f6d6570736575U, seed_[1] ^ 0x646f72616e646f6dU,
                seed_[0] ^ 0x6c7967656e657261U, seed_[1] ^ 0x7465646279746573U};
        std::size_t at = 0;
        for (; text.size() - at >= 8; at += 8) s.absorb(load(text.data() + at, 8));
        // The last word holds the bytes that are left over and, on top, the length modulo 256.
        s.absorb(load(text.data() + at, text.size() - at) | static_cast<std::uint64_t>(text.size())
                                                                << 56);
        s.v2 ^= 0xff;
        for (int round = 0; round < 3; ++round) s.mix();
        return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    }

private:
    struct state {
        std::uint64_t v0, v1, v2, v3;

        void absorb(std::uint64_t word) noexcept {
            v3 ^= word;
            mix();
            v0 ^= word;
        }

        void mix() noexcept {
            v0 += v1;
            v1 = std::rotl(v1, 13) ^ v0;
            v0 = std::rotl(v0, 32);
            v2 += v3;
            v3 = std::rotl(v3, 16) ^ v2;
            v0 += v3;
            v3 = std::rotl(v3, 21) ^ v0;
            v2 += v1;
            v1 = std::rotl(v1, 17) ^ v2;
            v2 = std::rotl(v2, 32);
        }
    };

    /// Reads up to 8 bytes as a little-endian number.
    static std::uint64_t load(const char* bytes, std::size_t count) noexcept {
        std::uint64_t word = 0;
        if constexpr (std::endian::native == std::endian::little) {
            if (count != 0) std::memcpy(&word, bytes, count);
        } else {
            for (std::size_t i = 0; i < count; ++i) {
                word |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
            }
        }
        return word;
    }

    std::array<std::uint64_t, 2> seed_;
};

}  // namespace kv
