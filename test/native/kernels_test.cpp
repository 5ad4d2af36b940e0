// Every runnable variant of every kernel against native/kernels/reference.h; backwards against
// central differences.
#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "check.h"
#include "kernels/gemm.h"
#include "kernels/reference.h"
#include "support/random.h"

using namespace isopro;
using namespace isopro::kernels;
using reference::Values;

namespace {

std::vector<float> draw(std::size_t count, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>((random.nextDouble() * 2 - 1) * scale);
  return values;
}

Values widen(const std::vector<float>& values) { return {values.begin(), values.end()}; }

void forVariants(const std::function<void(const Variant&)>& body) {
  for (const Variant* const* v = runnableVariants(); *v != nullptr; ++v) body(**v);
}

double largestDifference(const std::vector<float>& actual, const Values& expected) {
  double most = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(actual[i]) - expected[i]);
    most = difference > most || std::isnan(difference) ? difference : most;
  }
  return most;
}

struct Quantised {
  std::vector<std::uint8_t> bytes;
  Values values;  // what the bytes stand for, by ggml's own conversion
  Matrix matrix;
};

Quantised quantise(ggml_type type, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const std::vector<float> source = draw(static_cast<std::size_t>(rows * columns), seed);
  Quantised q;
  const std::size_t rowBytes = ggml_row_size(type, columns);
  q.bytes.resize(rowBytes * static_cast<std::size_t>(rows));
  std::vector<float> values(source.size());
  if (type == GGML_TYPE_F32) {
    std::memcpy(q.bytes.data(), source.data(), q.bytes.size());
    values = source;
  } else {
    ggml_quantize_chunk(type, source.data(), q.bytes.data(), 0, rows, columns, nullptr);
    ggml_get_type_traits(type)->to_float(q.bytes.data(), values.data(), rows * columns);
  }
  q.values = widen(values);
  q.matrix = {q.bytes.data(), type, rows, columns, rowBytes};
  return q;
}

Values transposed(const Values& w, std::size_t rows, std::size_t columns) {
  Values t(w.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) t[c * rows + r] = w[r * columns + c];
  }
  return t;
}

// Central difference of a scalar function at x[i].
double slope(const std::function<double(const Values&)>& f, Values x, std::size_t i,
             double h = 1e-5) {
  const double at = x[i];
  x[i] = at + h;
  const double above = f(x);
  x[i] = at - h;
  return (above - f(x)) / (2 * h);
}

double weighted(const Values& y, const std::vector<float>& weights) {
  double total = 0;
  for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * static_cast<double>(weights[i]);
  return total;
}

}  // namespace

TEST(dequantisation_is_ggmls_bit_for_bit) {
  const ggml_type types[] = {GGML_TYPE_F16,    GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                             GGML_TYPE_Q4_1,   GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q3_K,
                             GGML_TYPE_Q4_K,   GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL,
                             GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4};
  forVariants([&](const Variant& variant) {
    for (const ggml_type type : types) {
      // Random bytes reach every pattern of a block, every exponent among 512 blocks of MXFP4;
      // scales that are not finite are compared as bits too.
      const std::int64_t count = 512 * 32;
      std::vector<std::uint8_t> bytes(ggml_row_size(type, count));
      Random random(static_cast<std::uint64_t>(type) + 1);
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.nextUint64());
      // One value more than there are: nothing is written behind the last.
      std::vector<float> ours(static_cast<std::size_t>(count) + 1, -3.0f),
          theirs(static_cast<std::size_t>(count));
      CHECK(variant.dequantise(type, bytes.data(), ours.data(), count));
      ggml_get_type_traits(type)->to_float(bytes.data(), theirs.data(), count);
      CHECK(ours.back() == -3.0f);
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        if (std::isnan(theirs[i]) ? !std::isnan(ours[i])
                                  : std::memcmp(&ours[i], &theirs[i], sizeof(float)) != 0) {
          check::report(false, __FILE__, __LINE__,
                        std::string(variant.name) + " " + ggml_type_name(type) + " element " +
                            std::to_string(i) + ": " + std::to_string(ours[i]) + " and " +
                            std::to_string(theirs[i]));
          break;
        }
      }
    }
    float untouched = 1;
    CHECK(!variant.dequantise(GGML_TYPE_Q2_K, nullptr, &untouched, 256));
  });
}

