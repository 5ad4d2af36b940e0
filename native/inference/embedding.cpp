#include "inference/embedding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <ggml-backend.h>

#include "support/error.h"

namespace isopro {
namespace {

// Each row of a call has room for a row of logits set aside, although none is computed.
constexpr int kEmbeddingBatch = 64;

bool isResult(const ggml_tensor* node) {
  return std::strcmp(ggml_get_name(node), "result_norm") == 0;
}

}  // namespace

std::vector<float> embed(Context& context, const std::vector<Token>& tokens,
                         const std::atomic<bool>& cancelled) {
  if (tokens.empty()) throw Error(ErrorCode::invalidArgument, "no tokens were given");
  context.refuseActivated("the embedding of a text");
  const Model& model = context.model();
  model.checkTokens(tokens, "tokens");
  const auto width = static_cast<size_t>(model.embeddingSize());
  context.prepare({static_cast<int>(tokens.size()), 1, kEmbeddingBatch});

  std::vector<float> rows;
  const Observation observation(context, {isResult,
                                          [&](ggml_tensor* node) {
                                            rows.resize(static_cast<size_t>(ggml_nelements(node)));
                                            ggml_backend_tensor_get(node, rows.data(), 0,
                                                                    rows.size() * sizeof(float));
                                          },
                                          true});

  std::vector<double> sums(width);
  DecodeBatch batch;
  for (size_t begin = 0; begin < tokens.size(); begin += kEmbeddingBatch) {
    const size_t end = std::min(tokens.size(), begin + kEmbeddingBatch);
    batch.clear();
    rows.clear();
    for (size_t i = begin; i < end; ++i) batch.add(tokens[i], static_cast<llama_pos>(i), 0, true);
    context.decode(batch, cancelled);
    if (rows.size() != (end - begin) * width)
      throw Error(ErrorCode::modelUnsupported,
                  "llama.cpp's graph of this model shows no last norm");
    for (size_t i = 0; i < rows.size(); ++i) sums[i % width] += static_cast<double>(rows[i]);
  }
  double squared = 0;
  for (const double sum : sums) squared += sum * sum;
  if (!std::isfinite(squared) || squared == 0)
    throw Error(ErrorCode::numericFailure, "the hidden states of a text have no direction");
  const double norm = std::sqrt(squared);
  std::vector<float> unit(width);
  std::transform(sums.begin(), sums.end(), unit.begin(),
                 [norm](double sum) { return static_cast<float>(sum / norm); });
  return unit;
}

}  // namespace isopro
