// What a step says of itself (training/statistics.h), against plain sums and matrices with known
// singular values.
#include "training/statistics.h"
#include "gradient_check.h"

using namespace isopro;
using namespace isopro::testing;

namespace {

Parameter drawn(Random& random, std::int64_t rows, std::int64_t columns) {
  Parameter p("drawn", rows, columns);
  for (float& value : p.value) value = static_cast<float>(random.nextDouble() * 2 - 1);
  return p;
}

float& at(Parameter& p, std::int64_t row, std::int64_t column) {
  return p.value[static_cast<std::size_t>(row * p.columns + column)];
}

// [rows, columns] with orthonormal rows (Gram and Schmidt).
Parameter orthonormal(Random& random, std::int64_t rows, std::int64_t columns) {
  Parameter p = drawn(random, rows, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (int twice = 0; twice < 2; ++twice) {
      for (std::int64_t j = 0; j < i; ++j) {
        double product = 0;
        for (std::int64_t k = 0; k < columns; ++k)
          product += static_cast<double>(at(p, i, k)) * static_cast<double>(at(p, j, k));
        for (std::int64_t k = 0; k < columns; ++k)
          at(p, i, k) -= static_cast<float>(product) * at(p, j, k);
      }
    }
    double squared = 0;
    for (std::int64_t k = 0; k < columns; ++k)
      squared += static_cast<double>(at(p, i, k)) * static_cast<double>(at(p, i, k));
    for (std::int64_t k = 0; k < columns; ++k)
      at(p, i, k) /= static_cast<float>(std::sqrt(squared));
  }
  return p;
}

// exp of the entropy of the normalised values, over their number.
double useOf(const Values& singular) {
  double total = 0, entropy = 0;
  for (const double value : singular) total += value;
  for (const double value : singular) {
    if (value > 0) entropy -= value / total * std::log(value / total);
  }
  return std::exp(entropy) / static_cast<double>(singular.size());
}

}  // namespace

TEST(statistics_against_explicit_matrices) {
  Shape shape;
  Trainer trainer(randomModel("llama", shape, 1), allTargets(shape));
  randomiseB(trainer, 2);
  const auto batch = randomBatch(shape, 3);
  const Lora& lora = trainer.lora("blk.1.attn_v");
  const auto product = [&] {
    Values w(static_cast<std::size_t>(lora.a.columns * lora.b.columns));
    for (std::int64_t o = 0; o < lora.b.columns; ++o) {
      for (std::int64_t i = 0; i < lora.a.columns; ++i) {
        for (std::int64_t j = 0; j < lora.rank(); ++j) {
          w[static_cast<std::size_t>(o * lora.a.columns + i)] +=
              static_cast<double>(lora.b.value[static_cast<std::size_t>(j * lora.b.columns + o)]) *
              static_cast<double>(lora.a.value[static_cast<std::size_t>(j * lora.a.columns + i)]);
        }
      }
    }
    return w;
  };
  const Values before = product();
  const StepStatistics s = trainer.step(batch, {}, kNever);
  const Values after = product();
  double changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    changed += (after[i] - before[i]) * (after[i] - before[i]);
  const auto found =
      std::find_if(s.modules.begin(), s.modules.end(),
                   [](const ModuleStatistics& m) { return m.module == "blk.1.attn_v"; });
  CHECK(found != s.modules.end());
  CHECK_NEAR(
      found->updateRatio / (static_cast<double>(lora.scale) * std::sqrt(changed) / lora.baseNorm),
      1, 1e-6);
  CHECK(found->rankUse > 1.0 / static_cast<double>(lora.rank()) && found->rankUse <= 1 + 1e-12);
  double squared = 0;
  for (const Parameter* p : trainer.parameters()) squared += squaredNorm(p->gradient);
  CHECK_NEAR(s.gradNorm, std::sqrt(squared), 1e-12);

  // A direction whose B is zero contributes nothing; equal orthogonal directions use the whole
  // rank.
  Lora& edited = trainer.lora("blk.0.ffn_up");
  std::fill(edited.b.value.begin(), edited.b.value.begin() + edited.b.columns, 0.0f);
  const StepStatistics again = trainer.differentiate(batch, {}, kNever);
  for (const ModuleStatistics& m : again.modules) {
    if (m.module == "blk.0.ffn_up")
      CHECK_NEAR(m.dormantFraction, 1.0 / static_cast<double>(edited.rank()), 1e-12);
  }
  std::fill(edited.a.value.begin(), edited.a.value.end(), 0.0f);
  std::fill(edited.b.value.begin(), edited.b.value.end(), 0.0f);
  CHECK(rankUse(edited.a, edited.b) == 0);
  for (std::int64_t j = 0; j < edited.rank(); ++j) {
    edited.a.value[static_cast<std::size_t>(j * edited.a.columns + j)] = 2;
    edited.b.value[static_cast<std::size_t>(j * edited.b.columns + 3 * j)] = 3;
  }
  CHECK_NEAR(rankUse(edited.a, edited.b), 1, 1e-9);
}

