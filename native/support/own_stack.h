// Work on a stack whose size the caller chooses, for code of others whose depth follows its input.
#pragma once

#include <cstddef>
#include <functional>

namespace isopro {

// Runs `work` on a thread of its own whose stack has `bytes`, of which it takes from memory what it
// comes to use, and waits for it. Throws OUT_OF_MEMORY, SYSTEM_LIMIT, and what `work` throws.
void onOwnStack(std::size_t bytes, const std::function<void()>& work);

// The same; returns how many bytes of the stack were used. 0 on Windows, where nothing tells it.
std::size_t stackUsedBy(std::size_t bytes, const std::function<void()>& work);

}  // namespace isopro
