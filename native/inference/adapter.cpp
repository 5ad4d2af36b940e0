#include "inference/adapter.h"

#include "inference/llama_call.h"
#include "inference/validate_adapter.h"
#include "model/invocation.h"
#include "support/error.h"

namespace isopro {

std::shared_ptr<Adapter> Adapter::load(std::shared_ptr<Model> model, const std::string& path,
                                       bool withPairs) {
  const GgufFile file = GgufFile::open(path, ErrorCode::adapterCorrupt);
  validateAdapter(file, model->inventory());
  auto adapter = std::make_shared<Adapter>();
  adapter->invocationTokens_ = readInvocationTokens(file);
  if ((withPairs || adapter->activated()) && !model->usesGpu())
    adapter->pairs_ = LowRankPairs::of(file);
  if (adapter->activated() && (adapter->pairs_.empty() || !model->isKnown())) {
    throw Error(ErrorCode::modelUnsupported,
                "the adapter " + path + " acts from the reply on, which is not possible " +
                    (model->usesGpu()    ? "on a GPU"
                     : !model->isKnown() ? "with this architecture"
                                         : "with its token embedding or tensor types"));
  }
  adapter->model_ = std::move(model);
  adapter->adapter_.reset(
      callLlama([&] { return llama_adapter_lora_init(adapter->model_->handle(), path.c_str()); }));
  if (adapter->adapter_ == nullptr) {
    const std::string reason = takeLlamaError();
    throw Error(
        refusalIn(reason, ErrorCode::adapterCorrupt),
        "llama.cpp could not load the adapter " + path + (reason.empty() ? "" : ": " + reason));
  }
  return adapter;
}

int Adapter::activationIn(const std::vector<Token>& prompt) const {
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t at = isopro::activationIn(prompt, length, invocationTokens_);
  return at == length ? kNever : static_cast<int>(at);
}

}  // namespace isopro