TEST(every_f16_and_bf16_is_read_exactly) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  const auto exactly = [&](ggml_type type, std::uint16_t value) {
    return type == GGML_TYPE_F16 ? ggml_fp16_to_fp32(value) : ggml_bf16_to_fp32({value});
  };
  forVariants([&](const Variant& variant) {
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16}) {
      // An odd count: the rest of a row that is no multiple of a vector.
      for (const std::size_t count : {bits.size(), std::size_t{1029}}) {
        std::vector<float> ours(count + 1, -3.0f);
        CHECK(variant.dequantise(type, bits.data(), ours.data(), static_cast<std::int64_t>(count)));
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const float exact = exactly(type, bits[i]);
          wrong += std::isnan(exact) ? !std::isnan(ours[i])
                                     : std::memcmp(&exact, &ours[i], sizeof exact) != 0;
        }
        CHECK(wrong == 0 && ours[count] == -3.0f);
      }
    }
  });
}

TEST(largest_value_and_sums_of_exponentials) {
  forVariants([](const Variant& variant) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{40}, std::size_t{1003}}) {
      auto x = draw(count, 61, 12);
      const float most = *std::max_element(x.begin(), x.end());
      CHECK(variant.largest(x.data(), static_cast<std::int64_t>(count)) == most);
      const float scale = 1.25f, shift = most * scale;
      double sum = 0, moment = 0;
      Values expected;
      for (const float value : x) {
        const double z =
            static_cast<double>(value) * static_cast<double>(scale) - static_cast<double>(shift);
        expected.push_back(std::exp(z)), sum += std::exp(z), moment += std::exp(z) * z;
      }
      float ourMoment = 0;
      CHECK_NEAR(variant.exponentials(x.data(), scale, shift, static_cast<std::int64_t>(count),
                                      &ourMoment) /
                     sum,
                 1, 2e-6);
      CHECK_NEAR(ourMoment, moment, 4e-6 * (1 - moment));
      CHECK_NEAR(largestDifference(x, expected), 0, 2e-6);
    }
  });
}

TEST(low_rank_pairs_add_what_two_products_would) {
  forVariants([](const Variant& variant) {
    for (const auto& [rank, inputs, outputs] :
         {std::array<std::size_t, 3>{1, 1, 1}, {3, 17, 40}, {8, 96, 33}, {13, 40, 200}}) {
      const auto x = draw(inputs, 71), a = draw(rank * inputs, 72), b = draw(rank * outputs, 73),
                 before = draw(outputs, 74);
      const Values inner = reference::product(widen(x), widen(a), 1, inputs, rank);
      Values expected = widen(before);
      for (std::size_t o = 0; o < outputs; ++o) {
        for (std::size_t r = 0; r < rank; ++r)
          expected[o] += 0.75 * inner[r] * static_cast<double>(b[r * outputs + o]);
      }
      auto y = before, scratch = draw(rank, 75);
      variant.addLowRank(x.data(), a.data(), b.data(), 0.75f, static_cast<std::int64_t>(rank),
                         static_cast<std::int64_t>(inputs), static_cast<std::int64_t>(outputs),
                         scratch.data(), y.data());
      CHECK_NEAR(largestDifference(y, expected), 0, 2e-5);
    }
  });
}

