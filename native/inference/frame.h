// The frame of a task: what the prompts of a request have in common at their beginning. It is
// evaluated once, and every prompt that begins with it takes a copy of its keys and values.
#pragma once

#include <cstdint>
#include <vector>

#include "inference/model.h"

namespace isopro {

// Tokens that all prompts from `first` to at least half of the `kFollowing` next ones (or of those
// that are left) have in common with the prompt `first`, down to a multiple of `group`; 0 behind
// the last prompt.
int commonBeginning(const std::vector<const std::vector<Token>*>& prompts, std::size_t first,
                    int group);

// What is kept of a prompt for those that follow.
struct Frame {
  std::vector<Token> tokens;
  std::vector<std::uint16_t> boundary;  // of these tokens, where one is captured

  // Tokens that need not be evaluated: all of the frame's or none, since not every kind of memory
  // can be cut.
  int sharedWith(const std::vector<Token>& prompt, int group) const;
};

// At most so many tokens of a prompt may come from elsewhere: its last call keeps a group of rows
// beside those that fill no group, so that each row is computed as it would be without a frame, and
// the last token's logits are there.
int mostShared(std::size_t tokens, int group);

}  // namespace isopro
