// SPDX-License-Identifier: MIT
#include "lib/netpoll/poll_descriptor.hpp"

#include <weft/detail/net/descriptor_handle.hpp>

namespace weft::detail {

bool descriptor_handle::is_open() const noexcept {
    return !empty() && name_.descriptor->is_open(name_.generation);
}

void descriptor_handle::close() noexcept {
    close_in_background(std::exchange(name_, {}));
}

descriptor_use::descriptor_use(descriptor_name used) noexcept {
    if (used.descriptor == nullptr || !used.descriptor->add_use(used.generation)) return;
    used_ = used.descriptor;
    fd_ = used_->fd();
}

descriptor_use::~descriptor_use() {
    if (used_ == nullptr) return;
    branch_list readied;
    used_->drop_reference(readied);
    ready_each(readied);
}

}  // namespace weft::detail