TEST(products_match_the_reference_for_every_type_and_odd_shapes) {
  const struct {
    ggml_type type;
    std::int64_t rows, columns;
  } cases[] = {
      {GGML_TYPE_F32, 37, 300},   {GGML_TYPE_F32, 1, 5},       {GGML_TYPE_F32, 16, 700},
      {GGML_TYPE_F16, 129, 96},   {GGML_TYPE_Q8_0, 70, 288},   {GGML_TYPE_Q4_0, 40, 320},
      {GGML_TYPE_Q4_K, 150, 768}, {GGML_TYPE_Q5_K, 20, 256},   {GGML_TYPE_Q6_K, 140, 512},
      {GGML_TYPE_BF16, 33, 64},   {GGML_TYPE_IQ4_NL, 30, 320}, {GGML_TYPE_Q5_0, 9, 96},
      {GGML_TYPE_Q2_K, 10, 256},  {GGML_TYPE_Q4_1, 51, 576},   {GGML_TYPE_Q5_1, 130, 96},
      {GGML_TYPE_Q3_K, 41, 512},  {GGML_TYPE_IQ4_XS, 20, 768}, {GGML_TYPE_MXFP4, 35, 288},
  };
  forVariants([&](const Variant& variant) {
    for (const auto& c : cases) {
      const Quantised w = quantise(c.type, c.rows, c.columns, 7);
      const auto rows = static_cast<std::size_t>(c.rows),
                 columns = static_cast<std::size_t>(c.columns);
      for (const std::size_t tokens : {std::size_t{1}, std::size_t{13}, std::size_t{70}}) {
        Engine engine(3, variant);
        const auto x = draw(tokens * columns, 11), dy = draw(tokens * rows, 12);
        std::vector<float> y(tokens * rows), dx(tokens * columns, 1.0f), dw(rows * columns, 0.5f);
        engine.xWt(w.matrix, x.data(), y.data(), static_cast<std::int64_t>(tokens));
        engine.yW(w.matrix, dy.data(), dx.data(), static_cast<std::int64_t>(tokens), true);
        engine.addYtX(dy.data(), x.data(), dw.data(), static_cast<std::int64_t>(tokens), c.rows,
                      c.columns);
        CHECK_NEAR(
            largestDifference(y, reference::product(widen(x), w.values, tokens, columns, rows)), 0,
            2e-7 * static_cast<double>(columns));
        Values expected = reference::product(widen(dy), transposed(w.values, rows, columns), tokens,
                                             rows, columns);
        for (double& value : expected) value += 1;
        CHECK_NEAR(largestDifference(dx, expected), 0, 2e-7 * static_cast<double>(rows + 8));
        expected = reference::product(transposed(widen(dy), tokens, rows),
                                      transposed(widen(x), tokens, columns), rows, tokens, columns);
        for (double& value : expected) value += 0.5;
        CHECK_NEAR(largestDifference(dw, expected), 0, 2e-7 * static_cast<double>(tokens + 8));
      }
    }
  });
}

TEST(products_are_equal_bit_for_bit_for_any_number_of_threads_and_any_packing) {
  const Quantised w = quantise(GGML_TYPE_Q4_K, 300, 512, 3);
  const std::int64_t tokens = 600;
  const auto x = draw(static_cast<std::size_t>(tokens) * 512, 4),
             dy = draw(static_cast<std::size_t>(tokens) * 300, 5);
  std::vector<float> y1(static_cast<std::size_t>(tokens) * 300),
      dx1(static_cast<std::size_t>(tokens) * 512), dw1(300 * 512);
  Engine one(1);
  one.xWt(w.matrix, x.data(), y1.data(), tokens);
  one.yW(w.matrix, dy.data(), dx1.data(), tokens);
  one.addYtX(dy.data(), x.data(), dw1.data(), tokens, 300, 512);
  for (const int threads : {2, 4, 7}) {
    Engine engine(threads);
    std::vector<float> y(y1.size()), dx(dx1.size()), dw(dw1.size());
    engine.xWt(w.matrix, x.data(), y.data(), tokens);
    engine.yW(w.matrix, dy.data(), dx.data(), tokens);
    engine.addYtX(dy.data(), x.data(), dw.data(), tokens, 300, 512);
    CHECK(y == y1 && dx == dx1 && dw == dw1);
  }
#if !defined(ISOPRO_BLAS)  // whose sums are its own for each shape
  // Row 41 alone: how many tokens are packed together does not matter either.
  std::vector<float> y(300), dx(512);
  one.xWt(w.matrix, x.data() + 41 * 512, y.data(), 1);
  one.yW(w.matrix, dy.data() + 41 * 300, dx.data(), 1);
  CHECK(std::memcmp(y.data(), y1.data() + 41 * 300, sizeof(float) * 300) == 0);
  CHECK(std::memcmp(dx.data(), dx1.data() + 41 * 512, sizeof(float) * 512) == 0);
#endif
}

