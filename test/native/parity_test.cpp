// The trainer and llama.cpp on the same file: logits with and without adapter, and the gradient as
// the slope of llama.cpp's own loss when perturbed adapters are loaded into it.
#include <cstring>
#include <functional>

#include <llama.h>

#include "check.h"
#include "llama_backends.h"
#include "reference_model.h"
#include "support/error.h"
#include "temporary_file.h"
#include "training/adapter_file.h"
#include "write_model.h"

using namespace isopro;
using namespace isopro::testing;

namespace {

// llama.cpp with f32 keys and values and without flash attention: the same mathematics as ours.
class Llama {
 public:
  explicit Llama(const std::string& path) {
    loadLlamaBackends();
    llama_model_params parameters = llama_model_default_params();
    // Without it llama.cpp may store weights anew for its faster kernels; the mathematics is meant
    // to be the file's.
    parameters.use_extra_bufts = false;
    model_ = llama_model_load_from_file(path.c_str(), parameters);
  }
  ~Llama() {
    if (adapter_ != nullptr) llama_adapter_lora_free(adapter_);
    if (model_ != nullptr) llama_model_free(model_);
  }
  bool ready() const { return model_ != nullptr; }

  bool load(const std::string& adapterPath) {
    if (adapter_ != nullptr) llama_adapter_lora_free(adapter_);
    adapter_ = llama_adapter_lora_init(model_, adapterPath.c_str());
    return adapter_ != nullptr;
  }

  // [tokens, vocabulary]
  std::vector<float> logits(const std::vector<std::int32_t>& tokens) {
    llama_context_params parameters = llama_context_default_params();
    parameters.n_ctx = 512, parameters.n_batch = 512, parameters.n_ubatch = 512;
    parameters.type_k = parameters.type_v = GGML_TYPE_F32;
    parameters.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    parameters.n_threads = parameters.n_threads_batch =
        1;  // more of them spin at each barrier where another process has the other core
    llama_context* context = llama_init_from_model(model_, parameters);
    if (adapter_ != nullptr) {
      float scale = 1;
      llama_set_adapters_lora(context, &adapter_, 1, &scale);
    }
    llama_batch batch = llama_batch_init(static_cast<std::int32_t>(tokens.size()), 0, 1);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      batch.token[t] = tokens[t], batch.pos[t] = static_cast<llama_pos>(t);
      batch.n_seq_id[t] = 1, batch.seq_id[t][0] = 0, batch.logits[t] = 1;
    }
    batch.n_tokens = static_cast<std::int32_t>(tokens.size());
    llama_decode(context, batch);
    const float* from = llama_get_logits(context);
    const std::size_t count =
        tokens.size() *
        static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_)));
    std::vector<float> result(from, from + count);
    llama_batch_free(batch);
    llama_free(context);
    return result;
  }

 private:
  llama_model* model_ = nullptr;
  llama_adapter_lora* adapter_ = nullptr;
};

// Our logits: the trainer's last hidden rows through norm and head.
std::vector<float> ourLogits(Trainer& trainer, const TrainSequence& sequence) {
  ModelWeights& model = trainer.model();
  Network network(model, trainer.engine(), 0);
  const Buffer hidden = network.hiddenBefore(pack({&sequence}, true, model.hyper.width),
                                             model.hyper.layers, true, kNotStopped);
  const auto tokens = static_cast<std::int64_t>(sequence.tokens.size());
  std::vector<float> normed(hidden.size()),
      logits(static_cast<std::size_t>(tokens * model.hyper.vocabulary));
  for (std::int64_t t = 0; t < tokens; ++t) {
    kernels::kernels().normForward(hidden.data() + t * model.hyper.width, model.outputNorm.values(),
                                   normed.data() + t * model.hyper.width, model.hyper.width,
                                   model.hyper.normEpsilon);
  }
  trainer.engine().xWt(model.head.weight, normed.data(), logits.data(), tokens);
  for (float& logit : logits) logit *= model.hyper.logitScale;
  if (model.hyper.finalCap > 0)
    kernels::kernels().softCapForward(logits.data(), model.hyper.finalCap,
                                      static_cast<std::int64_t>(logits.size()));
  return logits;
}

