// A call whose rows have adapters of their own. llama.cpp's graph has one adapter for all its rows;
// here it has none, and after each product with a weight that an adapter of the call has a pair
// for, what the pair adds is added to that adapter's rows. Whatever follows in the graph (bias,
// rotation) follows the sum there too, so that the values are LoRA's. Punica (Chen et al. 2023,
// section 4) and S-LoRA (Sheng et al. 2023, section 5) batch adapters so on GPUs.
#pragma once

#include <atomic>
#include <vector>

#include "inference/context.h"
#include "inference/low_rank_pairs.h"
#include "inference/prefix_cache.h"
#include "kernels/block_product.h"
#include "support/thread_pool.h"

namespace isopro {

class RowAdapters {
 public:
  RowAdapters(ThreadPool& pool, const Model& model);

  // Whether the adapter's rows may share a call with those of others. An activated one's always do:
  // what stands before its activation has none.
  static bool takes(const Model& model, const AppliedAdapter& adapter);

  void clear();
  // The next row of the call.
  void add(const AppliedAdapter& adapter, bool output);
  int rows() const { return static_cast<int>(rows_.size()); }
  // Whether no row has an adapter: nothing is to be observed.
  bool none() const { return adapters_.empty(); }

  // For one decode of these rows; `threads` may compute. `this` outlives it.
  NodeObserver observer(int threads);
  // Throws NATIVE_FAILURE where the graph was not of these rows, and nothing was added to some.
  void check() const;

 private:
  static constexpr int kBase = -1;

  const LowRankPair* pairOf(const AppliedAdapter& adapter, const ggml_tensor* node) const;
  bool wants(const ggml_tensor* node) const;
  void receive(ggml_tensor* node, int threads);

  ThreadPool& pool_;
  decltype(kernels::LowRankProducts::add) add_;
  std::vector<AppliedAdapter> adapters_;  // that rows of the call have
  std::vector<int> rows_;                 // of each row of the call: place in adapters_, or kBase
  std::vector<int> outputs_;  // the same of the rows whose logits are asked for: all that the last
                              // block's end has
  std::vector<float> inner_;
  bool failed_ = false;
};

// Calls of a context whose adapter acts from the reply on: the rows that it acts on have it, the
// others none. Where the context has no such adapter, its calls are as they are.
class ActivatedRows {
 public:
  ActivatedRows(Context& context, ThreadPool& pool)
      : context_(context), adapter_(context.rowAdapter()), rows_(pool, context.model()) {}

  bool any() const { return adapter_.activated(); }
  // The first token of a prompt that it acts on, Adapter::kNever where there is none.
  int activationIn(const std::vector<Token>& prompt) const {
    return any() ? adapter_.adapter->activationIn(prompt) : 0;
  }
  // The rows of the next call, in their order.
  void clear() { rows_.clear(); }
  void add(bool activated, bool output) {
    rows_.add(activated ? adapter_ : AppliedAdapter{}, output);
  }
  // `also` observes the same call.
  void decode(DecodeBatch& batch, const std::atomic<bool>& cancelled,
              const NodeObserver& also = {});

 private:
  Context& context_;
  const AppliedAdapter adapter_;
  RowAdapters rows_;
};

}  // namespace isopro