TEST(bf16_products_are_the_reference_bit_for_bit) {
  const Bf16Product* bf16 = bf16Product();
  if (bf16 == nullptr) return;
  const struct {
    ggml_type type;
    std::int64_t rows, columns;
  } cases[] = {
      {GGML_TYPE_F32, 1, 1},      {GGML_TYPE_F32, 37, 301},  {GGML_TYPE_F32, 16, 33},
      {GGML_TYPE_Q8_0, 129, 288}, {GGML_TYPE_Q4_1, 51, 576}, {GGML_TYPE_Q4_K, 300, 512},
  };
  for (const auto& c : cases) {
    Quantised q = quantise(c.type, c.rows, c.columns, 7);
    q.matrix.rounds = true;
    const std::vector<float> w(q.values.begin(), q.values.end()), wT = [&] {
      const Values t = transposed(q.values, static_cast<std::size_t>(c.rows),
                                  static_cast<std::size_t>(c.columns));
      return std::vector<float>(t.begin(), t.end());
    }();
    const auto rows = static_cast<std::size_t>(c.rows),
               columns = static_cast<std::size_t>(c.columns);
    for (const std::size_t tokens : {std::size_t{1}, std::size_t{17}, std::size_t{45}}) {
      auto x = draw(tokens * columns, 11), dy = draw(tokens * rows, 12);
      // Ties of the rounding, subnormal values, sums that become subnormal, and no number.
      x[0] = 1.00390625f;
      if (columns > 2) x[1] = 1e-40f, x[2] = 2e-38f;
      if (columns > 40) x[40] = -1.01171875f;
      dy[0] = 1e-38f;
      const auto same = [](const std::vector<float>& ours, const std::vector<float>& exact) {
        return std::memcmp(ours.data(), exact.data(), ours.size() * sizeof(float)) == 0;
      };
      for (const int threads : {1, 2, 5}) {
        Engine engine(threads, kernels::kernels(), bf16);
        std::vector<float> y(tokens * rows), dx(tokens * columns);
        engine.xWt(q.matrix, x.data(), y.data(), static_cast<std::int64_t>(tokens));
        engine.yW(q.matrix, dy.data(), dx.data(), static_cast<std::int64_t>(tokens));
        CHECK(same(y, reference::bf16Product(x, w, tokens, columns, rows)));
        CHECK(same(dx, reference::bf16Product(dy, wT, tokens, rows, columns)));
      }
    }
  }
}

TEST(only_weights_are_rounded_to_bf16) {
  const Bf16Product* bf16 = bf16Product();
  if (bf16 == nullptr) return;
  Quantised q = quantise(GGML_TYPE_F32, 96, 128, 3);
  const auto x = draw(std::size_t{20} * 128, 4);
  std::vector<float> exact(20 * 96), y(20 * 96);
  Engine(1).xWt(q.matrix, x.data(), exact.data(), 20);
  Engine engine(1, kernels::kernels(), bf16);
  engine.xWt(q.matrix, x.data(), y.data(), 20);
  CHECK(y == exact);
  q.matrix.rounds = true;
  engine.xWt(q.matrix, x.data(), y.data(), 20);
  const double error = largestDifference(y, widen(exact));
  // 128 products of two roundings by at most 2^-9 each, of values of at most 1.
  CHECK(error > 0 && error < 128 * 2 * std::ldexp(1, -9));
}

TEST(a_value_that_is_not_finite_stays_so_in_bf16) {
  const Bf16Product* bf16 = bf16Product();
  if (bf16 == nullptr) return;
  Quantised q = quantise(GGML_TYPE_F32, 20, 64, 3);
  q.matrix.rounds = true;
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    auto x = draw(3 * 64, 4);
    x[64 + 5] = bad;
    std::vector<float> y(3 * 20);
    Engine(1, kernels::kernels(), bf16).xWt(q.matrix, x.data(), y.data(), 3);
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isfinite(y[i]) == (i / 20 != 1));
  }
}

TEST(norm_forward_and_backward) {
  forVariants([](const Variant& variant) {
    for (const std::size_t width : {std::size_t{3}, std::size_t{64}, std::size_t{83}}) {
      const auto x = draw(width, 21, 3), weight = draw(width, 22), dy = draw(width, 23);
      std::vector<float> y(width), dx(width, 0.25f), dWeight(width, 0.5f);
      const float inverse = variant.normForward(x.data(), weight.data(), y.data(),
                                                static_cast<std::int64_t>(width), 1e-5f);
      CHECK_NEAR(largestDifference(y, reference::norm(widen(x), widen(weight), 1e-5)), 0, 1e-6);
      variant.normBackward(x.data(), weight.data(), inverse, dy.data(), dx.data(), dWeight.data(),
                           static_cast<std::int64_t>(width));
      for (std::size_t i = 0; i < width; ++i) {
        const double byX = slope(
            [&](const Values& v) { return weighted(reference::norm(v, widen(weight), 1e-5), dy); },
            widen(x), i);
        const double byWeight =
            slope([&](const Values& v) { return weighted(reference::norm(widen(x), v, 1e-5), dy); },
                  widen(weight), i);
        CHECK_NEAR(static_cast<double>(dx[i]) - 0.25, byX, 2e-6);
        CHECK_NEAR(static_cast<double>(dWeight[i]) - 0.5, byWeight, 2e-6);
      }
    }
  });
}

