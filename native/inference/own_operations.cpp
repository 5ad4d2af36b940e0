#include "inference/own_operations.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "inference/elementary.h"

namespace isopro {
namespace {

// Numbers that a thread takes at a time.
constexpr std::int64_t kPartNumbers = 4096;

// Places in ggml's parameters of a rotation.
constexpr int kRotated = 1, kMode = 2, kBase = 5, kScale = 6, kExtrapolation = 7, kMagnitude = 8,
              kOffset = 15;

std::int32_t integerOf(const ggml_tensor* node, int index) { return node->op_params[index]; }

float realOf(const ggml_tensor* node, int index) {
  float value;
  std::memcpy(&value, node->op_params + index, sizeof value);
  return value;
}

// Rows of f32 whose numbers follow each other.
bool hasRows(const ggml_tensor* tensor) {
  return tensor != nullptr && tensor->type == GGML_TYPE_F32 && tensor->nb[0] == sizeof(float) &&
         inOrdinaryMemory(tensor);
}

float* rowOf(const ggml_tensor* tensor, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
  const std::size_t offset = static_cast<std::size_t>(i1) * tensor->nb[1] +
                             static_cast<std::size_t>(i2) * tensor->nb[2] +
                             static_cast<std::size_t>(i3) * tensor->nb[3];
  return reinterpret_cast<float*>(static_cast<char*>(tensor->data) + offset);
}
float* rowOf(const ggml_tensor* tensor, std::int64_t row) {
  if (tensor->ne[2] == 1 && tensor->ne[3] == 1) return rowOf(tensor, row, 0, 0);
  const std::int64_t i1 = row % tensor->ne[1], rest = row / tensor->ne[1];
  return rowOf(tensor, i1, rest % tensor->ne[2], rest / tensor->ne[2]);
}

bool isNorm(const ggml_tensor* node) { return hasRows(node->src[0]) && hasRows(node); }

// The weights of a norm that the node multiplies by them in the norm's own memory, which llama.cpp
// gives it where nothing else reads the norm; else null.
ggml_tensor* weightsOf(const ggml_tensor* norm, const ggml_tensor* node) {
  if (node->op != GGML_OP_MUL || node->data != norm->data || !hasRows(node)) return nullptr;
  if (!ggml_are_same_shape(node, norm) || !ggml_are_same_stride(node, norm)) return nullptr;
  const bool first = node->src[0] == norm;
  ggml_tensor* weights = node->src[first ? 1 : 0];
  if (node->src[first ? 0 : 1] != norm || !hasRows(weights)) return nullptr;
  const bool fits = weights->op == GGML_OP_NONE && ggml_nrows(weights) == 1;
  return fits && weights->ne[0] == norm->ne[0] ? weights : nullptr;
}

bool isGate(const ggml_tensor* node) {
  const auto gate = static_cast<ggml_glu_op>(integerOf(node, 0));
  if (gate != GGML_GLU_OP_SWIGLU && gate != GGML_GLU_OP_GEGLU) return false;
  return hasRows(node->src[0]) && (node->src[1] == nullptr || hasRows(node->src[1])) &&
         hasRows(node);
}

bool isRotation(const ggml_tensor* node) {
  const int mode = integerOf(node, kMode);
  if (mode != GGML_ROPE_TYPE_NORMAL && mode != GGML_ROPE_TYPE_NEOX) return false;
  // Of YaRN llama.cpp takes a factor from a logarithm of the C library's.
  if (realOf(node, kExtrapolation) != 0) return false;
  if (integerOf(node, kOffset) != 0 || !hasRows(node->src[0]) || !hasRows(node)) return false;
  const ggml_tensor* positions = node->src[1];
  if (positions->type != GGML_TYPE_I32 || positions->nb[0] != sizeof(std::int32_t) ||
      !inOrdinaryMemory(positions))
    return false;
  const ggml_tensor* factors = node->src[2];
  return factors == nullptr || (hasRows(factors) && factors->data != nullptr);
}

// Radians a position of each pair: base^(-2 i / rotated), scaled.
std::vector<double> frequenciesOf(const ggml_tensor* node) {
  const int rotated = integerOf(node, kRotated);
  const double logBase = naturalLogarithm(static_cast<double>(realOf(node, kBase)));
  const double scale = static_cast<double>(realOf(node, kScale));
  const auto* factors =
      node->src[2] == nullptr ? nullptr : static_cast<const float*>(node->src[2]->data);
  std::vector<double> frequencies;
  for (int pair = 0; pair < rotated / 2; ++pair) {
    const double factor = factors == nullptr ? 1 : static_cast<double>(factors[pair]);
    frequencies.push_back(naturalExponential(-2.0 * pair / rotated * logBase) * scale / factor);
  }
  return frequencies;
}

}  // namespace

OwnOperations::OwnOperations(int threads) : OwnOperations(*kernels::rowOperations(), threads) {}

OwnOperations::OwnOperations(const kernels::RowOperations& kernels, int threads)
    : kernels_(kernels), scratch_(static_cast<std::size_t>(threads)) {}

bool OwnOperations::hasOneResult(const ggml_tensor* node) {
  const auto is = [](const ggml_tensor* tensor, std::initializer_list<ggml_type> types) {
    return tensor != nullptr && std::find(types.begin(), types.end(), tensor->type) != types.end();
  };
  switch (node->op) {
    case GGML_OP_CUSTOM:
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
      return true;
    case GGML_OP_GET_ROWS:  // the products and sums that define the format
      return is(node, {GGML_TYPE_F32});
    case GGML_OP_SET_ROWS:
    case GGML_OP_CPY:
    case GGML_OP_CONT:
    case GGML_OP_DUP:  // rounded to nearest
      return is(node->src[0], {GGML_TYPE_F32, GGML_TYPE_F16}) &&
             is(node, {GGML_TYPE_F32, GGML_TYPE_F16});
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV:
      return is(node, {GGML_TYPE_F32}) && is(node->src[0], {GGML_TYPE_F32}) &&
             is(node->src[1], {GGML_TYPE_F32});
    case GGML_OP_SCALE:
      return is(node, {GGML_TYPE_F32}) && realOf(node, 1) == 0;
    default:
      return false;
  }
}

const char* OwnOperations::nameOf(const ggml_tensor* node) {
  if (node->op == GGML_OP_RMS_NORM) return "rms_norm";
  if (node->op == GGML_OP_GLU) return "gate";
  if (node->op == GGML_OP_ROPE) return "rope";
  // Of what is ours attention has more sources, and a product has weights.
  if (node->op != GGML_OP_CUSTOM || node->src[3] != nullptr || node->src[0]->op == GGML_OP_NONE)
    return nullptr;
  if (node->src[1] == nullptr) return node->ne[0] == node->src[0]->ne[0] ? "rms_norm" : "gate";
  if (node->src[1]->op == GGML_OP_NONE && node->src[1]->type == GGML_TYPE_F32) return "rms_norm";
  return node->src[1]->type == GGML_TYPE_I32 ? "rope" : "gate";
}

void OwnOperations::take(ggml_tensor* node) {
  const auto [norm, ofNorm] = std::exchange(before_, {});
  if (ggml_tensor* weights = norm == nullptr ? nullptr : weightsOf(norm, node)) {
    // In one pass: the norm by itself is not computed.
    node->src[0] = norm->src[0];
    node->src[1] = weights;
    computeBy(node, onCompute, ofNorm);
    norm->op = GGML_OP_NONE;
    return;
  }
  const ggml_op op = node->op;
  Operation* operation = operationOf(node);
  if (operation == nullptr) return;
  computeBy(node, onCompute, operation);
  if (op == GGML_OP_RMS_NORM) before_ = {node, operation};
}

void OwnOperations::onSplit() { before_ = {}; }

// Here, where it may throw: on ggml's threads nothing can.
OwnOperations::Operation* OwnOperations::operationOf(const ggml_tensor* node) {
  const bool isOurs = (node->op == GGML_OP_RMS_NORM && isNorm(node)) ||
                      (node->op == GGML_OP_GLU && isGate(node)) ||
                      (node->op == GGML_OP_ROPE && isRotation(node));
  if (!isOurs) return nullptr;
  const bool rotates = node->op == GGML_OP_ROPE;
  const void* factors = rotates && node->src[2] != nullptr ? node->src[2]->data : nullptr;
  for (const auto& known : operations_) {
    if (known->op == node->op && known->factors == factors &&
        std::equal(known->parameters.begin(), known->parameters.end(), node->op_params))
      return known.get();
  }
  auto made = std::make_unique<Operation>();
  made->self = this;
  made->op = node->op;
  made->parameters.assign(std::begin(node->op_params), std::end(node->op_params));
  made->factors = factors;
  if (node->op == GGML_OP_RMS_NORM) made->epsilon = realOf(node, 0);
  if (node->op == GGML_OP_GLU) {
    made->isGelu = integerOf(node, 0) == GGML_GLU_OP_GEGLU;
    made->isSwapped = integerOf(node, 1) != 0;
  }
  if (rotates) {
    made->rotated = integerOf(node, kRotated);
    made->neighbours = integerOf(node, kMode) == GGML_ROPE_TYPE_NORMAL;
    made->magnitude = realOf(node, kMagnitude);
    made->frequencies = frequenciesOf(node);
    const std::size_t room = (made->frequencies.size() + kernels::kTurnPart - 1) /
                             kernels::kTurnPart * kernels::kTurnPart;
    made->frequencies.resize(room);
    for (TurnScratch& scratch : scratch_) {
      scratch.cosine.resize(std::max(room, scratch.cosine.size()));
      scratch.sine.resize(scratch.cosine.size());
    }
  }
  return operations_.emplace_back(std::move(made)).get();
}

void OwnOperations::onCompute(ggml_tensor* node, int thread, int threads, void* of) {
  const Operation& operation = *static_cast<const Operation*>(of);
  OwnOperations& self = *operation.self;
  if (operation.op == GGML_OP_RMS_NORM) self.normalise(node, operation, threads);
  if (operation.op == GGML_OP_GLU) self.gate(node, operation, threads);
  if (operation.op == GGML_OP_ROPE) self.rotate(node, operation, thread, threads);
}

void OwnOperations::normalise(ggml_tensor* node, const Operation& operation, int threads) {
  const std::int64_t width = node->ne[0], rows = ggml_nrows(node);
  const auto* weights =
      node->src[1] == nullptr ? nullptr : static_cast<const float*>(node->src[1]->data);
  const std::int64_t some = std::max<std::int64_t>(
      1, std::min(kPartNumbers / std::max<std::int64_t>(1, width), rows / threads));
  parts_.forEach((rows + some - 1) / some, threads, [&](std::int64_t part) {
    for (std::int64_t row = part * some; row < std::min(rows, (part + 1) * some); ++row)
      kernels_.normalise(rowOf(node->src[0], row), weights, rowOf(node, row), width,
                         operation.epsilon);
  });
}

// The gate is the first source, or with one source the first half of its rows, or the second.
void OwnOperations::gate(ggml_tensor* node, const Operation& operation, int threads) {
  const ggml_tensor* gates = node->src[0];
  const ggml_tensor* ups = node->src[1] == nullptr ? gates : node->src[1];
  const std::int64_t width = node->ne[0];
  const std::int64_t gateAt = node->src[1] == nullptr && operation.isSwapped ? width : 0;
  const std::int64_t upAt = node->src[1] == nullptr && !operation.isSwapped ? width : 0;
  const auto compute = operation.isGelu ? kernels_.geglu : kernels_.swiglu;
  const std::int64_t parts = (width + kPartNumbers - 1) / kPartNumbers;
  parts_.forEach(ggml_nrows(node) * parts, threads, [&](std::int64_t part) {
    const std::int64_t row = part / parts, begin = part % parts * kPartNumbers;
    compute(rowOf(gates, row) + gateAt + begin, rowOf(ups, row) + upAt + begin,
            rowOf(node, row) + begin, std::min(kPartNumbers, width - begin));
  });
}

// A part is a position, of few ones some of its heads.
void OwnOperations::rotate(ggml_tensor* node, const Operation& operation, int thread, int threads) {
  const ggml_tensor* x = node->src[0];
  const auto* positions = static_cast<const std::int32_t*>(node->src[1]->data);
  const std::int64_t heads = node->ne[1], tokens = node->ne[2];
  const std::int64_t pairs = operation.rotated / 2;
  const std::int64_t parts =
      tokens * node->ne[3] >= threads ? 1 : std::min<std::int64_t>(heads, threads);
  const std::int64_t some = (heads + parts - 1) / parts;
  const auto turn = operation.neighbours ? kernels_.rotateNeighbours : kernels_.rotateHalves;
  TurnScratch& table = scratch_[static_cast<std::size_t>(thread)];
  parts_.forEach(tokens * node->ne[3] * parts, threads, [&](std::int64_t part) {
    const std::int64_t token = part / parts % tokens, stream = part / parts / tokens;
    kernels_.turns(positions[token], operation.frequencies.data(), pairs, operation.magnitude,
                   table.cosine.data(), table.sine.data());
    const std::int64_t begin = part % parts * some;
    for (std::int64_t head = begin; head < std::min(heads, begin + some); ++head) {
      const float* from = rowOf(x, head, token, stream);
      float* to = rowOf(node, head, token, stream);
      turn(from, table.cosine.data(), table.sine.data(), pairs, to);
      // In place there is nothing to copy.
      if (from != to)
        std::copy(from + operation.rotated, from + node->ne[0], to + operation.rotated);
    }
  });
}

}  // namespace isopro
