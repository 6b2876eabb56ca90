// SPDX-License-Identifier: MIT
#include <weft/runtime.hpp>
#include <weft/spawn.hpp>
#include <weft/task.hpp>
#include <weft/version.hpp>

#include <cstdio>

namespace {

weft::task<int> half_of_the_answer() {
    co_return 21;
}

weft::task<int> answer() {
    auto first = weft::co_spawn(half_of_the_answer());
    auto second = weft::co_spawn(half_of_the_answer());
    co_return co_await std::move(first) + co_await std::move(second);
}

}  // namespace

int main() {
    std::printf("weft %.*s says %d\n", static_cast<int>(weft::version.size()),
                weft::version.data(), weft::run(answer()));
}
