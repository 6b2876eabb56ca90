#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: subproject_test.sh CHECKOUT
#
# Builds and runs test/consume/ in a copy, with weft as its subproject, and checks that weft keeps
# its tests, examples and benchmarks to itself there; then configures weft where fmt and liburing are
# subprojects, and uses weft as installed.
# Reports as docs/testing.md says.
set -u
checkout=$1
passed=0
failed=0

# check NAME COMMAND...: one test case. Prints what the command printed if it fails.
check() {
    local name=$1
    shift
    if "$@" >"$directory/output" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        cat "$directory/output"
    fi
}

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cp -r "$checkout/test/consume" "$directory/project"
mkdir "$directory/project/subprojects"
ln -s "$checkout" "$directory/project/subprojects/weft"
cd "$directory/project" || exit 1

targets_of_weft_are_the_library() {
    meson introspect --targets build |
        python3 -c '
import json, sys
names = {target["name"] for target in json.load(sys.stdin)}
print(names)
sys.exit(names != {"weft", "consume"})'
}

program_runs_tasks() {
    ./build/consume | tee /dev/stderr | grep -qE '^weft [0-9]+\.[0-9]+\.[0-9]+ says 42$'
}

# A checkout of the sources alone, so that the subprojects beside it are those of this test.
separate_checkout() {
    mkdir -p "$1/subprojects"
    ln -s "$checkout"/{meson.build,meson_options.txt,include,lib} "$1"
}

readonly library_alone=(-Dtests=disabled -Dexamples=disabled -Dbenchmarks=disabled)

# Neither has a name in pkg-config then.
dependencies_may_be_subprojects() {
    cp -r "$checkout"/test/consume/dependencies/* subprojects
    separate_checkout "$directory/weft"
    cp -r "$checkout"/test/consume/dependencies/* "$directory/weft/subprojects"
    meson setup build-all --force-fallback-for fmt,liburing &&
        meson setup "$directory/weft/build" "$directory/weft" "${library_alone[@]}" \
            --force-fallback-for fmt,liburing
}

nothing_of_weft_is_installed_with_it() {
    meson introspect --installed build | tee /dev/stderr | grep -qx '{}'
}

weft_is_installed() {
    separate_checkout "$directory/plain"
    meson setup "$directory/plain/build" "$directory/plain" "${library_alone[@]}" \
        --prefix "$directory/installed" --libdir lib &&
        ninja -C "$directory/plain/build" -j 2 && meson install -C "$directory/plain/build"
}

# The other way to use weft: installed, and found by pkg-config.
installed_weft_is_found() {
    export PKG_CONFIG_PATH=$directory/installed/lib/pkgconfig
    # shellcheck disable=SC2046,SC2086 # one word for each flag
    ${CXX:-c++} -std=c++20 main.cpp $(pkg-config --cflags --libs weft) -o "$directory/linked" &&
        "$directory/linked"
}

check "a project configures with weft as a subproject" meson setup build
check "only the library of weft is built in it" targets_of_weft_are_the_library
check "nothing of weft is installed with it" nothing_of_weft_is_installed_with_it
check "it builds without a warning in the headers of weft" ninja -C build -j 2
check "its program runs tasks" program_runs_tasks
check "fmt and liburing may be subprojects" dependencies_may_be_subprojects
check "weft can be installed" weft_is_installed
check "a program is linked to the installed weft" installed_weft_is_found

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
