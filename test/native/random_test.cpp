// native/support/random.h against the vectors that src/random.ts is tested with.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "support/random.h"

namespace {

// The numbers of the arrays called `name` in one generator's part of the vectors file, one array a
// seed.
struct Vectors {
  std::vector<std::uint64_t> seeds;
  std::vector<std::vector<std::uint64_t>> outputs;
  std::vector<std::vector<double>> doubles;
};

std::string readText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <typename Number>
std::vector<Number> numbersAfter(const std::string& text, size_t key) {
  std::string inside =
      text.substr(text.find('[', key) + 1, text.find(']', key) - text.find('[', key) - 1);
  for (char& c : inside) {
    if (c == ',' || c == '"') c = ' ';
  }
  std::istringstream stream(inside);
  std::vector<Number> numbers;
  for (Number number; stream >> number;) numbers.push_back(number);
  return numbers;
}

Vectors vectorsOf(const std::string& generator) {
  const std::string all = readText(std::string(ISOPRO_TEST_DATA) + "/random.vectors.json");
  const size_t begin = all.find('"' + generator + '"');
  const size_t end = std::min(
      all.size(), all.find(generator == "splitmix64" ? "\"xoshiro256starstar\"" : "\x01", begin));
  const std::string text = all.substr(begin, end - begin);
  Vectors vectors;
  for (size_t at = text.find("\"seed\""); at != std::string::npos;
       at = text.find("\"seed\"", at + 1)) {
    vectors.seeds.push_back(std::stoull(text.substr(text.find('"', at + 6) + 1)));
    vectors.outputs.push_back(numbersAfter<std::uint64_t>(text, text.find("\"outputs\"", at)));
    if (generator != "splitmix64")
      vectors.doubles.push_back(numbersAfter<double>(text, text.find("\"doubles\"", at)));
  }
  return vectors;
}

}  // namespace

TEST(splitmix64_reproduces_the_shared_vectors) {
  const Vectors vectors = vectorsOf("splitmix64");
  CHECK(vectors.seeds.size() >= 5);
  for (size_t i = 0; i < vectors.seeds.size(); ++i) {
    isopro::SplitMix64 mix(vectors.seeds[i]);
    CHECK(!vectors.outputs[i].empty());
    for (const std::uint64_t expected : vectors.outputs[i]) CHECK(mix.next() == expected);
  }
}

TEST(xoshiro256starstar_reproduces_the_shared_vectors) {
  const Vectors vectors = vectorsOf("xoshiro256starstar");
  CHECK(vectors.seeds.size() >= 5);
  for (size_t i = 0; i < vectors.seeds.size(); ++i) {
    isopro::Random integers(vectors.seeds[i]);
    CHECK(!vectors.outputs[i].empty());
    for (const std::uint64_t expected : vectors.outputs[i])
      CHECK(integers.nextUint64() == expected);
    isopro::Random reals(vectors.seeds[i]);
    CHECK(!vectors.doubles[i].empty());
    for (const double expected : vectors.doubles[i]) CHECK(reals.nextDouble() == expected);
  }
}

TEST(a_restored_generator_continues_where_it_was) {
  isopro::Random random(9);
  random.nextUint64();
  isopro::Random copy(0);
  copy.setState(random.state());
  for (int i = 0; i < 10; ++i) CHECK(copy.nextUint64() == random.nextUint64());
}
