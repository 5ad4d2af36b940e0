#include "inference/own_products.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <ggml-backend.h>

namespace isopro {
namespace {

using kernels::BlockFormat;

// Rows whose numbers stay in a core's cache while all tiles go by.
constexpr std::int64_t kRowsAtOnce = 128;
// With at least so many rows for each thread, threads share the rows, and otherwise the lanes: each
// quantises the rows that it needs.
constexpr std::int64_t kProductRowsOfThread = 32;
// Of a product with an adapter's B, lanes that one thread takes, and with its A, rows.
constexpr std::int64_t kLowRankLanes = 8 * kernels::kMostLanes;
constexpr std::int64_t kNarrowedRows = 4;
// A matrix of f32 is taken for an adapter's B where it is no wider than this, or than it is high.
constexpr std::int64_t kShortSide = 64;

// Whether ggml's back end here has kernels for AMX, for which it repacks weights while it loads
// them.
bool ggmlHasAmx() {
  const ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const auto features =
      reinterpret_cast<ggml_backend_get_features_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_get_features"));
  if (features == nullptr) return false;
  for (const ggml_backend_feature* feature = features(ggml_backend_dev_backend_reg(device));
       feature->name != nullptr; ++feature) {
    if (std::strcmp(feature->name, "AMX_INT8") == 0) return true;
  }
  return false;
}

// Some parts a thread, each of a multiple of `unit`.
std::int64_t partOf(std::int64_t whole, int threads, std::int64_t unit) {
  if (threads == 1) return whole;
  const std::int64_t part = (whole + 4 * threads - 1) / (4 * threads);
  return (part + unit - 1) / unit * unit;
}

// The formats that have kernels.
std::optional<BlockFormat> formatOf(ggml_type type) {
  switch (type) {
    case GGML_TYPE_Q4_1:
      return BlockFormat::kQ4_1;
    case GGML_TYPE_Q5_0:
      return BlockFormat::kQ5_0;
    case GGML_TYPE_Q6_K:
      return BlockFormat::kQ6_K;
    case GGML_TYPE_Q8_0:
      return BlockFormat::kQ8_0;
    case GGML_TYPE_Q4_K:
      return BlockFormat::kQ4_K;
    case GGML_TYPE_Q5_K:
      return BlockFormat::kQ5_K;
    case GGML_TYPE_Q4_0:
      return BlockFormat::kQ4_0;
    case GGML_TYPE_IQ4_XS:
      return BlockFormat::kIQ4_XS;
    case GGML_TYPE_MXFP4:
      return BlockFormat::kMXFP4;
    default:
      return std::nullopt;
  }
}

// What ggml repacks while it loads it, on x86 without AMX, to multiply it itself.
bool isRepacked(ggml_type type) {
  switch (type) {
    case GGML_TYPE_Q2_K:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_IQ4_NL:
    case GGML_TYPE_MXFP4:
      return true;
    default:
      return false;
  }
}

// As an adapter's B is, which is short before the product, and its A, which is short behind it.
bool isWidening(const ggml_tensor* weights) {
  const std::int64_t rank = weights->ne[0];
  return weights->type == GGML_TYPE_F32 && weights->ne[1] % kernels::kMostLanes == 0 &&
         (rank <= kShortSide || (rank <= kernels::kMostRank && rank < weights->ne[1]));
}
bool isNarrowing(const ggml_tensor* weights) {
  return weights->type == GGML_TYPE_F32 && weights->ne[1] <= kernels::kMostRank &&
         weights->ne[0] % kernels::kMostLanes == 0;
}

bool hasBlocks(ggml_type type, std::int64_t rows) {
  return formatOf(type).has_value() && rows >= kernels::kMostLanes;
}
bool hasBlocks(const ggml_tensor* weights) { return hasBlocks(weights->type, weights->ne[1]); }

// Whatever the processor: which products are ours decides the last bits.
bool isOurProduct(const ggml_tensor* weights) {
  return hasBlocks(weights) || isWidening(weights) || isNarrowing(weights);
}

}  // namespace

bool isProduct(const ggml_tensor* node) {
  // Of all that is ours, products alone have weights as their first source.
  const bool custom =
      node->op == GGML_OP_CUSTOM && node->src[1] != nullptr && node->src[0]->op == GGML_OP_NONE;
  return node->op == GGML_OP_MUL_MAT || (custom && isOurProduct(node->src[0]));
}

OwnProducts::OwnProducts(int threads) : OwnProducts(*kernels::blockProducts(), threads) {}

OwnProducts::OwnProducts(const kernels::BlockProducts& kernels, int threads)
    : kernels_(kernels), scratch_(static_cast<std::size_t>(threads)) {}

const char* OwnProducts::reasonAgainst(const GgufFile& file, bool usesGpu) {
  if (usesGpu) return "a GPU computes it";
  if (kernels::blockProducts() == nullptr)
    return "this processor has neither AVX2 nor arm64's dot products";
  const auto& tensors = file.tensors();
  const auto isOurs = [](const GgufTensor& tensor) {
    return hasBlocks(tensor.type, tensor.dimensions[1]);
  };
  if (std::none_of(tensors.begin(), tensors.end(), isOurs))
    return "the file has no matrix of Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_XS or MXFP4";
  if (ggmlHasAmx() && !knowsAllFormats(file))
    return "the file has other formats too, which ggml multiplies with AMX on this processor";
  return nullptr;
}

Multiplier OwnProducts::multiplierOf(const GgufFile& file, ggml_type type) {
  if (const char* reason = reasonAgainst(file, false)) return {false, reason};
  if (!formatOf(type))
    return {false, std::string("isopro-native has no kernel for ") + ggml_type_name(type)};
  if (!kIsAutomatic) return {false, "own kernels have to be asked for on arm64: --matmul own"};
  if (isRepacked(type) && needsRepacking(file))
    return {false, "the file has formats without own kernels, for which ggml repacks this one too"};
  return {true, kernels::blockProducts()->name};
}

bool OwnProducts::needsRepacking(const GgufFile& file) {
  const auto& tensors = file.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [](const GgufTensor& tensor) {
    // Experts are ggml's.
    return isRepacked(tensor.type) && (!formatOf(tensor.type) || tensor.rank > 2);
  });
}

