// The bytes of adapters, models and states against writers of the tests' own, and what each reader
// refuses, with its reason.
#include <cstring>
#include <limits>

#include "gguf_bytes.h"
#include "gradient_check.h"
#include "support/error.h"
#include "temporary_file.h"
#include "training/adapter_file.h"
#include "training/model_file.h"
#include "write_model.h"

using namespace isopro;
using namespace isopro::testing;
using test::Bytes;

namespace {

using Data = std::vector<std::uint8_t>;

Data bytesOf(const std::vector<float>& values) {
  Data data(values.size() * sizeof(float));
  std::memcpy(data.data(), values.data(), data.size());
  return data;
}

std::vector<float> random(std::uint64_t seed, std::int64_t count) {
  Random draws(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(draws.nextDouble() * 2 - 1);
  return values;
}

// [rows, columns] to [columns, rows].
std::vector<float> turned(const std::vector<float>& values, std::size_t rows) {
  std::vector<float> result;
  for (std::size_t c = 0; c < values.size() / rows; ++c) {
    for (std::size_t r = 0; r < rows; ++r) result.push_back(values[r * (values.size() / rows) + c]);
  }
  return result;
}

struct Stored {
  std::string name;
  std::vector<std::uint64_t> dimensions;
  ggml_type type;
  Data data;
};

using Entry = std::function<void(Bytes&)>;
template <typename Value>
Entry entry(const std::string& key, Value value) {
  return [key, value](Bytes& bytes) { bytes.entry(key, value); };
}

Bytes gguf(const std::vector<Entry>& entries, const std::vector<Stored>& tensors,
           std::size_t alignment = 32) {
  Bytes bytes;
  bytes.header(tensors.size(), entries.size());
  for (const Entry& each : entries) each(bytes);
  std::uint64_t offset = 0;
  for (const Stored& tensor : tensors) {
    bytes.tensor(tensor.name, tensor.dimensions, static_cast<std::uint32_t>(tensor.type), offset);
    offset = (offset + tensor.data.size() + alignment - 1) / alignment * alignment;
  }
  bytes.pad(alignment);
  for (const Stored& tensor : tensors) {
    bytes.insert(bytes.end(), tensor.data.begin(), tensor.data.end());
    bytes.pad(alignment);
  }
  return bytes;
}

Data wholeFile(ModelFile& file) {
  Data bytes;
  for (auto piece = file.next(); !piece.empty(); piece = file.next())
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

struct AdapterBytes {
  std::vector<Entry> entries = {entry("general.type", "adapter"),
                                entry("general.architecture", "llama"),
                                entry("adapter.type", "lora"), entry("adapter.lora.alpha", 6.0f)};
  std::vector<Stored> tensors = {
      {"blk.0.attn_q.weight.lora_a", {5, 2}, GGML_TYPE_F32, bytesOf(random(1, 10))},
      {"blk.0.attn_q.weight.lora_b", {2, 7}, GGML_TYPE_F32, bytesOf(random(2, 14))}};

  AdapterFile read() const {
    const TemporaryFile file("adapter.gguf");
    file.write(gguf(entries, tensors));
    return readAdapter(file.path());
  }
};

}  // namespace

TEST(adapters_are_written_byte_for_byte) {
  Shape shape;
  for (const bool common : {true, false}) {
    TrainerOptions options;
    options.targets = {
        {0, kQuery, 2, 1.5f, 0}, {1, kKey, 3, common ? 1.0f : 2.0f, 0}, {1, kDown, 6, 0.5f, 0}};
    Trainer trainer(randomModel("llama", shape, 1), options);
    randomiseB(trainer, 4);
    std::vector<Entry> entries = {
        entry("general.type", "adapter"), entry("general.architecture", "llama"),
        entry("adapter.type", "lora"), entry("adapter.lora.alpha", common ? 3.0f : 0.0f)};
    std::vector<Stored> tensors;
    for (const Lora* lora : trainer.loras()) {
      const auto in = static_cast<std::uint64_t>(lora->a.columns),
                 out = static_cast<std::uint64_t>(lora->b.columns),
                 rank = static_cast<std::uint64_t>(lora->rank());
      std::vector<float> b = turned(lora->b.value, rank);
      if (!common) {
        for (float& value : b) value *= lora->scale;
      }
      tensors.push_back(
          {lora->module + ".weight.lora_a", {in, rank}, GGML_TYPE_F32, bytesOf(lora->a.value)});
      tensors.push_back({lora->module + ".weight.lora_b", {rank, out}, GGML_TYPE_F32, bytesOf(b)});
    }
    CHECK(encodeAdapter(trainer) == gguf(entries, tensors));
    entries.push_back(entry("isopro.base_model.sha256", std::string(64, 'c')));
    CHECK(encodeAdapter(trainer, std::string(64, 'c')) == gguf(entries, tensors));
  }
}

TEST(adapters_are_read_value_for_value) {
  AdapterBytes bytes;
  bytes.entries.push_back(entry("general.name", "mine"));
  bytes.entries.push_back(entry("general.base_model.0.name", "base"));
  bytes.entries.push_back(entry("isopro.base_model.sha256", "abc"));
  const AdapterFile file = bytes.read();
  CHECK(file.architecture == "llama" && file.name == "mine" && file.baseName == "base" &&
        file.baseSha256 == "abc");
  CHECK(file.modules.size() == 1);
  const AdapterModule& m = file.modules[0];
  CHECK(m.name == "blk.0.attn_q" && m.rank == 2 && m.in == 5 && m.out == 7 && m.scale == 3);
  CHECK(m.a == random(1, 10) && m.b == turned(random(2, 14), 7));
  // Without an alpha, or with one of 0, the scale is 1. Factors of other types are read as numbers.
  bytes.entries[3] = entry("adapter.lora.alpha", 0.0f);
  CHECK(bytes.read().modules[0].scale == 1);
  bytes.entries.erase(bytes.entries.begin() + 3);
  CHECK(bytes.read().modules[0].scale == 1);
  Data halves(20);
  ggml_fp32_to_fp16_row(random(1, 10).data(), reinterpret_cast<ggml_fp16_t*>(halves.data()), 10);
  bytes.tensors[0].type = GGML_TYPE_F16, bytes.tensors[0].data = halves;
  for (std::size_t i = 0; i < 10; ++i)
    CHECK_NEAR(bytes.read().modules[0].a[i], random(1, 10)[i], 1e-3);
  // The widest rank.
  AdapterBytes widest;
  widest.tensors = {{"blk.0.attn_q.weight.lora_a", {2, 2}, GGML_TYPE_F32, bytesOf(random(1, 4))},
                    {"blk.0.attn_q.weight.lora_b", {2, 7}, GGML_TYPE_F32, bytesOf(random(2, 14))}};
  CHECK(widest.read().modules[0].rank == 2);
}

TEST(adapter_files_are_refused_with_their_reason) {
  const auto refused = [](const std::function<void(AdapterBytes&)>& spoil, const char* code,
                          const char* reason) {
    AdapterBytes bytes;
    spoil(bytes);
    CHECK_SAYS(bytes.read(), code, reason);
  };
  const float inf = std::numeric_limits<float>::infinity();
  refused([](auto& b) { b.entries[0] = entry("general.type", "model"); }, "ADAPTER_MISMATCH",
          "this is a whole model, not an adapter");
  refused([](auto& b) { b.entries[0] = entry("general.type", "mmproj"); }, "ADAPTER_CORRUPT",
          "this is not a LoRA adapter");
  refused([](auto& b) { b.entries.erase(b.entries.begin()); }, "ADAPTER_CORRUPT",
          "this is not a LoRA adapter");
  refused([](auto& b) { b.entries[2] = entry("adapter.type", "dora"); }, "ADAPTER_CORRUPT",
          "this is not a LoRA adapter");
  refused([](auto& b) { b.entries.push_back(entry("adapter.alora.invocation_tokens", 4u)); },
          "ADAPTER_CORRUPT", "is not an array of u32");
  refused([&](auto& b) { b.entries[3] = entry("adapter.lora.alpha", inf); }, "ADAPTER_CORRUPT",
          "its alpha is not finite");
  refused([](auto& b) { b.tensors.pop_back(); }, "ADAPTER_CORRUPT",
          "only one factor of \"blk.0.attn_q\"");
  refused([](auto& b) { b.tensors.clear(); }, "ADAPTER_CORRUPT", "it adapts nothing");
  refused(
      [](auto& b) { b.tensors[0].name = ".weight.lora_a", b.tensors[1].name = ".weight.lora_b"; },
      "ADAPTER_CORRUPT", "it adapts nothing");
  refused(
      [](auto& b) {
        b.tensors.push_back({"token_embd", {2}, GGML_TYPE_F32, Data(8)});
      },
      "ADAPTER_MISMATCH", "more than matrices of blocks");
  refused(
      [](auto& b) {
        b.tensors[0].dimensions = {5, 3}, b.tensors[0].data.resize(60);
      },
      "ADAPTER_CORRUPT", "differ in rank");
  refused(
      [](auto& b) {
        b.tensors[1].dimensions = {3, 7}, b.tensors[1].data.resize(84);
      },
      "ADAPTER_CORRUPT", "differ in rank");
  for (const bool narrowIn : {true, false}) {
    refused(
        [&](auto& b) {
          b.tensors = {{"blk.0.attn_q.weight.lora_a",
                        {narrowIn ? 2u : 9u, 3},
                        GGML_TYPE_F32,
                        Data(narrowIn ? 24 : 108)},
                       {"blk.0.attn_q.weight.lora_b",
                        {3, narrowIn ? 9u : 2u},
                        GGML_TYPE_F32,
                        Data(narrowIn ? 108 : 24)}};
        },
        "ADAPTER_CORRUPT", "the rank of \"blk.0.attn_q\" exceeds its width");
  }
  for (const std::size_t which : {0, 1}) {
    const char* const name =
        which == 0 ? "blk.0.attn_q.weight.lora_a" : "blk.0.attn_q.weight.lora_b";
    refused(
        [&](auto& b) {
          auto& t = b.tensors[which];
          t.dimensions.push_back(2), t.data.resize(2 * t.data.size());
        },
        "ADAPTER_CORRUPT", (std::string(name) + "\" is no matrix of numbers").c_str());
    refused([&](auto& b) { b.tensors[which].type = GGML_TYPE_I32; }, "ADAPTER_CORRUPT",
            "is no matrix of numbers");
    refused(
        [&](auto& b) {
          const float value = which == 0 ? NAN : inf;
          std::memcpy(b.tensors[which].data.data() + b.tensors[which].data.size() - 4, &value, 4);
        },
        "NUMERIC_FAILURE", (std::string(name) + "\" holds a value that is not finite").c_str());
  }
}

namespace {

struct FileKind {
  const char* name;
  ggml_type type;
  std::uint32_t id;  // llama.cpp's llama_ftype
};
constexpr FileKind kKinds[] = {
    {"f32", GGML_TYPE_F32, 0},    {"f16", GGML_TYPE_F16, 1},    {"bf16", GGML_TYPE_BF16, 32},
    {"q8_0", GGML_TYPE_Q8_0, 7},  {"q4_0", GGML_TYPE_Q4_0, 2},  {"q5_0", GGML_TYPE_Q5_0, 8},
    {"q4_k", GGML_TYPE_Q4_K, 14}, {"q5_k", GGML_TYPE_Q5_K, 16}, {"q6_k", GGML_TYPE_Q6_K, 18}};

Data encoded(ggml_type type, const std::vector<float>& values, std::int64_t columns) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
  Data data(ggml_row_size(type, columns) * static_cast<std::size_t>(rows));
  ggml_quantize_chunk(type, values.data(), data.data(), 0, rows, columns, nullptr);
  return data;
}

std::vector<float> decoded(ggml_type type, const Data& data, std::size_t count) {
  std::vector<float> values(count);
  if (type == GGML_TYPE_F32) std::memcpy(values.data(), data.data(), data.size());
  if (type != GGML_TYPE_F32)
    ggml_get_type_traits(type)->to_float(data.data(), values.data(),
                                         static_cast<std::int64_t>(count));
  return values;
}

// Two matrices whose rows are blocks of any type, one whose rows are of none, single rows, and
// numbers that are no weights.
std::vector<Stored> sourceTensors() {
  return {
      {"token_embd.weight", {256, 3}, GGML_TYPE_F32, bytesOf(random(1, 768))},
      {"output_norm.weight", {256}, GGML_TYPE_F32, bytesOf(random(2, 256))},
      {"odd.weight", {40, 4}, GGML_TYPE_F16, encoded(GGML_TYPE_F16, random(3, 160), 40)},
      {"row.weight", {256, 1}, GGML_TYPE_F16, encoded(GGML_TYPE_F16, random(4, 256), 256)},
      {"numbers", {8, 2}, GGML_TYPE_I32, Data(64, 3)},
      {"blocks.weight", {256, 2}, GGML_TYPE_Q8_0, encoded(GGML_TYPE_Q8_0, random(5, 512), 256)}};
}

std::vector<Entry> sourceEntries(bool named, std::uint32_t id) {
  std::vector<Entry> entries = {entry("general.architecture", "llama"),
                                entry("general.alignment", 64u)};
  if (named) entries.push_back(entry("general.file_type", id));
  entries.push_back(entry("tokenizer.ggml.tokens", std::vector<std::string>{"a", "bc"}));
  return entries;
}

}  // namespace

TEST(models_are_written_byte_for_byte_in_every_type) {
  for (const bool named : {true, false}) {
    for (const bool versioned : {true, false}) {
      auto entries = sourceEntries(named, 99);
      if (versioned) entries.push_back(entry("general.quantization_version", 2u));
      const Bytes bytes = gguf(entries, sourceTensors(), 64);
      const auto source = std::make_shared<const GgufFile>(bytes.parse());
      for (const FileKind& kind : kKinds) {
        auto tensors = sourceTensors();
        std::map<std::string, std::int64_t> types;
        bool quantised = false;
        for (Stored& tensor : tensors) {
          if (tensor.dimensions.size() == 2 && tensor.dimensions[1] > 1 &&
              tensor.type != GGML_TYPE_I32) {
            const auto columns = static_cast<std::int64_t>(tensor.dimensions[0]);
            const auto values = decoded(tensor.type, tensor.data,
                                        static_cast<std::size_t>(columns) * tensor.dimensions[1]);
            const ggml_type type =
                columns % ggml_blck_size(kind.type) == 0 ? kind.type : GGML_TYPE_F16;
            if (type != tensor.type) tensor.data = encoded(type, values, columns);
            tensor.type = type;
          }
          ++types[ggml_type_name(tensor.type)];
          quantised = quantised || ggml_is_quantized(tensor.type);
        }
        auto expected = sourceEntries(named, kind.id);
        if (versioned) expected.push_back(entry("general.quantization_version", 2u));
        if (!named) expected.push_back(entry("general.file_type", kind.id));
        if (!versioned && quantised) expected.push_back(entry("general.quantization_version", 2u));
        ModelFile file(source, kind.name);
        const auto written = wholeFile(file);
        check::report(written == gguf(expected, tensors, 64), __FILE__, __LINE__,
                      std::string(kind.name) + " has other bytes");
        CHECK(file.size() == written.size() && file.types() == types);
      }
    }
  }
}

TEST(a_model_file_without_weights_in_a_type_names_the_one_that_was_asked_for) {
  for (const std::size_t alone : {1, 4}) {  // a vector, and numbers that are no weights
    const Bytes bytes = gguf({entry("general.architecture", "llama")}, {sourceTensors()[alone]});
    for (const FileKind& kind : kKinds) {
      ModelFile file(std::make_shared<const GgufFile>(bytes.parse()), kind.name);
      const auto written = wholeFile(file);
      CHECK(GgufFile::parse(written.data(), written.size()).integer("general.file_type") ==
            kind.id);
    }
  }
}

// A matrix of more than one piece, with an adapter of rank 2 and another one replaced.
TEST(changes_of_a_large_matrix_reach_every_row) {
  constexpr std::size_t rows = 2100, columns = 1024;
  std::vector<Stored> tensors = {
      {"large.weight", {columns, rows}, GGML_TYPE_F32, bytesOf(random(1, rows * columns))},
      {"small.weight", {32, 2}, GGML_TYPE_F32, bytesOf(random(2, 64))},
      {"norm.weight", {32}, GGML_TYPE_F16, encoded(GGML_TYPE_F16, random(3, 32), 32)}};
  const Bytes bytes = gguf({entry("general.file_type", 0u)}, tensors);
  const auto source = std::make_shared<const GgufFile>(bytes.parse());
  const auto a = random(4, 2 * columns), b = random(5, 2 * rows);
  ModelFile file(source, "f32");
  file.adapt("large.weight", 0.5f, a, b);
  file.replace("small.weight", random(6, 64));
  file.replace("norm.weight", random(7, 32));
  const std::size_t header = file.next().size();
  std::vector<std::size_t> pieces;
  Data written(header);
  for (auto piece = file.next(); !piece.empty(); piece = file.next()) {
    pieces.push_back(piece.size());
    written.insert(written.end(), piece.begin(), piece.end());
  }
  CHECK((pieces == std::vector<std::size_t>{2048 * columns * 4, 52 * columns * 4, 256, 128}));
  CHECK(file.next().empty() && file.size() == written.size());
  auto values = random(1, rows * columns);
  const auto found =
      decoded(GGML_TYPE_F32,
              {written.begin() + static_cast<std::ptrdiff_t>(header),
               written.begin() + static_cast<std::ptrdiff_t>(header + rows * columns * 4)},
              rows * columns);
  double most = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      double value = values[r * columns + c];
      for (std::size_t j = 0; j < 2; ++j)
        value +=
            0.5 * static_cast<double>(b[j * rows + r]) * static_cast<double>(a[j * columns + c]);
      most = std::max(most, std::fabs(value - static_cast<double>(found[r * columns + c])));
    }
  }
  CHECK_NEAR(most, 0, 1e-6);
  const Data rest(written.end() - 384, written.end());
  auto expected = bytesOf(random(6, 64));
  const auto norm = bytesOf(random(7, 32));
  expected.insert(expected.end(), norm.begin(), norm.end());
  CHECK(rest == expected);

  // Quantised in two pieces as in one.
  ModelFile blocks(source, "q8_0");
  blocks.next();
  Data first = blocks.next();
  const Data second = blocks.next();
  first.insert(first.end(), second.begin(), second.end());
  CHECK(first == encoded(GGML_TYPE_Q8_0, values, columns));
}

