#include "inference/logit_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "inference/elementary.h"

// A row of 152 k logits per sampled token makes these passes visible beside the forward: the
// compiler emits one copy per instruction set and the loader picks. CMakeLists.txt forbids
// contracting a*b+c here, so that all copies agree bit for bit.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define ISOPRO_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ISOPRO_CLONES
#endif

namespace isopro {
namespace {

constexpr int kLanes = 16;

// exp for x <= 0 after Cephes' expf: x = n ln 2 + r, a polynomial of degree 6 in r, scaled by 2^n
// through the exponent bits. Below -87 the result is 0. NaN gives NaN, through r; n stays a number
// that an integer can hold.
inline float exponential(float x) {
  const float bounded = x > -87.0f ? x : -87.0f;
  const float n = std::nearbyintf(bounded * 1.44269504088896341f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return x < -87.0f ? 0.0f : p * scale;
}

}  // namespace

ISOPRO_CLONES Maximum maximum(const float* logits, int count) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<float>::infinity());
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane)
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
  }
  for (; i < count; ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  const float value = *std::max_element(lanes, lanes + kLanes);
  // A search that stops at the first hit does not vectorise: find its block, then the element.
  int begin = 0;
  for (int found = 0; begin + kWeightBlock <= count; begin += kWeightBlock) {
    for (int j = 0; j < kWeightBlock; ++j) found |= logits[begin + j] == value;
    if (found != 0) break;
  }
  return {value, static_cast<int>(std::find(logits + begin, logits + count, value) - logits)};
}

namespace {

// Sum of `count` values that `value(i)` gives, in kLanes partial sums.
template <typename Value>
inline float laneSum(int count, Value value) {
  float lanes[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += value(i + lane);
  }
  for (; i < count; ++i) lanes[0] += value(i);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

}  // namespace

ISOPRO_CLONES double sumOfExponentials(const float* logits, int count, float maximum,
                                       float inverseTemperature) {
  double total = 0;  // f32 within a block, f64 across blocks
  for (int begin = 0; begin < count; begin += kWeightBlock) {
    const float* block = logits + begin;
    total += laneSum(std::min(kWeightBlock, count - begin),
                     [=](int i) { return exponential((block[i] - maximum) * inverseTemperature); });
  }
  return total;
}

ISOPRO_CLONES void exponentials(const float* logits, int count, float maximum,
                                float inverseTemperature, float* __restrict weights,
                                double* __restrict blockSums) {
  for (int begin = 0; begin < count; begin += kWeightBlock) {
    const float* block = logits + begin;
    float* __restrict out = weights + begin;
    const int length = std::min(kWeightBlock, count - begin);
    for (int i = 0; i < length; ++i)
      out[i] = exponential((block[i] - maximum) * inverseTemperature);
    *blockSums++ = laneSum(length, [=](int i) { return out[i]; });
  }
}

std::vector<TokenChance> mostLikely(const float* logits, int count, int most, float maximum,
                                    double total) {
  if (most <= 0) return {};
  const auto before = [&](int a, int b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  const auto room = static_cast<size_t>(std::min(most, count));
  // The best so far, best first: what comes is nearly always below the last of them.
  std::vector<int> best;
  best.reserve(room + 1);
  for (int i = 0; i < count; ++i) {
    if (best.size() == room && !before(i, best.back())) continue;
    best.insert(std::upper_bound(best.begin(), best.end(), i, before), i);
    if (best.size() > room) best.pop_back();
  }
  std::vector<TokenChance> chances;
  chances.reserve(best.size());
  const double logTotal = naturalLogarithm(total);
  for (const int i : best)
    chances.push_back({i, static_cast<float>(static_cast<double>(logits[i]) - maximum - logTotal)});
  return chances;
}

int rankOf(const float* logits, int count, int token) {
  int rank = 0;
  for (int i = 0; i < count; ++i) rank += logits[i] >= logits[token] ? 1 : 0;
  return rank;
}

double logProbability(const float* logits, int token, float maximum, double total) {
  return static_cast<double>(logits[token]) - maximum - naturalLogarithm(total);
}

}  // namespace isopro
