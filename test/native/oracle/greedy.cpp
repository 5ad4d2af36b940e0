// isopro_llama_greedy MODEL COUNT ID...: what llama.cpp alone makes of a prompt, as a JSON object:
// the COUNT most likely tokens one after the other, their log-probabilities, and the bytes that
// llama.cpp would write of the sequence before the last token but one and before the last. The
// reference of test/engine/decoders.test.ts: it knows nothing of this project but where the back
// ends lie.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../llama_backends.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  isopro::testing::loadLlamaBackends();
  llama_model_params modelParameters = llama_model_default_params();
  modelParameters.use_extra_bufts = false;
  llama_model* model = llama_model_load_from_file(argv[1], modelParameters);
  if (model == nullptr) return 1;
  const int count = std::atoi(argv[2]);
  std::vector<llama_token> prompt;
  for (int i = 3; i < argc; ++i) prompt.push_back(std::atoi(argv[i]));
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));

  llama_context_params parameters = llama_context_default_params();
  parameters.n_ctx = 512;
  parameters.n_threads = parameters.n_threads_batch = 1;
  llama_context* context = llama_init_from_model(model, parameters);
  if (context == nullptr) return 1;

  std::string tokens, chances, sizes;
  std::vector<llama_token> next = prompt;
  for (int i = 0; i < count; ++i) {
    if (llama_decode(context, llama_batch_get_one(next.data(), static_cast<int>(next.size()))) != 0)
      return 1;
    const float* logits = llama_get_logits_ith(context, -1);
    const float* most = std::max_element(logits, logits + vocabulary);
    double sum = 0;
    for (int token = 0; token < vocabulary; ++token)
      sum += std::exp(static_cast<double>(logits[token]) - static_cast<double>(*most));
    next = {static_cast<llama_token>(most - logits)};
    const std::string comma = i == 0 ? "" : ",";
    tokens += comma + std::to_string(next.front());
    char number[32];
    std::snprintf(number, sizeof number, "%.9g", -std::log(sum));
    chances += comma + number;
    if (i + 2 >= count)
      sizes += (sizes.empty() ? "" : ",") + std::to_string(llama_state_seq_get_size(context, 0));
  }
  std::printf("{\"tokens\":[%s],\"logProbabilities\":[%s],\"stateBytes\":[%s]}\n", tokens.c_str(),
              chances.c_str(), sizes.c_str());
  llama_free(context);
  llama_model_free(model);
  return 0;
}