TEST(values_that_a_type_does_not_hold_are_refused) {
  const Bytes bytes = gguf({entry("general.file_type", 0u)},
                           {{"w.weight", {32, 2}, GGML_TYPE_F32, bytesOf(random(2, 64))}});
  const auto source = std::make_shared<const GgufFile>(bytes.parse());
  const auto writes = [&](const char* type, float value) {
    ModelFile file(source, type);
    std::vector<float> values(64, 1);
    values[63] = value;
    file.replace("w.weight", values);
    return wholeFile(file).size();
  };
  for (const char* type : {"f16", "q8_0", "q4_0"}) {
    CHECK(writes(type, 65504) > 0 && writes(type, -65504) > 0);
    CHECK_SAYS(writes(type, 65505), "NUMERIC_FAILURE",
               std::string("tensor w.weight holds 65505.000000, which ") + type + " cannot hold");
    CHECK_SAYS(writes(type, -70000), "NUMERIC_FAILURE", "holds -70000.000000");
  }
  for (const char* type : {"f32", "bf16"}) {
    CHECK(writes(type, 1e30f) > 0);
    CHECK_SAYS(writes(type, INFINITY), "NUMERIC_FAILURE", "holds inf");
    CHECK_SAYS(writes(type, NAN), "NUMERIC_FAILURE", "nan");
  }
  ModelFile file(source, "f32");
  for (const auto& [a, b] :
       {std::pair{0, 0}, {31, 2}, {33, 2}, {32, 1}, {32, 3}, {64, 2}, {32, 4}}) {
    CHECK_SAYS(file.adapt("w.weight", 1, std::vector<float>(static_cast<std::size_t>(a)),
                          std::vector<float>(static_cast<std::size_t>(b))),
               "INVALID_ARGUMENT", "the factors of w.weight have other shapes");
  }
  file.adapt("w.weight", 1, std::vector<float>(64), std::vector<float>(4));
  for (const std::size_t size : {63, 65})
    CHECK_SAYS(file.replace("w.weight", std::vector<float>(size)), "INVALID_ARGUMENT",
               "another size");
}

