// The trainer's state as bytes, little-endian: everything that the next step depends on besides the
// model, the data and the options. Layout: magic, version, step, generator, LoRA modules (layer,
// module, scale, dropout), parameters (name, rows, columns, rate factor, counters, values,
// moments).
#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "support/byte_writer.h"
#include "support/error.h"
#include "training/trainer.h"

namespace isopro::training {
namespace {

constexpr char kMagic[8] = {'I', 'S', 'O', 'P', 'R', 'O', 'T', 'S'};
constexpr std::uint32_t kVersion = 1;

static_assert(sizeof(float) == 4 && sizeof(double) == 8);

class ByteReader {
 public:
  explicit ByteReader(const std::vector<std::uint8_t>& bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    T value;
    raw(&value, sizeof value);
    return value;
  }
  std::string text() {
    const auto size = get<std::uint32_t>();
    return {reinterpret_cast<const char*>(take(size)), size};
  }
  template <typename T>
  void array(std::vector<T>& values) {
    raw(values.data(), values.size() * sizeof(T));
  }
  void need(std::uint64_t size) const {
    if (size > bytes_.size() - at_)
      throw Error(ErrorCode::adapterCorrupt, "the trainer's state ends too early");
  }
  bool done() const { return at_ == bytes_.size(); }

 private:
  // Before anything is allocated for them: a size that was made up takes no memory.
  const std::uint8_t* take(std::size_t size) {
    need(size);
    const std::uint8_t* from = bytes_.data() + at_;
    at_ += size;
    return from;
  }
  void raw(void* to, std::size_t size) {
    const std::uint8_t* from = take(size);
    if (size > 0) std::memcpy(to, from, size);
  }