TEST(norms_and_updates_of_any_number_of_columns) {
  Random random(11);
  for (std::int64_t columns = 1; columns <= 17; ++columns) {
    Lora lora;
    lora.scale = 0.75f;
    lora.baseNorm = 3.5;
    lora.a = drawn(random, 3, columns);
    lora.b = drawn(random, 3, 18 - columns);
    Parameter nextA = drawn(random, 3, columns), nextB = drawn(random, 3, 18 - columns);
    double changed = 0, squared = 0;
    for (std::int64_t o = 0; o < lora.b.columns; ++o) {
      for (std::int64_t i = 0; i < columns; ++i) {
        double before = 0, after = 0;
        for (std::int64_t j = 0; j < 3; ++j) {
          before += static_cast<double>(at(lora.b, j, o)) * static_cast<double>(at(lora.a, j, i));
          after += static_cast<double>(at(nextB, j, o)) * static_cast<double>(at(nextA, j, i));
        }
        changed += (after - before) * (after - before);
      }
    }
    for (const float value : nextA.value)
      squared += static_cast<double>(value) * static_cast<double>(value);
    CHECK_NEAR(squaredNorm(nextA.value), squared, 1e-12);
    CHECK_NEAR(updateRatio(lora, nextA.value, nextB.value), 0.75 * std::sqrt(changed) / 3.5, 1e-6);
    CHECK(updateRatio(lora, lora.a.value, lora.b.value) == 0);
    lora.baseNorm = 0;  // of a matrix of zeros
    CHECK(updateRatio(lora, nextA.value, nextB.value) == 0);
  }
}

// B A = U^T S Q with orthonormal rows of U and Q, however the directions are mixed: A = M S Q, B =
// M^-T U.
TEST(rank_use_of_known_singular_values) {
  Random random(12);
  for (const Values& singular : {Values{1}, Values{5, 1}, Values{4, 3, 2, 1}, Values{3, 3, 3},
                                 Values{2, 0.5, 0}, Values{9, 1, 0.1, 4, 2}}) {
    const auto rank = static_cast<std::int64_t>(singular.size());
    const Parameter u = orthonormal(random, rank, 19), q = orthonormal(random, rank, 14);
    Parameter a("a", rank, 14), b("b", rank, 19);
    // M: ones on the diagonal and one entry beside it in each row; its inverse transposed is known
    // in closed form.
    const double mixed = 0.5;
    for (std::int64_t i = 0; i < rank; ++i) {
      for (std::int64_t k = 0; k < 14; ++k) {
        double value = 0;
        for (std::int64_t j = i; j < std::min(rank, i + 2); ++j) {
          value += (j == i ? 1 : mixed) * singular[static_cast<std::size_t>(j)] *
                   static_cast<double>(q.value[static_cast<std::size_t>(j * 14 + k)]);
        }
        at(a, i, k) = static_cast<float>(value);
      }
      for (std::int64_t k = 0; k < 19; ++k) {
        double value = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          value += std::pow(-mixed, static_cast<double>(i - j)) *
                   static_cast<double>(u.value[static_cast<std::size_t>(j * 19 + k)]);
        }
        at(b, i, k) = static_cast<float>(value);
      }
    }
    CHECK_NEAR(rankUse(a, b), useOf(singular), 2e-3);
  }
}

TEST(a_direction_is_dormant_at_a_fortieth_of_the_mean) {
  Lora lora;
  lora.a = Parameter("a", 3, 2);
  lora.b = Parameter("b", 3, 9);
  CHECK(dormantDirections(lora).empty());  // nothing was seen yet
  lora.activityTokens = 4;
  lora.activity = {4, 4, 4};
  CHECK(dormantDirections(lora).empty());  // B = 0
  for (std::int64_t j = 0; j < 3; ++j) at(lora.b, j, 8) = 2;
  CHECK(dormantDirections(lora).empty());
  // contributions 40, x, 80 - x of mean 40: x = 1 is a fortieth
  lora.activity = {40, 1, 79};
  CHECK(dormantDirections(lora) == std::vector<std::int64_t>{1});
  lora.activity = {40, 1.01, 78.99};
  CHECK(dormantDirections(lora).empty());
  lora.activity = {1, 0, 119};
  CHECK((dormantDirections(lora) == std::vector<std::int64_t>{0, 1}));
  // B's norm counts as much as the activity
  lora.activity = {40, 40, 40};
  at(lora.b, 2, 8) = 0;
  CHECK(dormantDirections(lora) == std::vector<std::int64_t>{2});
  lora.activity = {40, 40};  // of another rank
  CHECK(dormantDirections(lora).empty());
}