TEST(trained_weights_and_merged_adapters_come_out_as_models) {
  Shape shape;
  const TemporaryFile path("model.gguf"), trained("trained.gguf");
  writeModel(*randomModel("qwen3", shape, 1), path.path());
  TrainerOptions options;
  options.allWeights = true;
  options.optimiser.learningRate = 0.01f;
  Trainer all(path.path(), options);
  CHECK(all.information().modelBytes == std::filesystem::file_size(path.path()));
  all.step(randomBatch(shape, 3), {}, kNever);
  trained.write(wholeFile(*trainedModel(all, "f32")));
  Trainer read(trained.path(), options);
  CHECK(read.parameters().size() == all.parameters().size());
  for (std::size_t i = 0; i < all.parameters().size(); ++i)
    CHECK(read.parameters()[i]->value == all.parameters()[i]->value);

  Trainer adapted(path.path(), allTargets(shape));
  randomiseB(adapted, 3);
  CHECK(wholeFile(*mergedModel(path.path(), factorsOf(adapted), "f32")) ==
        wholeFile(*trainedModel(adapted, "f32")));
  auto modules = factorsOf(adapted);
  modules[0].in += 1;
  CHECK_SAYS(mergedModel(path.path(), modules, "f32"), "ADAPTER_MISMATCH",
             "blk.0.attn_q is 64 x 65, the model's 64 x 64");
}