// ||ours - theirs|| / ||theirs|| of the position where it is largest.
double worstDifference(const std::vector<float>& ours, const std::vector<float>& theirs,
                       std::size_t vocabulary) {
  if (ours.size() != theirs.size()) return INFINITY;
  double worst = 0;
  for (std::size_t at = 0; at < ours.size(); at += vocabulary) {
    double difference = 0, size = 0;
    for (std::size_t i = at; i < at + vocabulary; ++i) {
      difference += std::pow(static_cast<double>(ours[i]) - static_cast<double>(theirs[i]), 2);
      size += std::pow(static_cast<double>(theirs[i]), 2);
    }
    worst = std::max(worst, std::isfinite(difference) ? std::sqrt(difference / size) : INFINITY);
  }
  return worst;
}

TrainSequence sequenceOf(std::int64_t vocabulary, std::size_t length) {
  Random random(17);
  TrainSequence s;
  for (std::size_t t = 0; t < length; ++t) {
    s.tokens.push_back(
        static_cast<std::int32_t>(random.nextDouble() * static_cast<double>(vocabulary)));
    s.labelled.push_back(t > 0);
  }
  return s;
}

TrainerOptions everything(const ModelWeights& model, std::int64_t rankStep) {
  TrainerOptions options;
  for (std::int64_t layer = 0; layer < model.hyper.layers; ++layer) {
    for (int m = 0; m < kModules; ++m) {
      if (!hasModule(model.hyper.architecture, m)) continue;
      options.targets.push_back({layer, m, 2 + rankStep * m,
                                 rankStep == 0 ? 2.0f : 0.3f + 0.2f * static_cast<float>(m), 0});
    }
  }
  options.threads = 2;
  return options;
}

void randomiseB(Trainer& trainer) {
  Random random(3);
  for (Lora* lora : trainer.loras()) {
    for (float& value : lora->b.value)
      value = static_cast<float>((random.nextDouble() * 2 - 1) * 0.2);
  }
}

struct Case {
  const char* architecture;
  Shape shape;
};

std::vector<Case> cases() {
  Shape plain, factors, biases, tied;
  factors.ropeFactors = true;
  biases.biases = true;
  tied.tied = true;
  // llama.cpp derives qwen2's width of a head from width / heads.
  Shape four, fourUntied, six, heads, partial;
  four.layers = fourUntied.layers = 4, four.tied = true;
  six.layers = 6, six.tied = true;
  heads.window = 0;
  partial.ropeFactors = true, partial.rotatedWidth = 10;
  return {{"llama", plain},      {"llama", factors}, {"qwen2", biases},  {"qwen3", plain},
          {"smollm3", four},     {"granite", tied},  {"mistral3", tied}, {"olmo2", heads},
          {"olmo2", fourUntied}, {"phi3", partial},  {"qwen3moe", tied}, {"gpt-oss", biases},
          {"gemma3", six},       {"gemma2", tied}};
}

}  // namespace

TEST(logits_equal_llama_cpps_with_and_without_adapter) {
  for (const Case& c : cases()) {
    for (const std::int64_t rankStep : {0, 1}) {  // one alpha for all, or scales folded into B
      const TemporaryFile file("model.gguf"), adapter("adapter.gguf");
      writeModel(*randomModel(c.architecture, c.shape, 1), file.path());
      Llama llama(file.path());
      CHECK(llama.ready());
      if (!llama.ready()) continue;
      auto loaded = loadWeights(file.path());
      const TrainerOptions options = everything(*loaded, rankStep);
      Trainer trainer(std::move(loaded), options);
      const TrainSequence s = sequenceOf(c.shape.vocabulary, 60);
      const auto V = static_cast<std::size_t>(c.shape.vocabulary);
      const double base = worstDifference(ourLogits(trainer, s), llama.logits(s.tokens), V);
      // gemma: llama.cpp rounds gelu to f16; the next test shows that nothing else differs.
      const double tolerance = std::strncmp(c.architecture, "gemma", 5) == 0 ? 1e-3 : 1e-4;
      std::printf("     %s: logits differ by %.1e of their norm", c.architecture, base);
      CHECK_NEAR(base, 0, tolerance);
      randomiseB(trainer);
      adapter.write(encodeAdapter(trainer));
      CHECK(llama.load(adapter.path()));
      const auto adapted = ourLogits(trainer, s);
      const double with = worstDifference(adapted, llama.logits(s.tokens), V);
      std::printf(", with adapter %.1e\n", with);
      CHECK_NEAR(with, 0, tolerance);

      // The file read back is the adapter that was written.
      Trainer again(loadWeights(file.path()), everything(trainer.model(), 0));
      again.setAdapter(readAdapter(adapter.path()).modules);
      // Scales that were multiplied into B were rounded; more layers, and experts, grow it.
      const Hyperparameters& h = trainer.model().hyper;
      const bool grows = h.layers > 2 || h.experts > 0 || h.architecture.fused;
      CHECK(worstDifference(ourLogits(again, s), adapted, V) < (grows ? 3e-6 : 1e-6));
    }
  }
}

