#include "inference/model_trial.h"

#include <atomic>
#include <memory>

#include "inference/context.h"
#include "inference/model.h"
#include "inference/validate_decoder.h"

namespace isopro {
namespace {

constexpr llama_pos kTriedTokens = 5;

}  // namespace

bool wantsTrial(const std::string& path) {
  const GgufFile file = GgufFile::open(path);
  if (!isOtherDecoder(file)) return false;
  validateModel(file);
  return true;
}

void tryModel(const std::string& path) {
  ModelOptions options;
  options.path = path;
  options.repacks = false;
  const std::shared_ptr<Model> model = Model::load(options, {});
  model->vocabulary();  // the bytes of every token
  std::vector<Token> tokens = model->tokenize("The judge reads 12 answers:\n\u2603", false);
  tokens.resize(std::max(tokens.size(), std::size_t{kTriedTokens + 1}), 0);

  Context context(model, 1, true);
  const bool copies = !model->evaluatesAlone();
  context.prepare({kCellGroup, copies ? 2 : 1, 2, CellOwner::kEach});
  const std::atomic<bool> never{false};
  DecodeBatch batch;
  batch.add(tokens[0], 0, 0, true);
  context.decode(batch, never);
  batch.clear();
  for (llama_pos i = 1; i < kTriedTokens; ++i)
    batch.add(tokens[static_cast<std::size_t>(i)], i, 0, i + 1 == kTriedTokens);
  context.decode(batch, never);
  batch.clear();
  if (copies) context.copySequence(0, 1);
  for (llama_seq_id sequence = 0; sequence < (copies ? 2 : 1); ++sequence)
    batch.add(tokens[kTriedTokens], kTriedTokens, sequence, true);
  context.decode(batch, never);
}

}  // namespace isopro