TEST(models_that_cannot_be_trained_are_refused_by_name) {
  using Change = std::function<void(ModelWeights&)>;
  const auto refused = [](const char* architecture, const Change& spoil, const char* code,
                          const std::string& reason) {
    Shape shape;
    shape.biases = true;
    shape.ropeFactors = true;
    const TemporaryFile file("model.gguf");
    auto model = randomModel(architecture, shape, 1);
    spoil(*model);
    writeModel(*model, file.path());
    CHECK_SAYS(loadWeights(file.path()), code, reason);
  };
  struct Vector {
    const char* architecture;
    std::string name;
    std::function<std::vector<float>&(ModelWeights&)> of;
    bool optional;
  };
  const Vector vectors[] = {
      {"llama", "output_norm.weight",
       [](ModelWeights& m) -> std::vector<float>& { return m.outputNorm.weight; }, false},
      {"llama", "rope_freqs.weight",
       [](ModelWeights& m) -> std::vector<float>& { return m.ropeFactors; }, true},
      {"llama", "blk.1.attn_norm.weight",
       [](ModelWeights& m) -> std::vector<float>& { return m.layers[1].attentionNorm.weight; },
       false},
      {"llama", "blk.0.ffn_norm.weight",
       [](ModelWeights& m) -> std::vector<float>& { return m.layers[0].feedForwardNorm.weight; },
       false},
      {"qwen2", "blk.1.attn_k.bias",
       [](ModelWeights& m) -> std::vector<float>& { return m.layers[1].linear[kKey].bias; }, true},
      {"qwen3", "blk.0.attn_q_norm.weight",
       [](ModelWeights& m) -> std::vector<float>& { return m.layers[0].queryNorm.weight; }, false},
      {"qwen3", "blk.1.attn_k_norm.weight",
       [](ModelWeights& m) -> std::vector<float>& { return m.layers[1].keyNorm.weight; }, false},
      {"gemma2", "blk.0.post_attention_norm.weight",
       [](ModelWeights& m) -> std::vector<float>& { return m.layers[0].attentionPostNorm.weight; },
       false},
      {"gemma2", "blk.1.post_ffw_norm.weight",
       [](ModelWeights& m) -> std::vector<float>& {
         return m.layers[1].feedForwardPostNorm.weight;
       },
       false}};
  for (const auto& vector : vectors) {
    const auto& of = vector.of;
    refused(
        vector.architecture, [&](auto& m) { of(m).pop_back(); }, "MODEL_CORRUPT",
        "tensor " + vector.name + " has another shape");
    refused(
        vector.architecture, [&](auto& m) { of(m).back() = NAN; }, "NUMERIC_FAILURE",
        "tensor " + vector.name + " holds a value");
    if (vector.optional) continue;
    refused(
        vector.architecture, [&](auto& m) { of(m).clear(); }, "MODEL_CORRUPT",
        "tensor " + vector.name + " is missing");
  }
  for (int module = 0; module < kFused; ++module) {  // no llama has the fused one
    const std::string name = "tensor " + moduleName(1, module) + ".weight ";
    refused(
        "llama", [&](auto& m) { m.layers[1].linear[module].weight.rows -= 1; }, "MODEL_CORRUPT",
        name + "has another shape");
    refused(
        "llama",
        [&](auto& m) {
          Matrix& w = m.layers[1].linear[module].weight;
          w.rows *= 2, w.columns /= 2;
        },
        "MODEL_CORRUPT", name + "has another shape");
    refused(
        "llama", [&](auto& m) { m.layers[1].linear[module].weight.type = GGML_TYPE_I32; },
        "MODEL_UNSUPPORTED", name + "of type i32");
  }
}

