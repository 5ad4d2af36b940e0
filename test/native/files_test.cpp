// Models and adapters as files: what is read is what was written, to the last bit, and what is not
// theirs is refused.
#include "gradient_check.h"
#include "support/error.h"
#include "temporary_file.h"
#include "training/adapter_file.h"
#include "training/model_file.h"
#include "write_model.h"

using namespace isopro;
using namespace isopro::testing;

namespace {

struct Case {
  const char* architecture;
  Shape shape;
};

std::vector<Case> everyKind() {
  Shape plain, biases, factors, tied, quantised;
  biases.headWidth = biases.width / biases.heads;
  biases.keyHeads = biases.heads;
  factors.ropeFactors = true;
  tied.tied = true;
  quantised.type = GGML_TYPE_Q8_0;
  return {{"llama", plain},  {"llama", factors}, {"llama", quantised},
          {"qwen2", biases}, {"qwen3", plain},   {"gemma2", tied}};
}

std::vector<std::uint8_t> whole(ModelFile& file) {
  std::vector<std::uint8_t> bytes;
  for (auto piece = file.next(); !piece.empty(); piece = file.next())
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  return bytes;
}

}  // namespace

TEST(a_model_file_is_read_as_it_was_written) {
  for (const auto& [architecture, shape] : everyKind()) {
    const TemporaryFile file("model.gguf"), adapter("adapter.gguf"), merged("merged.gguf");
    writeModel(*randomModel(architecture, shape, 1), file.path());
    Trainer memory(randomModel(architecture, shape, 1), allTargets(shape)),
        read(file.path(), allTargets(shape));
    const auto batch = randomBatch(shape, 3);
    CHECK(read.evaluate(batch, {}, true, kNever).loss ==
          memory.evaluate(batch, {}, true, kNever).loss);
    CHECK(read.state() == memory.state());
    randomiseB(memory, 2);
    randomiseB(read, 2);
    for (int i = 0; i < 2; ++i) memory.step(batch, {}, kNever), read.step(batch, {}, kNever);
    CHECK(read.state() == memory.state());

    // An adapter comes back with its factors; where its scales differ they are in B.
    adapter.write(encodeAdapter(read, std::string(64, 'a')));
    const AdapterFile back = readAdapter(adapter.path());
    CHECK(back.architecture == architecture && back.baseSha256 == std::string(64, 'a'));
    Trainer again(file.path(), allTargets(shape));
    again.setAdapter(back.modules);
    const double adapted = read.evaluate(batch, {}, true, kNever).loss;
    CHECK_NEAR(again.evaluate(batch, {}, true, kNever).loss, adapted, 1e-6);

    // A model with its adapter in it says what both say together; without one it is the file.
    const auto joined = trainedModel(read, "f32");
    const auto bytes = whole(*joined);
    CHECK(bytes.size() == joined->size());
    merged.write(bytes);
    Trainer one(merged.path(), allTargets(shape));
    CHECK_NEAR(one.evaluate(batch, {}, false, kNever).loss, adapted,
               shape.type == GGML_TYPE_F32 ? 1e-5 : 1e-4);
  }
}

TEST(an_adapter_with_one_alpha_keeps_its_factors_bit_for_bit) {
  Shape shape;
  TrainerOptions options;
  options.targets = {{0, 0, 2, 1.5f, 0}, {1, 3, 2, 1.5f, 0}, {1, 6, 4, 0.75f, 0}};
  Trainer trainer(randomModel("llama", shape, 1), options);
  randomiseB(trainer, 4);
  const TemporaryFile file("adapter.gguf");
  file.write(encodeAdapter(trainer));
  const auto written = factorsOf(trainer), read = readAdapter(file.path()).modules;
  CHECK(written.size() == 3 && read.size() == 3);
  for (const AdapterModule& module : written) {
    const auto found = std::find_if(read.begin(), read.end(), [&](const AdapterModule& each) {
      return each.name == module.name;
    });
    CHECK(found != read.end());
    if (found == read.end()) continue;
    CHECK(found->rank == module.rank && found->in == module.in && found->out == module.out &&
          found->scale == module.scale);
    CHECK(found->a == module.a && found->b == module.b);
  }
}

TEST(changes_of_a_model_file_that_do_not_fit_are_refused) {
  Shape shape;
  const TemporaryFile path("model.gguf");
  writeModel(*randomModel("llama", shape, 1), path.path());
  const auto source = std::make_shared<const GgufFile>(GgufFile::open(path.path()));
  CHECK_SAYS(ModelFile(source, "q9_0"), "INVALID_ARGUMENT", "cannot be written as q9_0");
  ModelFile file(source, "f32");
  CHECK_SAYS(file.replace("nothing", {}), "INVALID_ARGUMENT", "no tensor nothing");
  CHECK_SAYS(file.replace("output_norm.weight", {1}), "INVALID_ARGUMENT",
             "output_norm.weight has another size");
  CHECK_SAYS(file.adapt("blk.0.attn_q.weight", 1, {1}, {1}), "INVALID_ARGUMENT",
             "factors of blk.0.attn_q.weight");
  std::vector<float> norm(static_cast<std::size_t>(shape.width), 1);
  norm[5] = NAN;
  file.replace("output_norm.weight", norm);
  CHECK_SAYS(whole(file), "NUMERIC_FAILURE", "output_norm.weight holds");
  CHECK_THROWS(Trainer("no such file", allTargets(shape)), "MODEL_NOT_FOUND");
}