bool OwnProducts::knowsAllFormats(const GgufFile& file) {
  const auto& tensors = file.tensors();
  return std::all_of(tensors.begin(), tensors.end(), [](const GgufTensor& tensor) {
    return !ggml_is_quantized(tensor.type) || (formatOf(tensor.type) && tensor.rank <= 2);
  });
}

void OwnProducts::take(ggml_tensor* node) {
  if (node->op != GGML_OP_MUL_MAT) return;
  const ggml_tensor* weights = node->src[0];
  const ggml_tensor* x = node->src[1];
  if (!isOurProduct(weights) || x->type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32 ||
      !ggml_is_matrix(weights))
    return;
  if (!ggml_is_contiguous(weights) || !ggml_is_contiguous(x) || !ggml_is_contiguous(node)) return;
  if (!inOrdinaryMemory(weights) || !inOrdinaryMemory(x) || !inOrdinaryMemory(node)) return;
  if (hasBlocks(weights)) reserve(weights->ne[0] / kernels::kProductBlock);
  computeBy(node, onCompute, this);
}

// Here, where it may throw: on ggml's threads nothing can.
void OwnProducts::reserve(std::int64_t blocks) {
  if (blocks <= reservedBlocks_) return;
  const auto sized = [&](std::int64_t count) { return static_cast<std::size_t>(blocks * count); };
  for (Scratch& scratch : scratch_) {
    scratch.rows.resize(sized(kRowsAtOnce * kernels::kProductBlock));
    scratch.rowBlocks.resize(sized(kRowsAtOnce));
    scratch.lastLanes.resize(static_cast<std::size_t>(kRowsAtOnce * kernels::kMostLanes));
  }
  reservedBlocks_ = blocks;
}

void OwnProducts::onCompute(ggml_tensor* node, int thread, int threads, void* self) {
  static_cast<OwnProducts*>(self)->compute(node, thread, threads);
}

void OwnProducts::compute(ggml_tensor* node, int thread, int threads) {
  if (node->src[0]->type == GGML_TYPE_F32) {
    computeLowRank(node);
  } else {
    computeBlocks(node, thread, threads);
  }
  parts_.leave(threads);
}