TEST(gated_activations_forward_and_backward) {
  forVariants([](const Variant& variant) {
    const std::size_t count = 131;
    auto gate = draw(count, 31, 6);
    const auto up = draw(count, 32, 2), dh = draw(count, 33);
    gate[0] = 0, gate[1] = -100, gate[2] = 100, gate[3] = 1e-4f;
    for (const bool gelu : {false, true}) {
      const auto f = gelu ? reference::gelu : reference::silu;
      std::vector<float> h(count), dGate(count), dUp(count);
      (gelu ? variant.gegluForward : variant.swigluForward)(gate.data(), up.data(), h.data(),
                                                            static_cast<std::int64_t>(count));
      (gelu ? variant.gegluBackward : variant.swigluBackward)(gate.data(), up.data(), dh.data(),
                                                              dGate.data(), dUp.data(),
                                                              static_cast<std::int64_t>(count));
      for (std::size_t i = 0; i < count; ++i) {
        const double g = gate[i], u = up[i], d = dh[i];
        const double size = 1 + std::fabs(g);
        CHECK_NEAR(h[i], f(g) * u, 5e-7 * size);
        CHECK_NEAR(dUp[i], d * f(g), 5e-7 * size);
        CHECK_NEAR(dGate[i], d * u * (f(g + 1e-5) - f(g - 1e-5)) / 2e-5, 2e-6 * size);
      }
    }
  });
}

TEST(soft_cap_forward_and_backward) {
  forVariants([](const Variant& variant) {
    const auto x = draw(20'001, 41, 120);
    auto y = x;
    std::vector<float> dy(x.size(), 1.0f);
    variant.softCapForward(y.data(), 30, 20'001);
    variant.softCapBackward(y.data(), 30, dy.data(), 20'001);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = reference::softCap(x[i], 30);
      worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - exact));
      CHECK_NEAR(dy[i], 1 - exact * exact / 900, 1e-6);
    }
    // 30 t, t = 1 - 2 / (exp(2 u) + 1), u = x / 30. In units of 30 * 2^-24 and where they are
    // largest together, at u^2 = 0.2 and t = 0.42: u itself 0.4, exp to two units in its last
    // place 1.7, sum and inner quotient 1.2, difference and product 0.4 each.
    CHECK_NEAR(worst, 0, 4.1 * 30 / 16'777'216);
    std::printf("     %s: soft cap of 30 within %.1e\n", variant.name, worst);
    for (const float small : {1e-6f, -0.01f, 3.0f, 13.4f, 13.5f}) {
      float value = small;
      variant.softCapForward(&value, 30, 1);
      CHECK_NEAR(value / static_cast<double>(small),
                 reference::softCap(small, 30) / static_cast<double>(small), 4e-7);
    }
  });
}

TEST(softmax_forward_and_backward) {
  forVariants([](const Variant& variant) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{200}}) {
      const auto x = draw(count, 51, 20), dy = draw(count, 52);
      auto p = x, ds = dy;
      const double logZ =
          static_cast<double>(variant.softmaxForward(p.data(), static_cast<std::int64_t>(count)));
      CHECK_NEAR(logZ, reference::logSumExp(widen(x)), 3e-6);
      variant.softmaxBackward(p.data(), ds.data(), static_cast<std::int64_t>(count));
      const auto f = [&](const Values& v) {
        double total = 0;
        const double z = reference::logSumExp(v);
        for (std::size_t i = 0; i < count; ++i)
          total += std::exp(v[i] - z) * static_cast<double>(dy[i]);
        return total;
      };
      for (std::size_t i = 0; i < count; ++i) {
        CHECK_NEAR(p[i], std::exp(static_cast<double>(x[i]) - reference::logSumExp(widen(x))),
                   2e-6);
        CHECK_NEAR(ds[i], slope(f, widen(x), i), 2e-6);
      }
    }
  });
}

TEST(thread_pool_rethrows_and_goes_on) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    std::string caught;
    try {
      pool.run([](int thread) {
        if (thread == 2) throw std::runtime_error("from 2");
      });
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    CHECK(caught == "from 2");
    std::vector<int> seen(1000);
    pool.parallelFor(1000, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (const int count : seen) CHECK(count == 1);
  }
}