  const std::vector<std::uint8_t>& bytes_;
  std::size_t at_ = 0;
};

template <typename T>
void putArray(ByteWriter& w, const std::vector<T>& values) {
  w.raw(values.data(), values.size() * sizeof(T));
}

void putParameter(ByteWriter& w, const Parameter& p) {
  w.text<std::uint32_t>(p.name);
  w.put(p.rows);
  w.put(p.columns);
  w.put(p.learningRateFactor);
  putArray(w, p.steps);
  putArray(w, p.value);
  putArray(w, p.firstMoment);
  putArray(w, p.secondMoment);
}

Parameter getParameter(ByteReader& r) {
  std::string name = r.text();
  const auto rows = r.get<std::int64_t>(), columns = r.get<std::int64_t>();
  const auto factor = r.get<float>();
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  if (rows < 1 || columns < 1 || rows > kLimit || columns > kLimit)
    throw Error(ErrorCode::adapterCorrupt, "the trainer's state has an impossible shape");
  r.need(static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(columns) * 3 *
         sizeof(float));
  Parameter p(std::move(name), rows, columns);
  p.learningRateFactor = factor;
  r.array(p.steps);
  r.array(p.value);
  r.array(p.firstMoment);
  r.array(p.secondMoment);
  return p;
}

}  // namespace

std::vector<std::uint8_t> Trainer::state() {
  ByteWriter w;
  w.raw(kMagic, sizeof kMagic);
  w.put(kVersion);
  w.put(step_);
  for (const std::uint64_t word : random_.state()) w.put(word);
  w.put(static_cast<std::uint32_t>(loras().size()));
  for (std::size_t layer = 0; layer < model_->layers.size(); ++layer) {
    for (int module = 0; module < kModules; ++module) {
      const Lora* lora = model_->layers[layer].linear[module].lora.get();
      if (lora == nullptr) continue;
      w.put(static_cast<std::int64_t>(layer));
      w.put(static_cast<std::int32_t>(module));
      w.put(lora->scale);
      w.put(lora->dropout);
    }
  }
  const std::vector<Parameter*> all = parameters();
  w.put(static_cast<std::uint32_t>(all.size()));
  for (const Parameter* p : all) putParameter(w, *p);
  return std::move(w.bytes);
}

// Everything is read and checked before anything is changed.
void Trainer::loadState(const std::vector<std::uint8_t>& bytes) {
  ByteReader r(bytes);
  for (const char expected : kMagic) {
    if (r.get<char>() != expected)
      throw Error(ErrorCode::adapterCorrupt, "these bytes are not a trainer's state");
  }
  if (r.get<std::uint32_t>() != kVersion)
    throw Error(ErrorCode::adapterCorrupt, "the trainer's state is of another version");
  const auto step = r.get<std::int64_t>();
  std::array<std::uint64_t, 4> random{};
  for (std::uint64_t& word : random) word = r.get<std::uint64_t>();
  std::vector<Target> targets(std::min<std::uint32_t>(r.get<std::uint32_t>(), 1u << 20));
  for (Target& target : targets) {
    target.layer = r.get<std::int64_t>();
    target.module = r.get<std::int32_t>();
    target.scale = r.get<float>();
    target.dropout = r.get<float>();
    if (target.layer < 0 || target.layer >= model_->hyper.layers || target.module < 0 ||
        target.module >= kModules ||
        !model_->layers[static_cast<std::size_t>(target.layer)].linear[target.module]) {
      throw Error(ErrorCode::adapterMismatch,
                  "the trainer's state adapts a layer that this model does not have");
    }
  }
  std::map<std::string, Parameter> stored;
  for (auto count = r.get<std::uint32_t>(); count > 0; --count) {
    Parameter p = getParameter(r);
    stored.insert_or_assign(p.name, std::move(p));
  }
  if (!r.done())
    throw Error(ErrorCode::adapterCorrupt, "the trainer's state has bytes after its end");
  if (targets.empty() != options_.allWeights)
    throw Error(ErrorCode::adapterMismatch, "the state is of the other kind of training");

  std::size_t expected = 0;
  const auto find = [&](const std::string& name, std::int64_t columns) -> Parameter& {
    const auto found = stored.find(name);
    if (found == stored.end() || found->second.columns != columns)
      throw Error(ErrorCode::adapterMismatch,
                  "the state has no " + name + " of width " + std::to_string(columns));
    ++expected;
    return found->second;
  };
  if (options_.allWeights) {
    for (const Parameter* p : parameters()) {
      if (find(p->name, p->columns).rows != p->rows)
        throw Error(ErrorCode::adapterMismatch, "the state has another shape for " + p->name);
    }
    for (Parameter* p : parameters()) {
      const Parameter& from = stored.at(p->name);
      // Copied, not moved: the model's matrices point into `value`.
      std::copy(from.value.begin(), from.value.end(), p->value.begin());
      p->firstMoment = from.firstMoment, p->secondMoment = from.secondMoment, p->steps = from.steps;
    }
  } else {
    std::vector<std::unique_ptr<Lora>> loaded;
    for (const Target& target : targets) {
      const Linear& linear =
          model_->layers[static_cast<std::size_t>(target.layer)].linear[target.module];
      auto lora = std::make_unique<Lora>();
      lora->module = moduleName(target.layer, target.module);
      lora->scale = target.scale;
      lora->dropout = target.dropout;
      lora->dropoutKey = dropoutKey(target.layer, target.module);
      lora->a = find(lora->module + ".A", linear.inputs());
      lora->b = find(lora->module + ".B", linear.outputs());
      if (lora->a.rows != lora->b.rows)
        throw Error(ErrorCode::adapterCorrupt,
                    "the state's factors of " + lora->module + " differ in rank");
      lora->activity.resize(static_cast<std::size_t>(lora->rank()));
      lora->baseNorm = linear.lora ? linear.lora->baseNorm : frobeniusNorm(engine_, linear.weight);
      loaded.push_back(std::move(lora));
    }
    if (expected != stored.size())
      throw Error(ErrorCode::adapterCorrupt, "the state holds parameters without a target");
    for (Layer& layer : model_->layers) {
      for (Linear& linear : layer.linear) linear.lora.reset();
    }
    for (std::size_t i = 0; i < targets.size(); ++i) {
      model_->layers[static_cast<std::size_t>(targets[i].layer)].linear[targets[i].module].lora =
          std::move(loaded[i]);
    }
  }
  step_ = step;
  random_.setState(random);
}

}  // namespace isopro::training