void OwnProducts::computeLowRank(ggml_tensor* node) {
  const ggml_tensor* weights = node->src[0];
  const std::int64_t width = weights->ne[0];
  const std::int64_t height = weights->ne[1];
  const std::int64_t count = ggml_nrows(node);
  const bool widens = isWidening(weights);
  const std::int64_t lanes = widens ? kLowRankLanes : height;
  const std::int64_t rows = widens ? kRowsAtOnce : kNarrowedRows;
  const std::int64_t parts = (height + lanes - 1) / lanes;
  const auto* w = static_cast<const float*>(weights->data);
  for (;;) {
    const std::int64_t taken = parts_.take();
    const std::int64_t begin = taken / parts * rows;
    if (begin >= count) return;
    const std::int64_t some = std::min(rows, count - begin);
    const float* x = static_cast<const float*>(node->src[1]->data) + begin * width;
    float* y = static_cast<float*>(node->data) + begin * height;
    if (!widens) {
      kernels_.lowRank.narrow(w, height, width, x, some, y);
      continue;
    }
    const std::int64_t lane = taken % parts * lanes;
    for (std::int64_t i = lane; i < std::min(height, lane + lanes); i += kernels::kMostLanes)
      kernels_.lowRank.widen(w + i * width, width, x, some, y + i, height);
  }
}

void OwnProducts::computeBlocks(ggml_tensor* node, int thread, int threads) {
  const ggml_tensor* weights = node->src[0];
  const std::int64_t width = weights->ne[0];
  const std::int64_t height = weights->ne[1];
  const std::int64_t count = ggml_nrows(node);
  const bool shareRows = count >= threads * kProductRowsOfThread;
  const std::int64_t rows =
      shareRows ? std::min(kRowsAtOnce, partOf(count, threads, kProductRowsOfThread)) : kRowsAtOnce;
  const std::int64_t lanes = shareRows ? height : partOf(height, threads, 2 * kernels::kMostLanes);
  const std::int64_t parts = (height + lanes - 1) / lanes;
  Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
  for (std::int64_t quantised = -1;;) {
    const std::int64_t taken = parts_.take();
    const std::int64_t begin = taken / parts * rows;
    if (begin >= count) break;
    const std::int64_t some = std::min(rows, count - begin);
    if (begin != quantised) {
      const auto* x = static_cast<const float*>(node->src[1]->data) + begin * width;
      kernels_.quantise(x, some * (width / kernels::kProductBlock), scratch.rows.data(),
                        scratch.rowBlocks.data());
      quantised = begin;
    }
    const std::int64_t lane = taken % parts * lanes;
    multiply(weights, {lane, std::min(height, lane + lanes)}, scratch, some,
             static_cast<float*>(node->data) + begin * height);
  }
}

// The lanes of y [rows, height] from the quantised rows.
void OwnProducts::multiply(const ggml_tensor* weights, Range lanes, Scratch& scratch,
                           std::int64_t rows, float* y) const {
  const std::int64_t height = weights->ne[1];
  const auto multiplyLanes = [&](Range range, float* to, std::int64_t stride) {
    kernels_.of (*formatOf(weights->type))(
        static_cast<const char*>(weights->data) +
            static_cast<std::size_t>(range.begin) * weights->nb[1],
        weights->nb[1], range.end - range.begin, weights->ne[0] / kernels::kProductBlock,
        scratch.rows.data(), scratch.rowBlocks.data(), rows, to, stride);
  };
  const std::int64_t rest = (lanes.end - lanes.begin) % kernels::kMostLanes;
  multiplyLanes({lanes.begin, lanes.end - rest}, y + lanes.begin, height);
  if (rest == 0) return;
  // Too few lanes for a tile: those before them, which may be another thread's, are computed again.
  float* last = scratch.lastLanes.data();
  multiplyLanes({lanes.end - kernels::kMostLanes, lanes.end}, last, kernels::kMostLanes);
  for (std::int64_t row = 0; row < rows; ++row)
    std::copy_n(last + (row + 1) * kernels::kMostLanes - rest, rest,
                y + row * height + lanes.end - rest);
}

}  // namespace isopro
