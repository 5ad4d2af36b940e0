// A trained matrix with its gradient and Adam moments.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace isopro::training {

// [rows, columns], row-major. Each row has its own Adam step counter, so that rows can be added or
// drawn anew in flight with a bias correction of their own. A LoRA factor holds one direction a
// row.
struct Parameter {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> value;
  std::vector<float> gradient;
  std::vector<float> firstMoment;
  std::vector<float> secondMoment;
  std::vector<std::int64_t> steps;  // [rows]
  float learningRateFactor = 1;
  bool decays = true;

  Parameter() = default;
  Parameter(std::string name_, std::int64_t rows_, std::int64_t columns_)
      : name(std::move(name_)), columns(columns_) {
    resizeRows(rows_);
  }

  // New rows are zero in every array.
  void resizeRows(std::int64_t count) {
    rows = count;
    const auto size = static_cast<std::size_t>(rows * columns);
    for (auto* array : {&value, &gradient, &firstMoment, &secondMoment}) array->resize(size);
    steps.resize(static_cast<std::size_t>(rows));
  }
};

}  // namespace isopro::training