TEST(models_are_loaded_with_every_bias) {
  Shape shape;
  shape.ropeFactors = true;
  for (const bool tied : {false, true}) {
    shape.tied = tied;
    auto model = randomModel("llama", shape, 1);
    std::uint64_t seed = 0;
    for (Layer& layer : model->layers) {
      for (Linear& linear : layer.linear) linear.bias = random(++seed, linear.outputs());
    }
    const TemporaryFile file("model.gguf");
    writeModel(*model, file.path());
    const auto read = loadWeights(file.path());
    CHECK(read->tied == tied && read->frozenBytes == std::filesystem::file_size(file.path()) &&
          read->head.bias.empty());
    CHECK((read->head.weight.data == read->embedding.data) == tied &&
          read->ropeFactors == model->ropeFactors);
    for (std::size_t i = 0; i < 2; ++i) {
      for (int m = 0; m < kFused; ++m) {
        const Linear &ours = read->layers[i].linear[m], &theirs = model->layers[i].linear[m];
        CHECK(ours.bias == theirs.bias && ours.weight.rows == theirs.weight.rows &&
              ours.weight.columns == theirs.weight.columns);
        CHECK(std::memcmp(ours.weight.data, theirs.weight.data,
                          theirs.weight.rowBytes * static_cast<std::size_t>(theirs.weight.rows)) ==
              0);
      }
    }
  }
  const char* const names[kModules] = {"q", "k", "v", "o", "gate", "up", "down", "qkv"};
  const char* const tensors[kModules] = {"attn_q",   "attn_k", "attn_v",   "attn_output",
                                         "ffn_gate", "ffn_up", "ffn_down", "attn_qkv"};
  for (int m = 0; m < kModules; ++m) {
    CHECK(moduleNamed(names[m]) == m && std::string(moduleTensor(m)) == tensors[m]);
    CHECK(moduleName(12, m) == std::string("blk.12.") + tensors[m]);
  }
  for (const char* other : {"", "Q", "attn_q", "downs"}) CHECK(moduleNamed(other) == -1);
}

