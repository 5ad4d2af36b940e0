// Where a model's time goes: seconds of the nodes of llama.cpp's graphs by operation and by who
// computed them. While it is measured, each node is computed by itself, so that nothing overlaps
// and ggml fuses no two of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <ggml.h>

namespace isopro {

struct OperationCost {
  std::int64_t nodes = 0;
  double seconds = 0;           // of the clock
  double processorSeconds = 0;  // of the process
};

// An operation ("product q4_K", "attention", "rms_norm", ...) and who computed it: "own", "ggml",
// "repacked" (by ggml, for its own kernels), "amx" or "gpu".
using OperationKey = std::pair<std::string, std::string>;

class OperationTimes {
 public:
  // Whether the node computes anything: a view of another does not.
  static bool counts(const ggml_tensor* node);
  void begin(const ggml_tensor* node);
  void end();

  const std::map<OperationKey, OperationCost>& costs() const { return costs_; }

 private:
  std::map<OperationKey, OperationCost> costs_;
  OperationCost* running_ = nullptr;
  std::int64_t wall_ = 0;
  std::int64_t processor_ = 0;
};

}  // namespace isopro
