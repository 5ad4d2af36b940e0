// The one exception type. Codes are those of src/errors.ts; the bindings turn it into an IsoproError.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace isopro {

class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& message) : std::runtime_error(message), code_(std::move(code)) {}

  const std::string& code() const noexcept { return code_; }

 private:
  std::string code_;
};

// Throws INVALID_ARGUMENT.
[[noreturn]] void invalid(const std::string& what);

// The code for what the system refused: OUT_OF_MEMORY or SYSTEM_LIMIT where its error number says so, else `code`.
std::string refusal(int systemError, const std::string& code);

}  // namespace isopro
