// SPDX-License-Identifier: MIT
#pragma once

// The claim of a select, watched: nobody claims one whose frame has ended.

#include <weft/detail/sync/select_word.hpp>

#include "explorer.hpp"

#include <cstdint>

namespace weft::model {

struct watched_select_word : weft::detail::select_word<model_layer> {
    lifetime* frame = nullptr;

    bool claim(std::uint32_t winner) noexcept {
        const bool claimed = select_word::claim(winner);
        frame->touch("select");
        return claimed;
    }
};

}  // namespace weft::model
