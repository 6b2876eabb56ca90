// SPDX-License-Identifier: MIT
#include "lib/base/cgroup_quota.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::detail {

namespace {

/// A machine with very many mounts has a mountinfo of some megabytes.
constexpr std::size_t largest_file = std::size_t{16} << 20;

/// A file may be there, and cannot be opened for want of descriptors or memory.
struct not_now {};

/// Empty: it is not there, or not to be read. Throws not_now.
std::optional<std::string> read_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
            throw not_now();
        }
        return std::nullopt;
    }
    // Also where memory is missing: this may be tried once a second.
    const struct closes {
        int file;
        ~closes() { ::close(file); }
    } at_end{file};
    std::string content;
    std::array<char, 4096> part;
    bool whole = false;
    while (content.size() < largest_file) {
        const ssize_t size = ::read(file, part.data(), part.size());
        if (size < 0 && errno == EINTR) {
            continue;
        }
        whole = size == 0;
        if (size <= 0) {
            break;
        }
        content.append(part.data(), static_cast<std::size_t>(size));
    }
    return whole ? std::optional(std::move(content)) : std::nullopt;
}

/// Takes what comes before the separator off the front of `text`; all of it if there is none.
std::string_view take_field(std::string_view& text, char separator) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view field = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return field;
}

bool has_element(std::string_view list, std::string_view wanted) {
    while (!list.empty()) {
        if (take_field(list, ',') == wanted) {
            return true;
        }
    }
    return false;
}

/// A space, tab, line feed or backslash in a field of mountinfo is written as \ and three octal
/// digits.
std::string unescape(std::string_view field) {
    const auto octal = [](char c) { return c >= '0' && c <= '7'; };
    std::string plain;
    while (!field.empty()) {
        if (field.size() >= 4 && field[0] == '\\' && field[1] <= '3' && octal(field[1]) &&
            octal(field[2]) && octal(field[3])) {
            const int code = (field[1] - '0') * 64 + (field[2] - '0') * 8 + (field[3] - '0');
            plain.push_back(static_cast<char>(code));
            field.remove_prefix(4);
        } else {
            plain.push_back(field[0]);
            field.remove_prefix(1);
        }
    }
    return plain;
}

/// The name of a group: how many namespaces' roots it lies above, then the names from there.
struct group_name {
    std::size_t up = 0;
    std::vector<std::string> names;
};

group_name parse_group(std::string_view path) {
    group_name parsed;
    while (!path.empty()) {
        const std::string_view part = take_field(path, '/');
        if (part.empty() || part == ".") {
            continue;
        }
        if (part == ".." && parsed.names.empty()) {
            ++parsed.up;
        } else {
            parsed.names.emplace_back(part);
        }
    }
    return parsed;
}

/// The names that lead from `above` down to `group`, as far as they are known. Empty: `above` is
/// not above it.
std::optional<std::vector<std::string>> names_below(const group_name& above,
                                                    const group_name& group) {
    if (above.up > group.up && above.names.empty()) {
        return std::vector<std::string>{};
    }
    if (above.up != group.up || above.names.size() > group.names.size() ||
        !std::equal(above.names.begin(), above.names.end(), group.names.begin())) {
        return std::nullopt;
    }
    return std::vector<std::string>(
        group.names.begin() + static_cast<std::ptrdiff_t>(above.names.size()), group.names.end());
}

/// The groups of this process that may have a quota.
struct own_groups {
    std::optional<group_name> v1;
    std::optional<group_name> v2;
};

// Lines of the form "ID:CONTROLLERS:PATH"; the path may hold colons.
own_groups read_own_groups(const std::string& content) {
    own_groups found;
    std::string_view rest = content;
    while (!rest.empty()) {
        std::string_view line = take_field(rest, '\n');
        const std::string_view id = take_field(line, ':');
        const std::string_view controllers = take_field(line, ':');
        if (line.empty() || line.front() != '/') {
            continue;
        }
        if (has_element(controllers, "cpu")) {
            found.v1 = parse_group(line);
        } else if (id == "0" && controllers.empty()) {
            found.v2 = parse_group(line);
        }
    }
    return found;
}

/// A mounted hierarchy, or a part of one.
struct cgroup_mount {
    cgroup_version version = cgroup_version::v2;
    group_name root;
    std::string point;
};

// "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG]... - TYPE SOURCE SUPER_OPTIONS"
std::optional<cgroup_mount> parse_mount(std::string_view line) {
    for (int skipped = 0; skipped < 3; ++skipped) {
        take_field(line, ' ');
    }
    cgroup_mount mount;
    mount.root = parse_group(unescape(take_field(line, ' ')));
    mount.point = unescape(take_field(line, ' '));
    while (!line.empty() && take_field(line, ' ') != "-") {}
    const std::string_view type = take_field(line, ' ');
    take_field(line, ' ');
    const std::string_view options = take_field(line, ' ');
    if (mount.point.empty() || mount.point.front() != '/') {
        return std::nullopt;
    }
    if (type == "cgroup2") {
        return mount;
    }
    mount.version = cgroup_version::v1;
    return type == "cgroup" && has_element(options, "cpu") ? std::optional(mount) : std::nullopt;
}

