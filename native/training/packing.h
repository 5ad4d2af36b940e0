// Which rows a micro-batch is computed on. Sequences that begin with the same tokens share the rows
// of that beginning: a group of samples its prompt, the prompts of a task their frame. What is
// shared is evaluated once, and takes the gradients of all that follows it. What stands before an
// adapter acts has no rows here: the rows that follow it refer to their prompt.
#pragma once

#include "training/prompt_keys.h"

namespace isopro::training {

struct MicroBatch {
  // Where a row's token stands.
  struct RowPlace {
    std::size_t sequence;
    std::int64_t token;
  };

  bool shared = true;  // false: every sequence has rows of its own
  std::vector<const TrainSequence*> sequences;
  Segments segments;
  std::vector<RowPlace> places;                  // [rows], in the first sequence that has the row
  std::vector<std::int32_t> copies;              // [rows], how many sequences have it
  std::vector<std::vector<std::int64_t>> rowOf;  // [sequences][tokens]; -1: of its prompt
  // The first sequence that has each: Segment::past counts them.
  std::vector<const TrainSequence*> prompts;

  std::int64_t rows() const { return static_cast<std::int64_t>(places.size()); }
  std::int64_t longest() const;  // tokens of the longest sequence
};

// Collects the sequences of one micro-batch in a tree of their beginnings.
class Packer {
 public:
  // `width`: of a boundary's rows.
  Packer(bool shares, std::int64_t width)
      : shares_(shares), width_(static_cast<std::size_t>(width)) {}

  // Rows that `sequence` would add.
  std::int64_t rowsOf(const TrainSequence& sequence) const;
  // Kept by address.
  void add(const TrainSequence& sequence);
  std::int64_t rows() const { return rows_; }
  // Tokens of its prompts, and with those that `sequence` would add.
  std::int64_t promptTokens() const { return promptTokens_; }
  std::int64_t promptTokensWith(const TrainSequence& sequence) const;
  std::size_t size() const { return sequences_.size(); }
  // A segment's rows follow each other, and parents come before their children, in the order in
  // which they were added.
  MicroBatch packed() const;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // Tokens [begin, end) of a sequence, which continue those of the parent.
  struct Node {
    std::size_t sequence;
    std::int64_t begin, end;
    std::size_t parent;
    std::size_t prompt;  // where there is no parent
    std::vector<std::size_t> children;
  };
  // How far a sequence goes along with the tree: `tokens` of it are there, the last of them in
  // `node`.
  struct Match {
    std::size_t node;
    std::int64_t tokens;
  };

  Match match(const TrainSequence& sequence) const;
  bool same(const TrainSequence& a, const TrainSequence& b, std::int64_t token) const;
  std::size_t promptOf(const TrainSequence& sequence) const;  // kNone where it is not there
  std::size_t append(std::size_t sequence, std::int64_t begin, std::int64_t end, std::size_t parent,
                     std::size_t prompt);

  bool shares_;
  std::size_t width_;
  std::vector<const TrainSequence*> sequences_;
  std::vector<std::size_t> last_;  // [sequences], the node that ends with it
  std::vector<Node> nodes_;
  std::vector<std::size_t> roots_;    // of any prompt and of none
  std::vector<std::size_t> prompts_;  // a sequence that has each
  std::int64_t rows_ = 0, promptTokens_ = 0;
};

MicroBatch pack(const std::vector<const TrainSequence*>& sequences, bool shares,
                std::int64_t width);

}  // namespace isopro::training
