// What the loss allocates, counted by replacing operator new. Not under the sanitisers, which have
// their own.
#include <atomic>
#include <cstdlib>
#include <new>

#include "check.h"
#include "reference_model.h"

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#include <malloc.h>

namespace {
std::atomic<std::int64_t> held{0}, peak{0};

void* take(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const std::int64_t now = held += static_cast<std::int64_t>(malloc_usable_size(memory));
  for (std::int64_t most = peak; now > most && !peak.compare_exchange_weak(most, now);) {
  }
  return memory;
}

void give(void* memory) {
  if (memory != nullptr) held -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
}  // namespace

void* operator new(std::size_t size) { return take(size); }
void* operator new[](std::size_t size) { return take(size); }
void operator delete(void* memory) noexcept { give(memory); }
void operator delete[](void* memory) noexcept { give(memory); }
void operator delete(void* memory, std::size_t) noexcept { give(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give(memory); }

using namespace isopro;
using namespace isopro::testing;

TEST(the_loss_needs_at_most_40_mb_for_512_labels_and_a_vocabulary_of_152_thousand) {
  for (const char* architecture :
       {"llama", "gemma2"}) {  // gemma2 caps its logits and keeps them for the backward
    Shape shape;
    shape.vocabulary = 151'936, shape.layers = 1, shape.context = 520;
    TrainerOptions options;
    options.targets = {{0, kQuery, 2, 1, 0}};
    options.threads = 2;
    Trainer trainer(randomModel(architecture, shape, 1), options);
    TrainSequence s;
    for (int t = 0; t <= 512; ++t) s.tokens.push_back(t * 290), s.labelled.push_back(t > 0);
    const MicroBatch batch = pack({&s}, true, shape.width);
    Pass pass{trainer.engine(), 513, true, true};
    const Rotations rotations;
    BlockScratch scratch;
    BlockContext context{pass, trainer.model().hyper, rotations, batch.segments, scratch};
    Buffer hidden(static_cast<std::size_t>(513 * shape.width), 0.5f), gradient(hidden.size());
    std::vector<SequenceResult> results;
    // The first time, the product's own panels grow as well; they belong to the whole step.
    headLoss(context, trainer.model(), batch, {}, 1, hidden.data(), results, gradient.data());
    const std::int64_t before = held;
    peak = before;
    headLoss(context, trainer.model(), batch, {}, 1, hidden.data(), results, gradient.data());
    std::printf("     %s: %.1f MB\n", architecture, static_cast<double>(peak - before) / 1e6);
    CHECK(peak - before > 30'000'000 && peak - before <= 40'000'000);
    CHECK(std::isfinite(results[0].loss) && results[0].loss > 0);
  }
}
#endif