namespace {

// A state as state.cpp describes it, written anew.
struct StateBytes {
  std::string magic = "ISOPROTS";
  std::uint32_t version = 1;
  std::int64_t step = 0;
  std::array<std::uint64_t, 4> random{};
  std::vector<Target> targets;
  std::vector<Parameter> parameters;

  Data encode() const {
    Bytes bytes;
    bytes.insert(bytes.end(), magic.begin(), magic.end());
    bytes.number(version).number(step);
    for (const std::uint64_t word : random) bytes.number(word);
    bytes.number(static_cast<std::uint32_t>(targets.size()));
    for (const Target& t : targets)
      bytes.number(t.layer)
          .number(static_cast<std::int32_t>(t.module))
          .number(t.scale)
          .number(t.dropout);
    bytes.number(static_cast<std::uint32_t>(parameters.size()));
    for (const Parameter& p : parameters) {
      bytes.number(static_cast<std::uint32_t>(p.name.size()));
      bytes.insert(bytes.end(), p.name.begin(), p.name.end());
      bytes.number(p.rows).number(p.columns).number(p.learningRateFactor);
      for (const std::int64_t steps : p.steps) bytes.number(steps);
      for (const auto* values : {&p.value, &p.firstMoment, &p.secondMoment}) {
        for (const float value : *values) bytes.number(value);
      }
    }
    return bytes;
  }
};

}  // namespace

