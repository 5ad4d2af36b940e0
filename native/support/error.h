// The one exception type; the bindings turn it into an IsoproError.
#pragma once

#include <stdexcept>
#include <string>

namespace isopro {

// Those of src/errors.ts that native code throws.
enum class ErrorCode {
  aborted,
  adapterCorrupt,
  adapterMismatch,
  archUnsupported,
  contextOverflow,
  grammarInvalid,
  invalidArgument,
  modelCorrupt,
  modelNotFound,
  modelUnsupported,
  nativeFailure,
  numericFailure,
  objectDisposed,
  outOfMemory,
  systemLimit,
};

// As src/errors.ts writes it: "MODEL_CORRUPT".
const char* codeName(ErrorCode code) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// Throws INVALID_ARGUMENT.
[[noreturn]] void invalid(const std::string& what);

// The code for what the system refused: OUT_OF_MEMORY or SYSTEM_LIMIT where its error number says
// so, else `code`.
ErrorCode refusal(int systemError, ErrorCode code);

}  // namespace isopro