std::string relocate(const std::string& point, const std::string& groups) {
    constexpr std::string_view usual = "/sys/fs/cgroup";
    const bool below = point.compare(0, usual.size(), usual) == 0 &&
                       (point.size() == usual.size() || point[usual.size()] == '/');
    return below ? groups + point.substr(usual.size()) : point;
}

/// A number that is all of `text`; negative and too large ones are none.
std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc{} && end == text.data() + text.size();
    return whole ? std::optional(number) : std::nullopt;
}

/// The quota of one group.
std::optional<std::uint32_t> processors_of(std::optional<std::uint64_t> quota,
                                           std::optional<std::uint64_t> period) {
    if (!quota || !period || *quota == 0 || *period == 0) {
        return std::nullopt;
    }
    const std::uint64_t rounded_up = *quota / *period + (*quota % *period != 0 ? 1 : 0);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(rounded_up, UINT32_MAX));
}

std::optional<std::uint64_t> read_number(const std::string& path) {
    const std::optional<std::string> content = read_file(path);
    if (!content) {
        return std::nullopt;
    }
    std::string_view text = *content;
    return parse_number(take_field(text, '\n'));
}

std::optional<std::uint32_t> quota_of(const std::string& group, cgroup_version version) {
    if (version == cgroup_version::v1) {
        return processors_of(read_number(group + "/cpu.cfs_quota_us"),
                             read_number(group + "/cpu.cfs_period_us"));
    }
    const std::optional<std::string> content = read_file(group + "/cpu.max");
    if (!content) {
        return std::nullopt;
    }
    std::string_view text = *content;
    std::string_view line = take_field(text, '\n');
    const std::string_view quota = take_field(line, ' ');
    return processors_of(parse_number(quota), parse_number(line));
}

void take_smaller(std::optional<std::uint32_t>& smallest, std::optional<std::uint32_t> other) {
    if (other && (!smallest || *other < *smallest)) {
        smallest = other;
    }
}

}  // namespace

cgroup_reader::~cgroup_reader() {
    if (mounts_ >= 0) {
        ::close(mounts_);
    }
}

std::optional<std::uint32_t> cgroup_reader::processors() {
    try {
        last_ = read();
    } catch (const not_now&) {}
    return last_;
}

std::optional<std::uint32_t> cgroup_reader::read() {
    auto own = read_file(roots_.process + "/self/cgroup");
    if (!own) {
        return std::nullopt;
    }
    if (!known_ || *own != own_ || mounts_have_changed()) {
        known_ = false;
        // Before it is read: what changes meanwhile is seen the next time.
        watch_mounts();
        const auto mounts = read_file(roots_.process + "/self/mountinfo");
        if (!mounts) {
            return std::nullopt;
        }
        groups_ = find_groups(*own, *mounts);
        own_ = std::move(*own);
        known_ = mounts_ >= 0;
    }
    std::optional<std::uint32_t> smallest;
    for (const limiting_group& each : groups_) {
        take_smaller(smallest, quota_of(each.directory, each.version));
    }
    return smallest;
}

/// From the roots of the mounts down to the own groups: each is one more that must be kept.
std::vector<cgroup_reader::limiting_group> cgroup_reader::find_groups(
    const std::string& own, const std::string& mounts) const {
    const own_groups named = read_own_groups(own);
    std::vector<limiting_group> found;
    std::string_view rest = mounts;
    while (!rest.empty()) {
        const std::optional<cgroup_mount> mount = parse_mount(take_field(rest, '\n'));
        if (!mount) {
            continue;
        }
        const auto& group = mount->version == cgroup_version::v1 ? named.v1 : named.v2;
        const auto below = group ? names_below(mount->root, *group) : std::nullopt;
        if (!below) {
            continue;
        }
        std::string path = relocate(mount->point, roots_.groups);
        found.push_back({mount->version, path});
        for (const std::string& name : *below) {
            path += "/" + name;
            found.push_back({mount->version, path});
        }
    }
    return found;
}

void cgroup_reader::watch_mounts() noexcept {
    if (mounts_ < 0) {
        // Too long a path is as one that cannot be opened: all is read each time.
        char path[PATH_MAX];
        const int length =
            std::snprintf(path, sizeof(path), "%s/self/mountinfo", roots_.process.c_str());
        if (length < 0 || static_cast<std::size_t>(length) >= sizeof(path)) {
            return;
        }
        mounts_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    if (mounts_ >= 0 && ::fstat(mounts_, &seen_) != 0) {
        ::close(std::exchange(mounts_, -1));
    }
}

/// True also where that cannot be told.
bool cgroup_reader::mounts_have_changed() noexcept {
    pollfd asked{.fd = mounts_, .events = POLLPRI, .revents = 0};
    struct ::stat now = {};
    return ::poll(&asked, 1, 0) != 0 || ::fstat(mounts_, &now) != 0 ||
           now.st_size != seen_.st_size || now.st_mtim.tv_sec != seen_.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != seen_.st_mtim.tv_nsec;
}

}  // namespace weft::detail
