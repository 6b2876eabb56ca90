// SPDX-License-Identifier: MIT
#include <weft/version.hpp>

#include <cstdio>

int main() {
    std::printf("built with weft %.*s\n", static_cast<int>(weft::version.size()),
                weft::version.data());
}
