// SPDX-License-Identifier: MIT
#pragma once

#include "explorer.hpp"

namespace weft::model {

/// The account of values 1, 2 and so on, which are sent through channels.
struct sent_values {
    static constexpr int most = 4;  ///< Numbers are below this.

    int received[most] = {};
    int kept[most] = {};  ///< By those who could not send them.

    void note_received(int number) {
        check(number > 0 && number < most, "a value that nobody sent");
        ++received[number];
    }
    /// Of so many values, when nobody sends or receives any more.
    void check_each_is_somewhere(int values) const {
        for (int number = 1; number <= values; ++number) {
            check(received[number] + kept[number] == 1, "a value is lost or doubled");
        }
    }
};

}  // namespace weft::model
