// SPDX-License-Identifier: MIT
#pragma once

// Precompiled for the test programs of many files: what nearly each of them includes.

#include "support/catch.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>
