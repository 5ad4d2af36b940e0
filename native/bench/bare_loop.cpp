#include "bench/bare_loop.h"

#include <algorithm>
#include <memory>

#include "inference/llama_call.h"
#include "support/cpu.h"
#include "support/error.h"

namespace isopro::bench {
namespace {

struct BatchDeleter {
  void operator()(llama_batch* batch) const {
    llama_batch_free(*batch);
    delete batch;
  }
};

Token argmax(const float* logits, int count) {
  return static_cast<Token>(std::max_element(logits, logits + count) - logits);
}

}  // namespace

double bareDecodeLoop(const Model& model, const std::vector<std::vector<Token>>& prompts,
                      int samples, int tokens, int threads) {
  constexpr int kBatch = 512;
  int cells = 0;
  for (const auto& prompt : prompts) cells += static_cast<int>(prompt.size()) + samples * tokens;
  const int sequences = static_cast<int>(prompts.size()) * samples;

  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(std::max(cells, kBatch));
  params.n_batch = params.n_ubatch = kBatch;
  params.n_seq_max = static_cast<std::uint32_t>(sequences);
  params.n_outputs_max = static_cast<std::uint32_t>(sequences);
  params.n_threads = params.n_threads_batch = threads;
  params.kv_unified = true;
  params.type_k = params.type_v = model.kvType();
  params.no_perf = true;
  const std::unique_ptr<llama_context, decltype(&llama_free)> context(
      callLlama([&] { return llama_init_from_model(model.handle(), params); }), llama_free);
  if (context == nullptr) throw Error(ErrorCode::outOfMemory, "no context for the bare loop");
  const std::unique_ptr<llama_batch, BatchDeleter> batch(
      new llama_batch(llama_batch_init(kBatch, 0, 1)));
  llama_memory_t memory = llama_get_memory(context.get());

  const auto add = [&](Token token, int position, int sequence, bool output) {
    const int row = batch->n_tokens++;
    batch->token[row] = token;
    batch->pos[row] = position;
    batch->n_seq_id[row] = 1;
    batch->seq_id[row][0] = sequence;
    batch->logits[row] = output ? 1 : 0;
  };
  const auto decode = [&] {
    if (callLlama([&] { return llama_decode(context.get(), *batch); }) != 0)
      throw Error(ErrorCode::nativeFailure, "llama_decode failed in the bare loop");
  };

  std::vector<Token> last(static_cast<size_t>(sequences));
  const std::int64_t begin = wallNanoseconds();
  for (size_t p = 0; p < prompts.size(); ++p) {
    const int first = static_cast<int>(p) * samples;
    const auto& prompt = prompts[p];
    for (size_t i = 0; i < prompt.size();) {
      batch->n_tokens = 0;
      for (; i < prompt.size() && batch->n_tokens < kBatch; ++i)
        add(prompt[i], static_cast<int>(i), first, i + 1 == prompt.size());
      decode();
    }
    const Token token = argmax(llama_get_logits_ith(context.get(), -1), model.vocabularySize());
    for (int s = 0; s < samples; ++s) {
      if (s > 0) llama_memory_seq_cp(memory, first, first + s, -1, -1);
      last[static_cast<size_t>(first + s)] = token;
    }
  }
  for (int step = 1; step < tokens; ++step) {
    batch->n_tokens = 0;
    for (int s = 0; s < sequences; ++s) {
      const auto length = static_cast<int>(prompts[static_cast<size_t>(s / samples)].size());
      add(last[static_cast<size_t>(s)], length + step - 1, s, true);
    }
    decode();
    for (int s = 0; s < sequences; ++s) {
      last[static_cast<size_t>(s)] =
          argmax(llama_get_logits_ith(context.get(), s), model.vocabularySize());
    }
  }
  return static_cast<double>(wallNanoseconds() - begin) * 1e-9;
}

}  // namespace isopro::bench
