#include "inference/own_attention.h"

#include <algorithm>
#include <cstring>

namespace isopro {
namespace {

// With fewer rows for each thread the heads of a row are shared out, too.
constexpr std::int64_t kAttentionRowsOfThread = 4;

float parameterOf(const ggml_tensor* node, int index) {
  float value;
  std::memcpy(&value, reinterpret_cast<const char*>(node->op_params) + index * sizeof value,
              sizeof value);
  return value;
}

bool isReadable(const ggml_tensor* tensor, ggml_type type) {
  return tensor != nullptr && tensor->type == type && tensor->nb[0] == ggml_type_size(type) &&
         inOrdinaryMemory(tensor);
}

template <typename Element>
Element* at(const ggml_tensor* tensor, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  const std::size_t offset = static_cast<std::size_t>(i1) * tensor->nb[1] +
                             static_cast<std::size_t>(i2) * tensor->nb[2] +
                             static_cast<std::size_t>(i3) * tensor->nb[3];
  return reinterpret_cast<Element*>(static_cast<char*>(tensor->data) + offset);
}

template <typename Element>
std::int64_t stride(std::size_t bytes) {
  return static_cast<std::int64_t>(bytes / sizeof(Element));
}

bool isWidth(std::int64_t width) {
  return width % kernels::kHeadPart == 0 && width <= kernels::kMostHeadWidth;
}

}  // namespace

bool OwnAttention::reads(const Hyperparameters& hyper) {
  // Of an architecture without a validator nothing is known: its width is 0.
  return kernels::attentionRows() != nullptr && hyper.headWidth > 0 && isWidth(hyper.headWidth) &&
         hyper.attentionCap == 0 && hyper.architecture.family != Family::GptOss;  // sinks
}

OwnAttention::OwnAttention(int threads) : OwnAttention(*kernels::attentionRows(), threads) {}

OwnAttention::OwnAttention(const kernels::AttentionRows& kernel, int threads)
    : kernel_(kernel), scratch_(static_cast<std::size_t>(threads)) {}

void OwnAttention::take(ggml_tensor* node) {
  if (node->op != GGML_OP_FLASH_ATTN_EXT) return;
  const ggml_tensor* q = node->src[0];
  const ggml_tensor* k = node->src[1];
  const ggml_tensor* v = node->src[2];
  const ggml_tensor* mask = node->src[3];
  if (node->src[4] != nullptr || parameterOf(node, 1) != 0.0f || parameterOf(node, 2) != 0.0f)
    return;
  if (!isReadable(q, GGML_TYPE_F32) || !isReadable(k, GGML_TYPE_F16) ||
      !isReadable(v, GGML_TYPE_F16) || !isReadable(mask, GGML_TYPE_F16) ||
      !isReadable(node, GGML_TYPE_F32)) {
    return;
  }
  if (!isWidth(k->ne[0]) || !isWidth(v->ne[0]) || k->ne[2] != v->ne[2] || q->ne[2] % k->ne[2] != 0)
    return;
  if (mask->ne[2] != 1 || q->ne[3] % mask->ne[3] != 0 || k->ne[3] != q->ne[3] ||
      v->ne[3] != q->ne[3])
    return;

  const float scale = parameterOf(node, 0);
  const auto same = [&](const std::unique_ptr<Scaled>& scaled) { return scaled->scale == scale; };
  auto found = std::find_if(scaled_.begin(), scaled_.end(), same);
  if (found == scaled_.end())
    found = scaled_.insert(scaled_.end(), std::make_unique<Scaled>(Scaled{this, scale}));
  // Here, where it may throw: on ggml's threads nothing can.
  const auto cells = static_cast<std::size_t>((k->ne[1] + kernels::kScorePart - 1) /
                                              kernels::kScorePart * kernels::kScorePart);
  const auto heads = static_cast<std::size_t>(q->ne[2] / k->ne[2]);
  for (AttentionScratch& scratch : scratch_) {
    if (scratch.cells.size() < cells) scratch.cells.resize(cells);
    if (scratch.scores.size() < heads * cells) scratch.scores.resize(heads * cells);
  }
  computeBy(node, onCompute, found->get());
}

void OwnAttention::onCompute(ggml_tensor* node, int thread, int threads, void* scaled) {
  const auto* of = static_cast<const Scaled*>(scaled);
  of->self->compute(node, of->scale, thread, threads);
}

void OwnAttention::compute(ggml_tensor* node, float scale, int thread, int threads) {
  const ggml_tensor* q = node->src[0];
  const std::int64_t rows = q->ne[1] * q->ne[3];
  const std::int64_t groups = node->src[1]->ne[2];
  const std::int64_t together = rows >= threads * kAttentionRowsOfThread ? groups : 1;
  const std::int64_t parts = groups / together;
  AttentionScratch& scratch = scratch_[static_cast<std::size_t>(thread)];
  for (;;) {
    const std::int64_t taken = parts_.take();
    if (taken >= rows * parts) break;
    attend(node, scale, taken / parts, taken % parts * together, together, scratch);
  }
  parts_.leave(threads);
}

// Of one row those heads that read the keys and values of `groups` heads from `group` on.
void OwnAttention::attend(const ggml_tensor* node, float scale, std::int64_t row,
                          std::int64_t group, std::int64_t groups,
                          AttentionScratch& scratch) const {
  const ggml_tensor* q = node->src[0];
  const ggml_tensor* k = node->src[1];
  const ggml_tensor* v = node->src[2];
  const ggml_tensor* mask = node->src[3];
  const std::int64_t i1 = row % q->ne[1];
  const std::int64_t i3 = row / q->ne[1];
  const std::int64_t heads = q->ne[2] / k->ne[2];
  const std::int64_t count = kernel_.visible(at<const std::uint16_t>(mask, i1, 0, i3 % mask->ne[3]),
                                             k->ne[1], scratch.cells.data());
  for (std::int64_t i = group; i < group + groups; ++i) {
    // The node has its heads before its rows.
    float* y = at<float>(node, i * heads, i1, i3);
    if (count == 0) {
      std::fill_n(y, heads * v->ne[0], 0.0f);
      continue;
    }
    const kernels::AttentionHeads of{at<const float>(q, i1, i * heads, i3),
                                     stride<float>(q->nb[2]),
                                     at<const std::uint16_t>(k, 0, i, i3),
                                     stride<std::uint16_t>(k->nb[1]),
                                     at<const std::uint16_t>(v, 0, i, i3),
                                     stride<std::uint16_t>(v->nb[1]),
                                     y,
                                     stride<float>(node->nb[1]),
                                     heads,
                                     k->ne[0],
                                     v->ne[0],
                                     scale};
    kernel_.attend(of, scratch.cells.data(), count, scratch.scores.data());
  }
}

}  // namespace isopro
