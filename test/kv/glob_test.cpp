// SPDX-License-Identifier: MIT
#include "glob.hpp"

#include "support/catch.hpp"

#include <string>

using kv::glob_match;

TEST_CASE("kv glob: literals, in any case") {
    CHECK(glob_match("save", "save"));
    CHECK(glob_match("SaVe", "save"));
    CHECK(!glob_match("save", "saved"));
    CHECK(!glob_match("save", "sav"));
    CHECK(glob_match("", ""));
    CHECK(!glob_match("", "a"));
}

TEST_CASE("kv glob: wildcards") {
    CHECK(glob_match("*", ""));
    CHECK(glob_match("*", "anything"));
    CHECK(glob_match("**", "x"));
    CHECK(glob_match("max*", "maxclients"));
    CHECK(glob_match("*clients", "maxclients"));
    CHECK(glob_match("m*c*s", "maxclients"));
    CHECK(!glob_match("m*c*x", "maxclients"));
    CHECK(glob_match("?", "a"));
    CHECK(!glob_match("?", ""));
    CHECK(!glob_match("?", "ab"));
    CHECK(glob_match("*a*b", "aab"));
    CHECK(glob_match("*ab", "aaab"));
}

TEST_CASE("kv glob: sets and escapes") {
    CHECK(glob_match("[abc]", "b"));
    CHECK(glob_match("[a-c]x", "Bx"));
    CHECK(glob_match("[c-a]", "b"));
    CHECK(!glob_match("[a-c]", "d"));
    CHECK(glob_match("[^a-c]", "d"));
    CHECK(!glob_match("[^a-c]", "a"));
    CHECK(glob_match("[\\]]", "]"));
    CHECK(glob_match("[a-", "-"));
    CHECK(glob_match("[", "a") == false);
    CHECK(glob_match("\\*", "*"));
    CHECK(!glob_match("\\*", "a"));
    CHECK(glob_match("\\", "\\"));
}

TEST_CASE("kv glob: a pattern of many stars does not take exponential time") {
    std::string pattern;
    for (int i = 0; i < 1000; ++i) pattern += "*a";
    // The naive algorithm would try more ways than there are atoms.
    CHECK(!glob_match(pattern + "b", std::string(2000, 'a')));
    CHECK(glob_match(pattern, std::string(2000, 'a')));
}
