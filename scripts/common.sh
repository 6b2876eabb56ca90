# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What scripts/test, scripts/demo and scripts/bench share: finding a compiler, installing what is
# missing, configuring and building. To be sourced by bash; it sets -euo pipefail, changes to the
# root of the checkout, and defines
#
#   weft_root                            the root of the checkout
#   weft_say TEXT...                     prints a line about what the script does
#   weft_die TEXT...                     prints an error and ends the script with status 1
#   weft_ensure_packages PURPOSE...      makes sure that everything for these purposes is there
#   weft_configure DIRECTORY [OPTION...] a Meson build directory with these options
#   weft_build DIRECTORY [TARGET...]     builds it, or only these targets
#   weft_compiler, weft_clang            the C++ compiler of ordinary and of sanitizer builds;
#                                        set by weft_ensure_packages
#
# A script needs nothing but bash, coreutils and, on Debian, apt-get: a bare root file system
# made by debootstrap will do.

set -euo pipefail

weft_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$weft_root"

weft_say() { printf '==> %s\n' "$*"; }

weft_die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

weft_have() { command -v "$1" >/dev/null 2>&1; }

# Prints the major version of a compiler, or nothing if it is not there.
weft_compiler_version() {
    weft_have "$1" || return 0
    "$1" -dumpversion 2>/dev/null | cut -d. -f1
}

# Succeeds if compiler $1 exists and is at least of major version $2.
weft_compiler_is() {
    local version
    version=$(weft_compiler_version "$1")
    [ -n "$version" ] && [ "$version" -ge "$2" ]
}

# The ordinary compiler: what CXX says, else g++ where it is 13 or later, else a clang of 17 or
# later. GCC 12, the default of Debian 12, miscompiles coroutines.
weft_find_compiler() {
    if [ -n "${CXX:-}" ]; then
        echo "$CXX"
        return
    fi
    if weft_compiler_is g++ 13; then
        echo g++
        return
    fi
    weft_find_clang
}

# A clang of 17 or later, for ordinary and for sanitizer builds.
weft_find_clang() {
    local candidate
    for candidate in clang++-19 clang++-20 clang++-18 clang++-17 clang++; do
        if weft_compiler_is "$candidate" 17; then
            echo "$candidate"
            return
        fi
    done
}

# Succeeds if compiler $1 can build and link a program with -fsanitize=$2: the run-time libraries
# come in a package of their own.
weft_compiler_sanitizes() {
    local directory status=0
    directory=$(mktemp -d)
    echo 'int main() {}' >"$directory/probe.cpp"
    "$1" "-fsanitize=$2" "$directory/probe.cpp" -o "$directory/probe" >/dev/null 2>&1 || status=1
    rm -rf "$directory"
    return $status
}

weft_compiler_has_header() {
    # shellcheck disable=SC2086 # CXX may hold a launcher before the compiler
    echo "#include <$2>" | $1 -std=c++20 -x c++ -fsyntax-only - >/dev/null 2>&1
}

# Debian 12 or 13, or nothing.
weft_debian_release() {
    local ID='' VERSION_ID=''
    [ -r /etc/os-release ] || return 0
    . /etc/os-release
    if [ "$ID" = debian ] && weft_have apt-get; then
        case $VERSION_ID in
            12 | 13) echo "$VERSION_ID" ;;
        esac
    fi
}

# Prints the Debian packages that are missing for purpose $1. What counts is whether the thing
# itself is there, so that nothing is installed over what came from somewhere else.
weft_missing_for() {
    local release=$2 compiler clang
    compiler=$(weft_find_compiler)
    clang=$(weft_find_clang)
    case $1 in
        build)
            if [ -z "$compiler" ]; then
                if [ "$release" = 13 ]; then echo g++; else echo clang-19; fi
            fi
            weft_have meson || echo meson
            weft_have ninja || echo ninja-build
            weft_have pkg-config || echo pkg-config
            weft_have pkg-config && pkg-config --atleast-version=2.3 liburing || echo liburing-dev
            weft_have pkg-config && pkg-config --atleast-version=9 fmt || echo libfmt-dev
            if [ -z "$compiler" ] || ! weft_compiler_has_header "$compiler" tl/expected.hpp; then
                echo libexpected-dev
            fi
            ;;
        test)
            weft_have python3 || echo python3
            weft_have redis-benchmark || echo redis-tools
            weft_have pkg-config && pkg-config --atleast-version=2.13 catch2 || echo catch2
            ;;
        sanitize)
            [ -n "$clang" ] || echo clang-19
            if [ -z "$clang" ] || ! weft_compiler_sanitizes "$clang" address; then
                echo libclang-rt-19-dev
            fi
            # Names in the reports come from the symbolizer.
            weft_have llvm-symbolizer-19 || weft_have llvm-symbolizer || echo llvm-19
            ;;
        demo)
            weft_have python3 || echo python3
            weft_have redis-benchmark || echo redis-tools
            ;;
        bench) weft_have python3 || echo python3 ;;
        *) weft_die "weft_ensure_packages: unknown purpose '$1'" ;;
    esac
}