TEST(states_are_written_and_read_byte_for_byte) {
  Shape shape;
  TrainerOptions options;
  options.targets = {{0, kValue, 2, 1.5f, 0.25f}, {1, kUp, 3, 0.5f, 0}};
  options.seed = 12;
  options.optimiser.factorB = 2;
  Trainer trainer(randomModel("llama", shape, 1), options);
  for (int i = 0; i < 2; ++i) trainer.step(randomBatch(shape, 3), {}, kNever);
  StateBytes state;
  state.step = 2;
  Random random(12);
  for (int i = 0; i < (2 + 3) * 64; ++i) random.nextDouble();  // A's draws
  state.random = random.state();
  state.targets = options.targets;
  for (const Parameter* p : trainer.parameters()) state.parameters.push_back(*p);
  CHECK(trainer.state() == state.encode());

  // Into a trainer of other targets, whose maps are as if they had been targets from the first.
  TrainerOptions others;
  others.targets = {{0, kQuery, 1, 1, 0}, {1, kUp, 2, 1, 0}};
  Trainer other(randomModel("llama", shape, 1), others);
  other.loadState(state.encode());
  CHECK(other.state() == state.encode() && other.steps() == 2 && other.loras().size() == 2);
  for (std::size_t m = 0; m < 2; ++m) {
    const Lora &ours = *other.loras()[m], &theirs = *trainer.loras()[m];
    CHECK(ours.module == theirs.module && ours.dropoutKey == theirs.dropoutKey &&
          ours.baseNorm == theirs.baseNorm);
    CHECK(ours.activity.size() == static_cast<std::size_t>(ours.rank()) &&
          ours.b.learningRateFactor == 2);
  }
  const auto before = trainer.state();
  const auto refused = [&](const std::function<void(StateBytes&)>& spoil, const char* code,
                           const std::string& reason) {
    StateBytes spoilt = state;
    spoil(spoilt);
    CHECK_SAYS(trainer.loadState(spoilt.encode()), code, reason);
    CHECK(trainer.state() == before);
  };
  for (std::size_t i = 0; i < 8; ++i)
    refused([&](auto& s) { s.magic[i] ^= 1; }, "ADAPTER_CORRUPT",
            "these bytes are not a trainer's state");
  for (const std::uint32_t version : {0, 2})
    refused([&](auto& s) { s.version = version; }, "ADAPTER_CORRUPT", "another version");
  for (const std::int64_t layer : {-1, 2})
    refused([&](auto& s) { s.targets[0].layer = layer; }, "ADAPTER_MISMATCH",
            "a layer that this model");
  for (const int module : {-1, 7})
    refused([&](auto& s) { s.targets[1].module = module; }, "ADAPTER_MISMATCH",
            "a layer that this model");
  const std::int64_t limit = std::int64_t{1} << 31;
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-1}, limit + 1}) {
    refused([&](auto& s) { s.parameters[1].rows = size; }, "ADAPTER_CORRUPT",
            "an impossible shape");
    refused([&](auto& s) { s.parameters[1].columns = size; }, "ADAPTER_CORRUPT",
            "an impossible shape");
  }
  refused([&](auto& s) { s.parameters[1].rows = limit; }, "ADAPTER_CORRUPT", "ends too early");
  refused([&](auto& s) { s.parameters[1].columns = limit; }, "ADAPTER_CORRUPT", "ends too early");
  refused([](auto& s) { s.parameters.pop_back(); }, "ADAPTER_MISMATCH",
          "the state has no blk.1.ffn_up.B of width 96");
  refused([](auto& s) { s.parameters[0].name = "x"; }, "ADAPTER_MISMATCH",
          "the state has no blk.0.attn_v.A of width 64");
  refused([](auto& s) { s.parameters[1] = Parameter("blk.0.attn_v.B", 2, 31); }, "ADAPTER_MISMATCH",
          "no blk.0.attn_v.B of width 32");
  refused([](auto& s) { s.parameters[1] = Parameter("blk.0.attn_v.B", 3, 32); }, "ADAPTER_CORRUPT",
          "factors of blk.0.attn_v differ in rank");
  refused([](auto& s) { s.parameters.emplace_back("more", 1, 1); }, "ADAPTER_CORRUPT",
          "parameters without a target");
  refused([](auto& s) { s.targets.clear(); }, "ADAPTER_MISMATCH", "the other kind of training");
  auto bytes = state.encode();
  bytes.push_back(0);
  CHECK_SAYS(trainer.loadState(bytes), "ADAPTER_CORRUPT", "bytes after its end");
  bytes.resize(bytes.size() - 2);
  CHECK_SAYS(trainer.loadState(bytes), "ADAPTER_CORRUPT", "ends too early");

  // Of all weights: every tensor has its shape.
  TrainerOptions whole;
  whole.allWeights = true;
  Trainer all(randomModel("llama", shape, 1), whole);
  StateBytes weights;
  weights.random = Random(0).state();
  for (const Parameter* p : all.parameters()) weights.parameters.push_back(*p);
  CHECK(all.state() == weights.encode());
  weights.parameters[0].resizeRows(51);
  CHECK_SAYS(all.loadState(weights.encode()), "ADAPTER_MISMATCH",
             "the state has another shape for " + weights.parameters[0].name);
}
