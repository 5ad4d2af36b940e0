#include "training/packing.h"

#include <cstring>

namespace isopro::training {
namespace {

std::int64_t tokensOf(const TrainSequence& sequence) {
  return static_cast<std::int64_t>(sequence.tokens.size());
}

}  // namespace

std::int64_t MicroBatch::longest() const {
  std::int64_t most = 0;
  for (const TrainSequence* sequence : sequences) most = std::max(most, tokensOf(*sequence));
  return most;
}

// A row that is given is what enters the layer in place of the token: two are the same where their
// bits are.
bool Packer::same(const TrainSequence& a, const TrainSequence& b, std::int64_t token) const {
  const auto t = static_cast<std::size_t>(token);
  if (a.tokens[t] != b.tokens[t] || a.boundary.empty() != b.boundary.empty()) return false;
  if (a.boundary.empty()) return true;
  const std::size_t end = (t + 1) * width_;
  if (a.boundaryLayer != b.boundaryLayer || a.boundary.size < end || b.boundary.size < end)
    return false;
  return std::memcmp(a.boundary.data + end - width_, b.boundary.data + end - width_,
                     width_ * sizeof(std::uint16_t)) == 0;
}

std::size_t Packer::promptOf(const TrainSequence& sequence) const {
  const auto found = std::find_if(prompts_.begin(), prompts_.end(), [&](std::size_t s) {
    return samePrompt(*sequences_[s], sequence, static_cast<std::int64_t>(width_));
  });
  return found == prompts_.end() ? kNone : static_cast<std::size_t>(found - prompts_.begin());
}

std::int64_t Packer::promptTokensWith(const TrainSequence& sequence) const {
  return promptTokens_ + (promptOf(sequence) == kNone ? sequence.adapterFrom : 0);
}

Packer::Match Packer::match(const TrainSequence& sequence) const {
  Match found{kNone, sequence.adapterFrom};
  const std::size_t prompt = promptOf(sequence);
  if (sequence.adapterFrom > 0 && prompt == kNone) return found;
  const std::vector<std::size_t>* children = &roots_;
  while (shares_ && found.tokens < tokensOf(sequence)) {
    const auto next = std::find_if(children->begin(), children->end(), [&](std::size_t child) {
      return (found.node != kNone || nodes_[child].prompt == prompt) &&
             same(*sequences_[nodes_[child].sequence], sequence, found.tokens);
    });
    if (next == children->end()) break;
    const Node& node = nodes_[*next];
    const std::int64_t end = std::min(node.end, tokensOf(sequence));
    found.node = *next;
    while (found.tokens < end && same(*sequences_[node.sequence], sequence, found.tokens))
      ++found.tokens;
    if (found.tokens < node.end) break;
    children = &node.children;
  }
  return found;
}

std::int64_t Packer::rowsOf(const TrainSequence& sequence) const {
  return tokensOf(sequence) - match(sequence).tokens;
}

std::size_t Packer::append(std::size_t sequence, std::int64_t begin, std::int64_t end,
                           std::size_t parent, std::size_t prompt) {
  nodes_.push_back({sequence, begin, end, parent, prompt, {}});
  return nodes_.size() - 1;
}

void Packer::add(const TrainSequence& sequence) {
  auto [node, shared] = match(sequence);
  std::size_t prompt = promptOf(sequence);
  if (sequence.adapterFrom > 0 && prompt == kNone) {
    prompt = prompts_.size();
    prompts_.push_back(sequences_.size());
    promptTokens_ += sequence.adapterFrom;
  }
  // Where the sequence leaves a node within it, the part in common becomes the parent of the rest.
  if (node != kNone && shared < nodes_[node].end) {
    const std::size_t rest = node, parent = nodes_[rest].parent;
    node = append(nodes_[rest].sequence, nodes_[rest].begin, shared, parent, prompt);
    nodes_[node].children = {rest};
    std::vector<std::size_t>& siblings = parent == kNone ? roots_ : nodes_[parent].children;
    *std::find(siblings.begin(), siblings.end(), rest) = node;
    nodes_[rest].begin = shared;
    nodes_[rest].parent = node;
  }
  const std::int64_t tokens = tokensOf(sequence);
  if (shared < tokens) {
    const std::size_t own = append(sequences_.size(), shared, tokens, node, prompt);
    (node == kNone ? roots_ : nodes_[node].children).push_back(own);
    node = own;
  }
  sequences_.push_back(&sequence);
  last_.push_back(node);
  rows_ += tokens - shared;
}

MicroBatch Packer::packed() const {
  MicroBatch batch;
  batch.shared = shares_;
  batch.sequences = sequences_;
  for (const std::size_t s : prompts_) batch.prompts.push_back(sequences_[s]);
  std::vector<std::size_t> segmentOf(nodes_.size());
  // A stack of its own: the tree of a strange batch may be as deep as a sequence is long.
  std::vector<std::size_t> next(roots_.rbegin(), roots_.rend());
  while (!next.empty()) {
    const std::size_t index = next.back();
    const Node& node = nodes_[index];
    next.pop_back();
    next.insert(next.end(), node.children.rbegin(), node.children.rend());
    segmentOf[index] = batch.segments.size();
    const std::int64_t parent =
        node.parent == kNone ? -1 : static_cast<std::int64_t>(segmentOf[node.parent]);
    const bool continues = node.parent == kNone && node.prompt != kNone;
    batch.segments.push_back({{batch.rows(), batch.rows() + node.end - node.begin},
                              parent,
                              node.begin,
                              continues ? static_cast<std::int64_t>(node.prompt) : -1});
    for (std::int64_t token = node.begin; token < node.end; ++token)
      batch.places.push_back({node.sequence, token});
  }
  batch.copies.resize(batch.places.size());
  for (std::size_t s = 0; s < sequences_.size(); ++s) {
    std::vector<std::int64_t>& rows = batch.rowOf.emplace_back(sequences_[s]->tokens.size(), -1);
    for (std::size_t node = last_[s]; node != kNone; node = nodes_[node].parent) {
      const std::int64_t first = batch.segments[segmentOf[node]].rows.begin - nodes_[node].begin;
      for (std::int64_t token = nodes_[node].begin; token < nodes_[node].end; ++token) {
        rows[static_cast<std::size_t>(token)] = first + token;
        ++batch.copies[static_cast<std::size_t>(first + token)];
      }
    }
  }
  return batch;
}

MicroBatch pack(const std::vector<const TrainSequence*>& sequences, bool shares,
                std::int64_t width) {
  Packer packer(shares, width);
  for (const TrainSequence* sequence : sequences) packer.add(*sequence);
  return packer.packed();
}

}  // namespace isopro::training
