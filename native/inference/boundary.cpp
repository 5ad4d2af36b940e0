#include "inference/boundary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <ggml-backend.h>

#include "support/error.h"
#include "support/halves.h"

namespace isopro {
namespace {

// Batches of hidden() are small because the last boundary exists for output rows only, and each of
// those costs a row of logits.
constexpr int kHiddenBatch = 64;

// Boundary of a graph node, or -1. llama.cpp names block outputs "l_out-<block>", the scaled
// embedding of gemma "inp_scaled" and that of the others "embd".
int boundaryOf(const ggml_tensor* node, bool scaledEmbedding) {
  const std::string name = ggml_get_name(node);
  if (name == (scaledEmbedding ? "inp_scaled" : "embd")) return 0;
  constexpr const char* kPrefix = "l_out-";
  if (name.rfind(kPrefix, 0) != 0) return -1;
  return std::atoi(name.c_str() + 6) + 1;
}

bool scalesEmbedding(const Model& model) {
  return model.metadata("general.architecture").rfind("gemma", 0) == 0;
}

void readRows(ggml_tensor* node, std::vector<float>& values) {
  values.resize(static_cast<size_t>(ggml_nelements(node)));
  ggml_backend_tensor_get(node, values.data(), 0, values.size() * sizeof(float));
}

using BoundaryValues = std::map<int, std::vector<float>>;

// Decodes the tokens in small batches and hands the boundaries of each to `receive(values, rows)`.
void forward(Context& context, const std::vector<Token>& tokens, const std::vector<int>& boundaries,
             const std::atomic<bool>& cancelled,
             const std::function<void(const BoundaryValues&, size_t)>& receive) {
  const Model& model = context.model();
  if (tokens.empty()) throw Error(ErrorCode::invalidArgument, "no tokens were given");
  context.refuseActivated("the hidden states of a text");
  model.checkTokens(tokens, "tokens");
  if (static_cast<int>(tokens.size()) > model.trainedContext()) {
    throw Error(ErrorCode::contextOverflow, std::to_string(tokens.size()) +
                                                " tokens exceed the model's context of " +
                                                std::to_string(model.trainedContext()));
  }
  for (const int boundary : boundaries) {
    if (boundary < 0 || boundary > model.layers()) {
      throw Error(ErrorCode::invalidArgument, "layer boundary " + std::to_string(boundary) +
                                                  " is not in [0, " +
                                                  std::to_string(model.layers()) + "]");
    }
  }
  context.prepare({static_cast<int>(tokens.size()), 1, kHiddenBatch});

  BoundaryValues values;
  const bool scaled = scalesEmbedding(model);
  const Observation observation(
      context, {[&](const ggml_tensor* node) {
                  return std::find(boundaries.begin(), boundaries.end(),
                                   boundaryOf(node, scaled)) != boundaries.end();
                },
                [&](ggml_tensor* node) { readRows(node, values[boundaryOf(node, scaled)]); }});

  DecodeBatch batch;
  for (size_t begin = 0; begin < tokens.size(); begin += kHiddenBatch) {
    const size_t end = std::min(tokens.size(), begin + kHiddenBatch);
    batch.clear();
    values.clear();
    for (size_t i = begin; i < end; ++i) batch.add(tokens[i], static_cast<llama_pos>(i), 0, true);
    context.decode(batch, cancelled);
    for (const int boundary : boundaries) {
      const auto found = values.find(boundary);
      if (found == values.end() ||
          found->second.size() != (end - begin) * static_cast<size_t>(model.embeddingSize())) {
        throw Error(ErrorCode::modelUnsupported,
                    "llama.cpp's graph of this model shows no values at layer boundary " +
                        std::to_string(boundary));
      }
    }
    receive(values, end - begin);
  }
}

}  // namespace

BoundaryCapture::BoundaryCapture(Context& context, int boundary)
    : context_(context),
      boundary_(boundary),
      enabled_(boundary >= 0),
      width_(static_cast<size_t>(context.model().embeddingSize())) {
  if (enabled_) context_.observe(observer());
}

NodeObserver BoundaryCapture::observer() {
  const bool enabled = enabled_, scaled = scalesEmbedding(context_.model());
  const int boundary = boundary_;
  return {[=](const ggml_tensor* node) { return enabled && boundaryOf(node, scaled) == boundary; },
          [this](ggml_tensor* node) { readRows(node, values_); }};
}

BoundaryCapture::~BoundaryCapture() {
  if (enabled_) context_.stopObserving();
}

void BoundaryCapture::expectRow(std::vector<std::uint16_t>* destination) {
  if (enabled_) rows_.push_back(destination);
}

void BoundaryCapture::endStep() {
  if (!enabled_) return;
  if (values_.size() != rows_.size() * width_) {
    throw Error(ErrorCode::modelUnsupported,
                "llama.cpp's graph of this model does not show the requested layer boundary");
  }
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row] == nullptr) continue;
    std::vector<std::uint16_t>& destination = *rows_[row];
    const size_t offset = destination.size();
    destination.resize(offset + width_);
    toHalves(values_.data() + row * width_, destination.data() + offset,
             static_cast<std::int64_t>(width_), boundary_);
  }
}

std::map<int, std::vector<std::uint16_t>> hiddenRows(Context& context,
                                                     const std::vector<Token>& tokens,
                                                     const std::vector<int>& boundaries,
                                                     const std::atomic<bool>& cancelled) {
  std::map<int, std::vector<std::uint16_t>> rows;
  forward(context, tokens, boundaries, cancelled, [&](const BoundaryValues& values, size_t) {
    for (const auto& [boundary, floats] : values) {
      std::vector<std::uint16_t>& halves = rows[boundary];
      const size_t offset = halves.size();
      halves.resize(offset + floats.size());
      toHalves(floats.data(), halves.data() + offset, static_cast<std::int64_t>(floats.size()),
               boundary);
    }
  });
  return rows;
}

std::map<int, HiddenNorms> hiddenNorms(Context& context, const std::vector<Token>& tokens,
                                       const std::vector<int>& blocks,
                                       const std::atomic<bool>& cancelled) {
  std::vector<int> boundaries;
  for (const int block : blocks) {
    if (block < 0 || block >= context.model().layers()) {
      throw Error(ErrorCode::invalidArgument, "layer " + std::to_string(block) + " is not in [0, " +
                                                  std::to_string(context.model().layers() - 1) +
                                                  "]");
    }
    boundaries.push_back(block);
    boundaries.push_back(block + 1);
  }
  const auto width = static_cast<size_t>(context.model().embeddingSize());
  std::map<int, HiddenNorms> sums;
  forward(context, tokens, boundaries, cancelled, [&](const BoundaryValues& values, size_t rows) {
    for (const int block : blocks) {
      const float* in = values.at(block).data();
      const float* out = values.at(block + 1).data();
      HiddenNorms& sum = sums[block];
      for (size_t row = 0; row < rows; ++row, in += width, out += width) {
        double squares[3] = {};
        for (size_t i = 0; i < width; ++i) {
          const double a = in[i];
          const double b = out[i];
          squares[0] += b * b;
          squares[1] += a * a;
          squares[2] += (b - a) * (b - a);
        }
        sum.out += std::sqrt(squares[0]);
        sum.in += std::sqrt(squares[1]);
        sum.update += std::sqrt(squares[2]);
      }
    }
  });
  for (auto& [block, sum] : sums) {
    const auto count = static_cast<double>(tokens.size());
    sum = {sum.out / count, sum.in / count, sum.update / count};
  }
  return sums;
}

}  // namespace isopro
