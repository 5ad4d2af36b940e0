#include "bindings/model_info.h"

#include <vector>

#include "bindings/conversion.h"

namespace isopro::bindings {

Napi::Object modelInfo(Napi::Env env, const Model& model, const ModelSession& session) {
  const llama_vocab* vocab = model.vocab();
  Napi::Object object = Napi::Object::New(env);
  object.Set("architecture", model.metadata("general.architecture"));
  object.Set("name", model.metadata("general.name"));
  object.Set("chatTemplate", model.chatTemplate());
  object.Set("vocabularySize", model.vocabularySize());
  object.Set("layers", model.layers());
  object.Set("embeddingSize", model.embeddingSize());
  object.Set("trainedContext", model.trainedContext());
  object.Set("kvType", ggml_type_name(model.kvType()));
  object.Set("kvBytesPerToken", static_cast<double>(model.kvBytesPerToken()));
  object.Set("stateBytes", static_cast<double>(model.stateBytes()));
  object.Set("evaluatesAlone", model.evaluatesAlone());
  object.Set("parameters", static_cast<double>(llama_model_n_params(model.handle())));
  object.Set("bytes", static_cast<double>(llama_model_size(model.handle())));
  object.Set("quantisation", llama_ftype_name(llama_model_ftype(model.handle())));
  object.Set("threads", session.context->governor().maxThreads());
  object.Set("matmul", model.hasOwnProducts() ? "own" : "ggml");
  object.Set("ownBits", session.hasOwnBits ? Napi::Number::New(env, kOwnBits) : env.Null());
  object.Set("batchInvariant", isBatchInvariant(model));
  object.Set("bos", llama_vocab_bos(vocab));
  object.Set("eos", llama_vocab_eos(vocab));
  object.Set("eot", llama_vocab_eot(vocab));
  std::vector<Token> ends;
  for (Token token = 0; token < model.vocabularySize(); ++token) {
    if (llama_vocab_is_eog(vocab, token)) ends.push_back(token);
  }
  object.Set("ends", fromTokens(env, ends));
  object.Set("addBos", llama_vocab_get_add_bos(vocab));
  object.Set("warnings", fromTexts(env, model.warnings()));
  return object;
}

}  // namespace isopro::bindings
