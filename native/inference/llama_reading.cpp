#include "inference/llama_reading.h"

#include <memory>

#include "inference/llama_call.h"
#include "support/error.h"

namespace isopro {

void refuseUnread(const std::string& path, const std::string& said) {
  const ErrorCode code = refusalIn(said, ErrorCode::modelUnsupported);
  const std::string reader = std::string("llama.cpp ") + ISOPRO_LLAMA_RELEASE;
  throw Error(code, path +
                        (code == ErrorCode::modelUnsupported
                             ? " is whole, but " + reader + " does not read it"
                             : ": " + reader + " could not load it") +
                        (said.empty() ? "" : ": " + said));
}

void checkDecoder(const llama_model* model, const std::string& path) {
  if (llama_model_has_encoder(model) || !llama_model_has_decoder(model) ||
      llama_model_is_diffusion(model))
    throw Error(ErrorCode::modelUnsupported, path + " is not a decoder-only transformer");
}

std::vector<std::string> readWithoutWeights(const std::string& path) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.load_mode = LLAMA_LOAD_MODE_NONE;
  params.no_alloc = true;
  const auto free = [](llama_model* model) { freeLlama([&] { llama_model_free(model); }); };
  const std::unique_ptr<llama_model, decltype(free)> model(
      callLlama([&] { return llama_model_load_from_file(path.c_str(), params); }), free);
  const std::vector<std::string> warnings = takeLlamaWarnings();
  if (model == nullptr) refuseUnread(path, takeLlamaError());
  checkDecoder(model.get(), path);
  return warnings;
}

}  // namespace isopro
