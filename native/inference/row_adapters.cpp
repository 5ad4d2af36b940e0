#include "inference/row_adapters.h"

#include <algorithm>
#include <cstdint>

#include <ggml-backend.h>

#include "inference/own_products.h"
#include "kernels/block_product.h"
#include "kernels/variant.h"
#include "support/error.h"

namespace isopro {
namespace {

// Fewer are computed before another thread has begun.
constexpr int kPairRowsOfThread = 16;

bool readableRows(const ggml_tensor* tensor) {
  const ggml_backend_buffer_t buffer =
      tensor->view_src == nullptr ? tensor->buffer : tensor->view_src->buffer;
  return tensor->type == GGML_TYPE_F32 && buffer != nullptr &&
         ggml_backend_buffer_is_host(buffer) && ggml_is_contiguous(tensor);
}

}  // namespace

bool RowAdapters::takes(const Model& model, const AppliedAdapter& adapter) {
  // Of a graph that is not known nobody can say that each row of a product is one of the call.
  return !model.usesGpu() && model.isKnown() &&
         (adapter.adapter == nullptr || !adapter.adapter->pairs().empty());
}

void RowAdapters::clear() {
  adapters_.clear();
  rows_.clear();
  outputs_.clear();
  failed_ = false;
}

void RowAdapters::add(const AppliedAdapter& adapter, bool output) {
  int place = kBase;
  if (adapter.adapter != nullptr) {
    const auto known = std::find(adapters_.begin(), adapters_.end(), adapter);
    place = static_cast<int>(known - adapters_.begin());
    if (known == adapters_.end()) adapters_.push_back(adapter);
  }
  rows_.push_back(place);
  if (output) outputs_.push_back(place);
}

RowAdapters::RowAdapters(ThreadPool& pool, const Model& model)
    : pool_(pool),
      // As the graph has them where one adapter is for all rows.
      add_(model.hasOwnProducts() ? kernels::blockProducts()->lowRank.add
                                  : kernels::kernels().addLowRank) {}

NodeObserver RowAdapters::observer(int threads) {
  return {[this](const ggml_tensor* node) { return wants(node); },
          [this, threads](ggml_tensor* node) { receive(node, threads); }};
}

void RowAdapters::check() const {
  if (failed_)
    throw Error(
        ErrorCode::nativeFailure,
        "llama.cpp's graph has other rows than its call, so that adapters could not be applied");
}

const LowRankPair* RowAdapters::pairOf(const AppliedAdapter& adapter,
                                       const ggml_tensor* node) const {
  return adapter.adapter->pairs().find(ggml_get_name(node->src[0]));
}

bool RowAdapters::wants(const ggml_tensor* node) const {
  return isProduct(node) &&
         std::any_of(adapters_.begin(), adapters_.end(), [&](const AppliedAdapter& adapter) {
           return pairOf(adapter, node) != nullptr;
         });
}

void RowAdapters::receive(ggml_tensor* node, int threads) {
  const ggml_tensor* inputs = node->src[1];
  const std::int64_t count = ggml_nrows(node);
  const bool all = count == static_cast<std::int64_t>(rows_.size());
  if ((!all && count != static_cast<std::int64_t>(outputs_.size())) || !readableRows(node) ||
      !readableRows(inputs)) {
    failed_ = true;
    return;
  }
  const std::vector<int>& rows = all ? rows_ : outputs_;
  std::vector<const LowRankPair*> pairs;
  std::int64_t rank = 0;
  for (const AppliedAdapter& adapter : adapters_) {
    pairs.push_back(pairOf(adapter, node));
    if (pairs.back() != nullptr) rank = std::max(rank, pairs.back()->rank);
  }
  const auto* x = static_cast<const float*>(inputs->data);
  auto* y = static_cast<float*>(node->data);
  inner_.resize(static_cast<std::size_t>(rank * count));
  const int parts = static_cast<int>((count + kPairRowsOfThread - 1) / kPairRowsOfThread);
  pool_.forEach(parts, threads, [&](int part) {
    const std::int64_t end = std::min<std::int64_t>(count, (part + 1) * kPairRowsOfThread);
    for (std::int64_t row = part * kPairRowsOfThread; row < end; ++row) {
      const int place = rows[static_cast<std::size_t>(row)];
      const LowRankPair* pair = place == kBase ? nullptr : pairs[static_cast<std::size_t>(place)];
      if (pair == nullptr) continue;
      add_(x + row * inputs->ne[0], pair->a.data(), pair->bTransposed.data(),
           adapters_[static_cast<std::size_t>(place)].scale * pair->scale, pair->rank, pair->inputs,
           pair->outputs, inner_.data() + row * rank, y + row * node->ne[0]);
    }
  });
}

void ActivatedRows::decode(DecodeBatch& batch, const std::atomic<bool>& cancelled,
                           const NodeObserver& also) {
  if (!any()) return context_.decode(batch, cancelled);
  const NodeObserver adapted = rows_.observer(context_.governor().threads());
  const auto others = [&](const ggml_tensor* node) { return also.wants && also.wants(node); };
  const Observation observation(
      context_, {[&](const ggml_tensor* node) { return adapted.wants(node) || others(node); },
                 [&](ggml_tensor* node) { (others(node) ? also : adapted).receive(node); }});
  context_.decode(batch, cancelled);
  rows_.check();
}

}  // namespace isopro