// What a file says or leaves unsaid of its rotation means the same to the trainer as to llama.cpp,
// or is refused.
TEST(rotation_is_read_as_llama_cpp_reads_it) {
  const auto text = [](const char* key, const char* value) -> Metadata {
    return [=](gguf_context* gguf, const std::string& prefix) {
      gguf_set_val_str(gguf, (prefix + key).c_str(), value);
    };
  };
  const auto real = [](const char* key, float value) -> Metadata {
    return [=](gguf_context* gguf, const std::string& prefix) {
      gguf_set_val_f32(gguf, (prefix + key).c_str(), value);
    };
  };
  const Metadata factor = real("rope.scaling.factor", 3), older = real("rope.scale_linear", 3),
                 noFactor = real("rope.scaling.factor", 0);
  const Metadata none = text("rope.scaling.type", "none"),
                 linear = text("rope.scaling.type", "linear");
  const Metadata yarn = text("rope.scaling.type", "yarn"),
                 longrope = text("rope.scaling.type", "longrope");
  const Metadata shorter = real("rope.scaling.attn_factor", 0.5f);
  const Metadata context = [](gguf_context* gguf, const std::string& prefix) {
    gguf_set_val_u32(gguf, (prefix + "rope.scaling.original_context_length").c_str(), 32);
  };
  const Metadata noBase = [](gguf_context* gguf, const std::string& prefix) {
    gguf_remove_key(gguf, (prefix + "rope.freq_base").c_str());
  };
  struct Rotation {
    const char* name;
    std::vector<Metadata> metadata;
    bool scaled;
    bool trainable;
  };
  const std::vector<Rotation> rotations = {
      {"nothing said", {}, false, true},
      {"no base", {noBase}, false, true},
      {"a factor without a type", {factor}, true, true},
      {"the older key without a type", {older}, true, true},
      {"a factor of 0 beside the older key", {noFactor, older}, false, true},
      {"linear", {factor, linear}, true, true},
      {"a factor of type none", {factor, none}, false, true},
      {"yarn", {factor, yarn}, true, true},
      {"yarn of a shorter context", {factor, yarn, context}, true, true},
      {"yarn of factor 1 and less", {real("rope.scaling.factor", 0.5f), yarn}, true, true},
      {"rotated and shortened", {shorter}, true, true},
      {"yarn, shortened", {factor, yarn, context, shorter}, true, true},
      {"longrope", {factor, longrope}, true, false},
  };
  const Shape shape;
  const TrainSequence s = sequenceOf(shape.vocabulary, 60);
  const auto V = static_cast<std::size_t>(shape.vocabulary);
  for (const char* architecture : {"llama", "qwen3"}) {
    std::vector<float> plain;
    for (const Rotation& rotation : rotations) {
      std::printf("     %s: %s\n", architecture, rotation.name);
      const TemporaryFile file("model.gguf");
      writeModel(*randomModel(architecture, shape, 1), file.path(),
                 [&](gguf_context* gguf, const std::string& prefix) {
                   for (const Metadata& put : rotation.metadata) put(gguf, prefix);
                 });
      if (!rotation.trainable) {
        std::string code;
        try {
          loadWeights(file.path());
        } catch (const Error& error) {
          code = codeName(error.code());
        }
        CHECK(code == "MODEL_UNSUPPORTED");
        continue;
      }
      Llama llama(file.path());
      CHECK(llama.ready());
      if (!llama.ready()) continue;
      const std::vector<float> theirs = llama.logits(s.tokens);
      if (plain.empty()) plain = theirs;
      CHECK((worstDifference(theirs, plain, V) > 1e-2) == rotation.scaled);
      Trainer trainer(loadWeights(file.path()), everything(*loadWeights(file.path()), 0));
      CHECK_NEAR(worstDifference(ourLogits(trainer, s), theirs, V), 0, 1e-4);
    }
  }
}

