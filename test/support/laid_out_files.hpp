// SPDX-License-Identifier: MIT
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft::test {

/// Files in a directory of their own, which goes with the object. Stands for a tree of the system,
/// such as /proc, that a test cannot change.
class laid_out_files {
public:
    laid_out_files() {
        std::string name = (std::filesystem::temp_directory_path() / "weft-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        root_ = name;
    }
    ~laid_out_files() {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    laid_out_files(const laid_out_files&) = delete;
    laid_out_files& operator=(const laid_out_files&) = delete;

    /// Writes a file, with the directories that lead to it.
    void write(std::string_view path, std::string_view content) const {
        const std::filesystem::path file = root_ / path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::trunc) << content;
    }

    std::string path(std::string_view below = {}) const { return (root_ / below).string(); }

private:
    std::filesystem::path root_;
};

}  // namespace weft::test
