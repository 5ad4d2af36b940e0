// xoshiro256** seeded through splitmix64 (Blackman and Vigna 2018). Twin of src/random.ts; both are
// tested against test/random.vectors.json.
#pragma once

#include <array>
#include <cstdint>

namespace isopro {

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) {
    SplitMix64 mix(seed);
    for (auto& word : s_) word = mix.next();
  }

  std::uint64_t nextUint64() {
    const std::uint64_t result = rotateLeft(s_[1] * 5, 7) * 9;
    const std::uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = rotateLeft(s_[3], 45);
    return result;
  }

  // Uniform in [0, 1): the top 53 bits over 2^53.
  double nextDouble() { return static_cast<double>(nextUint64() >> 11) * 0x1.0p-53; }

  // The whole state, so that a checkpoint can restore it.
  std::array<std::uint64_t, 4> state() const { return s_; }
  void setState(const std::array<std::uint64_t, 4>& state) { s_ = state; }

 private:
  static std::uint64_t rotateLeft(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  std::array<std::uint64_t, 4> s_{};
};

}  // namespace isopro