TEST(yarn_of_mistral3_is_read_as_llama_cpp_reads_it) {
  Shape shape;
  const TrainSequence s = sequenceOf(shape.vocabulary, 60);
  for (const float multiplier : {0.0f, 1.0f, 0.3f}) {
    const TemporaryFile file("model.gguf");
    writeModel(*randomModel("mistral3", shape, 1), file.path(),
               [&](gguf_context* gguf, const std::string& prefix) {
                 gguf_set_val_f32(gguf, (prefix + "rope.scaling.yarn_log_multiplier").c_str(),
                                  multiplier);
                 gguf_set_val_f32(gguf, (prefix + "rope.scaling.yarn_beta_slow").c_str(), 0.5f);
               });
    Llama llama(file.path());
    Trainer trainer(loadWeights(file.path()), everything(*loadWeights(file.path()), 0));
    CHECK_NEAR(worstDifference(ourLogits(trainer, s), llama.logits(s.tokens),
                               static_cast<std::size_t>(shape.vocabulary)),
               0, 1e-4);
  }
}

namespace {

// Where llama.cpp rounds and we do not: with that rounding put into the reference in double nothing
// remains of the difference, and ours is as large as the rounding by itself makes it.
void differsByRoundingAlone(const char* name, const char* architecture, const Shape& shape,
                            const std::function<void(ReferenceModel&)>& round) {
  const TemporaryFile file("model.gguf");
  writeModel(*randomModel(architecture, shape, 1), file.path());
  Llama llama(file.path());
  auto loaded = loadWeights(file.path());
  const TrainerOptions options = everything(*loaded, 1);
  Trainer trainer(std::move(loaded), options);
  const ReferenceModel exact(trainer.model());
  ReferenceModel rounded(trainer.model());
  round(rounded);
  const auto V = static_cast<std::size_t>(shape.vocabulary);
  const auto logits = [](const ReferenceModel& reference, const TrainSequence& s) {
    const Values values = reference.logits(s.tokens);
    return std::vector<float>(values.begin(), values.end());
  };
  // Sequences of one token, and their median: where the order of a sum turns one rounding the other
  // way, the noise of every later position is another one, as large but independent.
  std::vector<double> remains;
  for (std::int32_t token = 0; token < 15; ++token) {
    TrainSequence s;
    s.tokens = {token}, s.labelled = {0};
    remains.push_back(worstDifference(logits(rounded, s), llama.logits(s.tokens), V));
  }
  std::sort(remains.begin(), remains.end());
  CHECK_NEAR(remains[remains.size() / 2], 0, 1e-6);

  const TrainSequence s = sequenceOf(shape.vocabulary, 60);
  const auto ours = ourLogits(trainer, s), precisely = logits(exact, s);
  CHECK_NEAR(worstDifference(ours, precisely, V), 0, 1e-5);
  const double difference = worstDifference(ours, llama.logits(s.tokens), V),
               byRounding = worstDifference(precisely, logits(rounded, s), V);
  CHECK_NEAR(difference / byRounding, 1, 0.25);
  std::printf(
      "     %s: logits differ by %.1e of their norm, the rounding by itself makes %.1e; with the "
      "rounding %.1e remains\n",
      name, difference, byRounding, remains[remains.size() / 2]);
}

}  // namespace

TEST(gemma_differs_by_llama_cpps_gelu_table_alone) {
  const std::vector<Case> all = cases();
  for (auto c = all.end() - 2; c != all.end(); ++c)
    differsByRoundingAlone(
        c->architecture, c->architecture, c->shape, [](ReferenceModel& reference) {
          // ggml-cpu/vec.h: gelu from a table indexed by the f16 bits of x, holding f16 values;
          // exact beyond +-10.
          reference.gelu = [](double x) -> double {
            if (x <= -10) return 0;
            if (x >= 10) return x;
            const float input = ggml_fp16_to_fp32(ggml_fp32_to_fp16(static_cast<float>(x)));
            return ggml_fp16_to_fp32(
                ggml_fp32_to_fp16(static_cast<float>(kernels::reference::gelu(input))));
          };
        });
}

