// SPDX-License-Identifier: MIT

// Feeds the parser with a stream and a way to cut it into pieces, both chosen by libFuzzer, and
// checks what must hold for any input:
//   - the pieces do not matter: requests, error and rest are the same as at once,
//   - what was understood, encoded again, is understood in the same way,
//   - no request is larger than the limits say.
// Each piece is handed over in a heap block of exactly its size, so AddressSanitizer sees a read
// beyond it.

#include "parser_support.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "the parser breaks a rule: %s\n", what);
    std::abort();
}

/// Limits that short inputs reach.
constexpr kv::parser_limits limits{.line = 64, .bulk = 48, .elements = 8, .request = 160};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    // The first two bytes choose the pieces, the rest is the stream.
    const std::size_t largest = 1 + data[0] % 32;
    std::uint32_t state = data[1] + 1U;
    const std::string_view stream(reinterpret_cast<const char*>(data) + 2, size - 2);

    const auto whole = kv::test::parse_at_once(stream, limits);
    const auto pieces = kv::test::parse_in_pieces(stream, limits, [&](std::size_t left) {
        state = state * 1664525U + 1013904223U;
        return std::min(left, 1 + (state >> 16) % largest);
    });
    require(whole == pieces, "the result depends on where the stream is cut");

    std::string again;
    for (const auto& request : whole.requests) {
        require(request.size() <= limits.line, "a request has too many arguments");
        for (const auto& argument : request) {
            require(argument.size() <= limits.line, "an argument is too long");
        }
        again += kv::test::encode(request);
    }
    const auto repeated = kv::test::parse_at_once(again);
    require(repeated.requests == whole.requests, "what was understood is not understood again");
    require(repeated.error.empty() && repeated.left == 0, "its own encoding is wrong");
    if (!whole.error.empty()) {
        require(whole.error.starts_with("Protocol error: "), "an error has no text");
        require(whole.error.find_first_of("\r\n") == std::string::npos, "an error breaks its line");
    }
    return 0;
}