weft_missing_packages() {
    local release=$1 purpose
    shift
    for purpose in "$@"; do weft_missing_for "$purpose" "$release"; done | sort -u | tr '\n' ' '
}

# What else would do where a compiler is among the packages that are missing.
weft_other_compiler() {
    case " $1 " in
        *" clang-"* | *" g++ "*) echo " (or another clang >= 17 or GCC >= 13 in CXX)" ;;
    esac
}

# Runs a command as root: as it is, or through sudo.
weft_as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@" </dev/null
    else
        sudo "$@"
    fi
}

# weft_ensure_packages PURPOSE...: PURPOSE is build, test, sanitize, demo or bench. Does nothing where
# everything is there. Installs what is missing on Debian 12 and 13, and says what; elsewhere it
# names what is missing, by its Debian package, and ends the script.
weft_ensure_packages() {
    local release missing
    # CXX may hold a launcher before the compiler, and options behind it.
    if [ -n "${CXX:-}" ] && ! weft_have "${CXX%% *}"; then
        weft_die "CXX names '$CXX', which is not installed: install it, or unset CXX to have a" \
            "compiler found, or installed"
    fi
    release=$(weft_debian_release)
    missing=$(weft_missing_packages "$release" "$@")
    missing=${missing% }
    if [ -n "$missing" ]; then
        if [ -z "$release" ]; then
            weft_die "this is not Debian 12 or 13, so nothing was installed. Missing, by the names" \
                "of Debian's packages: $missing$(weft_other_compiler "$missing")"
        fi
        if [ "$(id -u)" != 0 ] && ! weft_have sudo; then
            weft_die "missing packages and neither root nor sudo; as root, run:" \
                "apt-get install $missing"
        fi
        weft_say "installing with apt-get: $missing"
        weft_as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
        # shellcheck disable=SC2086 # one word for each package
        weft_as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
            --no-install-recommends -o Dpkg::Use-Pty=0 install $missing
        hash -r
        missing=$(weft_missing_packages "$release" "$@")
        [ -z "${missing% }" ] || weft_die "installed, but still not usable: $missing"
    fi
    weft_compiler=$(weft_find_compiler)
    weft_clang=$(weft_find_clang)
}

# weft_configure DIRECTORY [OPTION...]: makes a build directory with `meson setup OPTION...`, with
# the compiler of weft_compiler (say `weft_compiler=$weft_clang weft_configure ...` for another).
# An existing directory is used again if compiler and options are the same, else made anew.
weft_configure() {
    local directory=$1 wanted
    shift
    wanted="$weft_compiler $*"
    if [ -f "$directory/build.ninja" ] &&
        [ "$(cat "$directory/weft-configuration" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    rm -rf "$directory"
    mkdir -p "$(dirname "$directory")"
    if ! CXX=$weft_compiler meson setup "$@" "$directory" >"$directory.log" 2>&1; then
        tail -n 40 "$directory.log" >&2
        weft_die "meson setup failed; the whole output is in $directory.log"
    fi
    mv "$directory.log" "$directory/weft-setup.log"
    echo "$wanted" >"$directory/weft-configuration"
}

# weft_build DIRECTORY [TARGET...]: builds with one job for each processor (WEFT_JOBS=N for
# another number) and prints what the compiler says only if it fails or warns.
weft_build() {
    local directory=$1
    shift
    local log=$directory/weft-build.log
    if ! ninja -C "$directory" -j "${WEFT_JOBS:-$(nproc)}" "$@" >"$log" 2>&1; then
        grep -vE '^\[[0-9]+/[0-9]+\] (Compiling|Linking|Generating)' "$log" | tail -n 100 >&2
        printf 'error: the build in %s failed; the whole output is in %s\n' "$directory" "$log" >&2
        return 1
    fi
    grep -E 'warning:' "$log" | sort -u >&2 || true
}
