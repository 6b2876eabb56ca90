// SPDX-License-Identifier: MIT

// The smallest program: a main task spawns tasks, they sleep, and it waits for their results.

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <weft/weft.hpp>

using namespace std::chrono_literals;

namespace {

weft::task<int> say(std::string word, std::chrono::milliseconds after) {
    co_await weft::sleep_for(after);  // The thread runs other tasks meanwhile.
    std::printf("%s\n", word.c_str());
    co_return static_cast<int>(word.size());
}

weft::task<int> hello() {
    // Three tasks that run beside each other; the longest sleep decides how long all take.
    std::vector<weft::join_handle<int>> words;
    words.push_back(weft::co_spawn(say("world", 20ms)));
    words.push_back(weft::co_spawn(say("hello", 10ms)));
    words.push_back(weft::co_spawn(say("from three tasks", 30ms)));
    int letters = 0;
    for (auto& word : words) letters += co_await std::move(word);
    co_return letters;
}

}  // namespace

int main() {
    const int letters = weft::run(hello());
    std::printf("%d letters\n", letters);
}