TEST(quantised_logits_differ_by_llama_cpps_rounding_of_activations_alone) {
  // Before it multiplies a weight that is not f32, llama.cpp rounds the activations: to f16, or to
  // 8 bits in blocks.
  const std::pair<ggml_type, ggml_type> types[] = {{GGML_TYPE_F16, GGML_TYPE_F16},
                                                   {GGML_TYPE_Q8_0, GGML_TYPE_Q8_0},
                                                   {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0},
                                                   {GGML_TYPE_Q4_K, GGML_TYPE_Q8_K},
                                                   {GGML_TYPE_Q6_K, GGML_TYPE_Q8_K}};
  for (const auto& [type, activations] : types) {
    Shape shape;
    shape.type = type;
    if (ggml_blck_size(type) == 256)
      shape.width = 256, shape.headWidth = 64, shape.feedForward = 512;
    const ggml_type to = activations;
    differsByRoundingAlone(ggml_type_name(type), "llama", shape,
                           [to](ReferenceModel& reference) { reference.activationType = to; });
  }
}

TEST(gradient_is_the_slope_of_llama_cpps_loss) {
  for (const Case& c : cases()) {
    const TemporaryFile file("model.gguf"), adapter("adapter.gguf");
    // Of experts all are used: where a token changes them, the loss jumps and has no slope.
    Shape shape = c.shape;
    shape.expertsUsed = shape.experts;
    writeModel(*randomModel(c.architecture, shape, 1), file.path());
    Llama llama(file.path());
    auto loaded = loadWeights(file.path());
    const TrainerOptions options = everything(*loaded, 1);
    Trainer trainer(std::move(loaded), options);
    randomiseB(trainer);
    const TrainSequence s = sequenceOf(c.shape.vocabulary, 60);
    trainer.differentiate({s}, {}, kNotStopped);
    const auto llamaLoss = [&] {
      adapter.write(encodeAdapter(trainer));
      CHECK(llama.load(adapter.path()));
      const auto logits = llama.logits(s.tokens);
      const auto V = static_cast<std::size_t>(c.shape.vocabulary);
      double loss = 0;
      for (std::size_t t = 1; t < s.tokens.size(); ++t) {
        const Values row(logits.begin() + static_cast<std::ptrdiff_t>((t - 1) * V),
                         logits.begin() + static_cast<std::ptrdiff_t>(t * V));
        loss += (kernels::reference::logSumExp(row) - row[static_cast<std::size_t>(s.tokens[t])]) /
                static_cast<double>(s.tokens.size() - 1);
      }
      return loss;
    };
    // K and V by themselves, then everything: along the gradient, where the slope is its norm.
    const bool fused = trainer.model().hyper.architecture.fused;
    for (const char* part : {fused ? "attn_qkv" : "attn_k", fused ? "ffn_up" : "attn_v", ""}) {
      double squared = 0;
      std::vector<std::pair<Parameter*, std::vector<float>>> moved;
      for (Parameter* p : trainer.parameters()) {
        if (p->name.find(part) == std::string::npos) continue;
        squared += squaredNorm(p->gradient);
        moved.emplace_back(p, p->value);
      }
      // gemma: wide enough to average over the steps of llama.cpp's gelu table.
      const bool steps = std::strncmp(c.architecture, "gemma", 5) == 0;
      const double norm = std::sqrt(squared), h = steps ? 5e-2 : 3e-3;
      const auto lossAt = [&](double by) {
        for (auto& [p, value] : moved) {
          for (std::size_t i = 0; i < value.size(); ++i)
            p->value[i] = static_cast<float>(static_cast<double>(value[i]) +
                                             by * static_cast<double>(p->gradient[i]) / norm);
        }
        return llamaLoss();
      };
      const double slope =
          (8 * (lossAt(h) - lossAt(-h)) - (lossAt(2 * h) - lossAt(-2 * h))) / (12 * h);
      for (auto& [p, value] : moved) p->value = value;
      std::printf("     %s %s: slope %.6f, norm of the gradient %.6f\n", c.architecture,
                  *part ? part : "all", slope, norm);
      CHECK(norm > 0);
      CHECK_NEAR(slope / norm, 1, steps ? 1e-2 : 1e-3);
    }
  }
}
